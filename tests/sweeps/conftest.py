"""Sweeps of one module of tests share the processes that compute: each would load all libraries anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest

from saccade.processes import Worker


class Kept(Worker):
    """A worker that leaves its process to the next one with as much memory, if that lives and has nothing to do."""

    idle: ClassVar[dict[int, list[tuple[Any, Any, Any]]]] = {}
    _is_busy = False

    def answer(self, run: Callable[..., Any], *job: Any, seconds: float | None = None) -> Any:
        self._is_busy = True
        try:
            return super().answer(run, *job, seconds=seconds)
        finally:
            self._is_busy = False

    def stop(self) -> None:
        with self._stopping:
            if self._process is not None and not self._is_busy and self._process.poll() is None:
                self.idle.setdefault(self._memory, []).append((self._process, self._pipe, self._errors))
                self._process = None
        super().stop()

    def _start_process(self) -> None:
        if self.idle.get(self._memory):
            self._process, self._pipe, self._errors = self.idle[self._memory].pop()
        else:
            super()._start_process()


@pytest.fixture(scope="module", autouse=True)
def processes_are_kept() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for place in ("saccade.processes", "saccade.sweeps.estimate"):
            patch.setattr(f"{place}.Worker", Kept)
        yield
    for left in [one for several in Kept.idle.values() for one in several]:
        worker = Worker()
        worker._process, worker._pipe, worker._errors = left
        worker.stop()
    Kept.idle.clear()
