"""The experiments as they are reproduced: every verdict must be the expected one, and must be able to be another."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.experiments import EXPERIMENTS, experiment, statement
from saccade.records.claim import FAILS, HOLDS, OUTSIDE
from tests.experiments.outcomes import assert_as_in_the_readme


@pytest.fixture(scope="module")
def syn_medium():
    module = experiment("syn-medium-entropy")
    return module, module.run(module.Config())


@pytest.fixture(scope="module")
def syn_small():
    module = experiment("syn-small-attention")
    return module, module.run(module.Config())


def test_every_experiment_states_its_claim_first():
    for name in EXPERIMENTS:
        module = experiment(name)
        assert statement(module).endswith(".")
        assert hasattr(module, "caption") or module.CAPTION
        assert module.SECONDS > 0


def test_syn_small_attention_agrees_with_the_published_log(syn_small):
    module, record = syn_small
    claims = module.claims(record)
    assert len(claims) == 11
    assert [claim.statement for claim in claims if claim.verdict != HOLDS] == []
    assert_as_in_the_readme("syn-small-attention", claims)


def test_syn_medium_entropy_agrees_with_the_published_values(syn_medium):
    module, record = syn_medium
    claims = module.claims(record)
    assert len(claims) == 9
    assert [claim.statement for claim in claims if claim.verdict != HOLDS] == []
    assert (record.stop_reason == "finished").all()
    assert_as_in_the_readme("syn-medium-entropy", claims)


def test_the_table_of_syn_medium_has_a_row_for_each_of_the_64_settings(syn_medium):
    module, record = syn_medium
    rows = module.table(record)
    assert len(rows) == 64
    assert list(rows[0]) == ["n_queries", "lr_attention", "ratio", "entropy_mean", "entropy_std", "n_seeds"]
    assert {row["n_seeds"] for row in rows} == {10}


def test_wrong_entropies_make_the_claims_fail(syn_medium):
    """A claim that cannot fail proves nothing: shift, then shuffle."""
    module, record = syn_medium
    shifted = {claim.statement: claim.verdict for claim in module.claims(record.assign(entropy=record.entropy + 0.2))}
    assert sum(verdict == FAILS for verdict in shifted.values()) == 4
    upside_down = module.claims(record.assign(entropy=2 * record.entropy.mean() - record.entropy))
    assert all(claim.verdict == FAILS for claim in upside_down)


def test_other_settings_are_outside_what_was_published():
    module = experiment("syn-small-attention")
    record = module.run(module.Config(momentum=0.0, seeds=2, ratios=(1.0,)))
    assert {claim.verdict for claim in module.claims(record)} == {OUTSIDE}


def test_a_diverged_run_is_missing_from_the_table_and_named_in_the_figure():
    module = experiment("syn-medium-entropy")
    record = module.run(module.Config(n_queries=(1,), lr_attention=(1.0, 1e12), ratios=(1.0, 2.0), seeds=2, steps=5))
    assert {row["n_seeds"] for row in module.table(record)} == {0, 2}
    drawing = module.figure(record)
    assert "diverged" in drawing.axes[0].get_title()
    drawn = [line.get_ydata() for line in drawing.axes[0].lines if len(line.get_ydata())]
    assert all(np.isfinite(np.asarray(y, float)).all() for y in drawn)
