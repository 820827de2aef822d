"""Runs in processes share those of the tests before them: each new one would load all libraries,
which takes longer than most runs.

A process is left to the next worker that asks for as much memory in the same environment, if it
lives and has nothing to do.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest

from saccade.processes import Worker
from tests.leaks import outlives_its_module


class Kept(Worker):
    """A worker that leaves its process to another."""

    idle: ClassVar[defaultdict[tuple[Any, ...], list[tuple[Any, ...]]]] = defaultdict(list)
    _is_busy = False
    _kind: tuple[Any, ...] = ()

    def answer(self, run: Callable[..., Any], *job: Any, seconds: float | None = None) -> Any:
        self._is_busy = True
        try:
            return super().answer(run, *job, seconds=seconds)
        finally:
            self._is_busy = False

    def stop(self) -> None:
        with self._stopping:
            if self._process is not None and not self._is_busy and self._process.poll() is None:
                outlives_its_module(self._process.pid, self._pipe.fileno())
                self.idle[self._kind].append((self._process, self._pipe, self._errors))
                self._process = None
        super().stop()

    def _start_process(self) -> None:
        environment = {
            name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"
        }
        self._kind = (self._memory, *sorted(environment.items()))
        if self.idle[self._kind]:
            self._process, self._pipe, self._errors = self.idle[self._kind].pop()
        else:
            super()._start_process()


@pytest.fixture(scope="module", autouse=True)
def processes_are_kept() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for place in ("saccade.processes", "saccade.sweeps.estimate"):
            patch.setattr(f"{place}.Worker", Kept)
        yield


@pytest.fixture(scope="session", autouse=True)
def kept_processes_end() -> Iterator[None]:
    yield
    for left in [one for several in Kept.idle.values() for one in several]:
        worker = Worker()
        worker._process, worker._pipe, worker._errors = left
        worker.stop()
    Kept.idle.clear()
