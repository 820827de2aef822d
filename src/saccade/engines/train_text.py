"""Train a small Transformer on text: a plain loop, with observations and checkpoints at log-spaced
steps.

Randomness has an address: the start is named by the seed, batches and dropout by seed and step. So
looking, resuming and logging do not change a run, and the same settings on the same number of
threads give the same bits. Started by `torchrun`, it is shared by several processes
(`training_processes.py`). Not here: the model (models/transformer.py), its loss
(models/blocked_loss.py), what a look sees (`training_looks.py`).
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from saccade.engines.parameter_groups import OPTIMISERS, make_optimiser
from saccade.engines.randomness import Purpose, generator
from saccade.engines.schedule import save_steps
from saccade.engines.text_batches import ORDERS, TokenCorpus, Windows, fixed_windows
from saccade.engines.text_checkpoints import Checkpoints, continued
from saccade.engines.text_observations import Looks, Measures, next_token_loss
from saccade.engines.text_processes import Processes, joined_processes
from saccade.errors import (
    InputError,
    checked_choice,
    checked_count,
    checked_kind,
    checked_number,
    checked_seed,
    is_list_like,
    shortened,
)
from saccade.models.products import fast_products
from saccade.models.transformer import Transformer, TransformerConfig
from saccade.watching.guard import Guard

if TYPE_CHECKING:
    import xarray as xr

_MOST_STEPS, _MOST_ROWS, _MOST_TOKENS = (
    1e12,
    1e7,
    1e6,
)  # beyond these is a typing error, not an experiment
_PROBE_WINDOWS = {
    "all": 8,
    "last": 64,
}  # of the default probe: the last position alone is one query a window


@dataclass(frozen=True)
class Plan:
    """All that decides what a run computes."""

    model: TransformerConfig
    steps: int
    batch: int
    context: int
    order: str
    optimiser: str
    rates: dict[str, float]
    momentum: float
    weight_decay: float
    clip: float | None
    loss: str
    seed: int

    @property
    def last_only(self) -> bool:
        return self.loss == "last"


def train_text(
    corpus: TokenCorpus,
    *,
    model: TransformerConfig,
    steps: int,
    batch: int,
    context: int,
    order: str = "random",
    optimiser: str = "sgd",
    lr: float,
    lr_attention: float | None = None,
    lr_decoder: float | None = None,
    lr_mlp: float | None = None,
    momentum: float = 0.9,
    weight_decay: float = 0.0,
    clip: float | None = None,
    loss: str = "all",
    seed: int = 0,
    every: str | int | Sequence[int] = "log",
    probe: Any = None,
    measures: Measures | None = None,
    watch: bool = True,
    weights: bool = True,
    budget: float | None = None,
    evaluate: int = 20,
    checkpoints: str | Path | None = None,
    resume: bool = True,
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> xr.Dataset:
    """Train on `corpus.train` for `steps` updates and return what was seen on the way.

    | argument       | meaning                                                                                                   |
    |----------------|-----------------------------------------------------------------------------------------------------------|
    | `batch`        | windows a step, of all processes together                                                                 |
    | `context`      | tokens a window                                                                                           |
    | `order`        | `"random"` windows, or `"stream"`: read on from step to step (`training_batches.py`)                      |
    | `optimiser`    | `"sgd"`, `"momentum"`, `"adam"` or `"adamw"`                                                              |
    | `lr`           | learning rate; `lr_attention`, `lr_decoder` and `lr_mlp` where they differ (`parameter_groups.py`)        |
    | `momentum`     | of optimiser `"momentum"`                                                                                 |
    | `clip`         | largest length of the whole gradient; longer ones are scaled down to it                                   |
    | `loss`         | `"all"` positions of a window, or the `"last"` alone                                                      |
    | `every`        | when to observe: `"log"` (about 50 times), `"linear"`, a number of steps, or a list of steps              |
    | `probe`        | token ids (sequence, position) on which attention is watched; default: windows of the validation text     |
    | `measures`     | function of model and step, called at every observation; returns numbers, arrays or (axes, array) by name |
    | `watch`        | whether attention is watched (`saccade.watch`); `weights` and `budget` are its settings, budget unlimited |
    | `evaluate`     | windows of the validation text that `valid_loss` is taken on; 0: none                                     |
    | `checkpoints`  | a folder; a run that is there already is gone on with, if `resume` (`training_checkpoints.py`)            |
    | `on_progress`  | called with the share of the steps that are done                                                          |
    """
    started = time.perf_counter()
    # A rate for every group of parameters, `lr` where none is given.
    rates = {"rest": checked_number("lr", lr, low=0.0, high=1e6)}
    for group, rate in {"attention": lr_attention, "decoder": lr_decoder, "mlp": lr_mlp}.items():
        rates[group] = (
            rates["rest"]
            if rate is None
            else checked_number(f"lr_{group}", rate, low=0.0, high=1e6)
        )
    plan = Plan(
        model=checked_kind("model", model, TransformerConfig),
        steps=checked_count("steps", steps, low=0, high=_MOST_STEPS),
        batch=checked_count("batch", batch, high=_MOST_ROWS),
        context=checked_count("context", context, high=_MOST_TOKENS),
        order=checked_choice("order", order, ORDERS),
        optimiser=checked_choice("optimiser", optimiser, OPTIMISERS),
        rates=rates,
        momentum=checked_number("momentum", momentum, low=0.0, high=math.nextafter(1.0, 0.0)),
        weight_decay=checked_number("weight_decay", weight_decay, low=0.0, high=1e6),
        clip=None if clip is None else checked_number("clip", clip, low=0.0, open_low=True),
        loss=checked_choice("loss", loss, tuple(_PROBE_WINDOWS)),
        seed=checked_seed("seed", seed),
    )
    if isinstance(every, str):
        look_steps = save_steps(plan.steps, checked_choice("every", every, ("log", "linear")))
    else:  # the last is always among them
        if is_list_like(every):
            listed = [checked_count("every", step, low=0, high=plan.steps) for step in every]  # type: ignore[union-attr]
        else:
            listed = list(range(0, plan.steps + 1, checked_count("every", every)))
        look_steps = save_steps(plan.steps, [*listed, plan.steps])
    n_valid = checked_count("evaluate", evaluate, low=0, high=_MOST_ROWS)
    processes = joined_processes()
    with torch.random.fork_rng(devices=[]):
        run = _Run.start(plan, corpus, processes)
        is_first = processes.is_first  # the others only train
        probe_ids = _probe_ids(probe, plan, corpus)
        looks = Looks(
            run.model,
            look_steps,
            probe=probe_ids,
            valid=fixed_windows(corpus, n_valid, plan.context) if n_valid and is_first else None,
            last_only=plan.last_only,
            measures=measures if is_first else None,
            is_watched=watch and is_first,
            budget=budget,
            weights=weights,
        )
        shared = asdict(plan)
        del shared["steps"]  # one of two runs that are the same run may be longer
        settings = {
            "corpus": corpus.name,
            "corpus_hash": corpus.hash,
            **shared,
            "probe": hashlib.sha256(probe_ids.numpy().tobytes()).hexdigest()[:16],
        }
        store = None if checkpoints is None else Checkpoints(checkpoints, settings, resume=resume)
        return _trained(run, looks, store, settings | {"steps": plan.steps}, on_progress, started)


@dataclass(frozen=True)
class _Run:
    """What a step of training reads and moves."""

    plan: Plan
    model: Transformer
    wrapped: nn.Module  # the model, its gradients averaged over the processes
    optimiser: torch.optim.Optimizer
    windows: Windows
    processes: Processes

    @classmethod
    def start(cls, plan: Plan, corpus: TokenCorpus, processes: Processes) -> _Run:
        if plan.model.n_vocab < corpus.n_vocab:
            raise InputError(
                f"the model has {plan.model.n_vocab} tokens, corpus {corpus.name!r} has {corpus.n_vocab}."
            )
        if plan.model.context < plan.context:
            raise InputError(
                f"`context` is {plan.context}, longer than the model's own `context` of {plan.model.context}."
            )
        windows = Windows(
            corpus,
            plan.batch,
            plan.context,
            plan.order,
            plan.seed,
            processes.rank,
            processes.n_processes,
        )
        torch.manual_seed(int(generator(plan.seed, Purpose.INITIALISATION).integers(2**62)))
        model = Transformer(plan.model)
        optimiser = make_optimiser(
            plan.optimiser, model, plan.rates, plan.momentum, plan.weight_decay
        )
        return cls(plan, model, processes.wrapped(model), optimiser, windows, processes)

    def loss(self, step: int) -> Tensor:
        """Loss of the step's batch, with its gradients in place or ready to be differentiated."""
        batch, random_seed = self.windows.at(step)
        self.optimiser.zero_grad()
        if self.plan.model.dropout:
            torch.default_generator.manual_seed(
                random_seed
            )  # `torch.manual_seed` writes down the stack for every accelerator
        with fast_products(self.model):  # the backward pass goes by what was done here
            return next_token_loss(self.wrapped, batch, self.plan.last_only)

    def update(self, loss: Tensor) -> None:
        if loss.requires_grad:
            loss.backward()
        if self.plan.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.plan.clip)
        self.optimiser.step()


def _trained(
    run: _Run,
    looks: Looks,
    store: Checkpoints | None,
    config: dict[str, Any],
    on_progress: Callable[[float], None],
    started: float,
) -> xr.Dataset:
    """From the start or the newest checkpoint to the end. A step is: loss, look, checkpoint,
    update.
    """
    resumed = None if store is None else store.resumed(run.model, run.optimiser)
    first, last = resumed.step if resumed else 0, run.plan.steps
    if resumed is not None and first > last:
        raise InputError(
            f"`checkpoints` holds a run of {first} steps, more than `steps`, {last}; give it a new folder."
        )
    if resumed is not None and first == last:
        return resumed.record
    if resumed is not None:
        looks.resume(resumed.record, first)

    guard = (
        Guard()
    )  # a disk that is full from the start is a mistake; one that fills up does not end training

    def record(stop_reason: str, step: int) -> xr.Dataset:
        later = looks.record(config, stop_reason, step, time.perf_counter() - started)
        return later if resumed is None else continued(resumed.record, later, resumed.step)

    for step in range(first, last + 1):
        with torch.set_grad_enabled(step < last):
            loss = run.loss(step)
        value = run.processes.mean(loss)
        if not math.isfinite(value):
            looks.diverged(step)
            return record("diverged", step)
        if step in looks.steps:
            looks.look(step, value)
        if (
            store is not None
            and run.processes.is_first
            and step in looks.checkpoint_steps
            and step >= first + (resumed is not None)
        ):
            seen = record("finished" if step == last else "running", step)
            with (
                nullcontext()
                if step == 0
                else guard("a checkpoint could not be written; those before it stay")
            ):
                store.save(step, run.model, run.optimiser, seen)
        if step < last:
            run.update(loss)
            on_progress((step + 1) / last)
    return record("finished", last)


def _probe_ids(probe: Any, plan: Plan, corpus: TokenCorpus) -> Tensor:
    if probe is None:
        return fixed_windows(corpus, _PROBE_WINDOWS[plan.loss], plan.context).ids
    try:
        ids = torch.as_tensor(np.asarray(probe))
    except (TypeError, ValueError):
        ids = torch.empty(0)  # sequences of different lengths, or no numbers
    if (
        ids.ndim != 2
        or ids.numel() == 0
        or ids.is_floating_point()
        or ids.min() < 0
        or ids.max() >= plan.model.n_vocab
    ):
        raise InputError(
            f"`probe` must be token ids (sequence, position) below {plan.model.n_vocab}; got {shortened(probe)}."
        )
    return ids.long()
