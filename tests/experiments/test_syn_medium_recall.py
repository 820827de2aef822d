"""Recall of distinct tokens: every verdict as expected, and every claim able to fail."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

import saccade
from saccade.experiments.scan_and_snap import syn_medium_recall
from saccade.records.claim import FAILS, HOLDS
from tests.experiments.outcomes import assert_as_in_the_readme


@pytest.fixture(scope="module")
def record():
    """One and three query tokens only: the others hold nothing that is compared with a number."""
    return syn_medium_recall.run(syn_medium_recall.Config(n_queries=(1, 3)))


def test_recall_agrees_with_the_replication_and_flattens_with_the_attention_rate(record):
    claims = syn_medium_recall.claims(record)
    assert [claim.statement for claim in claims if claim.verdict != HOLDS] == []
    assert len(claims) == 5
    assert "24 neighbouring pairs" in claims[-1].statement
    assert_as_in_the_readme("syn-medium-recall", claims)


def test_recall_counts_the_distinct_tokens_of_the_query_above_the_threshold():
    task = saccade.SequenceClasses.syn_medium(1)
    logits = np.full((1, 1, 1, task.n_vocab), -9.0)
    logits[..., 10:15] = 0.0  # five of the twenty distinct tokens share all attention
    logits[..., 0] = 0.0  # a common token, not counted
    last = xr.Dataset(
        {"attention_logits": (("rate", "seed", "query", "token"), logits), "loss": (("rate", "seed"), [[0.1]])},
        coords={"query": [30]},
    )
    np.testing.assert_allclose(syn_medium_recall._recall(task, last), 5 / 20)


def test_recall_falls_with_the_threshold_whatever_the_rates(record):
    assert (record.recall.diff("level") <= 0).all()


def test_shifted_and_shuffled_recall_make_the_claims_fail(record):
    shifted = syn_medium_recall.claims(record.assign(recall=record.recall + 0.2))
    assert [claim.verdict for claim in shifted] == [FAILS, FAILS, FAILS, FAILS, HOLDS]
    reordered = record.recall.isel(lr_attention=[3, 2, 1, 0]).assign_coords(lr_attention=record.lr_attention)
    last = syn_medium_recall.claims(record.assign(recall=reordered))[-1]
    assert (last.verdict, last.measured) == (FAILS, 24)


def test_a_diverged_run_is_missing_from_the_table():
    config = syn_medium_recall.Config(n_queries=(1, 2), lr_attention=(1.0, 1e12), ratios=(1.0,), seeds=2, steps=5)
    record = syn_medium_recall.run(config)
    rows = syn_medium_recall.table(record)
    assert {row["n_seeds"] for row in rows} == {0, 2}
    assert {row["recall_mean"] is None for row in rows if row["n_seeds"] == 0} == {True}
    assert len(syn_medium_recall.figure(record).subfigs) == 2


def test_the_figure_has_both_ways_to_look_at_every_setting(record):
    above, below = syn_medium_recall.figure(record).subfigs
    assert len(above.axes) == len(below.axes) == 2 * 4
    assert len(syn_medium_recall.table(record)) == 2 * 16 * record.sizes["level"]
