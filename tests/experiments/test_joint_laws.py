"""JoMA's laws: every verdict as expected, and every claim able to fail."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.experiments.scan_and_snap.joint_laws import EXPERIMENT
from saccade.lab.claim import FAILS, HOLDS, PUBLISHED
from tests.experiments.default_runs import record_of


@pytest.fixture(scope="module")
def record():
    return record_of("joint-laws")


def failing(record):
    return [
        claim.title
        for claim in EXPERIMENT.claims(record)
        if claim.verdict == FAILS and not claim.breaks
    ]


def test_the_laws_hold_and_each_broken_assumption_breaks_them(record):
    claims = list(EXPERIMENT.claims(record))
    assert [claim.label for claim in claims if not claim.as_expected] == []
    assert sum(claim.verdict == HOLDS for claim in claims) == 16
    assert sum(bool(claim.breaks) for claim in claims) == 3
    assert len(EXPERIMENT.figure(record).axes) == 4
    published = [claim for claim in claims if claim.against == PUBLISHED]
    assert [claim.title for claim in published][:2] == [
        f"entropy of attention {when}, nats" for when in ("at its minimum", "at the end")
    ]
    assert len(published) == 3
    assert all("25 candidates" in claim.sentence for claim in published)


def test_logits_that_do_not_follow_the_weights_are_seen(record):
    other = record.logits.copy(data=np.roll(record.logits.values, 4, axis=1))
    assert failing(record.assign(logits=other)) == [
        "correlation of logits with those predicted from the weights above"
    ]


def test_a_percent_of_drift_in_the_weights_is_seen(record):
    assert len(failing(record.assign(weight=1.01 * record.weight))) == 1
    assert (
        len(failing(record.assign(log_distance=1.01 * record.log_distance))) == 1
    )  # the delay; ratios stay
    assert len(failing(record.assign(drift=record.drift + 1e-3))) == 3


def test_entropy_that_does_not_return_is_seen(record):
    falling = record.entropy.copy(data=np.minimum.accumulate(record.entropy.values))
    assert failing(record.assign(entropy=falling)) == ["entropy of attention at the end, nats"]
    assert (
        len(failing(record.assign(settled=record.settled.copy(data=record.settled.values[::-1]))))
        == 1
    )
