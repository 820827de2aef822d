"""What a claim asks of a measurement: near a target, at most, at least, between, few exceptions,
printed against corrected.

A relation says whether a number satisfies it (`holds`), which numbers it allows (`bounds`), how to
print it (`says`, and `miss` if it is not true), and the same as half a sentence (`told`); `judged`
gives all five for one measurement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

from saccade.numerals import numeral
from saccade.observe.fits import Interval

Value: TypeAlias = float | Interval
MOST_TIMES = 100


class Sources(NamedTuple):
    """Who says what is predicted, and who what is found: `theory predicts`, `our run gives`."""

    predicted: str
    found: str

    def gives(self, measured: Value) -> str:
        return (
            "the number is missing"
            if math.isnan(centre(measured))
            else f"{self.found} {shown(measured)}"
        )


@dataclass(frozen=True)
class Near:
    """Within an absolute distance of a target; `relative` only tells how that distance was given."""

    kind: ClassVar[str] = "near"
    target: float
    within: float
    relative: float | None = None

    def holds(self, value: float) -> bool:
        return abs(value - self.target) <= self.within

    @property
    def bounds(self) -> tuple[float, float]:
        return self.target - self.within, self.target + self.within

    def says(self, measured: Value) -> str:
        exactly = "" if self.within == 0 else f" ± {self._allowed}"
        found, target = told_apart(measured, self.target, self.holds(centre(measured)))
        return f"measured {found}, predicted {target}{exactly}"

    def told(self, measured: Value, by: Sources) -> str:
        allowed = "must be equal" if self.within == 0 else f"may differ by {self._allowed}"
        return f"{by.predicted} {shown(self.target)} and {by.gives(measured)}; they {allowed}"

    @property
    def _allowed(self) -> str:
        return f"{100 * self.relative:.3g} %" if self.relative is not None else shown(self.within)

    def miss(self, measured: Value) -> str:
        gap = abs(centre(measured) - self.target)
        if math.isnan(gap):
            return "missing"
        return (
            f"off by {shown(float(f'{100 * gap / abs(self.target):.2g}'))} %"
            if self.target
            else f"off by {shown(gap)}"
        )


@dataclass(frozen=True)
class AtMost:
    kind: ClassVar[str] = "at most"
    bound: float
    strict: bool = False

    def holds(self, value: float) -> bool:
        return value < self.bound if self.strict else value <= self.bound

    @property
    def bounds(self) -> tuple[float, float]:
        return -math.inf, self.bound

    def says(self, measured: Value) -> str:
        found, bound = told_apart(measured, self.bound, self.holds(highest(measured)))
        return f"measured {found}, needed {'<' if self.strict else '≤'} {bound}"

    def told(self, measured: Value, by: Sources) -> str:
        return f"{by.gives(measured)}, and {'less than' if self.strict else 'at most'} {shown(self.bound)} is allowed"

    def miss(self, measured: Value) -> str:
        return f"{shown(highest(measured) - self.bound)} too high"


@dataclass(frozen=True)
class AtLeast:
    kind: ClassVar[str] = "at least"
    bound: float
    strict: bool = False

    def holds(self, value: float) -> bool:
        return value > self.bound if self.strict else value >= self.bound

    @property
    def bounds(self) -> tuple[float, float]:
        return self.bound, math.inf

    def says(self, measured: Value) -> str:
        found, bound = told_apart(measured, self.bound, self.holds(lowest(measured)))
        return f"measured {found}, needed {'>' if self.strict else '≥'} {bound}"

    def told(self, measured: Value, by: Sources) -> str:
        return f"{by.gives(measured)}, and {'more than' if self.strict else 'at least'} {shown(self.bound)} is needed"

    def miss(self, measured: Value) -> str:
        return f"{shown(self.bound - lowest(measured))} too low"


@dataclass(frozen=True)
class Between:
    kind: ClassVar[str] = "between"
    low: float
    high: float

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def bounds(self) -> tuple[float, float]:
        return self.low, self.high

    def says(self, measured: Value) -> str:
        found, low = told_apart(measured, self.low, lowest(measured) >= self.low)
        high = shown(self.high)
        if highest(measured) > self.high:
            found, high = told_apart(measured, self.high, False)
        return f"measured {found}, must lie in [{low}, {high}]"

    def told(self, measured: Value, by: Sources) -> str:
        return f"{by.gives(measured)}, and anything from {shown(self.low)} to {shown(self.high)} is allowed"

    def miss(self, measured: Value) -> str:
        too_low = lowest(measured) < self.low
        return (
            f"{shown(self.low - lowest(measured))} too low"
            if too_low
            else f"{shown(highest(measured) - self.high)} too high"
        )


@dataclass(frozen=True)
class Exceptions:
    """How many of `among` break a rule: none, or no more than are allowed."""

    kind: ClassVar[str] = "exceptions"
    among: int
    allowed: int = 0

    def holds(self, value: float) -> bool:
        return value <= self.allowed

    @property
    def bounds(self) -> tuple[float, float]:
        return 0, self.allowed

    def says(self, measured: Value) -> str:
        if self.among == 0:
            return "the rule was never put to the test"
        count = centre(measured)
        allowed = f", {self.allowed} allowed" if self.allowed else ""
        return f"{shown(count)} exception{'' if count == 1 else 's'} among {self.among}{allowed}"

    def told(self, measured: Value, by: Sources) -> str:
        true = self.among - centre(measured)
        if math.isnan(true):
            return "nothing was there to test it on"
        if self.among == 1:
            return f"{'true' if true else 'not true'} in the only case"
        share = (
            f"all {self.among}"
            if true == self.among
            else f"{shown(true) if true else 'none'} of {self.among}"
        )
        allowed = f", and {self.allowed} may be exceptions" if self.allowed else ""
        return f"true in {share} cases{allowed}"

    def miss(self, measured: Value) -> str:
        return self.says(measured)


@dataclass(frozen=True)
class Erratum:
    """A formula as printed, or as it is read, and as corrected: only the corrected form may be
    within a distance of the measurement.
    """

    kind: ClassVar[str] = "erratum"
    printed: float
    corrected: float
    within: float
    number: str
    said: str
    instead: str = "corrected"

    def holds(self, value: float) -> bool:
        return abs(value - self.corrected) <= self.within < abs(value - self.printed)

    @property
    def bounds(self) -> tuple[float, float]:
        """Around the corrected form, without what is as close to the printed one."""
        low, high = self.corrected - self.within, self.corrected + self.within
        if self.printed < self.corrected:
            return max(low, self.printed + self.within), high
        return low, min(high, self.printed - self.within)

    def says(self, measured: Value) -> str:
        forms = f"{self.instead} formula {shown(self.corrected)}, {self.said} {shown(self.printed)}"
        return f"measured {shown(measured)}; {forms} (± {shown(self.within)})"

    def told(self, measured: Value, by: Sources) -> str:
        forms = f"the {self.instead} formula gives {shown(self.corrected)}, the one {self.said} {shown(self.printed)}"
        return f"{by.gives(measured)}; {forms}"

    def miss(self, measured: Value) -> str:
        value = centre(measured)
        right = abs(value - self.corrected) <= self.within
        return (
            "the two forms cannot be distinguished"
            if right
            else f"corrected form off by {shown(abs(value - self.corrected))}"
        )


Relation: TypeAlias = Near | AtMost | AtLeast | Between | Exceptions | Erratum


class Judgement(NamedTuple):
    agrees: bool
    bounds: tuple[float, float]
    says: str
    miss: str
    told: str


def judged(relation: Relation, measured: Value, by: Sources) -> Judgement:
    """A relation held against a measurement; an interval must satisfy it from end to end, and NaN
    never does.
    """
    values = tuple(measured) if isinstance(measured, Interval) else (measured,)
    agrees = all(relation.holds(value) for value in values)
    return Judgement(
        agrees,
        relation.bounds,
        relation.says(measured),
        relation.miss(measured),
        relation.told(measured, by),
    )


def centre(measured: Value) -> float:
    return measured.mean if isinstance(measured, Interval) else measured


def lowest(measured: Value) -> float:
    return measured.low if isinstance(measured, Interval) else measured


def highest(measured: Value) -> float:
    return measured.high if isinstance(measured, Interval) else measured


def times(factor: float) -> str:
    """How many times larger, two digits, written out and never less than a tenth more: `140 times`."""
    return f"{max(float(f'{factor:.2g}'), 1.1):g} times"


def enough(factor: float, what: str) -> str:
    """What size would do: `about 12 times the repetitions would do`. Beyond a hundred times it is
    no use to say how many.
    """
    if factor > MOST_TIMES:
        return f"more than {MOST_TIMES} times the {what} would be needed"
    return f"about {times(factor)} the {what} would do"


def told_apart(measured: Value, bound: float, agrees: bool) -> tuple[str, str]:
    """Both as text. Where they disagree, a single number has as many digits as it takes to see that
    they differ.
    """
    if not agrees and not isinstance(measured, Interval):
        for digits in range(4, 16):
            pair = shown(measured, f".{digits}g"), shown(bound, f".{digits}g")
            if pair[0] != pair[1]:
                return pair
    return shown(measured), shown(bound)


def shown(measured: Value, form: str = ".4g") -> str:
    """A number, or an interval as `0.43 [0.4, 0.47]`."""
    if not isinstance(measured, Interval):
        return numeral(measured, form)
    return f"{numeral(measured.mean, form)} [{numeral(measured.low, form)}, {numeral(measured.high, form)}]"
