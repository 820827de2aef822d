"""Forecasts that need no theory, to be beaten: attention follows frequency, nothing changes, any order will do.

Each gives what a forecast gives, the gain of every token for every query, or attention at the end.
"""

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


def nothing_changes(start: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Gain (query, token) of zero, and attention at the end as it is at the `start` (query, token)."""
    attention = checked_numbers("start", start, n_axes=2)
    return np.zeros_like(attention), attention.copy()


def any_order(rng: np.random.Generator, *, n_queries: int, n_tokens: int) -> NDArray[np.float64]:
    """Gain (query, token) by chance: what a score is worth without knowing anything."""
    return rng.permuted(np.tile(np.arange(n_tokens) - (n_tokens - 1) / 2, (n_queries, 1)), axis=1)
