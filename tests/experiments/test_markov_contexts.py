"""Contexts of a chain: the rate notices a wrong matrix, and needs frequent tokens."""

from __future__ import annotations

import pytest

from saccade.experiments.focus_and_dilution import markov_contexts as module
from saccade.experiments.focus_and_dilution.markov_contexts import markov_contexts
from saccade.lab.claim import FAILS, HOLDS, UNMET
from saccade.theories.focus_and_dilution import contexts


def verdicts(laws=("0.6 of 4",), stays=(0.5,)):
    """Of the rate in the longest contexts of each chain."""
    small = {"laws": laws, "stays": stays, "lengths": (20, 40), "n_sequences": 1000}
    return {
        claim.case["chain"].split(",")[0]: claim.verdict
        for claim in markov_contexts.run(markov_contexts.settings(**small)).claims
        if claim.title.startswith("length times")
    }


def test_a_chain_run_forwards_differs_only_where_it_is_not_reversible(monkeypatch):
    def forwards(*, stationary, transition):
        echoes = contexts._echoes(stationary, transition) - stationary
        return echoes + echoes.mean(axis=0)

    assert set(verdicts().values()) == {HOLDS}
    monkeypatch.setattr(contexts, "frequency_excess", forwards)
    assert verdicts() == {"0.6 of 4": HOLDS, "Metropolis": HOLDS, "cycle": FAILS}


@pytest.mark.parametrize("factor", [0.6, 2])
def test_a_matrix_of_the_wrong_size_fails(monkeypatch, factor):
    right = module.theory.gradient_bias
    monkeypatch.setattr(
        module.theory, "gradient_bias", lambda *at, **law: factor * right(*at, **law)
    )
    assert set(verdicts().values()) == {FAILS}


def test_a_token_too_rare_for_any_length_leaves_the_rate_undecided(monkeypatch):
    monkeypatch.setattr(module, "LONGEST", 60)
    assert set(verdicts(("paper",), (0.8,)).values()) == {UNMET}
