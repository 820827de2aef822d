"""Plain descent against its own theory: every verdict as expected, and each kind of claim able to fail."""

from __future__ import annotations

import pytest

from saccade.experiments.scan_and_snap.plain_descent import EXPERIMENT
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from tests.experiments.default_runs import record_of


@pytest.fixture(scope="module")
def record():
    return record_of("plain-descent")


def unexpected(record):
    return {claim.statement.number for claim in EXPERIMENT.claims(record) if not claim.as_expected}


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    assert [claim.label for claim in claims if not claim.as_expected] == []
    assert [sum(claim.verdict == verdict for claim in claims) for verdict in (HOLDS, FAILS, OUTSIDE)] == [24, 4, 1]
    assert len(EXPERIMENT.figure(record).axes) == 4


def test_a_coupling_like_theorem_1s_would_contradict_us(record):
    like = record.assign(coupling=record.coupling * 0 + record.paper_coupling)
    assert unexpected(like) == {"coupling of plain descent, any overlaps", "coupling of plain descent"}


def test_growth_that_froze_like_theory_says_would_contradict_us(record):
    frozen = record.gap.copy(deep=True)
    frozen.loc["weak, fast attention"] = record.reduced_fall.values
    assert unexpected(record.assign(gap=frozen)) == {"growth under plain descent"}


def test_strong_classes_that_never_snap_would_be_seen(record):
    gap = record.gap.copy(deep=True)
    gap.loc["strong, fast attention"] = record.steps.sel(case="strong, fast attention").values ** 1e-3
    assert "when plain descent snaps" in unexpected(record.assign(gap=gap))


def test_the_snap_is_the_last_maximum_of_growth_and_not_that_of_the_scan(record):
    """Each overlap for itself: growth that only fell after the scan, or went on to grow, is not as predicted."""
    for feature in record.snap_feature.values:
        at = record.snap_feature == feature
        for slope in (-1e-3, 1e-3):
            wrong = record.snap_rate.where(~at, 1 + slope * record.snap_height)
            assert unexpected(record.assign(snap_rate=wrong)) == {"when plain descent snaps"}


def test_growth_is_asked_of_classes_on_which_nothing_was_set(record):
    for name in record.held_out.values:
        wrong = record.held_growth.where(record.held_out != name, 0.7 * record.held_growth)
        assert unexpected(record.assign(held_growth=wrong)) == {"growth under plain descent"}


def test_unequal_classes_whose_distinct_tokens_all_rose_would_contradict_us(record):
    assert unexpected(record.assign(falling=0 * record.falling)) == {"rate ratio, classes not alike"}
    assert unexpected(record.assign(wrong_sign=record.wrong_sign + 1)) == {"plain descent with memory"}
