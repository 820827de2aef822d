"""Both laws of the first movement of attention, and that a law which is off would be seen."""

from __future__ import annotations

import pytest

from saccade.experiments.scan_and_snap.first_force import EXPERIMENT
from saccade.lab.claim import FAILS, HOLDS
from tests.experiments.default_runs import record_of


@pytest.fixture(scope="module")
def record():
    return record_of("first-force")


def unexpected(record):
    return {claim.statement.number for claim in EXPERIMENT.claims(record) if not claim.as_expected}


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    assert unexpected(record) == set()
    verdicts = [claim.verdict for claim in claims]
    assert [verdicts.count(verdict) for verdict in (HOLDS, FAILS)] == [16, 2]


def test_laws_that_are_off_are_seen(record):
    assert unexpected(record.assign(law=1.02 * record.law)) >= {"first force"}
    assert unexpected(record.assign(law_next=record.law)) == {"clock of the first force"}
    assert unexpected(record.assign(decoder_first=1.1 * record.decoder_first)) >= {"decoder first"}
    assert unexpected(record.assign(told_error=2 * record.told_error)) >= {"error of decoder first"}
    assert unexpected(record.assign(force=-record.force)) == {"first force of classes"}


def test_figure_and_table_can_be_made(record):
    assert len(EXPERIMENT.figure(record).axes) == 3
    assert EXPERIMENT.rows(record)
