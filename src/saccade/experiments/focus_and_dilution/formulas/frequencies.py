"""Formulas of Focus and Dilution behind the published run: its frequencies, and Adam's start."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from saccade.data.markov import MarkovChain
from saccade.data.markov_presets import PAPER_LAW
from saccade.lab.formula import Formula
from saccade.theories.focus_and_dilution import plateau_drive
from saccade.theories.focus_and_dilution.statements import ADAM_WITHOUT_NOISE, FIG_2


def frequencies() -> Iterator[Formula]:
    two, four = (base**-1 / sum(base**-k for k in range(1, 5)) for base in (2.0, 4.0))
    yield Formula.erratum(
        FIG_2,
        "share of the most frequent token",
        PAPER_LAW[0],
        number="2.6",
        printed=two,
        corrected=four,
        within=0.005,
    )


def equal_tokens() -> Iterator[Formula]:
    chain = MarkovChain.lazy(PAPER_LAW, 0.3)
    same = np.ones(chain.n_vocab)
    logits = np.log(chain.stationary)
    drive = plateau_drive(
        same,
        logits,
        stationary=chain.stationary,
        transition=chain.transition,
    )
    title = "drive of attention at an embedding that is the same for all tokens"
    yield Formula(ADAM_WITHOUT_NOISE, title, abs(drive), 1e-15)


FORMULAS = [frequencies, equal_tokens]
