"""Many training runs, one on each core: a small model gains little from a second thread, and a second run doubles the work done.

Every run has one thread wherever it runs, so its numbers do not depend on how many run beside it.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any, TypeVar

Result = TypeVar("Result")


def in_processes(
    run: Callable[..., Result],
    jobs: Sequence[tuple[Any, ...]],
    on_progress: Callable[[float], None] = lambda fraction: None,
    processes: int | None = None,
) -> list[Result]:
    """`run(*job)` for every job, results in their order. `run` and its arguments must be picklable; one process: right here."""
    n_processes = min(len(jobs), processes or _cores())
    if n_processes <= 1:
        return _here(run, jobs, on_progress)
    pool = ProcessPoolExecutor(n_processes, multiprocessing.get_context("spawn"))
    try:
        futures = {pool.submit(_one_run, run, job): number for number, job in enumerate(jobs)}
        for done, future in enumerate(as_completed(futures), 1):
            future.result()  # an error ends the whole at once
            on_progress(done / len(jobs))
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
    return [future.result() for future in sorted(futures, key=lambda future: futures[future])]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _here(run: Callable[..., Result], jobs: Sequence[tuple[Any, ...]], on_progress: Callable[[float], None]) -> list[Result]:
    results = []
    for done, job in enumerate(jobs, 1):
        results.append(_one_run(run, job))
        on_progress(done / len(jobs))
    return results


def _one_run(run: Callable[..., Result], job: tuple[Any, ...]) -> Result:
    with _one_thread():
        return run(*job)


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
