"""A ceiling: how well two repetitions of one measurement agree. A claim that asks for more cannot
be told.

    runs = Ceiling("two seeds", agreement(gain), more="windows a step")
    yield case.under(runs).at_least(THEOREM_3, "rank correlation of gain and frequency", interval(scores), 0.5)

Even a perfect forecast scores no better against a noisy run than the run's noise allows. Without
noise of its own it could reach the square root of the agreement; we use the agreement itself, the
stricter of the two. A ceiling only excuses low scores: an interval that is high enough still holds,
and one on the wrong side of chance still fails. That two things differ is another matter: noise
lowers their score too, so a low one tells something only if repetitions agree by more than the
bound. Every claim on text has a ceiling, or says why none applies (`NoCeiling`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from saccade.measures.fits import Interval, enlargement
from saccade.numerals import numeral

MOST_TIMES = 100  # a size beyond this many times ours is not named


@dataclass(frozen=True)
class Ceiling:
    """The score of one repetition against another, in the units of the claim.

    | field       | meaning                                                                                                  |
    |-------------|----------------------------------------------------------------------------------------------------------|
    | `name`      | what was repeated: two seeds, two samples of the text                                                    |
    | `agreement` | its score: rank correlation, share of pairs in the same order, ...; NaN where it is not known            |
    | `more`      | what more of would raise the agreement: windows, batch                                                   |
    | `chance`    | what unrelated repetitions would score: 0 for a correlation, 1/2 for a share of pairs                    |
    | `limits`    | False where it is only shown: both sides of the claim were measured on the same sample                   |
    """

    name: str
    agreement: float
    more: str = "windows"
    chance: float = 0.0
    limits: bool = True

    def allows(self, bounds: tuple[float, float]) -> bool:
        """Whether repetitions agree at least as well as a claim with these bounds asks."""
        return not self.limits or (
            self._share(self.agreement) > 0 and self._share(self.agreement) >= self._asked(bounds)
        )

    def is_opposite(self, bounds: tuple[float, float], measured: Interval) -> bool:
        """Whether the whole interval lies on the other side of chance than what a claim with these
        bounds allows.
        """
        low, high = bounds
        return measured.high < self.chance <= low or high <= self.chance < measured.low

    def is_met_by_noise(self, bounds: tuple[float, float]) -> bool:
        """Whether a claim with these bounds is that two things differ: unrelated scores would meet
        it.
        """
        low, high = bounds
        return self.limits and low < self.chance < high

    def enough(self, bounds: tuple[float, float]) -> str:
        """The size that would do: `about 12 times the windows would do`."""
        if math.isnan(self.agreement):
            return "how far repetitions agree is not known: there must be two of them at least"
        factor = enlargement(self._share(self.agreement), self._asked(bounds))
        if not math.isfinite(factor):
            return "repetitions do not agree at all, so no size can be named"
        return enough(factor, self.more)

    @property
    def told_as(self) -> str:
        return "ceiling" if self.limits else "for comparison"

    def __str__(self) -> str:
        return f"{numeral(self.agreement)} ({self.name})"

    def _asked(self, bounds: tuple[float, float]) -> float:
        """How far from chance repetitions must be, on the scale of `_share`: at the allowed value
        that is nearest to it; where unrelated scores are allowed, at the bound.
        """
        low, high = bounds
        if self.is_met_by_noise(bounds):
            return min(abs(self._share(end)) for end in bounds if math.isfinite(end))
        return (
            0.0
            if low <= self.chance <= high
            else abs(self._share(low if low > self.chance else high))
        )

    def _share(self, score: float) -> float:
        """0: chance, 1: perfect."""
        return (score - self.chance) / (1 - self.chance)


@dataclass(frozen=True)
class NoCeiling(Ceiling):
    """Says in a word, its `name`, why nothing could be repeated: `NoCeiling("an exact count")`."""

    agreement: float = math.nan
    limits: bool = False

    @property
    def told_as(self) -> str:
        return "no ceiling:"

    def __str__(self) -> str:
        return self.name


def too_small(
    ceilings: Sequence[Ceiling], bounds: tuple[float, float], measured: Any, agrees: bool
) -> str:
    """Why a claim is inconclusive at this size, and what size would do; empty if it is decided.

    Sizes are estimates: the agreement of repetitions grows with the sample as Spearman and Brown
    have it, and the interval shrinks as one over the root of the number of repetitions.
    """

    def is_clear(ceiling: Ceiling) -> bool:
        """The whole interval is allowed, or on the wrong side of chance; never for a number alone."""
        if not isinstance(measured, Interval):
            return False
        if ceiling.is_met_by_noise(bounds):  # so that a score beyond them is no noise
            return measured.low > bounds[1] or measured.high < bounds[0]
        return agrees or ceiling.is_opposite(bounds, measured)

    short = [one for one in ceilings if not one.allows(bounds) and not is_clear(one)]
    if short:
        return min(short, key=lambda one: np.nan_to_num(one.agreement, nan=-np.inf)).enough(bounds)
    if not isinstance(measured, Interval) or agrees or math.isnan(measured.mean):
        return ""
    apart = measured.high < bounds[0] or measured.low > bounds[1] or measured.low == measured.high
    if apart:  # the ends may be NaN, of one repetition: then nothing is apart
        return ""
    factor = measured.enlargement(bounds)
    return enough(factor, "repetitions") if math.isfinite(factor) else "more repetitions would do"


def enough(factor: float, what: str) -> str:
    """What size would do: `about 12 times the repetitions would do`."""
    if factor > MOST_TIMES:
        return f"more than {MOST_TIMES} times the {what} would be needed"
    # two digits, and never less than a tenth more
    return f"about {max(float(f'{factor:.2g}'), 1.1):g} times the {what} would do"
