"""Attention on Syn-Small: every verdict as expected, and none for settings that were not published."""

from __future__ import annotations

import pytest

from saccade.experiments.scan_and_snap.syn_small_attention import EXPERIMENT
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme


@pytest.fixture(scope="module")
def record():
    return record_of("syn-small-attention")


def test_loss_and_attention_agree_with_the_published_log_and_the_replication(record):
    claims = list(EXPERIMENT.claims(record))
    assert len(claims) == 10
    assert [claim.label for claim in claims if claim.verdict != HOLDS] == []
    assert_as_in_the_readme("syn-small-attention", claims)


def test_a_loss_a_fifth_too_high_and_attention_that_stays_are_seen(record):
    higher = EXPERIMENT.claims(record.assign(loss=1.2 * record.loss))
    assert [claim.verdict for claim in higher if claim.title == "loss"] == [FAILS] * 6
    start = record.attention.isel(time=[0] * record.sizes["time"]).assign_coords(time=record.time)
    still = EXPERIMENT.claims(record.assign(attention=start))
    assert [claim.verdict for claim in still if claim.title != "loss"] == [FAILS] * 4


def test_other_settings_are_outside_what_was_published():
    record = record_of("syn-small-attention", momentum=0.0, seeds=2, ratios=(1.0,))
    assert {claim.verdict for claim in EXPERIMENT.claims(record)} == {OUTSIDE}


def test_stacked_bars_share_out_all_of_the_attention(record):
    bars = EXPERIMENT.specs(record)[0][0]
    assert bars["stacked"]
    totals = [
        sum(group["values"][step] for group in bars["groups"])
        for step in range(len(bars["labels"]))
    ]
    assert totals == pytest.approx([1.0] * len(totals), abs=1e-5)
