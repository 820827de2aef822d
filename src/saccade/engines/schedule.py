"""Which steps of a training run are saved."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from saccade.errors import InputError, shortened

_N_SAVES = 50  # "log" and "linear" save at most about this many states; more is a list of steps


def save_steps(steps: int, save: str | Sequence[int]) -> NDArray[np.int64]:
    """`"log"` (0, 1, 2, 3, 4, ... ever sparser), `"linear"` (evenly spaced), or a list of steps
    from 0 to `steps`.

    Step s is the state before update s, so 0 is the start and `steps` the end; both are in the
    first two schedules.
    """
    if isinstance(save, str):
        if save == "log":
            wanted = np.concatenate([[0], np.geomspace(1, max(steps, 1), _N_SAVES)])
        elif save == "linear":
            wanted = np.linspace(0, steps, _N_SAVES + 1)
        else:
            raise InputError(
                f"`save` must be 'log', 'linear' or a list of whole steps; got {save!r}."
            )
        return np.unique(np.minimum(np.rint(wanted), steps).astype(np.int64))
    try:
        numbers = np.asarray(save, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        numbers = np.array(np.nan)
    if (
        numbers.ndim != 1
        or not np.isfinite(numbers).all()
        or (numbers != np.floor(numbers)).any()
        or (np.abs(numbers) > 2**62).any()
    ):
        raise InputError(
            f"`save` must be 'log', 'linear' or a list of whole steps; got {shortened(save)}."
        )
    listed = numbers.astype(np.int64)
    if len(listed) == 0 or listed.min() < 0 or listed.max() > steps:
        raise InputError(
            f"`save` must name steps from 0 to {steps} (the run's length), at least one; got {shortened(save)}."
        )
    return np.unique(listed)
