"""Numbers read off curves and samples, each defined once: when a level is crossed, rates, powers,
peaks, ranks, intervals and agreement over seeds.

Curves are given as (time, values). What cannot be told is NaN: no crossing, no window, too few
values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

Array = NDArray[np.float64]
Key = TypeVar("Key")
LEAST_SAMPLES = 5  # of a window for a rate; fewer are no fit


class Interval(NamedTuple):
    """A mean over seeds with its confidence interval; both ends are NaN for a single seed."""

    mean: float
    low: float
    high: float

    def enlargement(self, bounds: tuple[float, float]) -> float:
        """How many times as many values would bring the interval to one side of the bound that it
        reaches across: it shrinks as one over their root. NaN where the interval is not known.
        """
        distance = min(abs(self.mean - bound) for bound in bounds if np.isfinite(bound))
        reach = float(
            np.maximum(self.high - self.mean, self.mean - self.low)
        )  # one end may be cut where values end
        return np.inf if distance == 0 else (reach / distance) ** 2


def interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Student's interval for the mean of independent values, one for each seed; missing ones are
    left out.
    """
    known = np.asarray(values, float).ravel()
    known = known[np.isfinite(known)]
    if len(known) < 2:
        return Interval(float(known.mean()) if len(known) else np.nan, np.nan, np.nan)
    reach = standard_errors(len(known), confidence) * known.std(ddof=1) / np.sqrt(len(known))
    return Interval(float(known.mean()), float(known.mean() - reach), float(known.mean() + reach))


def standard_errors(n_values: int, confidence: float) -> float:
    """How many standard errors of a mean Student's interval reaches to either side."""
    return float(stdtrit(n_values - 1, (1 + confidence) / 2))


def simultaneous(samples: Mapping[Key, ArrayLike], confidence: float = 0.95) -> dict[Key, Interval]:
    """Student's intervals that cover all their means at once with this confidence: each is at 1 -
    (1 - confidence) / n of n [Bonferroni], which asks nothing of how the tests depend on each
    other: here they share seeds and text.

    Holm's procedure rejects a little more at the same error, but has no intervals that could be
    shown and judged from end to end.
    """
    return {
        name: interval(values, 1 - (1 - confidence) / len(samples))
        for name, values in samples.items()
    }


def separation(above: ArrayLike, below: ArrayLike) -> float:
    """Chance that a value of `above` is larger than one of `below`, ties counting half: 1/2 = no
    better than by chance.
    """
    a, b = np.asarray(above, float).ravel(), np.asarray(below, float).ravel()
    if not len(a) or not len(b):
        return np.nan
    from scipy import (
        stats,
    )  # here and below: it takes as long to load as NumPy, xarray and SciPy's functions together

    return float(stats.mannwhitneyu(a, b).statistic / (len(a) * len(b)))


def rank_correlation(one: ArrayLike, other: ArrayLike) -> float:
    """Spearman's; NaN for fewer than three pairs, or where one side is constant."""
    a, b = np.asarray(one, float).ravel(), np.asarray(other, float).ravel()
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return np.nan
    from scipy import stats

    return float(
        np.corrcoef(stats.rankdata(a), stats.rankdata(b))[0, 1]
    )  # as `spearmanr`, in a third of its time


def agreement(runs: ArrayLike, score: Callable[[Array, Array], float] = rank_correlation) -> float:
    """Mean score of each run against each other one, runs along the first axis; NaN for a single
    run.
    """
    pairs = [score(one, other) for one, other in combinations(np.asarray(runs, float), 2)]
    return float(np.mean(pairs)) if pairs else np.nan


def disattenuated(across: ArrayLike, one: ArrayLike, other: ArrayLike) -> float:
    """How alike two kinds of runs are but for the noise of each run: 1 = they would agree but for
    it [Spearman 1904].

    Scores of every run with every run (run, run): of one kind with the other, and within each kind.
    A run shares its noise with that of the same number, so diagonals are left out. NaN where the
    runs of one kind do not agree among themselves.
    """
    between, first, second = (np.asarray(scores, float) for scores in (across, one, other))
    apart = ~np.eye(len(between), dtype=bool)
    if not apart.any() or min(first[apart].mean(), second[apart].mean()) <= 0:
        return np.nan
    return float(between[apart].mean() / np.sqrt(first[apart].mean() * second[apart].mean()))


def jackknife(statistic: Callable[[NDArray[np.int64]], float], n_values: int) -> Array:
    """Values whose mean is the statistic of all, less its bias, and whose scatter is that of the
    statistic [Tukey 1958].

    `statistic` is given the places of the values to use: all of them, or all but one.
    """
    places = np.arange(n_values)
    whole = statistic(places)
    return np.array(
        [n_values * whole - (n_values - 1) * statistic(np.delete(places, left)) for left in places]
    )


def enlargement(agreement: float, asked: float) -> float:
    """How many times the sample two repetitions need to agree at `asked`: k in k r / (1 + (k - 1)
    r) = asked [Spearman, Brown].

    Exact where a run is a signal plus independent noise whose variance goes as one over the sample,
    and scores are correlations; an estimate elsewhere. Infinite where they do not agree at all.
    """
    r = agreement
    return asked * (1 - r) / (r * (1 - asked)) if r > 0 and asked < 1 else np.inf


def first_index(values: ArrayLike, level: float) -> int:
    """The first sample that reaches a level; the last if none does."""
    reached = np.asarray(values) >= level
    return int(np.argmax(reached)) if reached.any() else len(reached) - 1


def rise_index(values: ArrayLike, level: float) -> int | None:
    """The first sample at or above a level after one below it; None if there is none, or only the
    last.
    """
    y = np.asarray(values)
    risen = np.flatnonzero(np.logical_or.accumulate(y < level) & (y >= level))
    return int(risen[0]) if len(risen) and risen[0] + 1 < len(y) else None


def reaching_time(time: ArrayLike, values: ArrayLike, level: float) -> float:
    """When values first reach a level, on a straight line between samples; NaN if they never do."""
    t, y = np.asarray(time, float), np.asarray(values, float)
    i = first_index(y, level)
    if y[i] < level or i == 0:
        return np.nan if y[i] < level else float(t[0])
    return float(np.interp(level, y[i - 1 : i + 1], t[i - 1 : i + 1]))


def first_time(time: Array, reached: NDArray[np.bool_]) -> float:
    """The first time at which something is reached; NaN if it never is."""
    return float(time[reached.argmax()]) if reached.any() else np.nan


def half_way_time(time: Array, path: Array) -> float:
    """When a path (time, component) is first half as far from its start as it is at its end, by the
    sum of absolute changes; NaN if it ends where it starts.
    """
    moved = np.abs(path - path[0]).sum(axis=-1)
    return first_time(time, moved >= moved[-1] / 2) if moved[-1] > 0 else np.nan


def between(values: Array, low: float, high: float) -> NDArray[np.bool_]:
    """Samples from where values first reach `low` until before they first reach `high`."""
    return np.logical_or.accumulate(values >= low) & ~np.logical_or.accumulate(values >= high)


def peak_time(time: Array, values: Array, first: int = 0) -> float:
    """When values have their first maximum after sample `first`, by the parabola through three
    samples; NaN if they have none.
    """
    inner = np.flatnonzero((values[1:-1] > values[:-2]) & (values[1:-1] >= values[2:])) + 1
    inner = inner[inner > first]
    if not len(inner):
        return np.nan
    i = inner[0]
    bend, tilt, _ = np.polyfit(time[i - 1 : i + 2] - time[i], values[i - 1 : i + 2] - values[i], 2)
    return float(time[i] - tilt / (2 * bend))


def slope(x: ArrayLike, y: ArrayLike) -> float:
    """Slope of y against x, by least squares; NaN for a single value."""
    if np.size(x) < 2:
        return np.nan
    return float(np.polyfit(np.asarray(x, float), np.asarray(y, float), 1)[0])


def power(x: ArrayLike, y: ArrayLike) -> float:
    """p in y ~ x^p, by least squares of the logarithms."""
    return slope(np.log(x), np.log(y))


def growth_rate(
    time: Array, values: Array, inside: NDArray[np.bool_], least_samples: int = LEAST_SAMPLES
) -> float:
    """Slope of log values against time inside a window; NaN where the window has too few samples."""
    return slope(time[inside], np.log(values[inside])) if inside.sum() >= least_samples else np.nan


def furthest(values: ArrayLike, target: ArrayLike) -> float:
    """The value furthest from its target; NaN counts as furthest."""
    flat = np.ravel(values)
    return float(flat[np.argmax(np.abs(flat - np.ravel(target)))])
