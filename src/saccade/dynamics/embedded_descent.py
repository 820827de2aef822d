"""Dynamics (A) of the embedded model: mini-batch SGD or Adam on finite contexts, all seeds at once.

A context is its token counts, its last token and the token that followed. Each seed draws its sequences once and its batches by
step (`randomness.py`); one compiled scan runs over the steps, mapped over seeds, and seeds are spread over threads. With an
infinite context and batch the gradient is the population's and nothing is drawn: descent without noise.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array, lax

from saccade.data.markov import MarkovChain
from saccade.dynamics.embedded_flow import KEEPABLE, WEIGHTS, chain_variables, population_attention
from saccade.dynamics.log_time import checked_rates
from saccade.dynamics.optimiser import DIVERGED, Optimiser, checked_optimiser
from saccade.dynamics.randomness import Purpose, checked_seeds, generator
from saccade.dynamics.schedule import save_steps
from saccade.dynamics.workers import workers
from saccade.errors import InputError, checked_choice, checked_count, checked_kept, checked_kind, checked_size
from saccade.model.embedded import Embedded, Weights, composite, context_loss, population_loss

if TYPE_CHECKING:
    import xarray as xr

_MOST_STEPS, _MOST_SEQUENCES, _MOST_TOKENS = 1e12, 1e7, 1e6  # beyond these is a typing error, not an experiment
_BYTES_AT_ONCE = 2**27  # weights of every step of a stretch are held at once; a stretch is as long as fits here,
_STEPS_AT_ONCE = 500  # and no longer, so that progress is seen and Ctrl-C is heard


class Contexts(NamedTuple):
    """Sequences of one seed, or a batch of them, as the model sees them."""

    counts: Any  # context, token
    last_token: Any  # context
    next_token: Any  # context


class Law(NamedTuple):
    """The data in the limit of long contexts."""

    stationary: Any
    transition: Any


@dataclass(frozen=True)
class Plan:
    """All that one call trains. `batch` and `context` may be infinite."""

    chain: MarkovChain
    model: Embedded
    optimiser: Optimiser
    rates: tuple[float, float]
    seeds: list[int]
    steps: int
    batch: float
    context: float
    sequences: int
    saves: np.ndarray
    dtype: str

    @property
    def is_population(self) -> bool:
        return math.isinf(self.context)


class DescentState(NamedTuple):
    """What the next step needs."""

    weights: Weights
    decoder_memory: Any
    attention_memory: Any


class DescentInfo(NamedTuple):
    """What is looked at: the state before an update, and the loss of the batch it is about to learn from."""

    weights: Weights
    loss: Any


def train(
    chain: MarkovChain,
    *,
    steps: int = 3000,
    lr_decoder: float = 1e-3,
    lr_attention: float = 1e-3,
    optimiser: str = "adam",
    momentum: float = 0.0,
    epsilon: float = 1e-8,
    batch: float = 512,
    context: float = 200,
    sequences: int = 20_000,
    seeds: int | Sequence[int] = 1,
    save: str | Sequence[int] = "log",
    model: Embedded | None = None,
    keep: Sequence[str] = KEEPABLE,
    dtype: str = "float32",
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> xr.Dataset:
    """Train on sequences of the chain for `steps` updates; attention in the record is the population's.

    | argument       | meaning                                                                                            |
    |----------------|----------------------------------------------------------------------------------------------------|
    | `lr_decoder`   | learning rate of embedding and projection                                                          |
    | `lr_attention` | learning rate of the query and key matrices                                                        |
    | `optimiser`    | `"adam"`, or `"sgd"` with `momentum`                                                               |
    | `epsilon`      | of Adam: gradients well below it are not rescaled                                                  |
    | `batch`        | contexts a step; `math.inf`: all of them                                                           |
    | `context`      | tokens a context; `math.inf`, with an infinite batch: the population                               |
    | `sequences`    | sequences that each seed draws to learn from                                                       |
    | `seeds`        | a count or a list; each has its own start, sequences and batches                                   |
    | `save`         | `"log"`, `"linear"` or a list of steps                                                             |
    | `keep`         | of `attention` and the four weight matrices; the loss is always kept                               |
    """
    started = time.perf_counter()
    checked_kept(keep, KEEPABLE)
    n_steps = checked_count("steps", steps, low=0, high=_MOST_STEPS)
    plan = Plan(
        chain=checked_kind("chain", chain, MarkovChain),
        model=Embedded() if model is None else checked_kind("model", model, Embedded),
        optimiser=checked_optimiser(optimiser, momentum, epsilon),
        rates=checked_rates(lr_decoder, lr_attention),
        seeds=checked_seeds(seeds),
        steps=n_steps,
        batch=checked_size("batch", batch, high=_MOST_SEQUENCES),
        context=checked_size("context", context, high=_MOST_TOKENS),
        sequences=checked_count("sequences", sequences, high=_MOST_SEQUENCES),
        saves=save_steps(n_steps, save),
        dtype=checked_choice("dtype", dtype, ("float32", "float64")),
    )
    if plan.is_population and math.isfinite(plan.batch):
        raise InputError("`context=math.inf` is the population, which has no batches: set `batch=math.inf` too.")
    saved = descend(plan, on_progress)
    return _record(plan, saved, keep, time.perf_counter() - started)


def descend(plan: Plan, on_progress: Callable[[float], None]) -> DescentInfo:
    """Run the plan; arrays of the result have the leading axes seed and saved step."""
    n_packs = min(len(plan.seeds), os.cpu_count() or 1)
    packs = [pack.tolist() for pack in np.array_split(np.array(plan.seeds), n_packs)]
    with workers(n_packs) as pool:
        done = list(pool.map(partial(_trained, plan, on_progress=on_progress), packs))
    return jax.tree.map(lambda *parts: np.concatenate(parts), *done)


def _trained(plan: Plan, seeds: list[int], *, on_progress: Callable[[float], None]) -> DescentInfo:
    """Some of the seeds through all steps."""
    with jax.enable_x64(plan.dtype == "float64"):  # the switch belongs to the thread
        data = _data(plan, seeds)
        state = _start(plan, seeds)
        saved = []
        for steps in _stretches(plan, len(seeds)):
            picked = _picked(plan, seeds, steps)
            state, info = _advance(state, data, picked, jnp.asarray(plan.rates), plan.model, plan.optimiser)
            wanted = np.isin(steps, plan.saves)
            saved.append(jax.tree.map(lambda part, wanted=wanted: np.asarray(part)[:, wanted], info))
            on_progress(steps.stop / (plan.steps + 1))
    return jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *saved)


def _data(plan: Plan, seeds: list[int]) -> Contexts | Law:
    """Every seed's sequences (leading axis seed), or the law they come from."""
    if plan.is_population:
        return jax.tree.map(lambda table: table.astype(plan.dtype), Law(plan.chain.stationary, plan.chain.transition))
    return jax.tree.map(lambda *parts: np.stack(parts), *[_contexts(plan, seed) for seed in seeds])


def _contexts(plan: Plan, seed: int) -> Contexts:
    drawn = plan.chain.sample(plan.sequences, int(plan.context) + 1, generator(seed, Purpose.DATA))
    row = np.arange(plan.sequences)[:, None] * plan.chain.n_vocab
    counts = np.bincount((row + drawn[:, :-1]).ravel(), minlength=plan.sequences * plan.chain.n_vocab)
    return Contexts(counts.reshape(plan.sequences, -1).astype(np.int32), drawn[:, -2], drawn[:, -1])


def _picked(plan: Plan, seeds: list[int], steps: range) -> np.ndarray:
    """Which sequences each step learns from (seed, step, batch), none: all. Step 0 of a seed's stream drew the sequences."""
    if math.isinf(plan.batch):
        return np.zeros((len(seeds), len(steps), 0), np.int32)
    return np.array(
        [
            [generator(s, Purpose.DATA, step + 1).integers(plan.sequences, size=int(plan.batch), dtype=np.int32) for step in steps]
            for s in seeds
        ]
    )


def _start(plan: Plan, seeds: list[int]) -> DescentState:
    drawn = [plan.model.initial(plan.chain.n_vocab, generator(s, Purpose.INITIALISATION)) for s in seeds]
    weights: Weights = jax.tree.map(lambda *parts: jnp.asarray(np.stack(parts), plan.dtype), *drawn)
    rest = jax.vmap(plan.optimiser.at(0.0).init)
    return DescentState(weights, rest((weights.embedding, weights.projection)), rest((weights.query, weights.key)))


def _stretches(plan: Plan, n_seeds: int) -> Iterator[range]:
    """Consecutive ranges of steps; the last step of all is only looked at."""
    n_weights = 2 * plan.model.d_model * (plan.chain.n_vocab + plan.model.d_key)
    most = max(1, min(_STEPS_AT_ONCE, _BYTES_AT_ONCE // (8 * n_seeds * n_weights)))
    for start in range(0, plan.steps + 1, most):
        yield range(start, min(start + most, plan.steps + 1))


@partial(jax.jit, static_argnames=("model", "optimiser"))
def _advance(
    state: DescentState, data: Contexts | Law, picked: Array, rates: Array, model: Embedded, optimiser: Optimiser
) -> tuple[DescentState, DescentInfo]:
    """All seeds through a stretch of steps (leading axes of `picked`: seed, step)."""

    def one_seed(state: DescentState, data: Contexts | Law, picked: Array) -> tuple[DescentState, DescentInfo]:
        return lax.scan(lambda s, rows: descent_step(s, _batch(data, rows), rates, model, optimiser), state, picked)

    return jax.vmap(one_seed, in_axes=(0, None if isinstance(data, Law) else 0, 0))(state, data, picked)


def _batch(data: Contexts | Law, rows: Array) -> Contexts | Law:
    return data if isinstance(data, Law) or rows.size == 0 else jax.tree.map(lambda part: part[rows], data)


def descent_step(
    state: DescentState, batch: Contexts | Law, rates: Array, model: Embedded, optimiser: Optimiser
) -> tuple[DescentState, DescentInfo]:
    """One update. `rates`: of embedding and projection, of queries and keys."""
    loss, slope = jax.value_and_grad(_loss)(state.weights, batch, model)
    (embedding, projection), decoder_memory = _moved(
        optimiser.at(rates[0]),
        (state.weights.embedding, state.weights.projection),
        (slope.embedding, slope.projection),
        state.decoder_memory,
    )
    (query, key), attention_memory = _moved(
        optimiser.at(rates[1]), (state.weights.query, state.weights.key), (slope.query, slope.key), state.attention_memory
    )
    new_state = DescentState(Weights(embedding, query, key, projection), decoder_memory, attention_memory)
    return new_state, DescentInfo(state.weights, loss)


def _moved(transformation: optax.GradientTransformation, weights: Any, slope: Any, memory: Any) -> tuple[Any, Any]:
    step, memory = transformation.update(slope, memory)
    return optax.apply_updates(weights, step), memory


def _loss(weights: Weights, batch: Contexts | Law, model: Embedded) -> Array:
    matrices = composite(weights, model.phi_scale)
    return population_loss(matrices, batch) if isinstance(batch, Law) else context_loss(matrices, *batch)


def _record(plan: Plan, saved: DescentInfo, keep: Sequence[str], wall_time: float) -> xr.Dataset:
    from saccade.records.schema import make_record

    finite = saved.loss <= DIVERGED * np.log(plan.chain.n_vocab)  # false for NaN as well
    going = np.logical_and.accumulate(finite, axis=1)

    def series(values: np.ndarray) -> np.ndarray:
        return np.where(going.reshape(going.shape + (1,) * (values.ndim - 2)), values, np.nan)

    weights = Weights(*(series(part) for part in saved.weights))
    stop = np.where(going.all(axis=1), plan.steps, plan.saves[np.argmin(going, axis=1)])
    variables: dict[str, Any] = {
        "loss": (("seed", "time"), series(saved.loss)),
        "stop_reason": (("seed",), np.where(going.all(axis=1), "finished", "diverged")),
        "stop_time": (("seed",), stop),
    }
    variables |= {
        name: (("seed", "time", *axes), part) for (name, axes), part in zip(WEIGHTS.items(), weights, strict=True) if name in keep
    }
    if "attention" in keep:
        variables["attention"] = (("seed", "time", "query", "token"), population_attention(weights, plan.model, plan.chain))
    return make_record(
        dynamics="A: mini-batch training, embedded model",
        variables=variables | chain_variables(plan.chain),
        coords={"time": plan.saves, "seed": plan.seeds, "lr_decoder": plan.rates[0], "lr_attention": plan.rates[1]},
        time_unit="updates",
        config={
            "task": plan.chain.name,
            "model": vars(plan.model),
            "optimiser": vars(plan.optimiser),
            "steps": plan.steps,
            "batch": plan.batch,
            "context": plan.context,
            "sequences": plan.sequences,
            "dtype": plan.dtype,
        },
        wall_time=wall_time,
    )
