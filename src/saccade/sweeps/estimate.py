"""How long a sweep will take, from a sample that is timed and thrown away."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from saccade.processes import Worker
from saccade.sweeps.grid import Grid, Run
from saccade.sweeps.outcome_file import UNFINISHED
from saccade.sweeps.processes import outcome_of
from saccade.sweeps.sweep import Means
from saccade.sweeps.units import units_of


@dataclass(frozen=True)
class Estimate:
    """Seconds of a sweep: what a process takes to start and compile, one unit after that, and all
    of them.

    `refused`: why runs of the timed sample were not finished, each reason once.
    """

    n_runs: int
    start: float
    unit: float
    total: float
    refused: tuple[str, ...] = ()


def estimate(
    grid: Grid,
    runs: Sequence[Run],
    means: Means,
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> Estimate:
    """Time a few units in one process. Nothing is written."""
    if not runs:
        return Estimate(0, 0.0, 0.0, 0.0)
    units = units_of(grid, runs, means.time_limit)
    chosen = [
        units[place] for place in sorted({0, len(units) // 2, len(units) - 1})
    ]  # the first is timed twice: it also starts
    worker = Worker(means.memory_bytes // means.n_workers)
    took, refused = [], []
    try:
        for number, unit in enumerate([chosen[0], *chosen]):
            started = time.perf_counter()
            outcome = outcome_of(worker, unit)
            refused += [outcome.reason] if outcome.status in UNFINISHED else []
            took.append(time.perf_counter() - started)
            on_progress((number + 1) / (len(chosen) + 1))
    finally:
        worker.stop()
    each = sum(took[1:]) / len(took[1:])
    start = max(0.0, took[0] - took[1])
    busy = min(means.n_workers, len(units))
    total = start + each * -(-len(units) // busy)
    return Estimate(len(runs), start, each, total, tuple(dict.fromkeys(refused)))
