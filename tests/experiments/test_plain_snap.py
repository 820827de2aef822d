"""What survives of Theorem 4 in plain gradient flow, and that a flow which followed theory would be
seen.
"""

from __future__ import annotations

import json

import pytest

from saccade.experiments.scan_and_snap.plain_snap import EXPERIMENT
from saccade.experiments.scan_and_snap.snap_cases import CaseSettings
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from tests.experiments.default_runs import record_of


@pytest.fixture(scope="module")
def record():
    return record_of("plain-snap")


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    assert [claim.label for claim in claims if not claim.as_expected] == []
    verdicts = [claim.verdict for claim in claims]
    assert [verdicts.count(verdict) for verdict in (HOLDS, FAILS, OUTSIDE)] == [6, 3, 6]
    assert sum(bool(claim.breaks) for claim in claims) == 1


def test_only_claims_at_fast_attention_are_outside_and_only_for_assumption_1c(record):
    outside = [claim for claim in EXPERIMENT.claims(record) if claim.verdict == OUTSIDE]
    assert {condition.name for claim in outside for condition in claim.unmet} == {
        "Assumption 1(c), decoder faster than attention"
    }


def test_a_plain_flow_that_followed_theory_would_contradict_us(record):
    unexpected = [
        claim
        for claim in EXPERIMENT.claims(record.assign(log_growth=record.reduced_growth))
        if not claim.as_expected
    ]
    assert [claim.statement.number for claim in unexpected] == ["coupling of plain descent"] * 2 + [
        "snap under plain descent"
    ]


def test_table_and_figure_show_every_flow(record):
    assert len(EXPERIMENT.rows(record)) == 10 * 200
    assert len(EXPERIMENT.figure(record).axes) == 3


def test_classes_of_which_nothing_can_be_said_give_the_reason(tmp_path):
    path = tmp_path / "classes.csv"
    path.write_text("class,x,y\nA,.2,.8\nB,.6,.4\n")
    record = EXPERIMENT.run(CaseSettings(classes=str(path), t1=1e3, n_times=20))
    assert list(EXPERIMENT.claims(record)) == []
    assert "none is distinct" in json.loads(record.attrs["left_out"])[0]
    assert EXPERIMENT.rows(record)
    assert EXPERIMENT.figure(record)
