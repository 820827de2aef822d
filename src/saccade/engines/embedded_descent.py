"""Dynamics (A) of the embedded model: mini-batch SGD or Adam on finite contexts.

A context is its token counts, its last token and the token that followed. Each seed draws its
sequences once and its batches by step (`randomness.py`). With an infinite batch every step learns
from all sequences, and contexts that are alike are computed once. With an infinite context as well
the gradient is the population's and nothing is drawn: descent without noise.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from saccade.data.markov import MarkovChain
from saccade.engines.optimiser import DIVERGED, checked_optimiser
from saccade.engines.randomness import Purpose, checked_seeds, generator
from saccade.engines.schedule import save_steps
from saccade.engines.train import MOST_STEPS, Plan, descend, descent_record, train
from saccade.errors import InputError, checked_choice, checked_count, checked_size
from saccade.later import Array, jax, jnp, xr
from saccade.models.embedded import (
    Embedded,
    Weights,
    composite,
    context_log_prob,
    context_loss,
    population_loss,
)

_MOST_SEQUENCES, _MOST_TOKENS = 1e7, 1e6  # beyond these is a typing error, not an experiment

_CONTEXTS_AT_ONCE = 1024  # numbers of contexts are rounded up to these, so that chains and seeds share compiled code

_RATE = 1e-3  # what Adam is usually given


class Contexts(NamedTuple):
    """Sequences of one seed, or a batch of them, as the model sees them."""

    counts: Any  # context, token
    last_token: Any  # context
    next_token: Any  # context


class Distinct(NamedTuple):
    """All sequences of one seed, contexts that are alike taken together."""

    counts: Any  # token, context
    last_token: Any  # context
    next_share: Any  # next token, context: how often each followed, of all sequences


class Law(NamedTuple):
    """The data in the limit of long contexts."""

    stationary: Any
    transition: Any


@train.register(Embedded)
def _train(
    system: Embedded,
    *,
    steps: int = 3000,
    lr_decoder: float | None = None,
    lr_attention: float | None = None,
    optimiser: str = "adam",
    momentum: float = 0.0,
    epsilon: float = 1e-8,
    batch: float = 512,
    context: float = 200,
    sequences: int = 20_000,
    seeds: int | Sequence[int] = 1,
    save: str | Sequence[int] = "log",
    keep: Sequence[str] | None = None,
    dtype: str = "float32",
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> xr.Dataset:
    """Attention in the record is the population's; arguments as in `saccade.train`."""
    began = time.perf_counter()
    kept = system.kept(keep)
    rates = (
        _first(lr_decoder, system.lr_decoder, _RATE),
        _first(lr_attention, system.lr_attention, _RATE),
    )
    system, chain = replace(system, lr_decoder=rates[0], lr_attention=rates[1]), system.task
    n_steps = checked_count("steps", steps, low=0, high=MOST_STEPS)
    n_batch = checked_size("batch", batch, high=_MOST_SEQUENCES)
    n_context = checked_size("context", context, high=_MOST_TOKENS)
    n_sequences = checked_count("sequences", sequences, high=_MOST_SEQUENCES)
    if math.isinf(n_context) and math.isfinite(n_batch):
        raise InputError(
            "`context=math.inf` is the population, which has no batches: set `batch=math.inf` too."
        )
    number = np.dtype(checked_choice("dtype", dtype, ("float32", "float64")))
    plan = Plan(
        loss=_loss(system.phi_scale),
        rates=Weights(**system.rates()),
        optimiser=checked_optimiser(optimiser, momentum, epsilon),
        seeds=checked_seeds(seeds),
        steps=n_steps,
        saves=save_steps(n_steps, save),
        dtype=dtype,
        start=lambda seed: system.start(generator(seed, Purpose.INITIALISATION)),
        batches=lambda seed, span: picked(seed, span, n_batch, n_sequences),
        data=_data(chain, checked_seeds(seeds), n_batch, n_context, n_sequences, number),
    )
    saved = descend(plan, on_progress)
    config = {"batch": n_batch, "context": n_context, "sequences": n_sequences}
    return descent_record(
        system,
        plan,
        saved,
        kept,
        DIVERGED * np.log(chain.n_vocab),
        config,
        time.perf_counter() - began,
    )


def _first(*rates: float | None) -> float:
    """The first that is given."""
    return next(rate for rate in rates if rate is not None)


def _data(
    chain: MarkovChain,
    seeds: Sequence[int],
    batch: float,
    context: float,
    sequences: int,
    number: np.dtype,
) -> Callable[[int], Contexts | Distinct | Law]:
    """What each seed learns from, of one shape for all seeds."""
    if math.isinf(context):
        law = Law(chain.stationary.astype(number), chain.transition.astype(number))
        return lambda seed: law
    drawn = partial(contexts, chain, sequences=sequences, context=int(context))
    if math.isfinite(batch):
        return drawn
    found = {seed: distinct(drawn(seed)) for seed in seeds}
    longest = (
        -(-max(len(one.last_token) for one in found.values()) // _CONTEXTS_AT_ONCE)
        * _CONTEXTS_AT_ONCE
    )

    def filled(seed: int) -> Distinct:
        """Up to the same length, with contexts that never came."""
        counts, last, share = found[seed]
        missing = longest - len(last)
        return Distinct(
            np.pad(counts, ((0, 0), (0, missing)), constant_values=1),
            np.pad(last, (0, missing)),
            np.pad(share, ((0, 0), (0, missing))).astype(number),
        )

    return filled


def distinct(found: Contexts) -> Distinct:
    """The mean loss needs each context once, with how often every token followed it."""
    rows = np.column_stack([found.counts, found.last_token])
    order = np.lexsort(rows.T[::-1])
    is_new = np.append(True, (np.diff(rows[order], axis=0) != 0).any(axis=1))
    unlike, place = rows[order][is_new], np.empty(len(rows), int)
    place[order] = np.cumsum(is_new) - 1
    share = np.zeros((found.counts.shape[1], len(unlike)))
    np.add.at(share, (found.next_token, place), 1 / len(found.last_token))
    return Distinct(unlike[:, :-1].T.astype(np.int32), unlike[:, -1], share)


def contexts(chain: MarkovChain, seed: int, sequences: int, context: int) -> Contexts:
    drawn = chain.sample(sequences, context + 1, generator(seed, Purpose.DATA))
    row = np.arange(sequences)[:, None] * chain.n_vocab
    counts = np.bincount((row + drawn[:, :-1]).ravel(), minlength=sequences * chain.n_vocab)
    return Contexts(counts.reshape(sequences, -1).astype(np.int32), drawn[:, -2], drawn[:, -1])


def picked(seed: int, steps: range, batch: float, sequences: int) -> np.ndarray:
    """Which sequences each step learns from (step, batch), none: all. Step 0 of a seed's stream
    drew the sequences.
    """
    if math.isinf(batch):
        return np.zeros((len(steps), 0), np.int32)
    draws = (generator(seed, Purpose.DATA, step + 1) for step in steps)
    return np.array([rng.integers(sequences, size=int(batch), dtype=np.int32) for rng in draws])


@lru_cache
def _loss(phi_scale: float) -> Callable[[Weights, Array, Contexts | Distinct | Law], Array]:
    """Of a batch, given by the rows of its sequences; of all of them, whatever the rows, if
    contexts are distinct.
    """

    def loss(weights: Weights, rows: Array, data: Contexts | Distinct | Law) -> Array:
        matrices = composite(weights, phi_scale)
        if isinstance(data, Law):
            return population_loss(matrices, data)
        if isinstance(data, Distinct):
            return -jnp.sum(
                data.next_share * context_log_prob(matrices, data.counts, data.last_token)
            )
        return context_loss(matrices, *jax.tree.map(lambda part: part[rows], data))

    return loss
