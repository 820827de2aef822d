"""How good a forecast of times and rates was: plain arrays of what was predicted and what was measured in, numbers out.

An event is a time; NaN stands for one that does not come.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from saccade.errors import InputError, checked_number

TURN = 0.1  # a focus has turned when it has lost this part of its height; the rest of a long plateau is no turn
_APART = 3.0  # a rate is fitted where what grows is so far from where it starts and from where it ends


def within_factor(predicted: ArrayLike, measured: ArrayLike, *, factor: float = 2.0) -> float:
    """Share of events whose time was told to within `factor`: 1 = all, 0 = none.

    An event that was predicted and did not come, or came and was not predicted, counts as missed. One that was neither is left out;
    NaN if all are.
    """
    guess, truth = _paired(predicted, measured)
    some = np.isfinite(guess) | np.isfinite(truth)
    off = np.abs(_log(guess[some]) - _log(truth[some]))
    return float(np.mean(off <= np.log(checked_number("factor", factor, low=1.0)))) if some.any() else float("nan")


def growth_rate(time: NDArray[np.float64], size: NDArray[np.float64]) -> float:
    """Growth rate of what grows as e^(rate t): slope of its logarithm between three times its start and a third of its peak.

    Taken alike of a forecast and of a run. NaN if fewer than three times lie there.
    """
    top = int(np.nanargmax(size))
    inside = (np.arange(len(size)) <= top) & (size >= _APART * size[0]) & (size <= size[top] / _APART)
    return float(np.polyfit(time[inside], np.log(size[inside]), 1)[0]) if inside.sum() >= 3 else float("nan")


def _paired(predicted: ArrayLike, measured: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    guess, truth = np.ravel(np.asarray(predicted, float)), np.ravel(np.asarray(measured, float))
    if guess.shape != truth.shape:
        raise InputError(f"`predicted` and `measured` must have one shape; got {np.shape(predicted)} and {np.shape(measured)}.")
    return guess, truth


def _log(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithm of times; an event that does not come is infinitely late, so that it is off by any factor."""
    return np.log(np.where(np.isfinite(times), np.maximum(times, np.finfo(float).tiny), np.inf))
