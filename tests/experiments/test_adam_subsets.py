"""Adam's choice of distinct tokens: every verdict as expected, and every claim able to fail."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.experiments.scan_and_snap.adam_subsets import EXPERIMENT
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme


@pytest.fixture(scope="module")
def record():
    return record_of("adam-subsets")


def test_a_higher_rate_favours_more_frequent_distinct_tokens(record):
    claims = list(EXPERIMENT.claims(record))
    assert [claim.label for claim in claims if not claim.as_expected] == []
    assert [claim.breaks for claim in claims if claim.verdict != HOLDS] == [
        "theory is given the rate"
    ]
    assert len(claims) == 17
    assert_as_in_the_readme("adam-subsets", claims)


def test_rates_in_the_wrong_order_are_seen(record):
    claims = list(EXPERIMENT.claims(record.assign(attention=record.attention.isel(rate=[2, 1, 0]))))
    assert claims[-1].verdict == FAILS
    for said in ("rank of the favoured", "rank of the distinct"):  # of theory, of the replication
        told = [
            claim.verdict for claim in claims if claim.title.startswith(said) and not claim.breaks
        ]
        assert told == [FAILS, HOLDS, FAILS]
    assert [claim.verdict for claim in claims if claim.breaks] == [
        HOLDS
    ]  # the control would not fail


def test_attention_left_on_common_tokens_is_seen(record):
    start = record.attention.isel(time=[0] * record.sizes["time"])
    start = start.assign_coords(time=record.time)
    failing = [
        claim.label
        for claim in EXPERIMENT.claims(record.assign(attention=start))
        if claim.verdict == FAILS
    ]
    assert sum("common" in label for label in failing) == 3


def test_the_table_has_a_row_for_each_rate_class_and_distinct_token(record):
    rows = EXPERIMENT.rows(record)
    assert len(rows) == 3 * 2 * 10
    for lr in (0.1, 0.5, 1.0):
        mine = [row for row in rows if row["lr"] == lr and row["class"] == 1]
        np.testing.assert_allclose(
            sum(row["attention_mean"] for row in mine) + mine[0]["common_mass_mean"], 1, rtol=1e-5
        )
    panels = EXPERIMENT.figure(record).axes
    assert len(panels) == 3
    assert panels[0].get_ylim()[1] > max(row["attention_max"] for row in rows if row["class"] == 1)


def test_other_settings_are_outside_what_was_published():
    record = record_of("adam-subsets", lrs=(0.5,), steps=3, seeds=2)
    assert {claim.verdict for claim in EXPERIMENT.claims(record)} == {OUTSIDE}
