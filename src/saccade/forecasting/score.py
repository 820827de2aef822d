"""Quantities read off a forecast and off a training run in the same way, and whether the two agree.

An event is a time; NaN stands for one that does not come.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from saccade.errors import checked_number
from saccade.measures import fits

Array = NDArray[np.float64]
TURN = 0.1  # a focus has turned when it has lost this part of its height; the rest of a long plateau is no turn
_APART = (
    3.0  # a rate is fitted where what grows is so far from where it starts and from where it ends
)


def in_time(predicted: ArrayLike, measured: ArrayLike, *, factor: float = 2.0) -> Array:
    """Whether the time of each event was right to within `factor`: 1 = yes, 0 = no, NaN = neither
    predicted nor measured.

    An event that was predicted and did not come, or came and was not predicted, is a 0.
    """
    guess, truth, reach = (
        np.asarray(predicted, float),
        np.asarray(measured, float),
        checked_number("factor", factor, low=1.0),
    )
    right = (guess <= reach * truth) & (truth <= reach * guess)
    return np.where(np.isfinite(guess) | np.isfinite(truth), right.astype(float), np.nan)


def exponential_rate(time: Array, size: Array) -> float:
    """Growth rate of what grows as e^(rate t): slope of its logarithm between three times its start
    and a third of its peak.

    NaN if fewer than three times lie there.
    """
    top = int(np.nanargmax(size))
    inside = (
        (np.arange(len(size)) <= top) & (size >= _APART * size[0]) & (size <= size[top] / _APART)
    )
    return fits.growth_rate(time, size, inside, least_samples=3)
