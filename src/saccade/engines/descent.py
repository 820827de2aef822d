"""Dynamics (A): mini-batch training of the pairwise model. Checked settings in, a labelled record
out.

Not here: the engines, compiled C (`descent_kernel.py`) and, for all that it does not do, a compiled
scan (`descent_scan.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from saccade.engines import descent_kernel, descent_scan
from saccade.engines.descent_scan import Plan, Saved
from saccade.engines.flow import checked_parameters
from saccade.engines.optimiser import checked_optimiser
from saccade.engines.randomness import checked_seeds
from saccade.engines.schedule import save_steps
from saccade.engines.train import MOST_STEPS, train
from saccade.engines.trajectory import trajectory
from saccade.errors import (
    InputError,
    checked_choice,
    checked_count,
    checked_number,
    checked_size,
    is_list_like,
)
from saccade.later import xr
from saccade.models.pairwise import Pairwise, Rows, attention_seen
from saccade.models.system import Observable
from saccade.models.token_blocks import TokenBlocks

_MOST_SEQUENCES, _MOST_TOKENS = 1e7, 1e15  # beyond these is a typing error, not an experiment


@train.register(Pairwise)
def _train(
    system: Pairwise,
    *,
    steps: int = 100,
    lr_decoder: float | Sequence[float] | np.ndarray | None = None,
    lr_attention: float | Sequence[float] | np.ndarray | None = None,
    optimiser: str = "sgd",
    momentum: float = 0.0,
    batch: float = 128,
    context: float = 127,
    seeds: int | Sequence[int] = 1,
    start: Any = None,
    save: str | Sequence[int] = "log",
    keep: Sequence[str] = ("attention",),
    dtype: str = "float32",
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> xr.Dataset:
    """One run for each seed and each pair of rates, all of one seed on the same data; arguments as
    in `saccade.train`.
    """
    began = time.perf_counter()
    kept = system.kept(keep)
    lr_decoder = system.lr_decoder if lr_decoder is None else lr_decoder
    lr_attention = system.lr_attention if lr_attention is None else lr_attention
    n_steps = checked_count("steps", steps, low=0, high=MOST_STEPS)
    named: dict[str, Any] = {"lr_decoder": lr_decoder, "lr_attention": lr_attention}
    lists = {
        name: [
            checked_number(name, rate, low=0.0, high=1e30)
            for rate in (rates if is_list_like(rates) else [rates])
        ]
        for name, rates in named.items()
    }
    sizes = {name: len(rates) for name, rates in lists.items()}
    if 0 in sizes.values() or len(set(sizes.values()) - {1}) > 1:
        raise InputError(
            f"`lr_decoder` and `lr_attention` are used in pairs: lists must have the same length; got {sizes}."
        )
    plan = Plan(
        task=system.classes,
        model=system.options,
        optimiser=checked_optimiser(optimiser, momentum),
        rates=np.stack(np.broadcast_arrays(*lists.values()), axis=1),
        seeds=checked_seeds(seeds),
        steps=n_steps,
        batch=checked_size("batch", batch, high=_MOST_SEQUENCES),
        context=checked_size("context", context, high=_MOST_TOKENS),
        saves=save_steps(n_steps, save),
        keep_decoder="decoder" in kept,
        dtype=checked_choice("dtype", dtype, ("float32", "float64")),
        start=None if start is None else checked_parameters("start", system, start),
    )
    if math.isinf(plan.batch) and not math.isinf(plan.context):
        raise InputError(
            "`batch=math.inf` is the population, whose contexts are infinite: set `context=math.inf` too."
        )
    engine = descent_kernel if descent_kernel.is_for(plan) else descent_scan
    saved, blocks = engine.descend(plan, on_progress)
    record = _record(system, plan, saved, blocks, kept, time.perf_counter() - began)
    single_pair = not (is_list_like(lr_decoder) or is_list_like(lr_attention))
    return record.isel(rate=0) if single_pair else record


def _record(
    system: Pairwise,
    plan: Plan,
    saved: Saved,
    blocks: TokenBlocks,
    keep: Sequence[str],
    wall_time: float,
) -> xr.Dataset:
    lost = plan.saves >= saved.diverged_at[..., None]  # (rate, seed, time)

    def where_lost(fill: float, values: np.ndarray) -> np.ndarray:
        return np.where(lost.reshape(lost.shape + (1,) * (values.ndim - 3)), fill, values)

    attention = Rows(
        *(where_lost(0.0, part) for part in saved.attention)
    )  # nothing is computed from what a diverged run left
    seen = attention_seen(attention, blocks, keep)
    if saved.decoder is not None:
        seen["decoder"] = Observable(("token", "next_token"), blocks.dense_decoder(*saved.decoder))
    settings = {name: getattr(plan, name) for name in ("steps", "batch", "context", "dtype")}
    settings["start"] = "its own" if plan.start is None else "given"
    return trajectory(
        system,
        dynamics=system.label("A: mini-batch training"),
        times=plan.saves,
        time_unit="updates",
        runs={"rate": None, "seed": plan.seeds},
        loss=where_lost(np.nan, saved.loss),
        stop_reason=np.where(saved.diverged_at <= plan.steps, "diverged", "finished"),
        stop_time=np.minimum(saved.diverged_at, plan.steps),
        seen={
            name: replace(one, values=where_lost(np.nan, one.values)) for name, one in seen.items()
        },
        config=system.config() | {"optimiser": vars(plan.optimiser), **settings},
        wall_time=wall_time,
        rates={
            "lr_decoder": ("rate", plan.rates[:, 0]),
            "lr_attention": ("rate", plan.rates[:, 1]),
        },
    )
