"""Figures 3 and 9 as curves: verdicts, and that wrong curves fail them."""

from __future__ import annotations

import pytest

from saccade.experiments.scan_and_snap.growth_figures import EXPERIMENT, Settings
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme


@pytest.fixture(scope="module")
def record():
    return record_of("growth-figures")


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    assert len(claims) == 24
    assert [claim.label for claim in claims if claim.verdict != HOLDS] == []
    assert_as_in_the_readme("growth-figures", claims)


def test_curves_that_are_two_thousandths_off_fail(record):
    wrong = record.assign(bound=record.bound + 2e-3, bound_at_snap=record.bound_at_snap + 2e-3)
    assert sum(claim.verdict == FAILS for claim in EXPERIMENT.claims(wrong)) == 14


def test_heights_at_the_snap_that_depend_on_the_rates_fail(record):
    wrong = record.assign(
        bound_at_snap=record.bound_at_snap * (1 + 1e-5 * record.bound_at_snap.curve)
    )
    failed = [claim.title for claim in EXPERIMENT.claims(wrong) if claim.verdict == FAILS]
    assert failed == ["spread of the growth bound at t0 over rates"] * 2


def test_a_wrong_premise_fails_theorem_4_and_its_errata(record):
    wrong = record.assign(
        premise_growth=record.premise_growth + 1e-5, late_crossing=2 * record.late_crossing
    )
    wrong = wrong.assign(premise_distance=1.001 * record.premise_distance)
    assert [claim.verdict for claim in EXPERIMENT.claims(wrong)][-4:] == [FAILS] * 4


def test_another_constant_is_outside_what_was_replicated():
    record = EXPERIMENT.run(Settings(overlap_constant=1.0, n_times=10))
    end = next(claim for claim in EXPERIMENT.claims(record) if claim.title == "growth factor")
    assert end.verdict == OUTSIDE
    assert end.measured == pytest.approx(45, abs=0.5)


def test_table_and_figure_show_all_fourteen_curves(record):
    assert len(EXPERIMENT.rows(record)) == 14 * 40
    assert len(EXPERIMENT.figure(record).axes) == 3
