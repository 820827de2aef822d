"""Coupling of classes under plain descent: every verdict as expected, and one like Theorem 1's
would be seen.
"""

from __future__ import annotations

import pytest

from saccade.experiments.scan_and_snap.plain_coupling import EXPERIMENT
from tests.experiments.default_runs import record_of


@pytest.fixture(scope="module")
def record():
    return record_of("plain-coupling")


def unexpected(record):
    return {claim.statement.number for claim in EXPERIMENT.claims(record) if not claim.as_expected}


def test_every_verdict_is_the_expected_one(record):
    assert unexpected(record) == set()
    assert len(EXPERIMENT.figure(record).axes) == 1


def test_a_coupling_like_theorem_1s_would_contradict_us(record):
    like = record.assign(coupling=record.coupling * 0 + record.paper_coupling)
    assert unexpected(like) == {
        "coupling of plain descent, any overlaps",
        "coupling of plain descent",
    }


def test_an_early_form_that_held_to_the_end_would_contradict_us(record):
    assert unexpected(record.assign(early_coupling=record.coupling)) == {
        "coupling of plain descent, any overlaps"
    }
