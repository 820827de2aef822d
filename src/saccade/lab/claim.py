"""A claim: one statement of a theory, compared with a simulation or with a published number.

A `Case` (`lab/case.py`) makes claims. Four verdicts. A claim holds or fails as its relation (`lab/relation.py`) is true or not. If one of
its assumptions is not met it decides nothing, though it still says whether the numbers agree. It is
inconclusive if its interval contains the bound, or if the bound is beyond a ceiling
(`lab/ceiling.py`). The claims of a control must fail: it breaks an assumption on purpose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from saccade.errors import InputError, shortened
from saccade.lab.ceiling import Ceiling, too_small
from saccade.lab.relation import Between, Erratum, Relation, Value, agrees, centre
from saccade.measures.fits import Interval
from saccade.numerals import numerals_in
from saccade.theories.condition import Condition
from saccade.theories.statement import Statement

HOLDS, FAILS, UNMET, INCONCLUSIVE = "holds", "fails", "assumptions not met", "inconclusive"
UNDECIDED = (UNMET, INCONCLUSIVE)  # neither confirmed nor refuted
THEORY, PUBLISHED = "theory", "published"


@dataclass(frozen=True)
class Claim:
    """One comparison of a measured value with what a theory or a paper allows; a `Case` makes it.

    | field       | meaning                                                                        |
    |-------------|--------------------------------------------------------------------------------|
    | `statement` | what is tested                                                                 |
    | `title`     | what is compared, in at most about 80 characters                               |
    | `relation`  | what is allowed                                                                |
    | `measured`  | a number, or an interval over seeds                                            |
    | `sentence`  | the same in plain English, where title and numbers do not say it               |
    | `case`      | settings that distinguish this claim from others with the same title           |
    | `given`     | assumptions, each with its number and bound                                    |
    | `against`   | what it is compared with: `theory`, or `published` numbers                     |
    | `breaks`    | of a control: the assumption broken on purpose                                 |
    | `ceilings`  | how well two repetitions agree: two seeds, two samples of a text               |
    | `bound_set` | `after trial runs`, if the bound was set after some had been looked at         |
    """

    statement: Statement
    title: str
    relation: Relation
    measured: Value
    sentence: str = ""
    case: Mapping[str, Any] = field(default_factory=dict)
    given: Sequence[Condition] = ()
    against: str = THEORY
    breaks: str = ""
    ceilings: Sequence[Ceiling] = ()
    bound_set: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.title, str) or not self.title.strip():
            raise InputError(
                "the title of a claim must say in words what is compared; "
                f"got {shortened(self.title)}."
            )
        if not isinstance(self.statement, Statement):
            raise InputError(
                "`statement` of a claim must be a saccade.Statement, such as "
                'saccade.Statement("you2026", "Lemma 1", "what it says"); '
                f"got {shortened(self.statement)}."
            )
        assumed = [*(condition.name for condition in self.given), *self.statement.hypotheses]
        if self.breaks and self.breaks not in assumed:
            known = f"Known: {'; '.join(assumed)}. Or give" if assumed else "Give"
            raise InputError(
                f"claim {shortened(self.title)}: a control breaks an assumption of its statement "
                f"or of its case, and {shortened(self.breaks)} is none. {known} `breaking` a "
                "condition that is not met."
            )
        low, high = self.relation.bounds
        if isinstance(self.relation, Between) and low > high:
            raise InputError(
                f"claim {shortened(self.title)}: the lower bound must not be above the upper one, "
                f"and a distance not negative; got [{low:g}, {high:g}]."
            )

    @property
    def agrees(self) -> bool:
        """Whether the relation is true of the measured value, whatever the assumptions."""
        return agrees(self.relation, self.measured)

    @property
    def unmet(self) -> list[Condition]:
        return [condition for condition in self.given if not condition.holds]

    @property
    def too_small(self) -> str:
        """Why it is inconclusive, and what size would do; empty if it is decided."""
        return too_small(self.ceilings, self.relation.bounds, self.measured, self.agrees)

    @property
    def verdict(self) -> str:
        names = {condition.name for condition in self.unmet}
        still_met = any(one.holds and one.name == self.breaks for one in self.given)
        if still_met or names - {self.breaks}:
            return UNMET
        if self.too_small:
            return INCONCLUSIVE
        return HOLDS if self.agrees else FAILS

    @property
    def label(self) -> str:
        """The title with its case, by which files know it: `growth rate of queries (law zipf-6)`."""
        settings = ", ".join(
            f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in self.case.items()
        )
        return f"{self.title} ({settings})" if settings else self.title

    @property
    def heading(self) -> str:
        """The label as people read it: `log growth (t 10¹²)`."""
        return numerals_in(self.label)

    @property
    def says(self) -> str:
        """`measured 0.50, predicted 0.51 ± 5 %`, with the ceilings."""
        limits = "".join(f"; {ceiling.told_as} {ceiling}" for ceiling in self.ceilings)
        return self.relation.says(self.measured) + limits

    def __str__(self) -> str:
        return f"{self.heading}: {self.says}"

    @property
    def verdict_says(self) -> str:
        """The verdict with its reason: `assumptions not met (2 of 5); the numbers agree`."""
        if self.verdict == INCONCLUSIVE:
            return f"{INCONCLUSIVE}; {self.too_small}"
        if self.verdict == UNMET:
            if any(one.holds and one.name == self.breaks for one in self.given):
                return f"{UNMET}: this control breaks nothing, since “{self.breaks}” is met"
            numbers = "agree" if self.agrees else "do not agree"
            if self.too_small:
                numbers = "are inconclusive"
            return f"{UNMET} ({len(self.unmet)} of {len(self.given)}); the numbers {numbers}"
        if np.isnan(centre(self.measured)):
            return f"{FAILS}: nothing was measured"
        if not self.breaks:
            return self.verdict
        verdict = "fails, as a control must" if self.verdict == FAILS else "holds, but must fail"
        return f"{verdict} (broken: {self.breaks})"

    def as_dict(self) -> dict[str, Any]:
        """The keys of `claims.json`."""
        measured, is_interval = self.measured, isinstance(self.measured, Interval)
        kind = "erratum" if isinstance(self.relation, Erratum) else "between"
        return {
            "title": self.title,
            "label": self.label,
            "sentence": self.sentence or f"{self}.",
            "statement": asdict(self.statement),
            "case": dict(self.case),
            "relation": {"kind": kind, **asdict(self.relation)},
            "bounds": list(self.relation.bounds),
            "measured": centre(measured),
            "interval": list(measured[1:]) if is_interval else None,  # type: ignore[index]
            "says": self.says,
            "assumptions": [condition.as_dict() for condition in self.given],
            "verdict": self.verdict,
            "verdict_says": self.verdict_says,
            "agrees": self.agrees,
            "against": self.against,
            "breaks": self.breaks,
            "ceilings": [asdict(ceiling) for ceiling in self.ceilings],
            "bound_set": self.bound_set,
        }
