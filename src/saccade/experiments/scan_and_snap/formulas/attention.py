"""Formulas on who gains attention, checked by JAX's velocities at random logits; and two errata
that the published tasks decide without a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

import saccade
from saccade.experiments.scan_and_snap.placed_pairwise import PlacedPairwise
from saccade.experiments.scan_and_snap.positional_prior import placed_classes
from saccade.experiments.scan_and_snap.weak_classes import (
    N_DISTINCT,
    context_prob,
    one_common_token,
)
from saccade.experiments.scan_and_snap.who_gains import as_frequencies
from saccade.lab.formula import Formula
from saccade.measures.fits import Array
from saccade.models.pairwise import Rows
from saccade.models.reduced_pairwise import ReducedState
from saccade.theories import scan_and_snap as theory
from saccade.theories.scan_and_snap.open_statements import START_FREQUENCY
from saccade.theories.scan_and_snap.statements import (
    ASSUMPTION_2,
    FIG_4,
    POSITIONAL_LEMMA_4,
    THEOREM_2A,
    THEOREM_2B,
)

RATES: dict[str, Any] = {"lr_decoder": 1.0, "lr_attention": 1.0}
CLOCK: dict[str, Any] = {
    "n_vocab": 2000,
    "n_classes": 3,
    "lr_decoder": 1.0,
}
STEP = 0.01  # where the speed is near its peak
PUBLISHED_LOSS = 3.5264  # of Syn-Small before its first update
EXACT = 1e-10


def theorem_2() -> Iterator[Formula]:
    rng = np.random.default_rng(0)
    task = one_common_token(0.15, CLOCK["n_vocab"])
    shared = rng.normal(size=(2, 1))
    own = rng.normal(size=(3, N_DISTINCT))
    height = theory.decoder_height(
        STEP / 3,
        n_vocab=task.n_vocab,
        lr_decoder=1.0,
    )
    logits = np.full(3, (task.n_vocab - 1) * height), np.full(3, -height)
    found = velocity(
        saccade.models.ReducedPairwise(task), ReducedState(*logits, Rows(shared, own))
    ).attention
    z = np.hstack([shared[[0, 0, 1]], np.tile(own.ravel(), (3, 1))])
    f = theory.normalised_feature(theory.limit_attention(context_prob(task), z))
    other = theory.backprop_coefficients(
        theory.class_coupling(theory.class_overlap(f)), n_vocab=task.n_vocab
    ).other
    xi = theory.class_drive(
        theory.class_overlap(f), other, speed=float(theory.speed(STEP, **CLOCK))
    )
    rising = theory.distinct_token_dot(f, xi, lr_attention=1.0)[:, 1:][f[:, 1:] > 0]
    yield Formula(
        THEOREM_2A,
        "dz/dt of distinct tokens against f² ξ, largest relative gap",
        off(found.own.ravel(), rising),
        EXACT,
    )
    falling = theory.common_token_dot(f[:, 0], xi, task.query, lr_attention=1.0)
    yield Formula(
        THEOREM_2B,
        "dz/dt of the common token against -Σ (1 - f²) ξ, largest relative gap",
        off(found.shared[[0, 0, 1], 0], falling),
        EXACT,
    )


def positional_lemma_4() -> Iterator[Formula]:
    rng = np.random.default_rng(0)
    joint = placed_classes(0.3)
    n_vocab = 300
    system = PlacedPairwise(
        joint,
        rng.normal(size=8),
        n_vocab=n_vocab,
        lr_position=1.0,
    )
    at = jax.tree.map(lambda part: part + rng.normal(size=part.shape), system.start(rng))
    found = velocity(system, at)
    n_tokens = joint.shape[-1]
    decoder, scores = np.zeros((2, n_vocab, n_vocab))
    decoder[:n_tokens] = at.decoder[:, -1:]  # tokens that never follow share one column
    decoder[:n_tokens, :2], scores[0, :n_tokens] = at.decoder[:, :-1], at.attention
    moved = []
    counts = np.zeros((2, n_vocab))
    counts[:, :n_tokens] = theory.effective_prob(joint, at.position)
    for n, prob in enumerate(counts):
        exact = theory.gradient_from_counts(
            decoder,
            scores,
            prob,
            query=0,
            label=n,
            **RATES,
        )
        moved.append(exact.attention_logits_dot[0, :n_tokens])
    half = np.full(2, 0.5)
    places = theory.distance_dot(joint, at.position, np.array(moved), half)
    largest = max(np.abs(found.attention).max(), np.abs(found.position).max())
    tokens = np.abs(found.attention - half @ moved).max()
    yield Formula(
        POSITIONAL_LEMMA_4,
        "velocities of logits and biases against theory, largest relative error",
        float(max(tokens, np.abs(found.position - places).max()) / largest),
        EXACT,
    )


def start_frequency() -> Iterator[Formula]:
    rng = np.random.default_rng(0)
    task = saccade.SequenceClasses.syn_medium(1)
    system = saccade.models.Pairwise(task)
    at = jax.tree.map(lambda part: rng.normal(size=part.shape), system.start(rng))
    z = np.zeros(task.n_vocab)
    z[task.common] = at.attention.shared[0]
    for own, logits in zip(task.distinct, at.attention.own, strict=True):
        z[own] = logits
    still = at._replace(attention=jax.tree.map(np.zeros_like, at.attention))
    from_start = velocity(system, at).attention
    from_zero = velocity(saccade.models.Pairwise(as_frequencies(task, z)), still).attention
    gap = max(map(off, from_start, from_zero))
    title = "velocity of attention from Z(0) against that from zero with P e^z(0), relative gap"
    yield Formula(START_FREQUENCY, title, gap, EXACT)


def published_tasks() -> Iterator[Formula]:
    tasks = [
        saccade.SequenceClasses.syn_small(),
        *(saccade.SequenceClasses.syn_medium(n) for n in (1, 3, 5, 10)),
    ]
    met = 0
    for task in tasks:
        sizes = {
            "n_vocab": task.n_vocab,
            "n_context": np.inf,
            **RATES,
        }
        every = theory.check_assumptions(task.token_prob, task.query, task.class_weight, **sizes)
        met += all(one.holds for one in every if one.name.startswith("Assumption 2"))
    yield Formula.erratum(
        ASSUMPTION_2,
        "published synthetic tasks that meet Assumption 2",
        met,
        printed=5,
        corrected=0,
        within=0,
    )
    forms = {"printed": np.log(30), "corrected": np.log(tasks[0].n_vocab)}
    yield Formula.erratum(
        FIG_4,
        "published loss of Syn-Small at step 0, which is ln M",
        PUBLISHED_LOSS,
        **forms,
        within=5e-5,
    )  # its last digit


def velocity(system: saccade.System, at: Any) -> Any:
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, jax.jit(system.velocity)(at))


def off(measured: Array, predicted: Array) -> float:
    return float(np.abs(measured / predicted - 1).max())


FORMULAS = [theorem_2, positional_lemma_4, start_frequency, published_tasks]
