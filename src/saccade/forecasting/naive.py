"""A forecast that needs no theory, to be beaten: attention follows frequency."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from saccade.data.checks import checked_numbers
from saccade.errors import checked_count


def follows_frequency(frequency: ArrayLike, *, n_queries: int) -> NDArray[np.float64]:
    """Gain (query, token) in the order of frequency, the same for every query: the token at the middle rank gains nothing.

    Ranks, not frequencies themselves: a naive forecast says who, not how much.
    """
    seen = checked_numbers("frequency", frequency, n_axes=1)
    ranks = np.argsort(np.argsort(seen, kind="stable"), kind="stable").astype(float)
    return np.tile(ranks - ranks.mean(), (checked_count("n_queries", n_queries), 1))
