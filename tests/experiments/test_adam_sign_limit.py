"""Adam explained: every verdict as expected, and every claim able to fail."""

from __future__ import annotations

import pytest

from saccade.experiments.scan_and_snap.adam_sign_limit import EXPERIMENT
from saccade.lab.claim import FAILS, HOLDS
from tests.experiments.default_runs import record_of


@pytest.fixture(scope="module")
def record():
    return record_of("adam-sign-limit")


def failing(record):
    return {
        claim.title
        for claim in EXPERIMENT.claims(record)
        if claim.verdict == FAILS and not claim.breaks
    }


def test_theory_names_the_winners_and_the_controls_fail(record):
    claims = list(EXPERIMENT.claims(record))
    assert [claim.label for claim in claims if not claim.as_expected] == []
    assert sum(claim.verdict == HOLDS for claim in claims) == 18
    assert {
        claim.case["updates"] for claim in claims if claim.verdict == FAILS and not claim.breaks
    } == {1000, "all lengths"}
    assert sum(bool(claim.breaks) for claim in claims) == 4
    assert len(EXPERIMENT.figure(record).axes) == 4


def test_rates_in_the_wrong_order_are_seen(record):
    """All four kinds of claim on Adam are about how its rate chooses; the rank is missed at every
    length.
    """
    swapped = {
        name: record[name].copy(data=record[name].isel(rate=slice(None, None, -1)).values)
        for name in ("attention", "first_move")
    }
    swapped["other_attention"] = record.other_attention.copy(
        data=record.other_attention.isel(rate=slice(None, None, -1)).values
    )
    assert len(failing(record.assign(swapped))) == 4
    seen = [
        claim
        for claim in EXPERIMENT.claims(record.assign(swapped))
        if claim.verdict == FAILS and "one rank" in claim.title
    ]
    assert len(seen) == record.sizes["update"] + 1


def test_lengths_of_training_in_the_wrong_order_are_seen(record):
    swapped = record.attention.copy(data=record.attention.values[::-1])
    assert "attention on the predicted favourite / on the actual one, smallest" in failing(
        record.assign(attention=swapped)
    )


def test_order_by_frequency_alone_is_not_what_theory_says(record):
    """What SGD does: attention as before training."""
    start = (
        (record.token_share / record.token_share.sum())
        .broadcast_like(record.attention)
        .transpose(*record.attention.dims)
    )
    assert len(failing(record.assign(attention=start))) == 3


def test_after_a_short_training_rows_alike_are_no_control():
    record = record_of("adam-sign-limit", updates=(100,), n_rates=5, momentum_rates=(0.005, 1.0))
    assert [claim.label for claim in EXPERIMENT.claims(record) if not claim.as_expected] == []


def test_an_error_as_large_as_plain_descents_is_not_momentums(record):
    titles = failing(record.assign(gap_ratio=record.gap_ratio * 0 + 1)) - failing(record)
    assert titles == {"error of momentum / error of plain descent at rate η/(1 - μ)"}
