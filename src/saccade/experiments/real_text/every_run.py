"""A claim about every run of an experiment, with how far two seeds agree beside it.

Yes or no, a bound that only perfect runs reach, and runs without a value are counted: one exception
refutes the claim. Other values are judged by their interval over seeds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from saccade.lab.case import Case
from saccade.lab.ceiling import Ceiling
from saccade.lab.claim import Claim
from saccade.measures.fits import Interval, agreement, interval
from saccade.theories.statement import Statement

CONFIDENCE = 0.95
CORRELATION = (-1.0, 1.0)  # what such a score can be
SHARE = (0.0, 1.0)


def every_run(
    case: Case,
    statement: Statement,
    title: str,
    values: Any,
    bound: float,
    *,
    possible: tuple[float, float] = (0.0, 1.0),
    among: int = 1,
) -> Claim:
    """At least `bound` in every run. One run alone can refute it, and not show it.

    `possible`: the lowest and the highest that a value can be. An interval ends there too; if only
    the highest will do, or a value is missing, exceptions are counted instead. `among`: how many
    intervals an experiment shows, which together cover all their means with 95 % [Bonferroni].
    """
    of_runs = np.asarray(values, float)
    kept = of_runs >= bound
    if np.asarray(values).dtype == bool or bound >= possible[1] or np.isnan(of_runs).any():
        counted = case.under(of_every_run(kept))
        return counted.none(statement, title, ~kept)
    measured = cut(interval(of_runs, 1 - (1 - CONFIDENCE) / among), possible)
    return case.under(same_answer(kept)).at_least(statement, title, measured, bound)


def cut(found: Interval, possible: tuple[float, float]) -> Interval:
    """An interval that ends where values do. NaN stays."""
    return Interval(found.mean, *np.clip(found[1:], *possible).tolist())


def every_run_near(
    case: Case,
    statement: Statement,
    title: str,
    values: Any,
    target: float,
    *,
    within: float,
) -> Claim:
    """Within `within` of a target, over the whole interval over runs; a run without a value is an
    exception.
    """
    of_runs = np.asarray(values, float)
    measured = of_runs if np.isnan(of_runs).any() else interval(of_runs)
    asked = case.under(same_answer(np.abs(of_runs - target) <= within))
    return asked.near(statement, title, measured, target, within=within)


def same_answer(answers: Any, limits: bool = False, of: str = "seeds") -> Ceiling:
    """Share of pairs of seeds that answer alike (seed, ...)."""
    alike = agreement(np.asarray(answers, float), lambda one, other: float(np.mean(one == other)))
    return Ceiling(f"pairs of {of} that answer alike", alike, more=of, limits=limits)


def of_every_run(kept: Any) -> Ceiling:
    """For what must be true of every run. Two runs without exception answer alike, so only a single
    run is limited by it.
    """
    return same_answer(kept, limits=len(kept) < 2 and bool(np.all(kept)))
