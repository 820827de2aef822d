"""A claim: one statement of a theory, compared with one measurement.

`Case` makes claims that share their settings and assumptions:

    case = Case({"law": "zipf-6"}, given=conditions)
    yield case.near(THEOREM_3_5, "growth rate of queries", measured=rates, target=c, relative=0.005)
    yield case.none(THEOREM_2, "frequent distinct tokens gain more", exceptions=rarer_gains_more)

The verdict says whether the relation (`lab/relation.py`) is true. If an assumption is not met, the
claim is `outside`: it decides nothing, but still says whether the numbers agree. It cannot be told
if its interval lies on both sides of the bound; or, under a ceiling (`Case.under`), if two
repetitions agree less than the claim asks, unless the whole interval is allowed or lies on the
wrong side of chance. The claims of a negative control must fail: it breaks an assumption on purpose
(`Case.breaking`) or tightens a bound (`Case.tightened`).

What a claim is worth depends on what it is held `against`. Simulation: something was run or drawn,
and it need not have come out that way. Calculus: formulas alone, at given points (derivatives,
spectra, expansions) or along the flow whose exact solution they are. Published: a number of the
paper. Replication: a number of an earlier program of ours, or a range that was only ever seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from saccade.errors import InputError, checked_choice, shortened
from saccade.lab.ceiling import Ceiling
from saccade.lab.relation import (
    AtLeast,
    AtMost,
    Between,
    Erratum,
    Exceptions,
    Judgement,
    Near,
    Relation,
    Sources,
    Value,
    enough,
    judged,
)
from saccade.numerals import numerals_in
from saccade.observe.fits import Interval, furthest
from saccade.records.claim_counts import NOTHING
from saccade.theory.condition import Condition, met
from saccade.theory.statement import Statement

HOLDS, FAILS, OUTSIDE, CANNOT_TELL = "holds", "fails", "outside", "cannot tell"
UNDECIDED = (OUTSIDE, CANNOT_TELL)  # neither confirmed nor refuted
SIMULATION, PUBLISHED, REPLICATION, CALCULUS = "simulation", "published", "replication", "calculus"
BOUND = "the bound as stated"
AFTER_TRIAL_RUNS = "after trial runs"
_VERDICTS = (HOLDS, FAILS, OUTSIDE, CANNOT_TELL)
_SOURCES = {
    SIMULATION: Sources("theory predicts", "our run gives"),
    PUBLISHED: Sources("the paper reports", "our run gives"),
    REPLICATION: Sources("an earlier program gave", "our run gives"),
    CALCULUS: Sources("the formula gives", "our own calculation gives"),
}


@dataclass(frozen=True)
class Claim:
    """One comparison of a measurement with a prediction. Make claims with `Case`, which fills in
    what several share.

    | field       | meaning                                                                                             |
    |-------------|-----------------------------------------------------------------------------------------------------|
    | `statement` | what is tested                                                                                      |
    | `title`     | what is compared, in at most about 80 characters                                                    |
    | `relation`  | what is asked of the measurement                                                                    |
    | `measured`  | a number, or an interval over seeds                                                                 |
    | `sentence`  | the same in plain English, for somebody who has not read the paper; `plain` makes one if it is empty |
    | `case`      | settings that distinguish this claim from others with the same title                                |
    | `given`     | assumptions, each with its number and bound                                                         |
    | `expected`  | the verdict we expect: `fails` for what is known not to be true                                     |
    | `against`   | what the theory is compared with: our simulation, published numbers, another replication, calculus  |
    | `breaks`    | of a negative control: the assumption broken on purpose                                             |
    | `ceilings`  | how far two repetitions agree: two seeds, two samples of the text; or why none can                  |
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
    ceilings: Sequence[Ceiling] = ()
    bound_set: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.title, str) or not self.title.strip():
            raise InputError(
                f"the title of a claim must say in words what is compared; got {shortened(self.title)}."
            )
        _checked(self.statement)
        if self.expected not in _VERDICTS:
            checked_choice(f"{self._named}: `expected` verdict", self.expected, _VERDICTS)
        if self.against not in _SOURCES:
            checked_choice(f"{self._named}: `against`", self.against, _SOURCES)
        assumed = [condition.name for condition in self.given] + list(self.statement.hypotheses)
        if self.breaks and self.breaks not in assumed:
            known = f"Known: {'; '.join(assumed)}. Or give" if assumed else "Give"
            raise InputError(
                f"{self._named}: a control breaks an assumption of its statement or of its case, and {shortened(self.breaks)} is "
                f"none. {known} `breaking` a condition that is not met."
            )
        wrong = _contradiction(self.relation, self.measured)
        if wrong:
            raise InputError(f"{self._named}: {wrong}.")

    @property
    def _named(self) -> str:
        return f"claim {shortened(self.title)}"

    @property
    def agrees(self) -> bool:
        """Whether the relation is true of the number, or of the interval from end to end, whatever
        the assumptions. NaN never agrees.
        """
        return self._judged.agrees

    @cached_property
    def _judged(self) -> Judgement:
        return judged(self.relation, self.measured, _SOURCES[self.against])

    @property
    def too_small(self) -> str:
        """Why this cannot be told at this size, and what size would do; empty if it can.

        Sizes are estimates: the agreement of repetitions grows with the sample as Spearman and
        Brown have it, the interval shrinks as one over the root of the number of repetitions.
        """
        short = [
            ceiling
            for ceiling in self.ceilings
            if not ceiling.allows(self._judged.bounds) and not self._is_clear(ceiling)
        ]
        if short:
            return min(
                short, key=lambda ceiling: np.nan_to_num(ceiling.agreement, nan=-np.inf)
            ).enough(self._judged.bounds)
        if isinstance(self.measured, Interval) and self._reaches_across(self.measured):
            factor = self.measured.enlargement(self._judged.bounds)
            return (
                enough(factor, "repetitions")
                if np.isfinite(factor)
                else "more repetitions would do"
            )
        return ""

    def _is_clear(self, ceiling: Ceiling) -> bool:
        """Whether all of the interval is allowed, or on the wrong side of chance. A number alone is
        never clear.
        """
        if not isinstance(self.measured, Interval):
            return False
        bounds = self._judged.bounds
        if ceiling.is_met_by_noise(bounds):  # so that a score beyond them is no noise
            return self.measured.low > bounds[1] or self.measured.high < bounds[0]
        return self.agrees or ceiling.is_opposite(bounds, self.measured)

    def _reaches_across(self, measured: Interval) -> bool:
        """Whether some of the interval is allowed and some is not; so it may be where its ends are
        not known.
        """
        low, high = self._judged.bounds
        apart = measured.high < low or measured.low > high or measured.low == measured.high
        return not self.agrees and not apart and not np.isnan(measured.mean)

    @property
    def unmet(self) -> list[Condition]:
        return [condition for condition in self.given if not condition.holds]

    @property
    def _is_not_broken(self) -> bool:
        """Whether the assumption that a control should break is met all the same."""
        return self.breaks in {each.name for each in self.given if each not in self.unmet}

    @property
    def verdict(self) -> str:
        if self._is_not_broken or any(condition.name != self.breaks for condition in self.unmet):
            return OUTSIDE
        if self.too_small:
            return CANNOT_TELL
        return HOLDS if self.agrees else FAILS

    @property
    def as_expected(self) -> bool:
        return self.verdict == self.expected and not self._fails_by_absence

    @property
    def is_surprise(self) -> bool:
        """Decided, and not as expected."""
        return self.verdict not in UNDECIDED and not self.as_expected

    @property
    def _fails_by_absence(self) -> bool:
        """Whether it fails because nothing was measured, which neither a control nor a known
        failure may.
        """
        return self.verdict == FAILS and bool(
            np.isnan(self.measured.mean if isinstance(self.measured, Interval) else self.measured)
        )

    @property
    def kind(self) -> str:
        """As claims are counted: `surprise`, `outside`, `cannot tell`, `control` (it fails as it
        must), `holds` or `fails`.
        """
        if self.is_surprise:
            return "surprise"
        return "control" if self.breaks and self.verdict not in UNDECIDED else self.verdict

    @property
    def label(self) -> str:
        """The title with the settings of its case: `growth rate of queries (law zipf-6)`. By it a
        claim is known in files.
        """
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
    def plain(self) -> str:
        """The sentence, or one made of the label and the numbers: `Snap onset (K 5): our run gives
        46.6, and ... is allowed.` That of a control says first that it must fail.
        """
        first = self.heading.split(maxsplit=1)[0]
        is_word = (
            first.isascii() and first.isalpha() and len(first) > 1
        )  # a symbol stays as it is: σ and Σ are not the same
        label = self.heading[0].upper() + self.heading[1:] if is_word else self.heading
        said = self.sentence or f"{label}: {self._judged.told}."
        broken = "its bound tightened" if self.breaks == BOUND else f"“{self.breaks}” broken"
        return f"Control, with {broken}; this must fail: {said}" if self.breaks else said

    @property
    def says(self) -> str:
        """What was measured and what was needed, as people say it, with the ceilings; those that
        set no limit for comparison.
        """
        ways = dict.fromkeys(ceiling.told_as for ceiling in self.ceilings)
        told = {
            way: [str(ceiling) for ceiling in self.ceilings if ceiling.told_as == way]
            for way in ways
        }
        return self._judged.says + "".join(
            f"; {way} {', '.join(these)}" for way, these in told.items()
        )

    def __str__(self) -> str:
        """`growth rate of queries (law zipf-6): measured 0.50, predicted 0.51 ± 5 %`."""
        return f"{self.heading}: {self.says}"

    @property
    def verdict_says(self) -> str:
        """`holds`, `fails`, `assumptions not met (2 of 5); agrees`, `inconclusive; ...`."""
        if self.verdict == CANNOT_TELL:
            return f"inconclusive; {self.too_small}"
        if self._is_not_broken:
            return f"assumptions not met; “{self.breaks}” is met, so nothing is broken"
        if self.verdict == OUTSIDE:
            numbers = (
                "inconclusive" if self.too_small else "agrees" if self.agrees else self._judged.miss
            )
            return f"assumptions not met ({len(self.unmet)} of {len(self.given)}); {numbers}"
        if self._fails_by_absence:
            return NOTHING
        if self.breaks:
            told = (
                "fails, as a control must" if self.verdict == FAILS else "holds, though it must not"
            )
            return f"{told} ({'the bound was tightened' if self.breaks == BOUND else f'broken: {self.breaks}'})"
        return self.verdict

    def as_dict(self) -> dict[str, Any]:
        """The keys of `claims.json`."""
        measured = self.measured
        low, high = (
            (measured.low, measured.high) if isinstance(measured, Interval) else (None, None)
        )
        return {
            "title": self.title,
            "label": self.label,
            "sentence": self.plain,
            "statement": asdict(self.statement),
            "case": dict(self.case),
            "relation": {"kind": self.relation.kind, **asdict(self.relation)},
            "bounds": list(self._judged.bounds),
            "measured": measured.mean if isinstance(measured, Interval) else measured,
            "interval": None if low is None else [low, high],
            "says": self.says,
            "assumptions": [condition.as_dict() for condition in self.given],
            "verdict": self.verdict,
            "verdict_says": self.verdict_says,
            "agrees": self.agrees,
            "expected": self.expected,
            "against": self.against,
            "breaks": self.breaks,
            "ceilings": [asdict(ceiling) for ceiling in self.ceilings],
            "bound_set": self.bound_set,
        }


@dataclass(frozen=True)
class Case:
    """What several claims share. `near`, `at_most`, `at_least`, `between`, `none`, `in_order` and
    `erratum` each make one claim.

    | field      | meaning                                                                                              |
    |------------|------------------------------------------------------------------------------------------------------|
    | `settings` | settings that distinguish these claims from others with the same title: `{"law": "zipf-6"}`          |
    | `given`    | assumptions as `Condition`s, each with its number and bound; if one is not met, a claim is `outside`   |
    | `against`  | what the theory is compared with: our simulation, published numbers, another replication, calculus   |
    | `breaks`   | of a negative control: the assumption broken on purpose; `breaking(...)` sets it                     |
    | `ceilings` | how far two repetitions agree; `under(...)` sets them                                                |

    `measured` may be a number, an array (its worst value counts, and a missing one is the worst) or
    an `Interval` over seeds or samples (all of it counts). `expected="fails"` marks what is known
    not to be true.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    given: Sequence[Condition] = ()
    against: str = SIMULATION
    breaks: str = ""
    ceilings: Sequence[Ceiling] = ()
    bound_set: str = ""
    registered_in: list[Claim] | None = field(default=None, compare=False, repr=False)

    @property
    def published(self) -> Case:
        """The same case, compared with numbers of the paper."""
        return replace(self, against=PUBLISHED)

    @property
    def after_trial_runs(self) -> Case:
        """The same case, for bounds that were set after trial runs had been looked at."""
        return replace(self, bound_set=AFTER_TRIAL_RUNS)

    def but(self, given: Any = None, against: Any = None, **settings: Any) -> Case:
        """The same case with other assumptions, with more settings, or compared with something
        else.
        """
        return replace(
            self,
            settings={**self.settings, **settings},
            given=self.given if given is None else given,
            against=self.against if against is None else against,
        )

    @property
    def expected(self) -> str:
        """The verdict to expect where settings may miss an assumption: `outside` if one is missed,
        else `holds`.
        """
        return HOLDS if all(condition.holds for condition in self.given) else OUTSIDE

    def breaking(self, assumption: str | Condition) -> Case:
        """A negative control: this assumption is broken here on purpose, and every claim made must
        fail.

        It is a condition that is not met, or the name of one among `given`, or of a hypothesis of
        the statement.
        """
        if isinstance(assumption, Condition):
            return replace(self, given=(*self.given, assumption), breaks=assumption.name)
        return replace(self, breaks=assumption)

    def tightened(self, to: float, chosen_here: bool = True, bound: str = "bound") -> Case:
        """A negative control of a bound that you multiply by `to`: every claim made must fail, so a
        bound that is far too loose is noticed. The factor is chosen after a run, so the control
        guards the formula and proves nothing. `chosen_here`: whether these are the settings of that
        run; with others nothing is decided. `bound` says which of several.
        """
        new = [] if chosen_here else [met("the settings for which the factor was chosen", False)]
        case = self.but([*self.given, *new], **{bound: f"× {to:g}"})
        return case.breaking(Condition(BOUND, to, "=", 1.0, "what it is multiplied by"))

    def under(self, *ceilings: Ceiling) -> Case:
        """The same case under ceilings: a claim that asks for more cannot be told, unless its
        interval is clear.
        """
        return replace(self, ceilings=ceilings)

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
        """The value furthest from `target` is within a distance of it, absolute (`within`) or as a
        share of it (`relative`).
        """
        if (within is None) == (relative is None):
            raise InputError("`near` needs a tolerance: either `within` or `relative`.")
        aim = _number("target", target)
        reach = (
            _number("relative", relative) * abs(aim)
            if within is None
            else _number("within", within)
        )
        return self._claim(
            statement,
            title,
            Near(aim, reach, relative),
            _worst(measured, partial(furthest, target=aim)),
            sentence,
            expected,
        )

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
        value = _worst(measured, np.max)
        return self._claim(
            statement, title, AtMost(_number("bound", bound), strict), value, sentence, expected
        )

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
        value = _worst(measured, np.min)
        return self._claim(
            statement, title, AtLeast(_number("bound", bound), strict), value, sentence, expected
        )

    def between(
        self,
        statement: Statement,
        title: str,
        measured: Any,
        low: float,
        high: float,
        *,
        sentence: str = "",
        expected: str = HOLDS,
    ) -> Claim:
        """Every value lies in [`low`, `high`]."""
        ends = Between(_number("low", low), _number("high", high))
        value = _worst(measured, partial(furthest, target=(ends.low + ends.high) / 2))
        return self._claim(statement, title, ends, value, sentence, expected)

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
        n = np.size(exceptions) if among is None else int(_number("among", among))
        count = float(np.sum(_numbers("exceptions", exceptions)))
        if count % 1:
            raise InputError(
                f"`exceptions` must be true or false for each case, or a whole number; got {shortened(exceptions)}."
            )
        value = count if n else np.nan  # a rule that was never put to the test is not confirmed
        return self._claim(statement, title, Exceptions(n, allowed), value, sentence, expected)

    def in_order(
        self,
        statement: Statement,
        title: str,
        values: ArrayLike,
        *,
        sentence: str = "",
        expected: str = HOLDS,
    ) -> Claim:
        """Values rise along the last axis: neighbours that do not are the exceptions."""
        return self.none(
            statement,
            title,
            ~(np.diff(_numbers("values", values)) > 0),
            sentence=sentence,
            expected=expected,
        )

    def erratum(
        self,
        statement: Statement,
        title: str,
        measured: Any,
        *,
        printed: float,
        corrected: float,
        within: float,
        number: str = "",
        sentence: str = "",
        expected: str = HOLDS,
    ) -> Claim:
        """A printed formula, or a reading of it, is wrong and its corrected form right, both held
        against one measurement; `number` is the erratum's own, and needed only where the statement
        has several.
        """
        known = [each for each in _checked(statement).errata if number in ("", each.number)]
        if not number and len(known) != 1:
            raise InputError(
                f"{statement.key} has {len(known)} errata: give the `number` of this one."
            )
        words = (known[0].said, known[0].instead) if known else ("as printed", "corrected")
        forms = (
            _number("printed", printed),
            _number("corrected", corrected),
            _number("within", within),
        )
        relation = Erratum(*forms, number or known[0].number, *words)
        value = measured if isinstance(measured, Interval) else _number("measured", measured)
        return self._claim(statement, title, relation, value, sentence, expected)

    def _claim(
        self,
        statement: Statement,
        title: str,
        relation: Relation,
        value: Value,
        sentence: str,
        expected: str,
    ) -> Claim:
        claim = Claim(
            statement=statement,
            title=title,
            relation=relation,
            measured=value,
            sentence=sentence,
            case=self.settings,
            given=_listed("given", self.given, Condition),
            expected=FAILS if self.breaks else expected,
            against=self.against,
            breaks=self.breaks,
            ceilings=_listed("ceilings", self.ceilings, Ceiling),
            bound_set=self.bound_set,
        )
        if self.registered_in is not None:
            self.registered_in.append(claim)
        return claim


def _worst(measured: Any, pick: Callable[[np.ndarray], float]) -> Value:
    """What is judged: an interval as it is, of numbers the one that is picked; of none, a missing
    one.
    """
    if isinstance(measured, Interval):
        return measured
    values = _numbers("measured", measured)
    return float(pick(values)) if values.size else np.nan


def _checked(statement: Any) -> Statement:
    if not isinstance(statement, Statement):
        how = 'saccade.Statement("you2026", "Lemma 1", "what it says")'
        raise InputError(
            f"`statement` of a claim must be a saccade.Statement, such as {how}; got {shortened(statement)}."
        )
    return statement


def _numbers(name: str, values: Any) -> np.ndarray:
    try:
        return np.asarray(values, float)
    except (TypeError, ValueError):
        raise InputError(f"`{name}` of a claim must be numbers; got {shortened(values)}.") from None


def _number(name: str, value: Any) -> float:
    numbers = _numbers(name, value)
    if numbers.size != 1:
        raise InputError(f"`{name}` of a claim must be one number; got {shortened(value)}.")
    return float(numbers.item())


def _listed(name: str, several: Any, kind: type) -> tuple[Any, ...]:
    listed = tuple(several) if isinstance(several, Iterable) else (several,)
    if not all(isinstance(one, kind) for one in listed):
        raise InputError(
            f"`{name}` of a claim must list {kind.__name__}s; got {shortened(several)}."
        )
    return listed


def _contradiction(relation: Relation, measured: Value) -> str:
    """Why nothing could ever satisfy the relation, or why the measurement is none of its kind;
    empty if all is well.
    """
    if isinstance(relation, Between) and relation.low > relation.high:
        return f"`low` must not be above `high`; got {relation.low:g} and {relation.high:g}"
    if isinstance(relation, Near | Erratum) and relation.within < 0:
        return f"the distance allowed must not be negative; got {relation.within:g}"
    if (
        isinstance(relation, Exceptions)
        and isinstance(measured, float)
        and (measured < 0 or measured > relation.among)
    ):
        return f"`exceptions` must be a mask, or a count with `among`; got {measured:g} among {relation.among}"
    return ""
