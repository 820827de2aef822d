r"""How far attention moved while training time doubled: the total variation between the maps of
step t and those of step t/2.

Between observations maps are taken to move on a straight line, so that the maps of step t/2 are
known whenever an earlier observation is. The answer then belongs to the trajectory and not to the
schedule: looking more often changes it only by what the trajectory bends between two observations.
Some divide the change between two observations by the (log) time between them (1); we do not, since
noise that changes from step to step does not shrink with that time, and (1) grows without bound as
they come closer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Neighbouring maps that are kept are at most so far apart in step, as a factor, if there were
# observations between: a smooth curve in log step is then missed by an eightieth of its second
# derivative, and no more than seven maps are held.
_APART = 2**0.5


class Movement:
    """Maps of the last doubling of the step, as many as are needed, and how far the newest moved
    from those of half its step.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[int, NDArray]] = []

    def add(self, step: int, maps: NDArray) -> NDArray[np.float64] | None:
        """`maps` (sequence, layer, head, query, key) of a step later than all before. Total
        variation (layer, head): 0 = frozen, 1 = all attention is elsewhere; None at step 0, and
        where no observation is as early as half the step.
        """
        if self._kept and step <= self._kept[-1][0]:
            return None
        self._kept.append((step, maps))
        before = self._at(step / 2) if step > 0 else None
        # Without what is older than any later half step needs, and without maps whose neighbours
        # are close to each other.
        while len(self._kept) > 1 and self._kept[1][0] <= step / 2:
            del self._kept[0]
        place = 1
        while place < len(self._kept) - 1:
            if self._kept[place + 1][0] <= _APART * self._kept[place - 1][0]:
                del self._kept[place]
            else:
                place += 1
        return None if before is None else total_variation(before, maps)

    def _at(self, step: float) -> NDArray | None:
        later = next(place for place, (known, _) in enumerate(self._kept) if known >= step)
        if self._kept[later][0] == step:
            return self._kept[later][1]
        if later == 0:
            return None
        (first, start), (last, stop) = self._kept[later - 1 : later + 1]
        share = (step - first) / (last - first)
        start, stop = padded(start, stop.shape), padded(stop, start.shape)
        return (1 - share) * start + share * stop


def total_variation(before: NDArray, after: NDArray) -> NDArray[np.float64]:
    """Half the sum of absolute differences of rows that are in both maps, mean over them (layer,
    head): 0 to 1.

    Missing where no row is in both, in a layer that has come later say.
    """
    before, after = padded(before, after.shape), padded(after, before.shape)
    in_both = ~(np.isnan(before).all(axis=-1) | np.isnan(after).all(axis=-1))
    rows = 0.5 * np.nansum(np.abs(after - before), axis=-1)
    n_rows = in_both.sum(axis=(0, 3))
    total = np.where(in_both, rows, 0).sum(axis=(0, 3))
    return np.where(n_rows > 0, total / np.maximum(n_rows, 1), np.nan)


def padded(array: NDArray, shape: tuple[int, ...]) -> NDArray:
    """At least of this shape, with NaN where it was smaller."""
    sizes = [(0, max(0, size - own)) for own, size in zip(array.shape, shape, strict=True)]
    return np.pad(array, sizes, constant_values=np.nan) if any(more for _, more in sizes) else array
