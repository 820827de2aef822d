"""Dynamics (A): training any system on mini-batches, or on its whole population, all seeds at once.

One compiled scan runs over the steps, mapped over seeds, and seeds are spread over threads. A
system that can do better registers a `train` of its own (`descent.py`: blocks and packs;
`embedded_descent.py`: sequences drawn once), behind the same call.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, singledispatch
from typing import Any, NamedTuple

import numpy as np

from saccade.engines.flat_flow import Compiled
from saccade.engines.flow import checked_parameters
from saccade.engines.optimiser import DIVERGED, Optimiser, checked_optimiser
from saccade.engines.randomness import Purpose, checked_seeds, generator
from saccade.engines.schedule import save_steps
from saccade.engines.trajectory import trajectory
from saccade.engines.workers import workers
from saccade.errors import InputError, checked_count
from saccade.later import Array, jax, jnp, optax, xr
from saccade.models.system import System, check_batch_loss, rates_by_leaf

MOST_STEPS = 1e12  # beyond it is a typing error, not an experiment
_BYTES_AT_ONCE = (
    2**27
)  # parameters of every step of a stretch are held at once; a stretch is as long as fits here,
_STEPS_AT_ONCE = 500  # and no longer, so that progress is seen and Ctrl-C is heard
_LARGE = 2**16  # numbers of a model that fill a core's cache by themselves


@dataclass(frozen=True)
class Plan:
    """All that one call trains: where each seed starts, what it reads at each step, how fast each
    array moves.
    """

    loss: Callable[
        [Any, Any, Any], Any
    ]  # of parameters, batch and data; the same function for the same code
    rates: Any  # a tree like the parameters
    optimiser: Optimiser
    seeds: list[int]
    steps: int
    saves: np.ndarray
    dtype: str
    start: Callable[[int], Any]  # of a seed
    batches: Callable[[int, range], Any]  # of a seed and steps, with the leading axis step
    data: Callable[[int], Any] = lambda seed: None  # of a seed, read at every step


class DescentState(NamedTuple):
    """What the next step needs."""

    parameters: Any
    memory: Any


class DescentInfo(NamedTuple):
    """What is looked at: the state before an update, and the loss of the batch it is about to learn
    from.
    """

    parameters: Any
    loss: Any


@singledispatch
def train(
    system: System,
    *,
    steps: int = 1000,
    optimiser: str = "sgd",
    momentum: float = 0.0,
    epsilon: float = 1e-8,
    seeds: int | Sequence[int] = 1,
    start: Any = None,
    save: str | Sequence[int] = "log",
    keep: Sequence[str] | None = None,
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> xr.Dataset:
    """Train on the system's batches, or on its population loss if it has none, in float64;
    arguments as in `saccade.train`.
    """
    began = time.perf_counter()
    kept = system.kept(keep)
    n_steps = checked_count("steps", steps, low=0, high=MOST_STEPS)
    given = None if start is None else checked_parameters("start", system, start)
    equations = system.equations()
    if equations.batch_loss is None and type(system).velocity is not System.velocity:
        raise InputError(
            f"{type(system).__name__} defines its own `velocity` for a flow; to train it needs `batch` and `batch_loss`."
        )

    if type(system).batch is not System.batch and type(system).batch_loss is not System.batch_loss:
        check_batch_loss(system, system.batch(generator(0, Purpose.DATA, 0)))

    def batches(seed: int, span: range) -> Any:
        if equations.batch_loss is None:
            return np.zeros((len(span), 0))
        drawn = [system.batch(generator(seed, Purpose.DATA, step)) for step in span]
        if (
            len({(jax.tree.structure(one), *map(np.shape, jax.tree.leaves(one))) for one in drawn})
            > 1
        ):
            raise InputError(
                f"`batch` of {type(system).__name__} must give arrays of the same shapes at every step."
            )
        return _stacked(drawn)

    plan = Plan(
        loss=equations.batch_loss or _of_population(equations.loss),
        rates=rates_by_leaf(system, system.start(generator(0, Purpose.INITIALISATION))),
        optimiser=checked_optimiser(optimiser, momentum, epsilon),
        seeds=checked_seeds(seeds),
        steps=n_steps,
        saves=save_steps(n_steps, save),
        dtype="float64",
        start=lambda seed: (
            system.start(generator(seed, Purpose.INITIALISATION)) if given is None else given
        ),
        batches=batches,
        data=lambda seed: equations.setting,
    )
    saved = descend(plan, on_progress)
    bound = DIVERGED * np.maximum(np.abs(saved.loss[:, :1]), 1.0)
    how = (
        "descent on the population loss"
        if equations.batch_loss is None
        else "A: mini-batch training"
    )
    return descent_record(system, plan, saved, kept, bound, {}, time.perf_counter() - began, how)


@lru_cache
def _of_population(loss: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """The same loss at every step, one function for each so that it is compiled once."""
    return lambda parameters, batch, setting: loss(parameters, setting)


def descend(plan: Plan, on_progress: Callable[[float], None]) -> DescentInfo:
    """Run the plan; arrays of the result have the leading axes seed and saved step."""
    # Seeds that are computed together: small models gain by it, large ones do not.
    n_numbers = sum(np.size(part) for part in jax.tree.leaves(plan.start(plan.seeds[0])))
    n_packs = len(plan.seeds) if n_numbers >= _LARGE else min(len(plan.seeds), os.cpu_count() or 1)
    packs = [pack.tolist() for pack in np.array_split(np.array(plan.seeds), n_packs)]
    with workers(min(len(packs), os.cpu_count() or 1)) as pool:
        done = list(pool.map(partial(_trained, plan, on_progress=on_progress), packs))
    return jax.tree.map(lambda *parts: np.concatenate(parts), *done)


def _trained(plan: Plan, seeds: list[int], *, on_progress: Callable[[float], None]) -> DescentInfo:
    """Some of the seeds through all steps."""
    with jax.enable_x64(plan.dtype == "float64"):  # the switch belongs to the thread
        data = _stacked([plan.data(seed) for seed in seeds])
        parameters = jax.tree.map(
            lambda part: jnp.asarray(part, plan.dtype),
            _stacked([plan.start(seed) for seed in seeds]),
        )
        state = DescentState(parameters, jax.vmap(plan.optimiser.at(1.0).init)(parameters))
        saved, stretches = [], list(_stretches(plan, parameters))
        n_saved = max(int(np.isin(steps, plan.saves).sum()) for steps in stretches)
        advance = _advancing(plan.loss, plan.optimiser, n_saved)
        for steps in stretches:
            is_saved, filled = np.isin(steps, plan.saves), len(stretches[0]) - len(steps)
            batches = _stacked([_lengthened(plan.batches(seed, steps), filled) for seed in seeds])
            places = np.pad(np.where(is_saved, np.cumsum(is_saved) - 1, n_saved), (0, filled))
            state, info = advance(state, data, batches, places, len(steps), plan.rates)
            seen = jax.tree.map(np.asarray, info)
            saved.append(jax.tree.map(lambda part, count=is_saved: part[:, : count.sum()], seen))
            on_progress(steps.stop / (plan.steps + 1))
    return jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *saved)


def _stacked(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *parts: np.stack(parts), *trees)


def _lengthened(batches: Any, more: int) -> Any:
    """With steps that are never taken, copies of the last."""
    return jax.tree.map(
        lambda part: np.concatenate([part, np.repeat(part[-1:], more, axis=0)]), batches
    )


def _stretches(plan: Plan, parameters: Any) -> Iterator[range]:
    """Consecutive ranges of steps; the last step of all is only looked at."""
    n_numbers = sum(part.size for part in jax.tree.leaves(parameters))
    most = max(1, min(_STEPS_AT_ONCE, _BYTES_AT_ONCE // (8 * n_numbers), plan.steps + 1))
    for start in range(0, plan.steps + 1, most):
        yield range(start, min(start + most, plan.steps + 1))


@lru_cache
def _advancing(loss: Callable[..., Any], optimiser: Optimiser, n_saved: int) -> Compiled:
    return Compiled(partial(_advance, loss=loss, optimiser=optimiser, n_saved=n_saved))


def _advance(
    state: DescentState,
    data: Any,
    batches: Any,
    places: Any,
    count: Any,
    rates: Any,
    loss: Callable[..., Any],
    optimiser: Optimiser,
    n_saved: int,
) -> tuple[DescentState, DescentInfo]:
    """All seeds through the first `count` steps of a stretch (leading axes of `batches`: seed,
    step); the others fill it up, so that one length is compiled. What a step looks at is kept at
    its place; that of steps that are not saved is the last.
    """

    def one_seed(state: DescentState, data: Any, batches: Any) -> tuple[DescentState, DescentInfo]:
        def step(
            at: Any, carried: tuple[DescentState, DescentInfo]
        ) -> tuple[DescentState, DescentInfo]:
            before, kept = carried
            after, info = descent_step(before, _at(batches, at), data, rates, loss, optimiser)
            return after, jax.tree.map(
                lambda all_kept, one: jax.lax.dynamic_update_index_in_dim(
                    all_kept, one, places[at], 0
                ),
                kept,
                info,
            )

        value = jax.eval_shape(lambda *given: loss(*given), state.parameters, _at(batches, 0), data)
        nothing = jax.tree.map(
            lambda part: jnp.zeros((n_saved + 1, *part.shape), part.dtype),
            DescentInfo(state.parameters, value),
        )
        return jax.lax.fori_loop(0, count, step, (state, nothing))

    if len(jax.tree.leaves(state)[0]) > 1:
        return jax.vmap(one_seed)(state, data, batches)
    alone = one_seed(
        *_at((state, data, batches), 0)
    )  # products of matrices are faster so than in a stack
    return jax.tree.map(lambda part: part[None], alone)


def _at(tree: Any, place: Any) -> Any:
    return jax.tree.map(
        lambda part: jax.lax.dynamic_index_in_dim(part, place, keepdims=False), tree
    )


def descent_step(
    state: DescentState,
    batch: Any,
    data: Any,
    rates: Any,
    loss: Callable[..., Any],
    optimiser: Optimiser,
) -> tuple[DescentState, DescentInfo]:
    """One update."""
    value, slope = jax.value_and_grad(loss)(state.parameters, batch, data)
    step, memory = optimiser.at(1.0).update(slope, state.memory)
    scaled = jax.tree.map(lambda rate, part: rate * part, rates, step)
    return DescentState(optax.apply_updates(state.parameters, scaled), memory), DescentInfo(
        state.parameters, value
    )


def descent_record(
    system: System,
    plan: Plan,
    saved: DescentInfo,
    keep: Sequence[str],
    bound: Any,
    config: dict[str, Any],
    wall_time: float,
    dynamics: str = "A: mini-batch training",
) -> xr.Dataset:
    """What was saved, up to where the loss was beyond `bound`."""
    going = np.logical_and.accumulate(saved.loss <= bound, axis=1)  # false for NaN as well

    def series(values: Array) -> np.ndarray:
        return np.where(going.reshape(going.shape + (1,) * (np.ndim(values) - 2)), values, np.nan)

    path = jax.tree.map(series, saved.parameters)
    runs = [
        system.observe_path(jax.tree.map(lambda part, run=run: part[run], path), keep)
        for run in range(len(plan.seeds))
    ]
    return trajectory(
        system,
        dynamics=system.label(dynamics),
        times=plan.saves,
        time_unit="updates",
        runs={"seed": plan.seeds},
        loss=series(saved.loss),
        stop_reason=np.where(going.all(axis=1), "finished", "diverged"),
        stop_time=np.where(going.all(axis=1), plan.steps, plan.saves[np.argmin(going, axis=1)]),
        seen=_stacked(runs),
        config=system.config()
        | {"optimiser": vars(plan.optimiser), "steps": plan.steps, **config, "dtype": plan.dtype},
        wall_time=wall_time,
    )
