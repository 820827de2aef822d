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
from dataclasses import dataclass

from saccade.lab.relation import enough
from saccade.numerals import numeral
from saccade.observe.fits import Interval, enlargement


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


EXACT_COUNT = NoCeiling("an exact count")
SAME_SAMPLE = NoCeiling("law and run on the same sample")
