"""How sure a number is: intervals over seeds, and what chance alone would give."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats


class Interval(NamedTuple):
    """A mean over seeds with its confidence interval; both ends are NaN for a single seed."""

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


def interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Student's interval for the mean of independent values, one for each seed; missing ones are left out."""
    known = np.asarray(values, float).ravel()
    known = known[np.isfinite(known)]
    if len(known) < 2:
        return Interval(float(known.mean()) if len(known) else np.nan, np.nan, np.nan)
    reach = stats.t.ppf((1 + confidence) / 2, len(known) - 1) * known.std(ddof=1) / np.sqrt(len(known))
    return Interval(float(known.mean()), float(known.mean() - reach), float(known.mean() + reach))


def separation(above: ArrayLike, below: ArrayLike) -> float:
    """Chance that a value of `above` is larger than one of `below`, ties counting half: 1/2 = no better than by chance."""
    a, b = np.asarray(above, float).ravel(), np.asarray(below, float).ravel()
    if not len(a) or not len(b):
        return np.nan
    return float(stats.mannwhitneyu(a, b).statistic / (len(a) * len(b)))


def rank_correlation(one: ArrayLike, other: ArrayLike) -> float:
    """Spearman's; NaN for fewer than three pairs, or where one side is constant."""
    a, b = np.asarray(one, float).ravel(), np.asarray(other, float).ravel()
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return np.nan
    return float(stats.spearmanr(a, b).statistic)
