"""Figs. 4, 6, 11 and 12: what is measured, and what changed settings do to the claims."""

from __future__ import annotations

import numpy as np
import xarray as xr

import saccade
from saccade.experiments.scan_and_snap.published_figures import last_step, published_figures
from saccade.lab.claim import HOLDS, UNMET

TINY = {"n_queries": (1,), "steps": 3, "batch": 16, "context": 11, "seeds": 2, "start_seeds": 2}


def test_recall_counts_the_distinct_tokens_of_the_query_above_the_threshold():
    task = saccade.SequenceClasses.syn_medium(1)
    logits = np.full((1, 1, 1, task.n_vocab), -9.0)
    logits[..., 10:15] = 0.0  # five of the twenty distinct tokens share all attention
    logits[..., 0] = 0.0  # a common token, not counted
    attention = np.full((1, 1, task.n_classes, task.n_vocab), 1 / task.n_vocab)
    last = xr.Dataset(
        {
            "attention_logits": (("rate", "seed", "query", "token"), logits),
            "attention": (("rate", "seed", "class", "token"), attention),
            "loss": (("rate", "seed"), [[0.1]]),
        },
        coords={"query": [30], "seed": [0]},
    )
    found = last_step(last, task, {"lr_attention": [1.0], "ratio": [1.0]})
    np.testing.assert_allclose(found.recall, 5 / 20)
    np.testing.assert_allclose(found.entropy, np.log(10))


def test_changed_settings_and_diverged_runs_are_outside_what_was_published():
    settings = published_figures.settings(**TINY, lr_attention=(1.0, 1e12), ratios=(1.0, 2.0))
    result = published_figures.run(settings)
    decided = {claim.label for claim in result.claims if claim.verdict == HOLDS}
    assert decided == {"published loss of Syn-Small at step 0, which is ln M"}
    assert {claim.verdict for claim in result.claims if claim.label not in decided} == {UNMET}
    assert "4 runs diverged" in result.panels[1][0].title
