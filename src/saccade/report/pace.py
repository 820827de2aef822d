"""How a run is played: most of the time goes where something moves, the rest evenly over its
samples, so that rest can be seen.
"""

from __future__ import annotations

import numpy as np

_EVENLY = 0.25  # share of the time that goes evenly over the samples


def pace(values: np.ndarray, times: np.ndarray, clock: np.ndarray) -> np.ndarray:
    """Share of the playing time that is over at each moment of a clock, from 0 to 1, by how far
    values (time, ...) have moved until then. Times that are not known are left out.
    """
    known, evenly = np.isfinite(times), np.arange(len(clock)) / max(1, len(clock) - 1)
    still = np.nan_to_num(values, posinf=0.0, neginf=0.0).reshape(len(values), -1)
    travelled = np.append(0.0, np.abs(np.diff(still, axis=0)).sum(axis=1).cumsum())
    way = np.zeros(len(clock))
    if known.any():
        way = np.interp(clock, times[known], travelled[known])
    return _EVENLY * evenly + (1 - _EVENLY) * way / way[-1] if way[-1] > 0 else evenly
