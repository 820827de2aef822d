"""A case makes claims that share settings and assumptions; `lab.case(...)` also registers them.

case = lab.case(*conditions, law="zipf-6")
case.near(THEOREM_3_5, "growth rate of queries", rates, c, relative=0.005)
case.none(THEOREM_2, "frequent distinct tokens gain more", exceptions=rarer_gains_more)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from saccade.errors import InputError, shortened
from saccade.lab.ceiling import Ceiling
from saccade.lab.claim import PUBLISHED, THEORY, Claim
from saccade.lab.relation import Between, Erratum, Value
from saccade.measures.fits import Interval, furthest
from saccade.theories.condition import Condition
from saccade.theories.statement import Statement

AFTER_TRIAL_RUNS = "after trial runs"


@dataclass(frozen=True)
class Case:
    """What several claims share. `near`, `at_most`, `at_least`, `between`, `none`, `in_order` and
    `erratum` each make one claim; the first five are ways to say an interval.

    `measured` may be a number, an array (its worst value counts, and a missing one is the worst) or
    an `Interval` over seeds or samples (all of it counts).
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    given: Sequence[Condition] = ()
    against: str = THEORY
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

    def but(self, given: Any = None, **settings: Any) -> Case:
        """The same case with other assumptions, or with more settings."""
        given = self.given if given is None else given
        return replace(self, settings={**self.settings, **settings}, given=given)

    def breaking(self, assumption: str | Condition) -> Case:
        """A control: every claim made must fail, since this assumption is broken on purpose.

        It is a condition that is not met, or the name of one among `given`, or of a hypothesis of
        the statement.
        """
        if isinstance(assumption, Condition):
            return replace(self, given=(*self.given, assumption), breaks=assumption.name)
        return replace(self, breaks=assumption)

    def under(self, *ceilings: Ceiling) -> Case:
        """The same case under ceilings: a bound beyond them is inconclusive."""
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
    ) -> Claim:
        """The value furthest from `target` is within a distance of it, absolute (`within`) or as a
        share of it (`relative`).
        """
        if (within is None) == (relative is None):
            raise InputError("`near` needs a tolerance: either `within` or `relative`.")
        aim = _number("target", target)
        reach = relative * abs(aim) if relative is not None else _number("within", within)
        worst = _worst(measured, partial(furthest, target=aim))
        return self._claim(statement, title, Between.near(aim, reach, relative), worst, sentence)

    def at_most(
        self,
        statement: Statement,
        title: str,
        measured: Any,
        bound: float,
        *,
        strict: bool = False,
        sentence: str = "",
    ) -> Claim:
        """The largest value is at most `bound`; below it, if `strict`."""
        relation = Between(high=_number("bound", bound), strict=strict)
        return self._claim(statement, title, relation, _worst(measured, np.max), sentence)

    def at_least(
        self,
        statement: Statement,
        title: str,
        measured: Any,
        bound: float,
        *,
        strict: bool = False,
        sentence: str = "",
    ) -> Claim:
        """The smallest value is at least `bound`; above it, if `strict`."""
        relation = Between(low=_number("bound", bound), strict=strict)
        return self._claim(statement, title, relation, _worst(measured, np.min), sentence)

    def between(
        self,
        statement: Statement,
        title: str,
        measured: Any,
        low: float,
        high: float,
        *,
        sentence: str = "",
    ) -> Claim:
        """Every value lies in [`low`, `high`]."""
        relation = Between(_number("low", low), _number("high", high))
        worst = _worst(measured, partial(furthest, target=(relation.low + relation.high) / 2))
        return self._claim(statement, title, relation, worst, sentence)

    def none(
        self,
        statement: Statement,
        title: str,
        exceptions: ArrayLike,
        *,
        among: int | None = None,
        allowed: int = 0,
        sentence: str = "",
    ) -> Claim:
        """No exceptions to a rule: `exceptions` is a mask, or a count of `among`."""
        n = np.size(exceptions) if among is None else int(_number("among", among))
        count = float(np.sum(_numbers("exceptions", exceptions)))
        if count % 1 or not (np.isnan(count) or 0 <= count <= n):
            raise InputError(
                "`exceptions` must be a mask, or a whole number of `among`; "
                f"got {shortened(exceptions)} among {n}."
            )
        value = count if n else np.nan  # a rule that was never tested is not confirmed
        return self._claim(statement, title, Between(0, allowed, among=n), value, sentence)

    def in_order(
        self, statement: Statement, title: str, values: ArrayLike, *, sentence: str = ""
    ) -> Claim:
        """Values rise along the last axis: neighbours that do not are the exceptions."""
        falls = ~(np.diff(_numbers("values", values)) > 0)
        return self.none(statement, title, falls, sentence=sentence)

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
    ) -> Claim:
        """A printed formula is wrong and its corrected form right, both held against one measured
        value; `number` is the erratum's, needed where the statement has several.
        """
        forms = _number("printed", printed), _number("corrected", corrected)
        relation = correction(statement, *forms, _number("within", within), number)
        value = measured if isinstance(measured, Interval) else _number("measured", measured)
        return self._claim(statement, title, relation, value, sentence)

    def _claim(self, statement: Any, title: Any, relation: Any, value: Any, sentence: str) -> Claim:
        claim = Claim(
            statement=statement,
            title=title,
            relation=relation,
            measured=value,
            sentence=sentence,
            case=self.settings,
            given=_listed("given", self.given, Condition),
            against=self.against,
            breaks=self.breaks,
            ceilings=_listed("ceilings", self.ceilings, Ceiling),
            bound_set=self.bound_set,
        )
        if self.registered_in is not None:
            self.registered_in.append(claim)
        return claim


def correction(
    statement: Statement, printed: float, corrected: float, within: float, number: str = ""
) -> Erratum:
    """The two forms of an erratum of the statement, with its number and its words."""
    known = [one for one in statement.errata if number in ("", one.number)]
    if len(known) != 1:
        raise InputError(
            f"{statement.key} has {len(statement.errata)} errata: give the `number` of one."
        )
    (one,) = known
    return Erratum(printed, corrected, within, one.number, one.said, one.instead)


def _worst(measured: Any, pick: Callable[[np.ndarray], float]) -> Value:
    """What is judged: an interval as it is, of numbers the one that is picked; of none, NaN."""
    if isinstance(measured, Interval):
        return measured
    values = _numbers("measured", measured)
    return float(pick(values)) if values.size else np.nan


def _numbers(name: str, values: Any) -> np.ndarray:
    try:
        return np.asarray(values, float)
    except (TypeError, ValueError):
        message = f"`{name}` of a claim must be numbers; got {shortened(values)}."
        raise InputError(message) from None


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
