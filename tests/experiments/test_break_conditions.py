"""Rate ratios: every verdict as expected, and a flow that broke, or kept whole, where theory does
not say so would be seen.
"""

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
    assert seen == {"slow decoder", "rate ratio, classes alike", "plain descent with memory"}


def test_distinct_tokens_that_rise_in_unequal_classes_would_contradict_us(record):
    """As in the theory's flow: the broken assumption breaks nothing, and no token has turned."""
    risen = record.assign(unequal_logits=record.unequal_reduced)
    seen = {
        "slow decoder",
        "rate ratio, classes alike",
        "rate ratio, classes not alike",
        "when a token turns",
    }
    assert unexpected(risen) == seen | {"plain descent with memory", "order under plain descent"}


def test_a_turn_at_another_height_would_put_the_border_elsewhere(record):
    assert unexpected(record.assign(equal_rates_turn=0.5 * record.equal_rates_turn)) >= {
        "when a token turns"
    }


def test_ratios_at_which_nothing_breaks_give_no_surprise():
    assert unexpected(record_of("break-conditions", ratios=(0.1, 1.0, 10.0))) == set()
