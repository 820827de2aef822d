"""Formulas of From Condensation to Rank Collapse on the plateau: F against differentiation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from saccade.data.labelled_sequences import LabelledSequences
from saccade.experiments.rank_collapse.stage_one import apart, teacher_data
from saccade.lab.formula import Formula
from saccade.measures.fits import power
from saccade.models.attention_classifier import AttentionClassifier, Weights
from saccade.theories import rank_collapse as theory
from saccade.theories.rank_collapse import statements as stated

DELTAS = (0.02, 0.01, 0.005)  # at 0.05 to 0.0125 the orders were 1.96 and 0.974


def on_the_plateau() -> Iterator[Formula]:
    """At β*, on noisy sequences, the two-clue task and the anchor function."""
    rng = np.random.default_rng(0)
    clue = LabelledSequences.two_clue(0.9, 0.9, 0.5)
    tasks = (teacher_data(), clue, LabelledSequences.anchor(200, 4))
    plateaus = [theory.plateau(*data.given) for data in tasks]
    points = [
        Weights(*theory.rank_one_factors(star, rng), *np.zeros((2, len(star), len(star))))
        for star, _ in plateaus
    ]
    Q, K = rng.standard_normal((2, 4, 4))
    gap = 0.0
    for data, (_, F), point in zip(tasks, plateaus, points, strict=True):
        gap = max(gap, np.abs(AttentionClassifier(data).downhill(point)[1] - F).max())
    yield Formula(stated.PROPOSITION_3, "F of eq. 15 against differentiation, all data", gap, 1e-14)

    odd = AttentionClassifier(
        clue, init_scale=1.0, d_key=3, d_hidden=7, activation="tanh", loss_kind="logistic"
    )
    weights = odd.start(rng)
    slope, drive = odd.downhill(weights)
    pairs = (slope.query, drive @ weights.key), (slope.key, drive.T @ weights.query)
    yield Formula(
        stated.DRIVE_ANY_LOSS,
        "-dL/dW = F W with tanh and logistic loss, relative error",
        max(apart(*pair) for pair in pairs),
        1e-13,
    )

    system, (_, F), orders = AttentionClassifier(tasks[0]), plateaus[0], []
    for delta in DELTAS:
        speed = system.downhill(points[0]._replace(query=delta * Q, key=delta * K))[0]
        outer, inner = (
            np.sqrt(sum(np.sum(part**2) for part in each)) for each in (speed[:3], speed[3:])
        )
        orders.append([outer, inner, apart(speed.query, delta * F @ K)])
    gaps = [
        abs(power(DELTAS, sizes) - order)
        for sizes, order in zip(np.array(orders).T, (2, 1, 2), strict=True)
    ]
    yield Formula(
        stated.PROPOSITION_3,
        "orders in δ at β*: 2 of outer gradients, 1 of attention's, 2 of the error of eq. 14",
        max(gaps),
        np.log2(1.01),
    )

    U, s, Vt = np.linalg.svd(F)
    start = K - np.outer(Vt[0], Vt[0] @ K + U[:, 0] @ Q)  # has no share of the top pair
    missed = theory.stage_two(12 / s[1], F, Q, start).query
    along = np.abs(np.linalg.svd(missed)[0][:, 0] @ U[:, 1])
    yield Formula(
        stated.THEOREM_3,
        "a start without u₁ goes along u₂ instead, by the solution of eq. 14",
        1 - along,
        1e-3,
    )


FORMULAS = [on_the_plateau]
