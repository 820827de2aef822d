"""The poster's pictures as events: every verdict as expected, and flows that behaved otherwise
would be seen.
"""

from __future__ import annotations

import pytest

from saccade.experiments.scan_and_snap.four_stages import EXPERIMENT
from saccade.report.specs import figures
from tests.experiments.default_runs import record_of


@pytest.fixture(scope="module")
def record():
    return record_of("four-stages")


def wrong(record):
    return {claim.title for claim in EXPERIMENT.claims(record) if not claim.as_expected}


def test_every_verdict_is_the_expected_one(record):
    assert wrong(record) == set()
    assert len(EXPERIMENT.figure(record).axes) == 4


def test_attention_is_shown_over_its_own_time_beside_theory(record):
    shown = {figure["name"]: figure for figure in figures(record)}["attention"]
    assert (shown["time_label"], shown["theory"], shown["names"][1][9:11]) == (
        "time",
        ["theory"],
        ["c10", "d1"],
    )
    times = record.steps.sel(task="Syn-Medium", ratio=1).values
    assert shown["time"] == pytest.approx(times)


def test_a_plain_flow_like_the_theorys_would_be_seen(record):
    times = record.event_time.copy(deep=True)
    times.loc[{"flow": "B"}] = times.sel(flow="C").values
    seen = wrong(record.assign(event_time=times))
    assert seen == {"plain flow reaches the stages that theory says, and no others"}


def test_stages_out_of_order_in_the_theorys_flow_would_be_seen(record):
    times = record.event_time.copy(data=record.event_time.values[..., ::-1])
    assert "all stages come, in order" in wrong(record.assign(event_time=times))


def test_a_winner_with_weak_overlaps_and_a_freeze_with_slow_attention_would_be_seen(record):
    times = record.event_time.fillna(1e12)
    assert {"a winner emerges, at every ratio", "attention freezes by the end"} <= wrong(
        record.assign(event_time=times)
    )


def test_a_lead_a_twentieth_larger_than_theory_says_would_be_seen(record):
    assert wrong(record.assign(lead=1.05 * record.lead)) == {
        "largest lead of the top distinct token: error of theory, relative"
    }
