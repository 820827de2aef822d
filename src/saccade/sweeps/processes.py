"""Units over processes of this machine: each has one thread, so a run's numbers do not depend on how many run beside it.

A process that dies, or that does not answer when the time of its unit is over, is replaced; its unit is an outcome with a reason.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any

from saccade.sweeps.outcome_file import FAILED, TIMED_OUT, Outcome
from saccade.sweeps.units import Unit

_GRACE = 5.0  # seconds beyond its time that a run has to notice it by itself; the first of a process also loads the libraries,
_START = 60.0  # which takes a few seconds, more on a busy machine
_ONE_THREAD = dict.fromkeys(("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_processes(units: Sequence[Unit], n_workers: int, memory: int) -> Iterator[list[Outcome]]:
    """Outcomes of each unit, as they come. `memory`: bytes that all processes may take together."""
    workers = [Worker(memory // n_workers) for _ in range(min(n_workers, len(units)))]
    free, lock = list(workers), threading.Lock()

    def run(unit: Unit) -> list[Outcome]:
        with lock:
            worker = free.pop()
        try:
            return worker.run(unit)
        finally:
            with lock:
                free.append(worker)

    pool = ThreadPoolExecutor(len(workers) or 1)
    left = iter(units)
    try:
        under_way = {pool.submit(run, unit) for unit in itertools.islice(left, 2 * len(workers))}  # not all: there may be millions
        while under_way:
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            under_way |= {pool.submit(run, unit) for unit in itertools.islice(left, len(done))}
            yield from (finished.result() for finished in done)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.close()


class Worker:
    """A process that computes units, started when it is first needed and again when it has died."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Any = None
        self._errors: Any = None
        self._is_closed = False
        self._stopping = threading.Lock()

    def run(self, unit: Unit) -> list[Outcome]:
        started = time.monotonic()
        for _ in range(2):
            answer = self._answer(unit)
            if isinstance(answer, list):
                return answer
            status, reason = answer
            if status == TIMED_OUT or len(unit.identities) == 1 or self._is_closed:
                break  # several runs whose process was lost are tried once more as they are: their last bits may depend on it
        if len(unit.identities) > 1 and not self._is_closed:  # one of them did it: find out which
            return [outcome for alone in unit.alone() for outcome in self.run(alone)]
        return [Outcome(one, status, reason, time.monotonic() - started, (one,)) for one in unit.identities]

    def _answer(self, unit: Unit) -> list[Outcome] | tuple[str, str]:
        """Outcomes, or status and reason of a process that gave none."""
        if self._process is not None and self._process.poll() is not None:
            self.stop()  # it was ended while it had nothing to do, which is no unit's fault
        patience = None if unit.seconds is None else unit.seconds + _GRACE + (_START if self._process is None else 0)
        try:
            self._start()
            self._pipe.send(unit)
            if self._pipe.poll(patience):
                return self._pipe.recv()
            found = TIMED_OUT, f"took more than {unit.time_limit:g} s"
        except (EOFError, OSError):
            found = FAILED, self._death()
        self.stop()
        return found

    def stop(self) -> None:
        with self._stopping:  # `close` may come from another thread than the one that computes
            if self._process is not None:
                self._process.kill()
                self._process.wait()
                self._pipe.close()
                self._errors.close()
                self._process = None

    def close(self) -> None:
        """Stop for good, also a unit that is being computed."""
        self._is_closed = True
        self.stop()

    def _start(self) -> None:
        with self._stopping:  # not while `close` looks for a process to end
            if self._is_closed:
                raise OSError("closed")
            if self._process is None:
                self._start_process()

    def _start_process(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process
        self._pipe, theirs = multiprocessing.Pipe()
        flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "saccade.sweeps.worker", str(theirs.fileno()), str(self._memory)],
            env=os.environ | _ONE_THREAD | {"XLA_FLAGS": flags},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C is for the parent alone
        )
        theirs.close()

    def _death(self) -> str:
        """Why the process ended by itself."""
        process = self._process
        code = process.wait() if process is not None else 0
        if code >= 0:
            return f"its process ended with exit code {code}{self._last_words()}"
        memory = "; it may have run out of memory" if -code in (signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV) else ""
        return f"its process was ended by signal {-code}{memory}"

    def _last_words(self) -> str:
        """The last line that the process wrote to its error stream, if there is one."""
        if self._errors is None or self._errors.closed:
            return ""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f": {lines[-1][:200]}" if lines else ""
