"""What a claim allows: an interval, or the corrected form of a formula and not the printed one.

`Between` has several ways to be made and printed: near a target, at most, at least, within two ends,
no exceptions among so many. `holds`, `bounds` and `says` are all that a claim asks of a relation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

from saccade.measures.fits import Interval
from saccade.numerals import numeral

Value: TypeAlias = float | Interval


@dataclass(frozen=True)
class Between:
    """From `low` to `high`, both allowed unless `strict`.

    | field      | meaning                                                        |
    |------------|----------------------------------------------------------------|
    | `target`   | the predicted value, which may be missed by `within`           |
    | `relative` | the same distance as a share of the target                     |
    | `among`    | the measured value counts exceptions among so many             |
    """

    low: float = -math.inf
    high: float = math.inf
    strict: bool = False
    target: float | None = None
    within: float = 0.0
    relative: float | None = None
    among: int | None = None

    @classmethod
    def near(cls, target: float, within: float, relative: float | None = None) -> Between:
        return cls(target - within, target + within, False, target, within, relative)

    @property
    def bounds(self) -> tuple[float, float]:
        return self.low, self.high

    def holds(self, value: float) -> bool:
        if self.target is not None:  # not from the ends: rounding would move them
            return abs(value - self.target) <= self.within
        return self.low < value < self.high if self.strict else self.low <= value <= self.high

    def says(self, measured: Value) -> str:
        """`measured 46.6, must lie in [34.9, 90.8]`."""
        if self.among is not None:
            return self._exceptions(centre(measured))
        if self.target is not None:
            found, target = told_apart(measured, self.target, self.holds(centre(measured)))
            reach = f" ± {shown(self.within)}" if self.within else ""
            reach = f" ± {100 * self.relative:.3g} %" if self.relative is not None else reach
            return f"measured {found}, predicted {target}{reach}"
        lowest, highest = measured[1:] if isinstance(measured, Interval) else (measured, measured)
        found, low = told_apart(measured, self.low, self.holds(lowest))
        if math.isinf(self.low) or highest > self.high:
            found, high = told_apart(measured, self.high, self.holds(highest))
        else:
            high = shown(self.high)
        if math.isinf(self.low):
            return f"measured {found}, needed {'<' if self.strict else '≤'} {high}"
        if math.isinf(self.high):
            return f"measured {found}, needed {'>' if self.strict else '≥'} {low}"
        return f"measured {found}, must lie in [{low}, {high}]"

    def _exceptions(self, count: float) -> str:
        if not self.among:
            return "there was nothing to test the rule on"
        allowed = f", {shown(self.high)} allowed" if self.high else ""
        return f"{shown(count)} exception{'' if count == 1 else 's'} among {self.among}{allowed}"


@dataclass(frozen=True)
class Erratum:
    """A formula as printed and as corrected; only the corrected form may be within a distance of
    the measured value.
    """

    printed: float
    corrected: float
    within: float
    number: str
    said: str = "as printed"
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
        forms = f"{self.instead} {shown(self.corrected)}, {self.said} {shown(self.printed)}"
        return f"measured {shown(measured)}; {forms} (± {shown(self.within)})"


Relation: TypeAlias = Between | Erratum


def agrees(relation: Relation, measured: Value) -> bool:
    """Whether the relation is true of the value, of an interval from end to end; never of NaN."""
    values = tuple(measured) if isinstance(measured, Interval) else (measured,)
    return all(relation.holds(value) for value in values)


def centre(measured: Value) -> float:
    return measured.mean if isinstance(measured, Interval) else measured


def told_apart(measured: Value, bound: float, agree: bool) -> tuple[str, str]:
    """Both as text; where they disagree, with as many digits as it takes to see that they differ."""
    if not agree and not isinstance(measured, Interval):
        for digits in range(4, 16):
            pair = shown(measured, f".{digits}g"), shown(bound, f".{digits}g")
            if pair[0] != pair[1]:
                return pair
    return shown(measured), shown(bound)


def shown(measured: Value, form: str = ".4g") -> str:
    """A number, or an interval as `0.43 [0.4, 0.47]`."""
    if not isinstance(measured, Interval):
        return numeral(measured, form)
    mean, low, high = (numeral(value, form) for value in measured)
    return f"{mean} [{low}, {high}]"
