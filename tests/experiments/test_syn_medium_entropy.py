"""Entropy over the 640 runs: every verdict as expected, and every claim able to fail."""

from __future__ import annotations

import pytest

from saccade.experiments.scan_and_snap.syn_medium_entropy import EXPERIMENT
from saccade.lab.claim import FAILS, HOLDS
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme


@pytest.fixture(scope="module")
def record():
    return record_of("syn-medium-entropy")


def test_entropies_agree_with_the_published_values(record):
    claims = list(EXPERIMENT.claims(record))
    assert len(claims) == 9
    assert [claim.label for claim in claims if claim.verdict != HOLDS] == []
    assert (record.stop_reason == "finished").all()
    assert_as_in_the_readme("syn-medium-entropy", claims)


def test_the_table_has_a_row_for_each_of_the_64_settings(record):
    rows = EXPERIMENT.rows(record)
    assert len(rows) == 64
    assert list(rows[0]) == ["n_queries", "lr_attention", "ratio", "entropy_mean", "entropy_std", "n_seeds"]
    assert {row["n_seeds"] for row in rows} == {10}


def test_wrong_entropies_make_the_claims_fail(record):
    """Shift, then turn upside down."""
    shifted = [claim.verdict for claim in EXPERIMENT.claims(record.assign(entropy=record.entropy + 0.2))]
    assert shifted.count(FAILS) == 4
    upside_down = EXPERIMENT.claims(record.assign(entropy=2 * record.entropy.mean() - record.entropy))
    assert all(claim.verdict == FAILS for claim in upside_down)


def test_a_diverged_run_is_missing_from_the_table_and_named_in_the_figure():
    record = record_of("syn-medium-entropy", n_queries=(1,), lr_attention=(1.0, 1e12), ratios=(1.0, 2.0), seeds=2, steps=5)
    assert {row["n_seeds"] for row in EXPERIMENT.rows(record)} == {0, 2}
    (panel,) = EXPERIMENT.specs(record)[0]
    assert "diverged" in panel["title"]
    measured = [series for series in panel["series"] if series["name"].startswith("η_Z")]
    assert [len(series["y"]) for series in measured] == [2, 0]
