"""An experiment of milliseconds that compiles nothing: the height of the decoder, draw by draw."""

from __future__ import annotations

from typing import Annotated as A

import numpy as np

from saccade.lab.experiment import Lab, experiment
from saccade.lab.settings import Range
from saccade.panels import Line, Lines
from saccade.theories import scan_and_snap as theory
from saccade.theories.scan_and_snap.statements import LEMMA_7


@experiment("toy", time_unit="draws of the class")
def toy(
    lab: Lab,
    n_vocab: A[tuple[int, ...], "vocabularies"] = (50, 1000),
    lr_decoder: A[tuple[float, ...], Range(1e-9, 1e3), "decoder rates"] = (0.1, 0.2),
    draws: A[int, "times the class is drawn"] = 200,
    overlap: A[float, Range(0.0, 0.99), "shift of `plain_logit`"] = 0.2,
    seed: A[int, "seed of the noise on `plain_logit`"] = 0,
) -> str:
    """Does h* lead h by less than Lemma 7 allows?"""
    for M in lab.each(n_vocab):
        for rate in lab.each(lr_decoder):
            letters = {"n_vocab": M, "lr_decoder": rate}
            height = theory.decoder_height_discrete(draws, **letters)
            lead = height - theory.decoder_height(np.arange(draws + 1), **letters)
            lab.keep("height", height, "draw", "h*", n_vocab=M, lr_decoder=rate)
            lab.case(M=M, rate=rate).between(LEMMA_7, "lead", lead, -1e-15, 2 * rate / M)
    noise = np.random.default_rng(seed).normal(size=2)
    lab.keep("plain_logit", overlap + noise, "case")
    lab.draw(Lines("height", "draw", "h*", [Line(np.arange(draws + 1), height)]))
    return f"{lab.yes_or_no()}."
