"""Dynamics (A): mini-batch training of the pairwise model, many seeds and rates at once.

One compiled scan over steps, mapped over rates (which share their data) and over seeds. Runs are
packed a few at a time, so that a pack stays in a core's cache, and packs are spread over threads:
compiled code runs outside Python's lock. Not here: what a batch is (`batches.py`), when states are
saved (`schedule.py`), the gradient (`models/pairwise.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from saccade.data.sequence_classes import SequenceClasses
from saccade.engines.batches import Batches, arrange, draw, population, rows_needed
from saccade.engines.optimiser import DIVERGED, Optimiser
from saccade.engines.randomness import Purpose, generator
from saccade.engines.workers import workers
from saccade.later import Array, jax, jnp, optax
from saccade.models.pairwise import Pairwise, Parameters, Rows, forward, gradients, mean_loss
from saccade.models.token_blocks import TokenBlocks

_BYTES_PER_PACK = (
    3 * 2**19
)  # decoder blocks of the runs in a pack: about a core's second-level cache (benchmarks/packing.py)
_RUNS_PER_PACK = 16  # no more, or there are too few packs to keep all cores busy to the end
_BYTES_DRAWN_AHEAD = 2**28  # batches of all seeds are drawn for as many steps as fit here,
_STEPS_AT_ONCE = (
    250  # and for no more than these, so that progress is seen and Ctrl-C is heard within seconds
)


@dataclass(frozen=True)
class Plan:
    """All that one call trains: every seed with every pair of rates. `batch` and `context` may be
    infinite.
    """

    task: SequenceClasses
    model: Pairwise
    optimiser: Optimiser
    rates: np.ndarray  # (rate, 2): decoder, attention
    seeds: list[int]
    steps: int
    batch: float
    context: float
    saves: np.ndarray
    keep_decoder: bool
    dtype: str
    start: Parameters | None = None  # of every run; None: the model's


class DescentState(NamedTuple):
    """What the next step needs."""

    parameters: Parameters
    decoder_optimiser: Any
    attention_optimiser: Any


class Saved(NamedTuple):
    """What is looked at. Arrays have an entry for each saved step and one more, where steps that
    are not saved go.
    """

    loss: Any
    attention: Rows
    decoder: Rows | None
    diverged_at: Any  # first step whose loss was beyond all bounds, or a step past the last


def descend(plan: Plan, on_progress: Callable[[float], None]) -> tuple[Saved, TokenBlocks]:
    """Run the plan; every array of the result has the leading axes rate and seed."""
    blocks = plan.model.blocks(plan.task)
    n_rates = len(plan.rates)
    most = _runs_per_pack(blocks)
    runs = np.stack(
        np.meshgrid(np.arange(len(plan.seeds)), np.arange(n_rates), indexing="ij"), axis=-1
    )
    # With many rates a pack keeps to one seed, so that its runs read the same batches.
    queues = list(runs) if n_rates >= min(most, 4) else [runs.reshape(-1, 2)]
    n_packs = -(-len(queues[0]) // most)
    size = -(-len(queues[0]) // n_packs)
    packs = [
        q[np.minimum(np.arange(i, i + size), len(q) - 1)]
        for q in queues
        for i in range(0, len(q), size)
    ]
    carried: list[Any] = [None] * len(packs)
    with workers(os.cpu_count()) as pool:
        for steps in stretches(plan, blocks):
            streams = _streams(plan, blocks, steps, pool)
            finished = pool.map(partial(_advance, plan, blocks, steps, streams), packs, carried)
            carried = []
            for result in finished:
                carried.append(result)
                on_progress(
                    (steps.start + len(steps) * len(carried) / len(packs)) / (plan.steps + 1)
                )
    return _gathered(
        packs, [saved for _, saved in carried], len(plan.rates), len(plan.seeds)
    ), blocks


def _runs_per_pack(blocks: TokenBlocks) -> int:
    bytes_per_run = 4 * blocks.token_prob.size * len(blocks.columns)
    return int(np.clip(_BYTES_PER_PACK // bytes_per_run, 1, _RUNS_PER_PACK))


def stretches(plan: Plan, blocks: TokenBlocks) -> Iterator[range]:
    """Consecutive ranges of steps whose batches fit in memory. The last batch of all is only looked
    at: the final loss.
    """
    rows = plan.batch if np.isfinite(plan.batch) else 1
    bytes_per_step = (
        2 * len(plan.seeds) * rows * blocks.token_prob.shape[1] * 4
    )  # drawn, then arranged
    most = max(1, min(_STEPS_AT_ONCE, int(_BYTES_DRAWN_AHEAD // bytes_per_step)))
    n_stretches = -(-(plan.steps + 1) // most)
    length = -(-(plan.steps + 1) // n_stretches)  # even ones: each further length is compiled again
    for start in range(0, plan.steps + 1, length):
        yield range(start, min(start + length, plan.steps + 1))


def _streams(
    plan: Plan, blocks: TokenBlocks, steps: range, pool: ThreadPoolExecutor
) -> list[Batches]:
    """The batches of `steps`, a stream for each seed."""
    if not np.isfinite(plan.batch):
        return [population(plan.model, blocks, plan.task, plan.dtype)] * len(plan.seeds)
    draws = list(
        pool.map(
            lambda seed: draw(plan.task, blocks, seed, steps, int(plan.batch), plan.context),
            plan.seeds,
        )
    )
    n_rows = max(rows_needed(drawn, plan.task.n_classes) for drawn in draws)
    return [arrange(drawn, n_rows, plan.model, blocks, plan.context, plan.dtype) for drawn in draws]


def _advance(
    plan: Plan,
    blocks: TokenBlocks,
    steps: range,
    streams: list[Batches],
    pack: np.ndarray,
    carried: tuple[DescentState, Saved] | None,
) -> tuple[DescentState, Saved]:
    """One pack through a stretch of steps."""
    seeds, rates = pack.T
    population_only = not np.isfinite(plan.batch)
    one_stream = len(set(seeds)) == 1 or population_only
    saved_as = np.where(
        np.isin(steps, plan.saves), np.searchsorted(plan.saves, steps), len(plan.saves)
    )
    with jax.enable_x64(plan.dtype == "float64"):  # the switch belongs to the thread
        data = (
            streams[seeds[0]]
            if one_stream
            else jax.tree.map(lambda *parts: np.stack(parts), *[streams[i] for i in seeds])
        )
        start = carried or jax.device_put(_start(plan, blocks, [plan.seeds[i] for i in seeds]))
        inputs = data, np.asarray(steps), saved_as, plan.rates[rates].astype(plan.dtype), blocks
        return jax.block_until_ready(
            _compiled_scan()(
                start, *inputs, plan.model, plan.optimiser, one_stream, population_only
            )
        )


def _start(plan: Plan, blocks: TokenBlocks, seeds: list[int]) -> tuple[DescentState, Saved]:
    """Initial parameters with the leading axis run, optimisers at rest, nothing saved."""
    drawn = {seed: starting(plan, blocks, seed) for seed in set(seeds)}
    parameters = jax.tree.map(lambda *parts: np.stack(parts), *[drawn[s] for s in seeds])
    memories = (_at_rest(plan.optimiser, rows) for rows in parameters)
    n_runs, n_looks = len(seeds), len(plan.saves) + 1
    empty = jax.tree.map(
        lambda part: np.zeros((n_runs, n_looks, *part.shape[1:]), part.dtype), parameters
    )
    saved = Saved(
        loss=np.zeros((n_runs, n_looks), plan.dtype),
        attention=empty.attention,
        decoder=empty.decoder if plan.keep_decoder else None,
        diverged_at=np.full(n_runs, plan.steps + 1),
    )
    return DescentState(parameters, *memories), saved


def starting(plan: Plan, blocks: TokenBlocks, seed: int) -> Parameters:
    """Initial parameters of a seed."""
    if plan.start is None:
        return plan.model.initial(blocks, generator(seed, Purpose.INITIALISATION), plan.dtype)
    return jax.tree.map(lambda part: np.asarray(part, plan.dtype), plan.start)


def _at_rest(optimiser: Optimiser, rows: Rows) -> Any:
    """The optimiser's first state: zeros, of shapes it tells without being compiled."""
    shapes = jax.eval_shape(jax.vmap(optimiser.at(0.0).init), rows)
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)


def _scan(
    carry: tuple[DescentState, Saved],
    data: Batches,
    steps: Array,
    saved_as: Array,
    rates: Array,
    blocks: TokenBlocks,
    model: Pairwise,
    optimiser: Optimiser,
    one_stream: bool,
    population_only: bool,
) -> tuple[DescentState, Saved]:
    """A scan over steps, mapped over the runs of a pack."""
    step = partial(_observed_step, blocks=blocks, model=model, optimiser=optimiser)

    def one_run(
        carry: tuple[DescentState, Saved], data: Batches, rate: Array
    ) -> tuple[DescentState, Saved]:
        if population_only:  # one batch for all steps
            batch = Batches(data.counts[0], data.weight[0], None)
            return jax.lax.scan(
                lambda c, x: (step(c, rate, *x, batch), None), carry, (steps, saved_as)
            )[0]
        return jax.lax.scan(lambda c, x: (step(c, rate, *x), None), carry, (steps, saved_as, data))[
            0
        ]

    return jax.vmap(one_run, in_axes=(0, None if one_stream else 0, 0))(carry, data, rates)


@cache
def _compiled_scan() -> Callable[..., tuple[DescentState, Saved]]:
    """`_scan`, compiled at its first call for each shape; the state it is given becomes the state
    it returns.

    Options of this executable alone: packs already keep all cores busy, so its operations need no
    threads of their own; the other two about halve compilation and cost the run some 5 %
    (benchmarks/compilation.py), a gain while runs are short. A JAX that does not know them says so
    on a trivial function, and then goes without.
    """
    options = {
        "xla_cpu_multi_thread_eigen": False,
        "xla_cpu_use_fusion_emitters": False,
        "xla_backend_optimization_level": 1,
    }
    try:
        jax.jit(lambda x: x, compiler_options=options).lower(0.0).compile()
    except jax.errors.JaxRuntimeError:
        options = {}
    names = ("model", "optimiser", "one_stream", "population_only")
    return jax.jit(
        _scan, static_argnames=names, donate_argnames=("carry",), compiler_options=options
    )


def _observed_step(
    carry: tuple[DescentState, Saved],
    rate: Array,
    step: Array,
    saved_as: Array,
    batch: Batches,
    *,
    blocks: TokenBlocks,
    model: Pairwise,
    optimiser: Optimiser,
) -> tuple[DescentState, Saved]:
    """Look at the state, then update it."""
    state, saved = carry
    new_state, loss = descent_step(
        state, batch, rate, blocks=blocks, model=model, optimiser=optimiser
    )
    put = partial(jax.lax.dynamic_update_index_in_dim, index=saved_as, axis=0)
    beyond = ~(loss <= DIVERGED * jnp.log(blocks.n_vocab))  # true for NaN as well
    return new_state, Saved(
        loss=put(saved.loss, loss),
        attention=jax.tree.map(put, saved.attention, state.parameters.attention),
        decoder=None
        if saved.decoder is None
        else jax.tree.map(put, saved.decoder, state.parameters.decoder),
        diverged_at=jnp.where(beyond, jnp.minimum(saved.diverged_at, step), saved.diverged_at),
    )


def descent_step(
    state: DescentState,
    batch: Batches,
    rate: Array,
    *,
    blocks: TokenBlocks,
    model: Pairwise,
    optimiser: Optimiser,
) -> tuple[DescentState, Array]:
    """One update; returns the new state and the loss of the batch before it. `rate`: the decoder's
    and the attention's.
    """
    loss, downhill = _loss_and_direction(state.parameters, batch, model, blocks)
    moved, memories = [], []
    for part, (rows, direction, memory) in enumerate(
        zip(state.parameters, downhill, state[1:], strict=True)
    ):
        loss_gradient = jax.tree.map(jnp.negative, direction)
        step, memory = optimiser.at(rate[part]).update(loss_gradient, memory)
        moved.append(optax.apply_updates(rows, step))
        memories.append(memory)
    return DescentState(Parameters(*moved), *memories), loss


def _loss_and_direction(
    parameters: Parameters, batch: Batches, model: Pairwise, blocks: TokenBlocks
) -> tuple[Array, Parameters]:
    """Loss of a batch and the direction downhill; only the blocks of classes in the batch are read."""
    if batch.classes is None:
        seen = forward(parameters, batch.counts, model, blocks)
        return mean_loss(seen, batch.weight), gradients(
            seen, parameters, batch.weight, model, blocks
        )
    drawn = Parameters(*(Rows(rows.shared, rows.own[batch.classes]) for rows in parameters))
    of_drawn = blocks.of_classes(batch.classes)
    seen = forward(drawn, batch.counts, model, of_drawn)
    downhill = gradients(seen, drawn, batch.weight, model, of_drawn)
    spread = (
        Rows(part.shared, jnp.zeros_like(rows.own).at[batch.classes].add(part.own))
        for rows, part in zip(parameters, downhill, strict=True)
    )
    return mean_loss(seen, batch.weight), Parameters(*spread)


def _gathered(packs: list[np.ndarray], saved: list[Saved], n_rates: int, n_seeds: int) -> Saved:
    """Packs, each with the leading axis run, put together to (rate, seed, ...), without the entry
    for unsaved steps.
    """

    def gather(*parts: Array) -> np.ndarray:
        whole = np.empty((n_rates, n_seeds, *parts[0].shape[1:]), parts[0].dtype)
        for pack, part in zip(packs, parts, strict=True):
            seeds, rates = pack.T
            whole[rates, seeds] = part
        return whole if whole.ndim == 2 else whole[:, :, :-1]

    return jax.tree.map(gather, *saved)
