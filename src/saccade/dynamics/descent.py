"""Dynamics (A): mini-batch training of the pairwise model. Checked settings in, a labelled record out.

Not here: the compiled scan itself (`descent_scan.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.data.sequence_classes import SequenceClasses
from saccade.dynamics.descent_scan import Plan, Saved, descend
from saccade.dynamics.optimiser import checked_optimiser
from saccade.dynamics.randomness import checked_seeds
from saccade.dynamics.schedule import save_steps
from saccade.errors import (
    InputError,
    checked_choice,
    checked_count,
    checked_kept,
    checked_kind,
    checked_number,
    checked_size,
    is_list_like,
)
from saccade.model.pairwise import Pairwise, Rows
from saccade.model.token_blocks import TokenBlocks
from saccade.observe.measures import class_attention

if TYPE_CHECKING:
    import xarray as xr

_KEEPABLE = ("attention", "attention_logits", "decoder")
_MOST_STEPS, _MOST_SEQUENCES, _MOST_TOKENS = 1e12, 1e7, 1e15  # beyond these is a typing error, not an experiment


def train(
    task: SequenceClasses,
    *,
    steps: int = 100,
    lr_decoder: float | Sequence[float] | np.ndarray = 1.0,
    lr_attention: float | Sequence[float] | np.ndarray = 1.0,
    optimiser: str = "sgd",
    momentum: float = 0.0,
    batch: float = 128,
    context: float = 127,
    seeds: int | Sequence[int] = 1,
    save: str | Sequence[int] = "log",
    model: Pairwise | None = None,
    keep: Sequence[str] = ("attention",),
    dtype: str = "float32",
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> xr.Dataset:
    """Train on mini-batches drawn from `task`, one run for each seed and each pair of rates.

    | argument                     | unit, range         | meaning                                                                |
    |------------------------------|---------------------|------------------------------------------------------------------------|
    | `steps`                      | updates, >= 0       |                                                                        |
    | `lr_decoder`, `lr_attention` | per step, >= 0      | numbers, or lists of one length: each pair is trained on the same data |
    | `optimiser`                  | `"sgd"`, `"adam"`   | `momentum`, in [0, 1), belongs to SGD; Adam has Optax's defaults       |
    | `batch`                      | sequences           | `math.inf`: the population of classes, without sampling                |
    | `context`                    | tokens before query | `math.inf`: the limit of infinite context                              |
    | `seeds`                      | a count or a list   | a count n stands for the seeds 0 .. n-1                                |
    | `save`                       |                     | `"log"`, `"linear"`, or a list of steps                                |
    | `model`                      |                     | `Pairwise(...)`: start, normalisation, residual, query as a key        |
    | `keep`                       |                     | of `attention`, `attention_logits`, `decoder`; the loss is always kept |
    | `dtype`                      |                     | `"float32"` or `"float64"`                                             |
    """
    started = time.perf_counter()
    checked_kept(keep, _KEEPABLE)
    plan = Plan(
        task=checked_kind("task", task, SequenceClasses),
        model=Pairwise() if model is None else checked_kind("model", model, Pairwise),
        optimiser=checked_optimiser(optimiser, momentum),
        rates=_checked_rates(lr_decoder, lr_attention),
        seeds=checked_seeds(seeds),
        steps=checked_count("steps", steps, low=0, high=_MOST_STEPS),
        batch=checked_size("batch", batch, high=_MOST_SEQUENCES),
        context=checked_size("context", context, high=_MOST_TOKENS),
        saves=save_steps(checked_count("steps", steps, low=0, high=_MOST_STEPS), save),
        keep_decoder="decoder" in keep,
        dtype=checked_choice("dtype", dtype, ("float32", "float64")),
    )
    if math.isinf(plan.batch) and not math.isinf(plan.context):
        raise InputError("`batch=math.inf` is the population, whose contexts are infinite: set `context=math.inf` too.")
    saved, blocks = descend(plan, on_progress)
    record = _record(plan, saved, blocks, keep, time.perf_counter() - started)
    single_pair = not (is_list_like(lr_decoder) or is_list_like(lr_attention))
    return record.isel(rate=0) if single_pair else record


def _record(plan: Plan, saved: Saved, blocks: TokenBlocks, keep: Sequence[str], wall_time: float) -> xr.Dataset:
    from saccade.records.schema import make_record, task_variables  # xarray loads only now, when the work is done

    diverged = saved.diverged_at <= plan.steps
    lost = plan.saves >= saved.diverged_at[..., None]  # (rate, seed, time)

    def where_lost(fill: float, values: np.ndarray) -> np.ndarray:
        return np.where(lost.reshape(lost.shape + (1,) * (values.ndim - 3)), fill, values)

    series = partial(where_lost, np.nan)
    z = Rows(*(where_lost(0.0, part) for part in saved.attention))  # nothing is computed from what a diverged run left
    runs = ("rate", "seed")
    variables: dict[str, Any] = {
        "loss": ((*runs, "time"), series(saved.loss)),
        "stop_reason": (runs, np.where(diverged, "diverged", "finished")),
        "stop_time": (runs, np.minimum(saved.diverged_at, plan.steps)),
    }
    if "attention" in keep:
        attention = blocks.by_token(class_attention(blocks.class_slots(*z), blocks.token_prob))
        variables["attention"] = ((*runs, "time", "class", "token"), series(attention))
    if "attention_logits" in keep:
        variables["attention_logits"] = ((*runs, "time", "query", "token"), series(blocks.dense_attention_logits(*z)))
    if saved.decoder is not None:
        variables["decoder"] = ((*runs, "time", "token", "next_token"), series(blocks.dense_decoder(*saved.decoder)))
    return make_record(
        dynamics="A: mini-batch training",
        variables=variables | task_variables(plan.task),
        coords={
            "time": plan.saves,
            "seed": plan.seeds,
            "query": blocks.queries,
            "lr_decoder": ("rate", plan.rates[:, 0]),
            "lr_attention": ("rate", plan.rates[:, 1]),
        },
        time_unit="updates",
        config={
            "task": plan.task.name,
            "model": vars(plan.model),
            "optimiser": vars(plan.optimiser),
            "steps": plan.steps,
            "batch": plan.batch,
            "context": plan.context,
            "dtype": plan.dtype,
        },
        wall_time=wall_time,
    )


def _checked_rates(lr_decoder: Any, lr_attention: Any) -> np.ndarray:
    named = {"lr_decoder": lr_decoder, "lr_attention": lr_attention}
    lists = {
        name: [checked_number(name, rate, low=0.0, high=1e30) for rate in (rates if is_list_like(rates) else [rates])]
        for name, rates in named.items()
    }
    sizes = {name: len(rates) for name, rates in lists.items()}
    if 0 in sizes.values() or len(set(sizes.values()) - {1}) > 1:
        raise InputError(f"`lr_decoder` and `lr_attention` pair up: lists must have one length; got {sizes}.")
    return np.stack(np.broadcast_arrays(*lists.values()), axis=1)
