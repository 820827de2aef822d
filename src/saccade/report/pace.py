"""How a run is played: most of the time goes where something moves, the rest evenly over its samples, so that rest can be seen."""

from __future__ import annotations

import numpy as np

_EVENLY = 0.25  # share of the time that goes evenly over the samples


def travelled(values: np.ndarray) -> np.ndarray:
    """How far values (time, ...) have moved since the start, at each sample; what is not a number stands still."""
    known = np.nan_to_num(values, posinf=0.0, neginf=0.0).reshape(len(values), -1)
    return np.concatenate([[0.0], np.abs(np.diff(known, axis=0)).sum(axis=1).cumsum()])


def pace(way: np.ndarray) -> np.ndarray:
    """Share of the playing time that is over at each sample, from 0 to 1, from the way travelled until then."""
    evenly = np.arange(len(way)) / max(1, len(way) - 1)
    return _EVENLY * evenly + (1 - _EVENLY) * way / way[-1] if way[-1] > 0 else evenly
