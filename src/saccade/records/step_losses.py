"""The loss of every step of a watched run, of which each observation holds a part."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr

from saccade.errors import InputError

_PARTS = ("step_loss", "later_step", "later_loss")


def step_losses(record: xr.Dataset) -> xr.DataArray:
    """(step), as it was told; without the steps of which no loss is known, or where it was not a
    number.
    """
    if "step_loss" not in record and "later_loss" not in record:
        raise InputError("`record` holds no losses: pass them, `recorder.step(step, loss)`.")
    last = record.sizes["time"] - 1
    observations = []
    for row, step in enumerate(record.time.values):
        names = (
            _PARTS if row == last else _PARTS[:1]
        )  # what came later is told again by a run that went on
        observations.append(
            told(float(step), {name: record[name].values[row] for name in names if name in record})
        )
    found = {int(step): loss for rows in observations for step, loss in rows}
    steps = sorted(found)
    return xr.DataArray([found[step] for step in steps], {"step": steps}, name="loss")


def told(step: float, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """(step, loss) in rows, of all steps that an observation holds losses of."""
    steps, losses = (
        np.asarray(arrays.get(name, ()), np.float64) for name in ("later_step", "later_loss")
    )
    back = np.asarray(arrays.get("step_loss", ()), np.float64)
    rows = np.stack(
        [np.concatenate([step - np.arange(len(back)), steps]), np.concatenate([back, losses])],
        axis=1,
    )
    return rows[~np.isnan(rows).any(axis=1)]
