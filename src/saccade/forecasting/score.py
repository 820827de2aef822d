"""How good a forecast was: plain arrays of what was predicted and what was measured in, numbers out.

Every score says what a perfect and what an empty forecast get. An event is a time; NaN stands for one that does not come.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from saccade.errors import InputError, checked_number

TURN = 0.1  # a focus has turned when it has lost this part of its height; the rest of a long plateau is no turn
_APART = 3.0  # a rate is fitted where what grows is so far from where it starts and from where it ends
_LEAST = 3  # values that have an order worth the name: two are right by chance every other time


def rank_agreement(predicted: ArrayLike, measured: ArrayLike) -> float:
    """Spearman's rank correlation: 1 = same order, 0 = none, -1 = reversed. Pairs with a NaN are left out.

    A forecast that puts nothing before anything else has no order; it gets 0, what an order drawn by chance has on average. NaN if
    fewer than three pairs are left, or if what was measured has no order itself.
    """
    guess, truth = _paired(predicted, measured)
    whole = np.isfinite(guess) & np.isfinite(truth)
    if whole.sum() < _LEAST or np.ptp(truth[whole]) == 0:
        return float("nan")
    if np.ptp(guess[whole]) == 0:
        return 0.0
    return float(np.corrcoef(rankdata(guess[whole]), rankdata(truth[whole]))[0, 1])


def sign_agreement(predicted: ArrayLike, measured: ArrayLike, *, least: float = 0.0) -> float:
    """Share of what moved by more than `least` that was predicted to move that way: 1 = all, 0 = none. NaN if nothing moved."""
    guess, truth = _paired(predicted, measured)
    moved = np.abs(truth) > checked_number("least", least, low=0.0)
    return float(np.mean(np.sign(guess[moved]) == np.sign(truth[moved]))) if moved.any() else float("nan")


def within_factor(predicted: ArrayLike, measured: ArrayLike, *, factor: float = 2.0) -> float:
    """Share of events whose time was told to within `factor`: 1 = all, 0 = none.

    An event that was predicted and did not come, or came and was not predicted, counts as missed. One that was neither is left out;
    NaN if all are.
    """
    guess, truth = _paired(predicted, measured)
    some = np.isfinite(guess) | np.isfinite(truth)
    off = np.abs(_log(guess[some]) - _log(truth[some]))
    return float(np.mean(off <= np.log(checked_number("factor", factor, low=1.0)))) if some.any() else float("nan")


def typical_factor(predicted: ArrayLike, measured: ArrayLike) -> float:
    """By what factor a time is typically off, either way (the median): 1 = exact. Of events that both have; NaN without any."""
    guess, truth = _paired(predicted, measured)
    both = np.isfinite(guess) & np.isfinite(truth)
    return float(np.exp(np.median(np.abs(_log(guess[both]) - _log(truth[both]))))) if both.any() else float("nan")


def first_found(predicted: ArrayLike, measured: ArrayLike, *, n_first: int) -> float:
    """Share of the `n_first` highest of what was measured that are among the `n_first` highest predicted: 1 = all, 0 = none.

    Chance finds `n_first` over the number of values. Equal predictions count in the order in which they stand.
    """
    guess, truth = _paired(predicted, measured)
    if not 1 <= n_first <= len(truth):
        raise InputError(f"`n_first` must be from 1 to {len(truth)}, the number of values; got {n_first}.")
    best = [set(np.argsort(-values, kind="stable")[:n_first].tolist()) for values in (guess, truth)]
    return len(best[0] & best[1]) / n_first


def attention_distance(predicted: ArrayLike, measured: ArrayLike) -> float:
    """Total variation between two attentions (..., token), mean over all: 0 = the same, 1 = on different tokens."""
    guess, truth = np.asarray(predicted, float), np.asarray(measured, float)
    if guess.shape != truth.shape:
        raise InputError(f"`predicted` and `measured` must have one shape; got {guess.shape} and {truth.shape}.")
    return float(np.mean(np.abs(guess - truth).sum(axis=-1) / 2))


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
