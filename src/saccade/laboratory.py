"""The three dynamics as users call them. Each record also says which assumptions of the theory its task and rates meet.

Dynamics know no theory and theory knows no dynamics; this is where a run meets the validator.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np

from saccade.dynamics import descent
from saccade.dynamics import flow as flows
from saccade.theory.scan_and_snap import check_assumptions

if TYPE_CHECKING:
    import xarray as xr

P = ParamSpec("P")
_listeners: list[list[dict[str, Any]]] = []
_MOST_ENTRIES = 10_000_000  # of P(l|n); beyond it the validator's dense overlaps would cost more than the run


def with_assumptions(dynamics: Callable[P, xr.Dataset]) -> Callable[P, xr.Dataset]:
    """The same function, whose records hold the validator's answer as JSON in `attrs["assumptions"]`."""

    @functools.wraps(dynamics)
    def recorded(*args: P.args, **kwargs: P.kwargs) -> xr.Dataset:
        record = dynamics(*args, **kwargs)
        found = assumptions_of(record)
        record.attrs["assumptions"] = json.dumps(found)
        for heard in _listeners:
            heard.extend(entry for entry in found if entry not in heard)
        return record

    return recorded


@contextmanager
def heard_assumptions() -> Iterator[list[dict[str, Any]]]:
    """All that the validator says of runs inside the block, in any thread: an experiment joins many runs into one record."""
    heard: list[dict[str, Any]] = []
    _listeners.append(heard)
    try:
        yield heard
    finally:
        _listeners.remove(heard)


def assumptions_of(record: xr.Dataset) -> list[dict[str, Any]]:
    """Conditions of Assumptions 1 and 2 and of the theorems that add to them, for each pair of rates in the record.

    None for a task of more than ten million probabilities, where the validator would cost more than the run.
    """
    if record.token_prob.size > _MOST_ENTRIES:
        return []
    config = json.loads(record.attrs["config"])
    model = config.get("model", {"init": "zero"})
    uniform = model["init"] == "uniform"
    pairs = np.atleast_2d(np.stack([record.lr_decoder, record.lr_attention], axis=-1))
    return [
        {
            "task": config["task"],
            "lr_decoder": float(lr_decoder),
            "lr_attention": float(lr_attention),
            "conditions": [
                asdict(condition)
                for condition in check_assumptions(
                    record.token_prob.values,
                    record.class_query.values,
                    record.class_weight.values,
                    n_vocab=record.sizes["token"],
                    lr_decoder=float(lr_decoder),
                    lr_attention=max(float(lr_attention), sys.float_info.min),
                    n_context=float(config.get("context", "inf")),
                    init_scale=(model.get("init_scale") or record.sizes["token"] ** -0.5) if uniform else 0.0,
                    n_steps=config.get("steps"),
                )
            ],
        }
        for lr_decoder, lr_attention in pairs
    ]


train = with_assumptions(descent.train)
flow = with_assumptions(flows.flow)
reduced_flow = with_assumptions(flows.reduced_flow)
