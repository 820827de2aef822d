"""Every numbered statement of the paper, under its own number and heading (arXiv 2605.01199v1)."""

from __future__ import annotations

from saccade.theories.statement import THEOREM
from saccade.theories.statements import STATEMENTS

HEADINGS = {  # empty where the paper gives none
    "Definition 2.1": "Markovian data",
    "Definition 2.2": "One-layer transformer",
    "Proposition 2.3": "Gradient flow and population-gradient limit",
    "Lemma 3.1": "Linearization near a saddle point",
    "Theorem 3.2": "Initial condensation",
    "Proposition 3.3": "Existence of a second critical point on the condensation ray",
    "Proposition 3.4": "Linearized dynamics and its unique unstable direction",
    "Theorem 3.5": "High frequency token bias",
    "Proposition 3.6": "Invariant rank-one manifold",
    "Theorem 3.7": "Mass redistribution",
    "Proposition 3.8": "Degenerate critical point",
    "Theorem 3.9": "Asymmetry lifts degeneracy and induces a new direction",
    "Proposition B.1": "Basic Markov properties",
    "Lemma C.1": "Refined error estimate",
    "Proposition C.2": "",
    "Remark C.3": "",
    "Lemma C.4": "Refined error estimate",
    "Proposition C.5": "",
    "Proposition C.6": "Time to the O(delta)-neighborhood of the critical point",
    "Proposition C.7": "Derivatives at the second critical point",
    "Proposition D.1": "Kernel and range bases",
    "Proposition D.2": "Range solution and first-order expansion",
    "Theorem D.3": "Existence of an approximate critical point and its two-scale stability",
    "Lemma D.4": "",
    "Lemma D.5": "First-order variations",
    "Lemma D.6": "Computation of J0",
    "Lemma D.7": "",
    "Lemma D.8": "Structure of Q_R^T J0 Q_R",
    "Lemma D.9": "",
    "Lemma D.10": "",
    "Lemma D.11": "Second differential",
    "Lemma D.12": "",
    "Lemma D.13": "",
    "Lemma D.14": "",
    "Lemma D.15": "Perturbed hessian matrix",
    "Lemma D.16": "",
    "Lemma D.17": "",
}
STATED = {
    each.number: each.title
    for each in STATEMENTS.values()
    if (each.paper, each.kind) == ("chen2026", THEOREM)
}


def test_no_statement_has_a_number_or_a_heading_that_the_paper_does_not_have():
    assert [
        number
        for number, title in STATED.items()
        if number not in HEADINGS or not title.startswith(HEADINGS[number])
    ] == []


def test_no_statement_of_the_paper_is_missing():
    assert [number for number in HEADINGS if number not in STATED] == []
