"""Figures 3 and 9 as curves: verdicts, and that wrong curves fail them."""

from __future__ import annotations

import pytest

from saccade.experiments.scan_and_snap import growth_figures
from saccade.records.claim import FAILS, HOLDS, OUTSIDE
from tests.experiments.outcomes import assert_as_in_the_readme


@pytest.fixture(scope="module")
def record():
    return growth_figures.run(growth_figures.Config())


def test_every_verdict_is_the_expected_one(record):
    claims = growth_figures.claims(record)
    assert len(claims) == 20
    assert [claim.statement for claim in claims if claim.verdict != HOLDS] == []
    assert_as_in_the_readme("growth-figures", claims)


def test_curves_that_are_two_thousandths_off_fail(record):
    wrong = record.assign(bound=record.bound + 2e-3, bound_at_snap=record.bound_at_snap + 2e-3)
    assert sum(claim.verdict == FAILS for claim in growth_figures.claims(wrong)) == 14


def test_heights_at_the_snap_that_depend_on_the_rates_fail(record):
    wrong = record.assign(bound_at_snap=record.bound_at_snap * (1 + 1e-5 * record.bound_at_snap.curve))
    failed = [claim.statement for claim in growth_figures.claims(wrong) if claim.verdict == FAILS]
    assert len(failed) == 2
    assert all(text.startswith("spread") for text in failed)


def test_another_constant_is_outside_what_was_replicated():
    record = growth_figures.run(growth_figures.Config(overlap_constant=1.0, n_times=10))
    end = next(claim for claim in growth_figures.claims(record) if "growth factor" in claim.statement)
    assert end.verdict == OUTSIDE
    assert end.measured == pytest.approx(45, abs=0.5)


def test_table_and_figure_show_all_fourteen_curves(record):
    assert len(growth_figures.table(record)) == 14 * 40
    assert len(growth_figures.figure(record).axes) == 3
