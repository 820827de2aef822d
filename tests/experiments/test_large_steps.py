"""Steps of SGD: every verdict as expected, and a border elsewhere would be seen."""

from __future__ import annotations

import pytest

from saccade.experiments.scan_and_snap.large_steps import EXPERIMENT
from tests.experiments.default_runs import record_of


@pytest.fixture(scope="module")
def record():
    return record_of("large-steps")


def unexpected(record):
    return {claim.statement.number for claim in EXPERIMENT.claims(record) if not claim.as_expected}


def test_every_verdict_is_the_expected_one(record):
    assert unexpected(record) == set()
    assert len(EXPERIMENT.figure(record).axes) == 2


def test_a_border_of_sgd_elsewhere_would_be_seen(record):
    """Just below the limit none may be lost; above it, the border is where it was found."""
    for multiple, mass in ((0.8, 1.0), (1.2, 1.0), (2.3, 1.0), (2.75, 0.4)):
        moved = record.limit_mass.where(record.limit != multiple, mass)
        wrong = record.limit_wrong_way.where(record.limit != multiple, 0.0)
        assert unexpected(record.assign(limit_mass=moved, limit_wrong_way=wrong)) == {
            "large steps of attention"
        }


def test_sgd_that_kept_the_scan_where_steps_overshoot_would_be_seen(record):
    kept = record.assign(sgd_mass=0 * record.sgd_mass + 0.4, sgd_wrong_way=0 * record.sgd_wrong_way)
    assert "large steps of attention" in unexpected(kept)


def test_a_larger_decoder_rate_that_slowed_convergence_would_be_seen(record):
    slower = record.held_converged.copy(data=record.held_converged.values[::-1])
    assert unexpected(record.assign(held_converged=slower)) == {"rate ratio, classes alike"}


def test_ratios_at_which_nothing_breaks_give_no_surprise():
    record = record_of("large-steps", ratios=(0.1, 1.0, 10.0), seeds=1, limits=(0.8,))
    assert unexpected(record) == set()
    assert not [claim for claim in EXPERIMENT.claims(record) if claim.breaks]
