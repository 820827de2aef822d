"""Headline numbers: the same as in the table or the claims, under names that say which cell they
belong to.
"""

from __future__ import annotations

import numpy as np

from saccade.experiments import experiment
from saccade.lab.protocol import by_cell


def run(name: str, **settings) -> tuple:
    asked = experiment(name)
    record = asked.run(asked.settings(**settings))
    return asked, record, asked.headlines(record)


def test_cells_are_named_by_the_axes_that_have_several_and_diverged_runs_do_not_count() -> None:
    values = np.array([[[1.0, np.nan]], [[2.0, 4.0]], [[np.nan, np.nan]]])
    found = by_cell({"loss": values}, {"ratio": [1.0, 10.0, 0.5], "law": ["paper"]})
    assert list(found) == ["loss, ratio 1", "loss, ratio 10", "loss, ratio 0.5"]
    np.testing.assert_equal(list(found.values()), [1.0, 3.0, np.nan])
    assert by_cell({"loss": values[:1]}, {"ratio": [1.0], "law": ["paper"]}) == {"loss": 1.0}


def test_syn_small_attention_has_the_last_rows_of_its_table() -> None:
    asked, record, found = run("syn-small-attention", batch=17, context=11, seeds=3)
    for ratio in (1.0, 10.0):
        rows = [
            row for row in asked.rows(record) if row["ratio"] == ratio and row["iteration"] == 48
        ]
        assert len(rows) == 2
        for name in ("common_mass", "distinct_entropy", "loss"):
            np.testing.assert_allclose(
                found[f"{name}, ratio {ratio:g}"],
                np.mean([row[f"{name}_mean"] for row in rows]),
                rtol=1e-5,
            )
        assert found[f"diverged, ratio {ratio:g}"] == 0


def test_syn_medium_has_the_means_of_its_tables_and_counts_what_diverged() -> None:
    settings = {
        "n_queries": (1,),
        "lr_attention": (1.0, 1e12),
        "ratios": (2.0,),
        "steps": 5,
        "batch": 17,
        "context": 11,
        "seeds": 2,
    }
    asked, record, found = run("syn-medium-entropy", **settings)
    np.testing.assert_allclose(
        found["entropy, lr_attention 1"], asked.rows(record)[0]["entropy_mean"], rtol=1e-6
    )
    assert np.isnan(found["entropy, lr_attention 1e+12"])
    assert (found["diverged, lr_attention 1"], found["diverged, lr_attention 1e+12"]) == (0, 1)
    low, high = (asked.rows(record)[0][f"recall_at_{end}_mean"] for end in ("lowest", "highest"))
    np.testing.assert_allclose(found["recall_at_lowest, lr_attention 1"], low)
    np.testing.assert_allclose(found["recall_at_highest, lr_attention 1"], high)
    np.testing.assert_allclose(found["recall_fall, lr_attention 1"], low - high)
