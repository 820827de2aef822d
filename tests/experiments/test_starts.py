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
    assert len(EXPERIMENT.figure(record).axes) == 3


def test_a_logit_one_part_in_ten_thousand_off_breaks_the_relation(record):
    z = record.reduced_logits.copy(deep=True)
    z[:, -1, 12] += 1e-4
    assert unexpected(record.assign(reduced_logits=z)) == {"relative gain from any start"}


def test_tokens_that_went_the_other_way_and_a_decoder_that_recovered_would_be_seen(record):
    back = record.assign(plain_logits=-record.plain_logits, wrong_loss=0 * record.wrong_loss)
    assert {"fates from any start", "wrong decoder"} <= unexpected(back)
