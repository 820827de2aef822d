"""A claim: one statement of a theory, held against one measurement by a relation.

`Case` makes claims that share their settings and assumptions:

    case = Case({"law": "zipf-6"}, given=conditions)
    yield case.near(THEOREM_3_5, "growth rate of queries", measured=rates, target=c, relative=0.005)
    yield case.none(THEOREM_2, "frequent distinct tokens gain more", exceptions=rarer_gains_more)

A verdict says whether the relation is true; outside its assumptions a claim decides nothing, and still says whether the numbers
agree. A negative control breaks one assumption of a theorem on purpose (`Case.breaking`), and its claims must then fail.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from saccade.observe.fits import Interval, furthest
from saccade.theory.condition import Condition
from saccade.theory.statement import Statement

HOLDS, FAILS, OUTSIDE = "holds", "fails", "outside"
SIMULATION, PUBLISHED, REPLICATION, CALCULUS = "simulation", "published", "replication", "calculus"


# What a claim asks of a number, or of an interval over seeds, of which it must be true from end to end.
Value: TypeAlias = float | Interval


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
        allowed = f"{100 * self.relative:.3g} %" if self.relative is not None else number(self.within)
        exactly = "" if self.within == 0 else f" ± {allowed}"
        return f"measured {shown(measured)}, predicted {number(self.target)}{exactly}"

    def miss(self, measured: Value) -> str:
        gap = abs(centre(measured) - self.target)
        if math.isnan(gap):
            return "missing"
        return f"off by {100 * gap / abs(self.target):.2g} %" if self.target else f"off by {number(gap)}"


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
        return f"measured {shown(measured)}, needed {'<' if self.strict else '≤'} {number(self.bound)}"

    def miss(self, measured: Value) -> str:
        return f"{number(highest(measured) - self.bound)} too high"


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
        return f"measured {shown(measured)}, needed {'>' if self.strict else '≥'} {number(self.bound)}"

    def miss(self, measured: Value) -> str:
        return f"{number(self.bound - lowest(measured))} too low"


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
        return f"measured {shown(measured)}, must lie in [{number(self.low)}, {number(self.high)}]"

    def miss(self, measured: Value) -> str:
        too_low = lowest(measured) < self.low
        return f"{number(self.low - lowest(measured))} too low" if too_low else f"{number(highest(measured) - self.high)} too high"


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
        count = centre(measured)
        allowed = f", {self.allowed} allowed" if self.allowed else ""
        return f"{number(count)} exception{'' if count == 1 else 's'} among {self.among}{allowed}"

    def miss(self, measured: Value) -> str:
        return self.says(measured)


@dataclass(frozen=True)
class Erratum:
    """A formula as printed, or as it is read, and as corrected: only the corrected form may be within a distance of the
    measurement.
    """

    kind: ClassVar[str] = "erratum"
    printed: float
    corrected: float
    within: float
    number: str
    said: str

    def holds(self, value: float) -> bool:
        return abs(value - self.corrected) <= self.within and not abs(value - self.printed) <= self.within

    @property
    def bounds(self) -> tuple[float, float]:
        return self.corrected - self.within, self.corrected + self.within

    def says(self, measured: Value) -> str:
        forms = f"corrected formula {number(self.corrected)}, {self.said} {number(self.printed)}"
        return f"measured {shown(measured)}; {forms} (± {number(self.within)})"

    def miss(self, measured: Value) -> str:
        value = centre(measured)
        right = abs(value - self.corrected) <= self.within
        return "the two forms cannot be told apart" if right else f"corrected form off by {number(abs(value - self.corrected))}"


Relation: TypeAlias = Near | AtMost | AtLeast | Between | Exceptions | Erratum


def centre(measured: Value) -> float:
    return measured.mean if isinstance(measured, Interval) else measured


def lowest(measured: Value) -> float:
    return measured.low if isinstance(measured, Interval) else measured


def highest(measured: Value) -> float:
    return measured.high if isinstance(measured, Interval) else measured


def number(value: float) -> str:
    """Four digits, and no more zeros than are needed."""
    return "missing" if math.isnan(value) else f"{value:.4g}"


def shown(measured: Value) -> str:
    if not isinstance(measured, Interval):
        return number(measured)
    return f"{number(measured.mean)} [{number(measured.low)}, {number(measured.high)}]"


@dataclass(frozen=True)
class Claim:
    """One comparison. Make claims with `Case`, which fills in what several share.

    | field       | meaning                                                                                             |
    |-------------|-----------------------------------------------------------------------------------------------------|
    | `statement` | what is tested                                                                                      |
    | `title`     | what is compared, in at most about 80 characters                                                    |
    | `relation`  | what is asked of the measurement                                                                    |
    | `measured`  | a number, or an interval over seeds                                                                 |
    | `sentence`  | the same in plain English, for somebody who has not read the paper                                  |
    | `case`      | settings that tell this claim from others with its title                                            |
    | `given`     | assumptions, each with its number and bound                                                         |
    | `expected`  | the verdict we expect: `fails` for what is known not to be true                                     |
    | `against`   | what the theory is compared with: our simulation, published numbers, another replication, calculus  |
    | `breaks`    | of a negative control: the assumption broken on purpose                                             |
    """

    statement: Statement
    title: str
    relation: Relation
    measured: Value
    sentence: str = ""
    case: Mapping[str, Any] = field(default_factory=dict)
    given: Sequence[Condition] = ()
    expected: str = HOLDS
    against: str = SIMULATION
    breaks: str = ""

    @property
    def agrees(self) -> bool:
        """Whether the relation is true of the number, or of the interval from end to end, whatever the assumptions. NaN never
        agrees.
        """
        values = tuple(self.measured) if isinstance(self.measured, Interval) else (self.measured,)
        return all(self.relation.holds(value) for value in values)

    @property
    def unmet(self) -> list[Condition]:
        return [condition for condition in self.given if not condition.holds]

    @property
    def verdict(self) -> str:
        if any(condition.name != self.breaks for condition in self.unmet):
            return OUTSIDE
        return HOLDS if self.agrees else FAILS

    @property
    def as_expected(self) -> bool:
        return self.verdict == self.expected

    @property
    def is_surprise(self) -> bool:
        """Neither what was expected nor outside its assumptions, which decides nothing."""
        return self.verdict not in (self.expected, OUTSIDE)

    @property
    def label(self) -> str:
        """The title with the settings of its case: `growth rate of queries (law zipf-6)`."""
        settings = ", ".join(
            f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in self.case.items()
        )
        return f"{self.title} ({settings})" if settings else self.title

    @property
    def says(self) -> str:
        """What was measured and what was needed, as people say it."""
        return self.relation.says(self.measured)

    @property
    def verdict_says(self) -> str:
        """`holds`, `fails`, `outside (2 of 5 assumptions); agrees`."""
        if self.verdict == OUTSIDE:
            numbers = "agrees" if self.agrees else self.relation.miss(self.measured)
            return f"outside ({len(self.unmet)} of {len(self.given)} assumptions); {numbers}"
        if self.breaks:
            told = "fails, as a control must" if self.verdict == FAILS else "holds, though it must not"
            return f"{told} (broken: {self.breaks})"
        known = ", as expected" if self.verdict == FAILS and self.as_expected else ""
        return self.verdict + known

    def as_dict(self) -> dict[str, Any]:
        """The keys of `claims.json`."""
        measured = self.measured
        low, high = (measured.low, measured.high) if isinstance(measured, Interval) else (None, None)
        return {
            "title": self.title,
            "label": self.label,
            "sentence": self.sentence or f"{self.statement.title}.",
            "statement": asdict(self.statement) | {"key": self.statement.key},
            "case": dict(self.case),
            "relation": {"kind": self.relation.kind, **asdict(self.relation)},
            "bounds": list(self.relation.bounds),
            "measured": measured.mean if isinstance(measured, Interval) else measured,
            "interval": None if low is None else [low, high],
            "says": self.says,
            "assumptions": [asdict(condition) | {"holds": condition.holds, "says": str(condition)} for condition in self.given],
            "verdict": self.verdict,
            "verdict_says": self.verdict_says,
            "agrees": self.agrees,
            "expected": self.expected,
            "against": self.against,
            "breaks": self.breaks,
        }


@dataclass(frozen=True)
class Case:
    """What several claims share. `near`, `at_most`, `at_least`, `between`, `none`, `in_order` and `erratum` each make one claim.

    | field      | meaning                                                                                              |
    |------------|------------------------------------------------------------------------------------------------------|
    | `settings` | what tells these claims from others with their titles: `{"law": "zipf-6"}`                           |
    | `given`    | assumptions as `Condition`s, each with its number and bound; if one is not met, a claim is `outside`   |
    | `against`  | what the theory is compared with: our simulation, published numbers, another replication, calculus   |
    | `breaks`   | of a negative control: the assumption broken on purpose; `breaking(...)` sets it                     |

    What is measured may be a number, an array (the worst of its values is judged, and a missing one is the worst) or an `Interval`
    over seeds (all of it is judged). `expected="fails"` marks what is known not to be true.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    given: Sequence[Condition] = ()
    against: str = SIMULATION
    breaks: str = ""

    def but(self, given: Any = None, against: Any = None, **settings: Any) -> Case:
        """The same case with other assumptions, with more settings, or compared with something else."""
        return replace(
            self,
            settings={**self.settings, **settings},
            given=self.given if given is None else given,
            against=self.against if against is None else against,
        )

    def breaking(self, assumption: str) -> Case:
        """A negative control: this assumption is broken here on purpose, and every claim made must fail."""
        return replace(self, breaks=assumption)

    def near(
        self,
        statement: Statement,
        title: str,
        measured: Any,
        target: float,
        *,
        within: float | None = None,
        relative: float | None = None,
        sentence: str = "",
        expected: str = HOLDS,
    ) -> Claim:
        """The value furthest from `target` is within a distance of it, absolute (`within`) or as a share of it (`relative`)."""
        if (within is None) == (relative is None):
            raise TypeError("a claim that something is near needs either `within` or `relative`")
        reach = float(within) if within is not None else relative * abs(float(target))  # type: ignore[operator]
        value = measured if isinstance(measured, Interval) else furthest(measured, target)
        return self._claim(statement, title, Near(float(target), reach, relative), value, sentence, expected)

    def at_most(
        self,
        statement: Statement,
        title: str,
        measured: Any,
        bound: float,
        *,
        strict: bool = False,
        sentence: str = "",
        expected: str = HOLDS,
    ) -> Claim:
        """The largest value is at most `bound`; below it, if `strict`."""
        value = measured if isinstance(measured, Interval) else float(np.max(np.asarray(measured, float)))
        return self._claim(statement, title, AtMost(float(bound), strict), value, sentence, expected)

    def at_least(
        self,
        statement: Statement,
        title: str,
        measured: Any,
        bound: float,
        *,
        strict: bool = False,
        sentence: str = "",
        expected: str = HOLDS,
    ) -> Claim:
        """The smallest value is at least `bound`; above it, if `strict`."""
        value = measured if isinstance(measured, Interval) else float(np.min(np.asarray(measured, float)))
        return self._claim(statement, title, AtLeast(float(bound), strict), value, sentence, expected)

    def between(
        self, statement: Statement, title: str, measured: Any, low: float, high: float, *, sentence: str = "", expected: str = HOLDS
    ) -> Claim:
        """Every value lies in [`low`, `high`]."""
        value = measured if isinstance(measured, Interval) else furthest(measured, (low + high) / 2)
        return self._claim(statement, title, Between(float(low), float(high)), value, sentence, expected)

    def none(
        self,
        statement: Statement,
        title: str,
        exceptions: ArrayLike,
        *,
        among: int | None = None,
        allowed: int = 0,
        sentence: str = "",
        expected: str = HOLDS,
    ) -> Claim:
        """No exceptions to a rule: `exceptions` is a mask, or a count of `among`."""
        count, n = (np.sum(exceptions), np.size(exceptions)) if among is None else (exceptions, among)
        value = float(np.sum(count)) if n else np.nan  # a rule that was never put to the test is not confirmed
        return self._claim(statement, title, Exceptions(int(n), allowed), value, sentence, expected)

    def in_order(self, statement: Statement, title: str, values: ArrayLike, *, sentence: str = "", expected: str = HOLDS) -> Claim:
        """Values rise along the last axis: neighbours that do not are the exceptions."""
        return self.none(statement, title, ~(np.diff(np.asarray(values, float)) > 0), sentence=sentence, expected=expected)

    def erratum(
        self,
        statement: Statement,
        title: str,
        measured: float,
        *,
        number: str,
        printed: float,
        corrected: float,
        within: float,
        sentence: str = "",
        expected: str = HOLDS,
    ) -> Claim:
        """A printed formula, or a reading of it, is wrong and its corrected form right, both held against one measurement;
        `number` is the erratum's own.
        """
        said = next((forms.said for forms in statement.errata if forms.number == number), "as printed")
        relation = Erratum(float(printed), float(corrected), float(within), number, said)
        return self._claim(statement, title, relation, float(measured), sentence, expected)

    def _claim(self, statement: Statement, title: str, relation: Relation, value: Value, sentence: str, expected: str) -> Claim:
        return Claim(
            statement=statement,
            title=title,
            relation=relation,
            measured=value,
            sentence=sentence,
            case=self.settings,
            given=tuple(self.given),
            expected=FAILS if self.breaks else expected,
            against=self.against,
            breaks=self.breaks,
        )
