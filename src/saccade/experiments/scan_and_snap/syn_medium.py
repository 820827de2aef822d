"""The 640 runs behind Figs. 6, 11 and 12: four tasks, four attention rates, four ratios of the two rates, ten seeds.

Two classes for every query, uniform start, as in the paper's code. Not here: what is measured at the last step, which each
experiment says for itself.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

import saccade
from saccade.dynamics.randomness import checked_seeds
from saccade.dynamics.workers import workers
from saccade.errors import checked_list
from saccade.experiments.headlines import by_cell
from saccade.experiments.together import Share, checked_alike, parts, train_together

if TYPE_CHECKING:
    import xarray as xr

TOGETHER = ("lr_attention", "ratios", "seeds")


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
    seeds: int | tuple[int, ...] = 10
    """number of seeds (0, 1, 2, ...), or a list of seeds"""


def run_grids(
    configs: Sequence[Config],
    measure: Callable[[saccade.SequenceClasses, xr.Dataset], xr.DataArray],
    *,
    keep: str,
    definitions: Mapping[str, tuple[str, str]] = MappingProxyType({}),
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> list[xr.Dataset]:
    """Train on every task; keep the loss and what `measure` (rate, seed, ...) makes of the last step, under its name.

    One record for each of `configs`, which may differ in what `TOGETHER` names.
    """
    started = time.perf_counter()
    shared, shares = checked_alike(configs, TOGETHER), [_share(config) for config in configs]
    checked_list("n_queries", shared.n_queries, low=1)
    tasks = [saccade.SequenceClasses.syn_medium(n) for n in shared.n_queries]
    fractions = dict.fromkeys(shared.n_queries, 0.0)
    stopped = threading.Event()

    def final(task: saccade.SequenceClasses, n: int) -> list[xr.Dataset]:
        def report(fraction: float) -> None:
            if stopped.is_set():
                raise CancelledError
            fractions[n] = fraction
            on_progress(sum(fractions.values()) / len(fractions))

        last = _last_step(task, shared, shares, keep, report)
        measured = measure(task, last)
        return parts(last[["loss", "stop_reason"]].assign({measured.name: measured}).drop_attrs(deep=False), shares)

    # The tasks have different shapes, so each is compiled by itself; side by side they keep all cores busy meanwhile.
    with workers(len(tasks)) as pool:
        try:
            by_task = list(pool.map(final, tasks, shared.n_queries))
        finally:
            stopped.set()  # after Ctrl-C the others end at their next report instead of running on
    wall_time = (time.perf_counter() - started) / len(configs)
    of_configs = zip(*by_task, strict=True)
    return [_joined(of_config, config, definitions, wall_time) for of_config, config in zip(of_configs, configs, strict=True)]


def _share(config: Config) -> Share:
    rates, ratios = checked_list("lr_attention", config.lr_attention, low=0), checked_list("ratios", config.ratios, low=0)
    return Share([(lr * ratio, lr) for lr in rates for ratio in ratios], checked_seeds(config.seeds))


def _last_step(
    task: saccade.SequenceClasses, shared: Config, shares: Sequence[Share], keep: str, on_progress: Callable[[float], None]
) -> xr.Dataset:
    record = train_together(
        task,
        shares,
        steps=shared.steps,
        momentum=shared.momentum,
        batch=shared.batch,
        context=shared.context,
        save=[shared.steps],
        model=saccade.Pairwise(init="uniform"),
        keep=(keep,),
        on_progress=on_progress,
    )
    return record.isel(time=0)


def _joined(
    by_task: Sequence[xr.Dataset], config: Config, definitions: Mapping[str, tuple[str, str]], wall_time: float
) -> xr.Dataset:
    from saccade.records.schema import make_record

    shape = (len(by_task), len(config.lr_attention), len(config.ratios))
    variables = {}
    for name, first in by_task[0].data_vars.items():
        values = np.stack([part[name].transpose(*first.dims).values for part in by_task])
        variables[str(name)] = (("n_queries", "lr_attention", "ratio", *first.dims[1:]), values.reshape(shape + first.shape[1:]))
    record = make_record(
        dynamics="A: mini-batch training",
        variables=variables,
        coords={
            "n_queries": list(config.n_queries),
            "lr_attention": list(config.lr_attention),
            "ratio": list(config.ratios),
            "seed": checked_seeds(config.seeds),
        },
        time_unit="updates",
        config={"tasks": [f"syn-medium-{n}" for n in config.n_queries], "init": "uniform"},
        wall_time=wall_time,
        definitions=definitions,
    )
    record.attrs["settings"] = json.dumps(asdict(config))
    return record


def cells(record: xr.Dataset, measured: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Headline numbers (n_queries, lr_attention, ratio, seed) and the share of seeds that diverged, in each cell of the grid."""
    axes = {name: record[name].values for name in ("n_queries", "lr_attention", "ratio")}
    return by_cell({**measured, "diverged": record.stop_reason.values == "diverged"}, axes)


def as_published(record: xr.Dataset) -> dict[str, bool]:
    """The one assumption of every claim here; which cells of the grid are run, and with how many seeds, is free."""
    free = {"n_queries": [], "lr_attention": [], "ratios": [], "seeds": 0}
    return {"the published settings": json.loads(record.attrs["settings"]) | free == asdict(Config()) | free}
