"""A sweep: every run of a grid that is not finished yet, then all of them as one dataset, one table
and one figure.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade.errors import InputError, checked_choice, checked_count, checked_number
from saccade.models.system import System
from saccade.processes import cores
from saccade.records.checksums import check_unclaimed
from saccade.sweeps.asked import FILE, Asked
from saccade.sweeps.execution import KEEP_MISTAKE
from saccade.sweeps.folder import SweepFolder, is_sweep
from saccade.sweeps.gathering import RESULTS, gathered, numbers_of, summary_rows, write_dataset
from saccade.sweeps.grid import Grid, Run
from saccade.sweeps.outcome_file import UNFINISHED, Outcome
from saccade.sweeps.processes import in_processes
from saccade.sweeps.systems import sweep_systems
from saccade.sweeps.units import Unit, units_of

if TYPE_CHECKING:
    import xarray as xr

_COMMIT_EVERY = 0.5  # seconds between writes: what a killed sweep may have to do again, and why short runs cost little to keep
_LEAST_MEMORY = 0.8e9  # bytes that a process needs to load and compile anything
_MOST_HELD = 2**26  # bytes of outcomes that wait to be written


@dataclass(frozen=True)
class Means:
    """How runs are computed; none of it changes a number.

    | setting      | meaning                                                                                       |
    |--------------|-----------------------------------------------------------------------------------------------|
    | `workers`    | processes of this machine; default: one for each core that there is memory for                |
    | `memory`     | GB that they may take together; a run beyond its share fails. Default: 80 % of the machine's  |
    | `cluster`    | a Dask cluster instead of processes here: its scheduler's address, `tcp://...`, a cluster     |
    |              | object of Dask's, or `local` to start one. `memory` is then for each of its workers           |
    | `time_limit` | seconds for one run                                                                           |
    """

    workers: int | None = None
    memory: float | None = None
    cluster: Any = None
    time_limit: float | None = None

    def checked(self) -> Means:
        if self.workers is not None:
            checked_count("workers", self.workers, high=4096)
        for name in ("memory", "time_limit"):
            if getattr(self, name) is not None:
                checked_number(name, getattr(self, name), low=0, open_low=True)
        return self

    @property
    def n_workers(self) -> int:
        """As asked for, or one for each core that there is memory for."""
        return self.workers or max(1, min(cores(), int(self.memory_bytes // _LEAST_MEMORY)))

    @property
    def memory_bytes(self) -> int:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return int(0.8 * whole if self.memory is None else self.memory * 1e9)


def sweep(
    name: str | Callable[..., System],
    over: Mapping[str, Any] | Sequence[str] = (),
    *,
    seeds: int | Sequence[int] | None = None,
    out: str | Path | None = None,
    config: Any = None,
    keep: Sequence[str] | None = None,
    show: str | None = None,
    retry_failed: bool = False,
    replace: bool = False,
    on_progress: Callable[[float], None] = lambda fraction: None,
    **means: Any,
) -> xr.Dataset:
    """Run an experiment for every combination of `over` and `seeds`, except runs already finished
    in `out`; all as one dataset.

    | argument       | meaning                                                                                              |
    |----------------|------------------------------------------------------------------------------------------------------|
    | `name`         | an experiment, a Python file with one, or a function that makes a `System` from a cell of `over`     |
    | `over`         | `{"lr_attention": [0.5, 1, 2]}`, or as on the command line, `["lr_attention=0.5,1,2", "ratio=1..10:log8"]` |
    | `seeds`        | a count n for the seeds 0 .. n-1, or a list; one run for each                                         |
    | `out`          | folder; default `results/sweeps/NAME`. Calling again runs only what is missing. Of a system: without  |
    |                | `out` nothing is written; with it one record for each cell, and the dataset, summary and figure      |
    | `config`       | settings of the experiment that are not swept; default: its own                                      |
    | `keep`         | variables kept of each record, besides its headline numbers; default: all                            |
    | `show`         | number to plot in the figure; default: the first headline number, for a system the last loss         |
    | `retry_failed` | rerun runs of an experiment that failed or timed out                                                  |
    | `replace`      | overwrite results in `out` that have other runs; otherwise that is an error. Runs are kept            |
    | `means`        | `workers`, `memory`, `cluster`, `time_limit`: see `Means`; of a system, settings of `flow` or `train` |
    """
    if isinstance(name, System):
        raise InputError(
            "`saccade.sweep` needs a function that makes a system from swept values, such as its class; got a system."
        )
    if callable(name):
        for given, value in {"config": config, "retry_failed": retry_failed or None}.items():
            if value is not None:
                raise InputError(
                    f"`{given}` is for sweeps of an experiment; leave it out with a function that makes systems."
                )
        asked = {
            "seeds": seeds,
            "keep": keep,
            "out": out,
            "show": show,
            "replace": replace,
            "on_progress": on_progress,
        }
        return sweep_systems(name, over, **asked, **means)  # type: ignore[arg-type]
    for given in means:
        checked_choice("argument of `sweep`", given, [field.name for field in fields(Means)])
    grid = Grid.of(name, over, seeds, config, keep)
    folder = SweepFolder(out if out is not None else Path("results/sweeps") / grid.title)
    return run_sweep(
        grid, folder, Means(**means).checked(), show, retry_failed, on_progress, replace=replace
    )


def run_sweep(
    grid: Grid,
    folder: SweepFolder,
    means: Means,
    show: str | None = None,
    retry_failed: bool = False,
    on_progress: Callable[[float], None] = lambda fraction: None,
    on_gathering: Callable[[float], None] = lambda fraction: None,
    *,
    replace: bool = False,
) -> xr.Dataset:
    if not is_sweep(folder.path):
        check_unclaimed(folder.path, (FILE, *RESULTS))
    with folder.writing():
        Asked.of(grid, show).write(
            folder.path, {run.identity for run in grid.runs}, folder.entries, any_runs=replace
        )
        folder.forget(folder.lost())
        units = units_of(grid, missing(grid, folder, retry_failed), means.time_limit)

        def check(outcome: Outcome) -> None:
            """If a run has no such number, the rest need not be computed to find that out."""
            if show is not None and outcome.record is not None:
                checked_choice("`show` variable", show, numbers_of(grid, *outcome.record))

        do(units, folder, means, on_progress, check)
        return write_results(grid, folder, show, on_gathering)


def missing(grid: Grid, folder: SweepFolder, retry_failed: bool = False) -> list[Run]:
    """Runs that are still to be done."""
    again = UNFINISHED if retry_failed else ()
    status = {run: entry["status"] for run, entry in folder.present().items()}
    return [run for run in grid.runs if run.identity not in status or status[run.identity] in again]


def do(
    units: Sequence[Unit],
    folder: SweepFolder,
    means: Means,
    on_progress: Callable[[float], None] = lambda fraction: None,
    check: Callable[[Outcome], None] = lambda outcome: None,
    is_kept: Callable[[Outcome], bool] = lambda outcome: True,
) -> None:
    """Compute units and keep their outcomes, a few at a time; whatever ends this, what was finished
    is kept.
    """
    held: list[Outcome] = []
    size, written = 0, time.monotonic()
    try:
        for done, outcome in enumerate(_computed(units, means), 1):
            if outcome.reason.startswith(KEEP_MISTAKE):
                raise InputError(outcome.reason)  # all runs would fail for it, after all their work
            held += [outcome] if is_kept(outcome) else []
            check(outcome)
            if outcome.record is not None:
                size += sum(array.nbytes for array in outcome.record[1].values())
            if time.monotonic() - written > _COMMIT_EVERY or size > _MOST_HELD:
                folder.commit(held)
                held, size, written = [], 0, time.monotonic()
            on_progress(done / len(units))
    finally:
        folder.commit(held)


def _computed(units: Sequence[Unit], means: Means) -> Iterator[Outcome]:
    if not units:
        return iter(())
    if means.cluster is None:
        return in_processes(units, means.n_workers, means.memory_bytes)
    from saccade.sweeps.cluster import on_cluster

    memory = (
        None if means.memory is None else means.memory_bytes
    )  # the default of this machine is not that of others
    return on_cluster(units, means.cluster, means.n_workers, memory)


def write_results(
    grid: Grid,
    folder: SweepFolder,
    show: str | None = None,
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> xr.Dataset:
    """`dataset.zarr`, `summary.csv`, `summary.parquet`, `figure.svg` and `.png`, over whatever is
    finished.
    """
    dataset = gathered(folder, grid, on_progress)
    write_dataset(folder.path, dataset, summary_rows(dataset, grid, folder), show)
    return dataset
