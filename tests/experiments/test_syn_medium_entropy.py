"""Entropy and recall over the 640 runs: every verdict as expected, and every claim able to fail."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

import saccade
from saccade.experiments.scan_and_snap.syn_medium_entropy import EXPERIMENT, _recall
from saccade.lab.claim import FAILS, HOLDS
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme


@pytest.fixture(scope="module")
def record():
    return record_of("syn-medium-entropy")


def test_entropies_agree_with_the_published_values(record):
    claims = list(EXPERIMENT.claims(record))
    assert len(claims) == 14
    assert [claim.label for claim in claims if claim.verdict != HOLDS] == []
    assert (record.stop_reason == "finished").all()
    assert_as_in_the_readme("syn-medium-entropy", claims)


def test_the_table_has_a_row_for_each_of_the_64_settings(record):
    rows = EXPERIMENT.rows(record)
    assert len(rows) == 64
    means = [
        f"{name}_{of}"
        for name in ("entropy", "recall_at_lowest", "recall_at_highest")
        for of in ("mean", "std")
    ]
    assert list(rows[0]) == [
        "n_queries",
        "lr_attention",
        "ratio",
        *means[:2],
        "n_seeds",
        *means[2:],
    ]
    assert {row["n_seeds"] for row in rows} == {10}


def test_wrong_entropies_make_the_claims_fail(record):
    """Shift, then turn upside down."""
    shifted = [
        claim.verdict for claim in EXPERIMENT.claims(record.assign(entropy=record.entropy + 0.2))
    ]
    assert shifted.count(FAILS) == 4
    upside_down = EXPERIMENT.claims(
        record.assign(entropy=2 * record.entropy.mean() - record.entropy)
    )
    assert all(
        (claim.verdict == FAILS) == (claim.statement.number == "Fig. 6") for claim in upside_down
    )


def test_a_diverged_run_is_missing_from_the_table_and_named_in_the_figure():
    record = record_of(
        "syn-medium-entropy",
        n_queries=(1,),
        lr_attention=(1.0, 1e12),
        ratios=(1.0, 2.0),
        seeds=2,
        steps=5,
    )
    assert {row["n_seeds"] for row in EXPERIMENT.rows(record)} == {0, 2}
    panel = EXPERIMENT.specs(record)[0][0]
    assert {
        row["recall_at_lowest_mean"] is None
        for row in EXPERIMENT.rows(record)
        if row["n_seeds"] == 0
    } == {True}
    assert "diverged" in panel["title"]
    measured = [series for series in panel["series"] if series["name"].startswith("η_Z")]
    assert [len(series["y"]) for series in measured] == [2, 0]


def test_recall_counts_the_distinct_tokens_of_the_query_above_the_threshold():
    task = saccade.SequenceClasses.syn_medium(1)
    logits = np.full((1, 1, 1, task.n_vocab), -9.0)
    logits[..., 10:15] = 0.0  # five of the twenty distinct tokens share all attention
    logits[..., 0] = 0.0  # a common token, not counted
    last = xr.Dataset(
        {
            "attention_logits": (("rate", "seed", "query", "token"), logits),
            "loss": (("rate", "seed"), [[0.1]]),
        },
        coords={"query": [30]},
    )
    np.testing.assert_allclose(_recall(task, last), 5 / 20)


def test_recall_falls_with_the_threshold_whatever_the_rates(record):
    assert (record.recall.diff("level") <= 0).all()


def test_shifted_and_shuffled_recall_make_the_claims_fail(record):
    shifted = [
        claim
        for claim in EXPERIMENT.claims(record.assign(recall=record.recall + 0.2))
        if claim.verdict == FAILS
    ]
    assert [claim.statement.number for claim in shifted] == ["Fig. 11"] * 4
    reordered = record.recall.isel(lr_attention=[3, 2, 1, 0]).assign_coords(
        lr_attention=record.lr_attention
    )
    (last,) = (
        claim
        for claim in EXPERIMENT.claims(record.assign(recall=reordered))
        if claim.statement.number == "Fig. 12"
    )
    assert (last.verdict, last.measured) == (FAILS, 48)


def test_the_figure_shows_each_task_and_both_sides_of_recall(record):
    assert [len(row) for row in EXPERIMENT.specs(record)] == [2, 2, 2]
