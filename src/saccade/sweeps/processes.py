"""Units over processes of this machine: each has one thread, so a run's numbers do not depend on how many run beside it.

A process that dies, or that does not answer when the time of its unit is over, is replaced; its unit is an outcome with a reason.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
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
    try:
        for done in as_completed([pool.submit(run, unit) for unit in units]):
            yield done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.stop()


class Worker:
    """A process that computes units, started when it is first needed and again when it has died."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Any = None

    def run(self, unit: Unit) -> list[Outcome]:
        started = time.monotonic()
        wait = None if unit.seconds is None else unit.seconds + _GRACE + (_START if self._process is None else 0)
        try:
            self._start()
            self._pipe.send(unit)
            if self._pipe.poll(wait):
                return self._pipe.recv()
            reason, status = f"took more than {unit.time_limit:g} s", TIMED_OUT
        except (EOFError, OSError):
            reason, status = self._death(), FAILED
        self.stop()
        if len(unit.identities) > 1:  # one of them did it: find out which
            return [outcome for alone in unit.alone() for outcome in self.run(alone)]
        identity = unit.identities[0]
        return [Outcome(identity, status, reason, time.monotonic() - started, (identity,))]

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._pipe.close()
            self._process = None

    def _start(self) -> None:
        if self._process is not None:
            return
        self._pipe, theirs = multiprocessing.Pipe()
        flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "saccade.sweeps.worker", str(theirs.fileno()), str(self._memory)],
            env=os.environ | _ONE_THREAD | {"XLA_FLAGS": flags},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the parent alone
        )
        theirs.close()

    def _death(self) -> str:
        """Why the process ended by itself."""
        code = self._process.wait() if self._process is not None else 0
        if code >= 0:
            return f"its process ended with exit code {code}"
        memory = "; it may have run out of memory" if -code in (signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV) else ""
        return f"its process was ended by signal {-code}{memory}"
