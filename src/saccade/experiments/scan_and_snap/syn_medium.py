"""The 640 runs behind Figs. 6, 11 and 12: four tasks, four attention rates, four ratios of the two rates, ten seeds.

Two classes for every query, uniform start, as in the paper's code. Not here: what is measured at the last step, which each
experiment says for itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import xarray as xr

import saccade
from saccade.dynamics.randomness import checked_seeds
from saccade.dynamics.workers import workers
from saccade.errors import checked_list
from saccade.experiments.together import Share, checked_alike, parts, train_together
from saccade.lab.experiment import Progress, by_cell
from saccade.records.schema import make_record

FREE = ("lr_attention", "ratios", "seeds")


@dataclass(frozen=True)
class Settings:
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
    several: Sequence[Settings],
    measure: Callable[[saccade.SequenceClasses, xr.Dataset], xr.DataArray],
    *,
    keep: str,
    definitions: Mapping[str, tuple[str, str]] = MappingProxyType({}),
    on_progress: Progress,
) -> list[xr.Dataset]:
    """Train on every task; keep the loss and what `measure` (rate, seed, ...) makes of the last step, under its name.

    One record for each of `several` settings, which may differ in what `FREE` names.
    """
    started = time.perf_counter()
    shared, shares = checked_alike(several, FREE), [_share(settings) for settings in several]
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
    wall_time = (time.perf_counter() - started) / len(several)
    of_settings = zip(zip(*by_task, strict=True), several, strict=True)
    return [_joined(of_one, settings, definitions, wall_time) for of_one, settings in of_settings]


def _share(settings: Settings) -> Share:
    rates, ratios = checked_list("lr_attention", settings.lr_attention, low=0), checked_list("ratios", settings.ratios, low=0)
    return Share([(lr * ratio, lr) for lr in rates for ratio in ratios], checked_seeds(settings.seeds))


def _last_step(
    task: saccade.SequenceClasses, shared: Settings, shares: Sequence[Share], keep: str, on_progress: Progress
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
    by_task: Sequence[xr.Dataset], settings: Settings, definitions: Mapping[str, tuple[str, str]], wall_time: float
) -> xr.Dataset:
    shape = (len(by_task), len(settings.lr_attention), len(settings.ratios))
    variables = {}
    for name, first in by_task[0].data_vars.items():
        values = np.stack([part[name].transpose(*first.dims).values for part in by_task])
        variables[str(name)] = (("n_queries", "lr_attention", "ratio", *first.dims[1:]), values.reshape(shape + first.shape[1:]))
    return make_record(
        dynamics="A: mini-batch training",
        variables=variables,
        coords={
            "n_queries": list(settings.n_queries),
            "lr_attention": list(settings.lr_attention),
            "ratio": list(settings.ratios),
            "seed": checked_seeds(settings.seeds),
        },
        time_unit="updates",
        config={"tasks": [f"syn-medium-{n}" for n in settings.n_queries], "init": "uniform"},
        wall_time=wall_time,
        definitions=definitions,
    )


def cells(record: xr.Dataset, measured: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Headline numbers (n_queries, lr_attention, ratio, seed) and the share of seeds that diverged, in each cell of the grid."""
    axes = {name: record[name].values for name in ("n_queries", "lr_attention", "ratio")}
    return by_cell({**measured, "diverged": record.stop_reason.values == "diverged"}, axes)
