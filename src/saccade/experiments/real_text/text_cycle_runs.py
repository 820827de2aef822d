"""The training runs of `text_cycle`: long ones that show the stages, and short ones that show to which side attention first moves.

Each is a function of plain settings, so that it can run in a process of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from saccade.data.text.corpus import Corpus, corpus
from saccade.experiments.real_text.text_cycle_measures import Array, CycleMeasures, phi_scale
from saccade.observe.turning_points import VISIBLE
from saccade.theory import focus_and_dilution as theory

ENOUGH = 1.5  # times as long as the linear stages take from the start to weights of size one
UNKNOWN = "<unk>"


@dataclass(frozen=True)
class Training:
    """What one run is made of."""

    text: str
    n_vocab: int
    d_model: int
    scaled: bool
    init_scale: float
    optimiser: str
    lr: float
    steps: int
    batch: int
    context: int
    seed: int
    n_looks: int
    n_queries: int


def cycle_run(training: Training, words: tuple[str, ...]) -> dict[str, Any]:
    """A run watched at log-spaced steps; `words` are the probe's."""
    text = corpus(training.text, n_vocab=training.n_vocab)
    probe = probe_tokens(text, words)
    steps = np.geomspace(1, training.steps, training.n_looks).round()
    found = _trained(text, training, probe, [0, *sorted({int(step) for step in steps})])
    names = [text.vocabulary[token] for token in probe]
    queries = CycleMeasures.of(text, training.n_queries, probe).queries
    return found | {
        "share": float(text.frequencies[0]),
        "frequent": text.vocabulary[0],
        "query_words": [text.vocabulary[token] for token in queries],
        "probe_words": names,
    }


def probe_tokens(text: Corpus, words: tuple[str, ...]) -> NDArray[np.intp]:
    """The words that the text has, most frequent first; the two most frequent tokens if it has fewer than two of them."""
    known = sorted({text.id_of(word) for word in words if word in text.vocabulary})
    return np.array(known if len(known) > 1 else [0, 1], np.intp)


def chain_rates(text: Corpus, scale: float) -> tuple[float, float]:
    """Focus rate c and condensation rate mu0 of the text's pairs, all tokens told apart."""
    pairs = text.bigrams.toarray().astype(float)
    seen = pairs.sum(axis=1) > 0
    pairs = pairs[np.ix_(seen, seen)]
    law, table = pairs.sum(axis=1) / pairs.sum(), pairs / pairs.sum(axis=1, keepdims=True)
    rate = theory.focus_rate(stationary=law, transition=table, phi_scale=scale)
    return rate, theory.condensation_rate(stationary=law)


def stage_steps(rate: float, condensation: float, init_scale: float, lr: float, most: int) -> int:
    """Steps of plain descent for both linear stages, (1/mu0 + 1/|c|) ln(1/init_scale) in time, and half as many again."""
    time = math.log(1 / init_scale) * (1 / condensation + 1 / max(abs(rate), 1e-12))
    return int(min(most, ENOUGH * time / lr))


def side_run(training: Training) -> dict[str, Any]:
    """To which side attention first moves, beside what the chain and the drive along the run say.

    Plain descent runs as long as theory asks for, at most `training.steps`.
    """
    text = corpus(training.text, n_vocab=training.n_vocab)
    rate, condensation = chain_rates(text, phi_scale(training.d_model, training.scaled))
    steps = training.steps
    if training.optimiser == "sgd":
        steps = stage_steps(rate, condensation, training.init_scale, training.lr, most=training.steps)
    looks = np.unique(np.linspace(0, steps, training.n_looks).astype(int)).tolist()
    found = _trained(text, training, np.array([0, 1], np.intp), looks, steps)
    tilt = found["on_frequent"] - text.frequencies[0]
    moved = first_move(tilt)
    before = slice(0, (len(tilt) if moved is None else moved + 1))
    return {
        "focus_rate": rate,
        "condensation_rate": condensation,
        "side": math.nan if moved is None else float(np.sign(tilt[moved].mean())),
        "moved_at": math.nan if moved is None else float(found["step"][moved]),
        "largest_tilt": float(tilt[np.abs(tilt).max(axis=1).argmax()].mean()),
        "impulse": float(np.trapezoid(found["drive"][before], training.lr * found["step"][before])),
        "steps": steps,
    }


def first_move(tilt: Array) -> int | None:
    """The first look at which the attention of some query on the frequent token has visibly moved; None if none has."""
    moved = np.abs(tilt).max(axis=1) > VISIBLE
    return int(moved.argmax()) if moved.any() else None


def _trained(
    text: Corpus, training: Training, probe: NDArray[np.intp], looks: list[int], steps: int | None = None
) -> dict[str, Any]:
    from saccade.dynamics.training import train_text
    from saccade.model.transformer_config import TransformerConfig

    model = TransformerConfig.focus_and_dilution(text.n_vocab, training.d_model, training.init_scale, training.scaled)
    record = train_text(
        text,
        model=model,
        steps=training.steps if steps is None else steps,
        batch=training.batch,
        context=training.context,
        optimiser=training.optimiser,
        lr=training.lr,
        loss="last",
        seed=training.seed,
        every=looks,
        measures=CycleMeasures.of(text, training.n_queries, probe),
        watch=False,
        evaluate=0,
    )
    names = ("loss", "on_frequent", "entropy", "row_norm", "singular_values", "query_norm", "probe_attention", "drive")
    return {"step": record.time.values} | {name: record[name].values for name in names}
