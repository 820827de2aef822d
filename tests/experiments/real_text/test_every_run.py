"""Claims about every run: what seeds that agree, part or are alone decide."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.experiments.real_text.every_run import every_run
from saccade.lab.case import Case
from saccade.lab.claim import FAILS, HOLDS, INCONCLUSIVE
from saccade.theories.questions import DEPTH


@pytest.mark.parametrize(
    ("values", "verdict", "alike"),
    [
        ([0.96, 0.97, 0.98], HOLDS, 1),
        ([0.2, 0.3, 0.25], FAILS, 1),
        ([0.96, 0.5, 0.97], INCONCLUSIVE, 1 / 3),
        ([True, True], HOLDS, 1),
        ([True, False], FAILS, 0),
        ([False, False, True], FAILS, 1 / 3),
        ([False], FAILS, np.nan),
        ([True], INCONCLUSIVE, np.nan),
        ([0.97, np.nan, 0.98], FAILS, 1 / 3),
        ([False, False], FAILS, 1),
        ([0.97], INCONCLUSIVE, np.nan),
    ],
)
def test_one_exception_decides_and_an_interval_to_both_sides_cannot_tell(values, verdict, alike):
    claim = every_run(Case(), DEPTH, "share", values, 0.9)
    assert claim.verdict == verdict
    assert claim.ceilings[0].agreement == pytest.approx(alike, nan_ok=True)


def test_a_bound_that_only_perfect_runs_reach_counts_exceptions():
    claim = every_run(Case(), DEPTH, "share", [1, 0.9, 1], 1)
    assert (claim.verdict, claim.says.split(";")[0]) == (FAILS, "1 exception among 3")
    assert every_run(Case(), DEPTH, "share", [1, 1], 1).verdict == HOLDS
    assert every_run(Case(), DEPTH, "share", [], 1).verdict == INCONCLUSIVE


@pytest.mark.parametrize("values", [[0.89, 0.96, 1], [1, 0.85, 1, 1], [0.6, 1]])
def test_the_size_that_would_do_is_larger(values):
    claim = every_run(Case(), DEPTH, "share", values, 0.9)
    assert claim.verdict == INCONCLUSIVE
    assert float(claim.too_small.split()[1]) > 1


def test_an_interval_ends_where_values_end():
    claim = every_run(Case(), DEPTH, "share", [0.5, 0.9], 0.9)
    assert (claim.measured.low, claim.measured.high) == (0, 1)


def test_of_many_intervals_each_is_wide_enough_for_all_of_them():
    """Three values have two degrees of freedom: 4.303 standard errors for one interval, 10.886 for
    one of six.
    """
    values = [0.95, 0.96, 0.97]
    standard_error = 0.01 / np.sqrt(3)
    alone, one_of_six = (
        every_run(Case(), DEPTH, "share", values, 0.9, among=among) for among in (1, 6)
    )
    assert alone.measured.low == pytest.approx(0.96 - 4.303 * standard_error, abs=1e-5)
    assert one_of_six.measured.low == pytest.approx(0.96 - 10.886 * standard_error, abs=1e-5)
    assert (alone.verdict, one_of_six.verdict) == (HOLDS, INCONCLUSIVE)
