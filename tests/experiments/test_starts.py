"""Other starts than zero: every verdict as expected, and each kind of claim able to fail."""

from __future__ import annotations

import pytest

from saccade.experiments.scan_and_snap.starts import EXPERIMENT
from tests.experiments.default_runs import record_of


@pytest.fixture(scope="module")
def record():
    return record_of("starts")


def unexpected(record):
    return {claim.statement.number for claim in EXPERIMENT.claims(record) if not claim.as_expected}


def test_every_verdict_is_the_expected_one(record):
    assert unexpected(record) == set()
    assert len(EXPERIMENT.figure(record).axes) == 4


def test_a_logit_one_part_in_ten_thousand_off_breaks_the_relation(record):
    z = record.reduced_logits.copy(deep=True)
    z[:, -1, 12] += 1e-4
    assert unexpected(record.assign(reduced_logits=z)) == {"relative gain from any start"}


def test_a_plain_flow_in_which_distinct_tokens_always_rose_would_contradict_us(record):
    like = record.assign(plain_logits=record.reduced_logits)
    assert unexpected(like) == {"fates from any start", "plain descent with memory"}


def test_a_start_that_did_not_act_like_frequencies_would_be_seen(record):
    assert unexpected(record.assign(frequency_gap=record.frequency_gap + 1e-5)) == {
        "a start is other frequencies"
    }


def test_recovery_that_took_as_long_from_any_strength_or_never_came_would_be_seen(record):
    other = record.recovery.where(record.classes == "Syn-Medium", 1.2 * record.recovery)
    for wrong in (
        other,
        0 * record.recovery + 5,
        record.recovery.where(record.depth < record.depth.max()),
        1.2 * record.recovery,
    ):
        assert unexpected(record.assign(recovery=wrong)) == {"wrong decoder"}
