"""Work spread over processes of this machine; each has one thread, so its numbers do not depend on
how many run.

A process is a new one and not a fork, so that it inherits no threads; it ends with its parent, even
one that is killed, and is replaced when it has died. Functions and arguments must be picklable, and
functions importable. The process itself is `python -P processes.py FILE_DESCRIPTOR MEMORY`: only
the standard library until its first job, since limits on threads must be in place before NumPy, JAX
and PyTorch load.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import os
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")

_GRACE = 5.0  # seconds beyond its time that a job has to notice it by itself; the first of a process also loads the libraries,
_START = 60.0  # which takes a few seconds, more on a busy machine
_SLICE = 3600.0  # seconds of one wait: the system cannot count more than 24 days
_ONE_CORE = "SACCADE_ONE_CORE"  # in the environment of a worker
# The C library hands freed memory back to the system and asks for it again in every step of
# training, unless told not to.
_KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**30)}
_ONE_THREAD = dict.fromkeys(
    ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", _ONE_CORE), "1"
)


def cores() -> int:
    """That this process may use: one in a process of `Worker`, whose siblings have the others."""
    if _ONE_CORE in os.environ:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def computed(
    compute: Callable[[Worker, Job], Result], jobs: Sequence[Job], n_workers: int, memory: int = 0
) -> Generator[Result, None, None]:
    """`compute(worker, job)` of every job, as they come. `memory`: bytes that all processes may
    take together; 0: no limit.

    Closing the iterator, or an error, ends all processes at once.
    """
    workers = [Worker(memory // n_workers) for _ in range(min(n_workers, len(jobs)))]
    free, lock = list(workers), threading.Lock()

    def run(job: Job) -> Result:
        with lock:
            worker = free.pop()
        try:
            return compute(worker, job)
        finally:
            with lock:
                free.append(worker)

    pool = ThreadPoolExecutor(len(workers) or 1)
    left = iter(jobs)
    try:
        under_way = {
            pool.submit(run, job) for job in itertools.islice(left, 2 * len(workers))
        }  # not all: there may be millions
        while under_way:
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            under_way |= {pool.submit(run, job) for job in itertools.islice(left, len(done))}
            yield from (finished.result() for finished in done)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.close()


def in_processes(
    run: Callable[..., Result],
    jobs: Sequence[tuple[Any, ...]],
    on_progress: Callable[[float], None] = lambda fraction: None,
    processes: int | None = None,
) -> list[Result]:
    """`run(*job)` for every job, results in their order. `run` and its arguments must be picklable;
    one process: right here.
    """
    n_processes = min(len(jobs), processes or cores())
    if n_processes <= 1:
        found = []
        for done, job in enumerate(jobs, 1):
            with _one_thread():
                found.append(run(*job))
            on_progress(done / len(jobs))
        return found
    results: dict[int, Result] = {}
    with closing(computed(partial(_numbered, run), list(enumerate(jobs)), n_processes)) as coming:
        for number, result in coming:
            results[number] = result
            on_progress(len(results) / len(jobs))
    return [results[number] for number in range(len(jobs))]


def _numbered(
    run: Callable[..., Result], worker: Worker, job: tuple[int, tuple[Any, ...]]
) -> tuple[int, Result]:
    number, arguments = job
    try:
        return number, worker.answer(run, *arguments)
    except LostProcessError as lost:
        from saccade.errors import (
            InputError,  # not at the top: the process itself has only the standard library until its first job
        )

        raise InputError(f"run {number + 1} of an experiment was lost: {lost}.") from None


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch  # by those who train alone

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _arrives(pipe: Connection, seconds: float | None) -> bool:
    """Whether something comes through the pipe in time, however long that is; without a limit it
    comes, or the process ends.
    """
    end = math.inf if seconds is None else time.monotonic() + seconds
    while not pipe.poll(max(0.0, min(_SLICE, end - time.monotonic()))):
        if time.monotonic() >= end:
            return False
    return True


class LostProcessError(Exception):
    """A process ended without an answer: why."""


class Worker:
    """A process that computes jobs, started when it is first needed and again when it has died."""

    def __init__(self, memory: int = 0) -> None:
        self._memory = memory
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Any = None
        self._errors: Any = None
        self._stopping = threading.Lock()
        self.is_closed = False

    def answer(self, run: Callable[..., Result], *job: Any, seconds: float | None = None) -> Result:
        """`run(*job)`, or the error that it raised; `TimeoutError` without one in time,
        `LostProcessError` if the process ends.
        """
        if self._process is not None and self._process.poll() is not None:
            self.stop()  # it was ended while it had nothing to do, which is no job's fault
        patience = (
            None if seconds is None else seconds + _GRACE + (_START if self._process is None else 0)
        )
        asked = pickle.dumps((run, job))
        try:
            self._start()
            self._pipe.send_bytes(asked)
            answered = self._pipe.recv_bytes() if _arrives(self._pipe, patience) else None
        except (EOFError, OSError):
            reason = self._death()
            self.stop()
            raise LostProcessError(reason) from None
        if answered is None:
            self.stop()
            raise TimeoutError
        is_result, found = pickle.loads(answered)
        if is_result:
            return found
        raise found

    def stop(self) -> None:
        with self._stopping:  # `close` may come from another thread than the one that computes
            if self._process is not None:
                self._process.kill()
                self._process.wait()
                self._pipe.close()
                self._errors.close()
                self._process = None

    def close(self) -> None:
        """Stop for good, also a job that is being computed."""
        self.is_closed = True
        self.stop()

    def _start(self) -> None:
        with self._stopping:  # not while `close` looks for a process to end
            if self.is_closed:
                raise OSError("closed")
            if self._process is None:
                self._start_process()

    def _start_process(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process
        self._pipe, theirs = multiprocessing.Pipe()
        flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(theirs.fileno()), str(self._memory)],
            env=os.environ | _ONE_THREAD | _KEEP_MEMORY | {"XLA_FLAGS": flags},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C is for the parent alone
        )
        theirs.close()
        self._pipe.send(sys.path)

    def _death(self) -> str:
        """Why the process ended by itself."""
        process = self._process
        code = process.wait() if process is not None else 0
        if code >= 0:
            return f"its process ended with exit code {code}{self._last_words()}"
        memory = (
            "; it may have run out of memory"
            if -code in (signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV)
            else ""
        )
        return f"its process was ended by signal {-code}{memory}"

    def _last_words(self) -> str:
        """The last line that the process wrote to its error stream, if there is one."""
        if self._errors is None or self._errors.closed:
            return ""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f": {lines[-1][:200]}" if lines else ""


def main(descriptor: int, memory: int) -> None:
    """The process: answer jobs until the pipe closes."""
    _end_with_parent()
    if memory:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        allowed = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))
    pipe = Connection(descriptor)
    with suppress(
        EOFError, OSError
    ):  # the parent is gone, and with it whoever would want an answer
        sys.path[:] = pipe.recv()
        while True:
            asked = pipe.recv_bytes()
            try:
                run, job = pickle.loads(asked)
                answer = pickle.dumps((True, run(*job)))
            except Exception as error:  # anything a job raises is its answer
                error.add_note(f"In a process of its own:\n{traceback.format_exc()}")
                try:
                    answer = pickle.dumps((False, error))
                except Exception:  # an error that holds what cannot be sent
                    answer = pickle.dumps((False, RuntimeError(traceback.format_exc())))
            pipe.send_bytes(answer)


def _end_with_parent() -> None:
    parent = os.getppid()

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
