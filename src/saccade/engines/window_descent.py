"""Dynamics (A) without noise: training the pairwise model on all windows of a text at every step.

One pass over the windows is the work of a step, and it runs outside JAX (`models/window_pass.py`);
so this is a plain loop, which looks at the parameters at the steps to be saved and keeps nothing of
the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from saccade.engines.flow import checked_parameters
from saccade.engines.optimiser import DIVERGED, Optimiser, checked_optimiser
from saccade.engines.schedule import save_steps
from saccade.engines.train import MOST_STEPS, train
from saccade.engines.trajectory import trajectory
from saccade.errors import checked_choice, checked_count
from saccade.later import jax, optax, xr
from saccade.models.pairwise_text import PairwiseText, TextParameters
from saccade.models.system import Observable


@train.register(PairwiseText)
def _train(
    system: PairwiseText,
    *,
    steps: int = 100,
    optimiser: str = "sgd",
    momentum: float = 0.0,
    epsilon: float = 1e-8,
    start: Any = None,
    save: str | Sequence[int] = "log",
    keep: Sequence[str] | None = None,
    dtype: str = "float32",
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> xr.Dataset:
    """One run, since neither the start nor the batches are random; arguments as in `saccade.train`.

    `dtype` is that of the products with the decoder; parameters and sums over windows are float64.
    """
    began = time.perf_counter()
    kept = system.kept(keep)
    n_steps = checked_count("steps", steps, low=0, high=MOST_STEPS)
    used, saves = checked_optimiser(optimiser, momentum, epsilon), save_steps(n_steps, save)
    dtype = checked_choice("dtype", dtype, ("float32", "float64"))
    first = (
        system.start(np.random.default_rng(0))
        if start is None
        else checked_parameters("start", system, start)
    )
    losses, seen, lost = _descended(system, first, used, n_steps, saves, kept, dtype, on_progress)
    return trajectory(
        system,
        dynamics=system.label("A: training on all windows"),
        times=saves,
        time_unit="updates",
        runs={},
        loss=losses,
        stop_reason="finished" if lost is None else "diverged",
        stop_time=n_steps if lost is None else lost,
        seen=_stacked(seen, len(saves)),
        config=system.config() | {"optimiser": vars(used), "steps": n_steps, "dtype": dtype},
        wall_time=time.perf_counter() - began,
    )


def _descended(
    system: PairwiseText,
    parameters: TextParameters,
    optimiser: Optimiser,
    n_steps: int,
    saves: np.ndarray,
    keep: Sequence[str],
    dtype: str,
    on_progress: Callable[[float], None],
) -> tuple[np.ndarray, list[Mapping[str, Observable]], int | None]:
    """Losses and looks at the steps to be saved, and the step at which the run was lost, if it was."""
    losses = np.full(len(saves), np.nan)
    seen: list[Mapping[str, Observable]] = []
    with jax.enable_x64(True):
        update = jax.jit(_updated, static_argnames="optimiser")
        memory = optimiser.at(1.0).init(parameters)
        rates = TextParameters(**system.rates())
        for step in range(n_steps + 1):
            found = system.one_pass(parameters, dtype)
            if not found.loss <= DIVERGED * np.log(system.windows.n_vocab):  # true for NaN as well
                return losses, seen, step
            if step in saves:
                losses[len(seen)] = found.loss
                seen.append(
                    system.observe_path(
                        jax.tree.map(lambda part: np.asarray(part)[None], parameters), keep
                    )
                )
            on_progress((step + 1) / (n_steps + 1))
            if step < n_steps:
                slope = TextParameters(-found.decoder, -found.attention)
                parameters, memory = jax.tree.map(
                    np.asarray, update(parameters, memory, slope, rates, optimiser=optimiser)
                )
    return losses, seen, None


def _updated(
    parameters: Any, memory: Any, slope: Any, rates: Any, *, optimiser: Optimiser
) -> tuple[Any, Any]:
    step, memory = optimiser.at(1.0).update(slope, memory)
    return optax.apply_updates(
        parameters, jax.tree.map(lambda rate, part: rate * part, rates, step)
    ), memory


def _stacked(seen: list[Mapping[str, Observable]], n_saves: int) -> dict[str, Observable]:
    """One array for each variable with the leading axis of saves, NaN where the run was lost
    before.
    """

    def joined(parts: list[Observable]) -> Observable:
        values = np.concatenate([part.values for part in parts])
        missing = np.full((n_saves - len(values), *values.shape[1:]), np.nan)
        return Observable(
            parts[0].axes, np.concatenate([values, missing]), parts[0].unit, parts[0].definition
        )

    return {name: joined([one[name] for one in seen]) for name in seen[0]}
