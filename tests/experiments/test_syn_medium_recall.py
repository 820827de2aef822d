"""Recall of distinct tokens: every verdict as expected, and every claim able to fail."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

import saccade
from saccade.experiments.scan_and_snap.syn_medium_recall import EXPERIMENT, _recall
from saccade.lab.claim import FAILS, HOLDS
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme


@pytest.fixture(scope="module")
def record():
    """One and three query tokens only: the others hold nothing that is compared with a number."""
    return record_of("syn-medium-recall", n_queries=(1, 3))


def test_recall_agrees_with_the_replication_and_flattens_with_the_attention_rate(record):
    claims = list(EXPERIMENT.claims(record))
    assert [claim.label for claim in claims if claim.verdict != HOLDS] == []
    assert len(claims) == 5
    assert claims[-1].says == "0 exceptions among 24"
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
    np.testing.assert_allclose(_recall(task, last), 5 / 20)


def test_recall_falls_with_the_threshold_whatever_the_rates(record):
    assert (record.recall.diff("level") <= 0).all()


def test_shifted_and_shuffled_recall_make_the_claims_fail(record):
    shifted = EXPERIMENT.claims(record.assign(recall=record.recall + 0.2))
    assert [claim.verdict for claim in shifted] == [FAILS, FAILS, FAILS, FAILS, HOLDS]
    reordered = record.recall.isel(lr_attention=[3, 2, 1, 0]).assign_coords(lr_attention=record.lr_attention)
    last = list(EXPERIMENT.claims(record.assign(recall=reordered)))[-1]
    assert (last.verdict, last.measured) == (FAILS, 24)


def test_a_diverged_run_is_missing_from_the_table():
    record = record_of("syn-medium-recall", n_queries=(1, 2), lr_attention=(1.0, 1e12), ratios=(1.0,), seeds=2, steps=5)
    rows = EXPERIMENT.rows(record)
    assert {row["n_seeds"] for row in rows} == {0, 2}
    assert {row["recall_mean"] is None for row in rows if row["n_seeds"] == 0} == {True}
    assert len(EXPERIMENT.figure(record).axes) == 2 * (2 + 1)


def test_the_figure_has_both_ways_to_look_at_every_setting(record):
    assert [len(row) for row in EXPERIMENT.specs(record)] == [4] * 4
    assert len(EXPERIMENT.rows(record)) == 2 * 16 * record.sizes["level"]
