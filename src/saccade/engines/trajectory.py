"""What an engine returns: one record of the observations along one or many runs of a system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from saccade.later import xr
from saccade.models.system import Observable, System
from saccade.records.schema import VARIABLES, make_record


def trajectory(
    system: System,
    *,
    dynamics: str,
    times: np.ndarray,
    time_unit: str,
    runs: Mapping[str, Any],
    loss: Any,
    stop_reason: Any,
    stop_time: Any,
    seen: Mapping[str, Observable],
    config: Mapping[str, Any],
    wall_time: float,
    rates: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """`runs`: the axes before time, each with its coordinate or None; `seen`: arrays with these
    axes and time before their own.
    """
    axes = tuple(runs)
    data = system.data()
    variables = {
        "loss": ((*axes, "time"), loss),
        "stop_reason": (axes, stop_reason),
        "stop_time": (axes, stop_time),
        **{name: ((*axes, "time", *one.axes), one.values) for name, one in seen.items()},
        **{name: (one.axes, one.values) for name, one in data.items()},
    }
    along = {name: values for name, values in runs.items() if values is not None}
    return make_record(
        dynamics=dynamics,
        variables=variables,
        coords={"time": times, **along, **system.coordinates(), **(rates or {})},
        time_unit=time_unit,
        config=config,
        wall_time=wall_time,
        definitions={"loss": (system.loss_unit, VARIABLES["loss"][1])}
        | {
            name: (one.unit, one.definition)
            for name, one in {**seen, **data}.items()
            if one.definition
        },
    )
