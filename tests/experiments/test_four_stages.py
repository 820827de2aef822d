"""The poster's pictures as events: every verdict as expected, and a plain flow like the theory's would be seen."""

from __future__ import annotations

import pytest

from saccade.experiments.scan_and_snap.four_stages import CASES, EXPERIMENT
from tests.experiments.default_runs import record_of


@pytest.fixture(scope="module")
def record():
    return record_of("four-stages")


def test_every_verdict_is_the_expected_one(record):
    assert [claim.label for claim in EXPERIMENT.claims(record) if not claim.as_expected] == []
    assert len(EXPERIMENT.figure(record).axes) == 3


def test_stages_out_of_order_or_in_plain_flow_would_be_seen(record):
    times = record.event_time.copy(deep=True)
    times.loc[CASES[0]] = times.loc[CASES[0]].values[::-1]
    times.loc[CASES[1]] = [1.0, 2.0, 3.0]
    wrong = [claim.case["flow"] for claim in EXPERIMENT.claims(record.assign(event_time=times)) if not claim.as_expected]
    assert wrong == [CASES[0], CASES[1]]
