"""Rate ratios: every verdict as expected, and a flow that broke as the summary says would be seen."""

from __future__ import annotations

import pytest

from saccade.experiments.scan_and_snap.break_conditions import EXPERIMENT
from tests.experiments.default_runs import record_of


@pytest.fixture(scope="module")
def record():
    return record_of("break-conditions")


def unexpected(record):
    return {claim.statement.number for claim in EXPERIMENT.claims(record) if not claim.as_expected}


def test_every_verdict_is_the_expected_one(record):
    assert unexpected(record) == set()
    assert len(EXPERIMENT.figure(record).axes) == 3


def test_a_flow_that_stood_still_below_ratio_one_would_confirm_the_summary(record):
    mass = record.plain_mass.copy(deep=True)
    mass[:2] = mass.values[:2, :1]
    seen = unexpected(record.assign(plain_mass=mass))
    assert seen == {"slow decoder", "rate ratio under plain descent", "plain descent with memory"}


def test_sgd_that_kept_the_scan_at_large_steps_would_be_seen(record):
    kept = record.assign(sgd_mass=0 * record.sgd_mass + 0.4, sgd_wrong_way=0 * record.sgd_wrong_way)
    assert "large steps of attention" in unexpected(kept)
