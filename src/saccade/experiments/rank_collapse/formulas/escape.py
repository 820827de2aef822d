"""Formulas of From Condensation to Rank Collapse on stage I that need no run.

Near the origin no loss is subtracted from 1, which would leave rounding: 1 - L comes from its
slope along a start. Scales are small, since from 0.02 to 0.005 the next order shows in some starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from saccade.data.labelled_sequences import LabelledSequences, anchor_sequences
from saccade.lab.formula import Formula
from saccade.measures.fits import power
from saccade.models.attention_classifier import AttentionClassifier, Weights
from saccade.theories import rank_collapse as theory
from saccade.theories.rank_collapse import statements as stated

SCALES = (4e-4, 2e-4, 1e-4)
BALANCED = (0.9, 0.1, 0.5)  # one clue is right as often as the other is wrong
CLUES = LabelledSequences.two_clue(0.9, 0.9, 0.5)
EVEN = LabelledSequences.two_clue(*BALANCED)


def expansion() -> Iterator[Formula]:
    unit = AttentionClassifier(CLUES, init_scale=1.0).start(np.random.default_rng(0))
    slope = theory.TwoClue(0.9, 0.9, 0.5).slope
    drops = []
    speeds = []
    for eps in SCALES:
        start = Weights(*(eps * part for part in unit))
        downhill = [AttentionClassifier(data).downhill(start)[0] for data in (CLUES, EVEN)]
        drops.append([sum(map(np.vdot, each, start)) / (3 * eps**3) for each in downhill])
        speed = downhill[0]
        speeds.append(np.linalg.norm(speed.query) / np.linalg.norm(speed.value))
    drop, even = np.array(drops).T
    energy = slope * float(theory.factor_energy(unit.value[0], unit.hidden, unit.readout))
    # what is left out is of relative order ε²
    limit = drop[-1] + (drop[-1] - drop[-2]) / ((SCALES[-2] / SCALES[-1]) ** 2 - 1)
    yield Formula.erratum(
        stated.DEFINITION_3,
        "(1 - L) / ε³, extrapolated to ε = 0",
        limit,
        printed=energy / 2,
        corrected=energy,
        within=1e-6,
    )
    title = "order of the speed of W_Q over that of W_V"
    order = power(SCALES, speeds)
    yield Formula(stated.PROPOSITION_1, title, abs(order - 2), 0.05)
    yield Formula.erratum(
        stated.PROPOSITION_1,
        "order of 1 - L where the mean token tells nothing",
        3 + power(SCALES, np.abs(even)),
        printed=3.0,
        corrected=5.0,
        within=0.1,
    )


def energy_slope() -> Iterator[Formula]:
    rng = np.random.default_rng(0)
    w, hidden, b = (rng.standard_normal((100, *shape)) for shape in ((5,), (5, 5), (5,)))
    w_dot, hidden_dot, b_dot = theory.slopes(w, hidden, b)
    moves = ((w_dot, hidden, b), (w, hidden_dot, b), (w, hidden, b_dot))
    slope = sum(theory.factor_energy(*each) for each in moves)
    gap = np.abs(slope / theory.energy_slope(w, hidden, b) - 1).max()
    yield Formula(stated.THEOREM_1, "eq. 16 against the chain rule, relative", gap, 1e-13)


def anchors() -> Iterator[Formula]:
    """Targets of the paper's task."""
    drawn = anchor_sequences(1000, seed=0)
    shift = drawn.target - drawn.tokens[np.arange(1000), drawn.place + 1]
    one, two, three = (shift[drawn.anchor == anchor].mean() for anchor in (1, 2, 3))
    title = "target with anchor {} minus that with anchor 1"
    forms: Any = {
        "printed": 0.0,
        "corrected": -1.0,
        "within": 0.0,
    }
    yield Formula.erratum(stated.ANCHOR_TASK, title.format(2), two - one, **forms)
    yield Formula(stated.ANCHOR_TASK, title.format(3), abs(three - one), 0.0)


FORMULAS = [expansion, energy_slope, anchors]
