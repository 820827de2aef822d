r"""How sure a score is: drawn again over queries and, within each, over tokens.

Seeds share the text, the classes and the start, so a spread over seeds says nothing of other queries or tokens; their gains are
averaged first. Then queries are drawn with replacement, as many as there are, and within each query its tokens. A query drawn twice
brings the same tokens twice. Draws are the same for all forecasters, so that differences between them are paired. With few queries
intervals are rough, and rather too narrow than too wide.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from saccade.observe.fits import Interval

Array = NDArray[np.float64]
DRAWS = 1000  # the ends of an interval then lie on 25 draws each
_SEED = 0


def query_draws(n_queries: int) -> Array:
    """How often each query is drawn (draw, query); the first draw is the sample as it is."""
    drawn = np.random.default_rng([_SEED, n_queries]).multinomial(n_queries, np.full(n_queries, 1 / n_queries), DRAWS)
    return np.concatenate([np.ones((1, n_queries)), drawn])


@lru_cache(maxsize=64)
def token_draws(n_tokens: int, query: int) -> Array:
    """How often each token of a query is drawn (draw, token); the first draw is the sample as it is."""
    if n_tokens == 0:
        return np.zeros((1 + DRAWS, 0))
    drawn = np.random.default_rng([_SEED, n_tokens, query]).multinomial(n_tokens, np.full(n_tokens, 1 / n_tokens), DRAWS)
    return np.concatenate([np.ones((1, n_tokens)), drawn])


def rank_correlations(guess: Array, truth: Array, weight: Array) -> Array:
    """Spearman's correlation in every draw (draw): the one of values of which each stands there as often as `weight` says.

    0 where the guess has no order; NaN where the truth has none.
    """
    a, b = (_centred_ranks(values, weight) for values in (guess, truth))
    squares = [np.sum(weight * ranks**2, axis=1) for ranks in (a, b)]
    scale = np.sqrt(squares[0] * squares[1])
    found = np.divide(np.sum(weight * a * b, axis=1), scale, out=np.zeros(len(weight)), where=scale > 0)
    return np.where(squares[1] > 0, found, np.nan)


def _centred_ranks(values: Array, weight: Array) -> Array:
    """Ranks less their mean (draw, value); equal values share theirs."""
    _, first, place = np.unique(np.sort(values), return_index=True, return_inverse=True)
    order = np.argsort(values, kind="stable")
    mass = np.add.reduceat(weight[:, order], first, axis=1)
    rank = np.empty_like(weight)
    rank[:, order] = (np.cumsum(mass, axis=1) - mass / 2)[:, place]
    return rank - np.sum(weight * rank, axis=1, keepdims=True) / weight.sum(axis=1, keepdims=True)


def weighted_mean(values: Array, weight: Array) -> Array:
    """Mean over the last axis in every draw (draw); what cannot be scored is left out, NaN if nothing is left."""
    known = np.where(np.isfinite(values), weight, 0.0)
    total = known.sum(axis=-1)
    return np.divide(np.sum(known * np.nan_to_num(values), axis=-1), total, out=np.full(len(total), np.nan), where=total > 0)


def resampled(draws: Array) -> Interval:
    """The score of the sample, and the middle 95 % of the draws; those that cannot be scored are left out."""
    drawn = draws[1:][np.isfinite(draws[1:])]
    if not len(drawn):
        return Interval(float(draws[0]), np.nan, np.nan)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(float(draws[0]), float(low), float(high))
