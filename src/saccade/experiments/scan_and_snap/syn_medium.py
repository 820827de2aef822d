"""The 640 runs behind Figs. 6, 11 and 12: four tasks, four attention rates, four ratios of the two rates, ten seeds.

Two classes for every query, uniform start, as in the paper's code. Not here: what is measured at the last step, which each
experiment says for itself.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

import saccade
from saccade.dynamics.workers import workers
from saccade.errors import checked_list

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Config:
    """Settings; the defaults are the published ones."""

    n_queries: tuple[int, ...] = (1, 3, 5, 10)
    """query tokens, each with two next tokens"""
    lr_attention: tuple[float, ...] = (0.5, 1.0, 2.0, 3.0)
    """attention rates, per step"""
    ratios: tuple[float, ...] = (1.0, 2.0, 5.0, 10.0)
    """decoder rate over attention rate"""
    steps: int = 100
    """updates"""
    momentum: float = 0.9
    """momentum of SGD, in [0, 1)"""
    batch: int = 128
    """sequences in a batch"""
    context: int = 127
    """context tokens before the query"""
    seeds: int = 10
    """number of seeds (0, 1, 2, ...)"""


def run_grid(
    config: Config,
    measure: Callable[[saccade.SequenceClasses, xr.Dataset], xr.DataArray],
    *,
    keep: str,
    definitions: Mapping[str, tuple[str, str]] = MappingProxyType({}),
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> xr.Dataset:
    """Train on every task; keep the loss and what `measure` (rate, seed, ...) makes of the last step, under its name."""
    started = time.perf_counter()
    checked_list("n_queries", config.n_queries, low=1)
    checked_list("lr_attention", config.lr_attention, low=0)
    checked_list("ratios", config.ratios, low=0)
    tasks = [saccade.SequenceClasses.syn_medium(n) for n in config.n_queries]
    fractions = dict.fromkeys(config.n_queries, 0.0)
    stopped = threading.Event()

    def final(task: saccade.SequenceClasses, n: int) -> xr.Dataset:
        def report(fraction: float) -> None:
            if stopped.is_set():
                raise CancelledError
            fractions[n] = fraction
            on_progress(sum(fractions.values()) / len(fractions))

        last = _last_step(task, config, keep, report)
        measured = measure(task, last)
        return last[["loss", "stop_reason"]].assign({measured.name: measured})

    # The tasks have different shapes, so each is compiled by itself; side by side they keep all cores busy meanwhile.
    with workers(len(tasks)) as pool:
        try:
            parts = list(pool.map(final, tasks, config.n_queries))
        finally:
            stopped.set()  # after Ctrl-C the others end at their next report instead of running on
    return _joined(parts, config, definitions, time.perf_counter() - started)


def _last_step(task: saccade.SequenceClasses, config: Config, keep: str, on_progress: Callable[[float], None]) -> xr.Dataset:
    lr_attention, ratio = (grid.ravel() for grid in np.meshgrid(config.lr_attention, config.ratios, indexing="ij"))
    record = saccade.train(
        task,
        steps=config.steps,
        lr_decoder=lr_attention * ratio,
        lr_attention=lr_attention,
        momentum=config.momentum,
        batch=config.batch,
        context=config.context,
        seeds=config.seeds,
        save=[config.steps],
        model=saccade.Pairwise(init="uniform"),
        keep=(keep,),
        on_progress=on_progress,
    )
    return record.isel(time=0)


def _joined(parts: list[xr.Dataset], config: Config, definitions: Mapping[str, tuple[str, str]], wall_time: float) -> xr.Dataset:
    from saccade.records.schema import make_record

    shape = (len(parts), len(config.lr_attention), len(config.ratios))
    variables = {}
    for name, first in parts[0].data_vars.items():
        values = np.stack([part[name].transpose(*first.dims).values for part in parts])
        variables[str(name)] = (("n_queries", "lr_attention", "ratio", *first.dims[1:]), values.reshape(shape + first.shape[1:]))
    record = make_record(
        dynamics="A: mini-batch training",
        variables=variables,
        coords={
            "n_queries": list(config.n_queries),
            "lr_attention": list(config.lr_attention),
            "ratio": list(config.ratios),
            "seed": np.arange(config.seeds),
        },
        time_unit="updates",
        config={"tasks": [f"syn-medium-{n}" for n in config.n_queries], "init": "uniform"},
        wall_time=wall_time,
        definitions=definitions,
    )
    record.attrs["settings"] = json.dumps(asdict(config))
    return record


def as_published(record: xr.Dataset) -> dict[str, bool]:
    """The one assumption of every claim here; which cells of the grid are run, and with how many seeds, is free."""
    free = {"n_queries": [], "lr_attention": [], "ratios": [], "seeds": 0}
    return {"the published settings": json.loads(record.attrs["settings"]) | free == asdict(Config()) | free}
