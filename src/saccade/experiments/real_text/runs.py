"""Many training runs, one on each core: a small model gains little from a second thread, and a second run doubles the work done.

Every run has one thread wherever it runs, so its numbers do not depend on how many run beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, TypeVar

from saccade.errors import InputError
from saccade.processes import LostProcessError, Worker, computed
from saccade.processes import cores as _cores

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
    results: dict[int, Result] = {}
    with closing(computed(partial(_numbered, run), list(enumerate(jobs)), n_processes)) as coming:
        for number, result in coming:
            results[number] = result
            on_progress(len(results) / len(jobs))
    return [results[number] for number in range(len(jobs))]


def _numbered(run: Callable[..., Result], worker: Worker, job: tuple[int, tuple[Any, ...]]) -> tuple[int, Result]:
    number, arguments = job
    try:
        return number, worker.answer(run, *arguments)
    except LostProcessError as lost:
        raise InputError(f"run {number + 1} of an experiment was lost: {lost}.") from None


def _here(run: Callable[..., Result], jobs: Sequence[tuple[Any, ...]], on_progress: Callable[[float], None]) -> list[Result]:
    results = []
    for done, job in enumerate(jobs, 1):
        with _one_thread():
            results.append(run(*job))
        on_progress(done / len(jobs))
    return results


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
