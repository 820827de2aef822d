"""Runs in processes of their own: results in order, errors raised."""

from __future__ import annotations

import math
import os
import resource
import subprocess
import sys
import time

import numpy as np
import pytest

from saccade.processes import Worker, in_processes


def root(number: int) -> float:
    return float(np.sqrt(number))


@pytest.mark.parametrize("processes", [1, 2])
def test_runs_come_back_in_the_order_of_their_jobs(processes):
    pytest.importorskip("torch")
    seen: list[float] = []
    assert in_processes(root, [(9,), (1,), (4,)], seen.append, processes) == [3.0, 1.0, 2.0]
    assert seen[-1] == 1.0


def test_an_error_in_a_run_is_raised():
    pytest.importorskip("torch")
    with pytest.raises(TypeError):
        in_processes(root, [("nine",), (1,)], processes=2)


def identities(n_runs: int) -> tuple[int, list[int]]:
    return os.getpid(), in_processes(os.getpid, [()] * n_runs)


def test_runs_of_a_job_stay_in_the_process_of_the_job():
    """Experiments run one to a core; processes of their own beside them would only wait for each
    other.
    """
    pytest.importorskip("torch")
    worker = Worker()
    try:
        own, of_runs = worker.answer(identities, 3)
    finally:
        worker.close()
    assert own != os.getpid()
    assert of_runs == [own] * 3


def test_a_share_of_memory_above_a_hard_limit_is_that_limit():
    limited = "import resource; resource.setrlimit(resource.RLIMIT_DATA, (6 * 10**9,) * 2)"
    code = f"{limited}; from saccade.processes import Worker; print(Worker(8 * 10**9).answer(pow, 2, 3))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("8\n", "")


def fresh_pages(n_rounds: int) -> int:
    """Pages that the system hands out anew while 16 arrays of 3 MB come and go (NumPy asks for
    larger pages from 4 MB on).
    """
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(n_rounds):
        [np.ones(3 * 2**17) for _ in range(16)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the settings are those of Linux's C library"
)
def test_a_process_keeps_the_memory_that_its_next_step_needs():
    worker = Worker()
    try:
        worker.answer(fresh_pages, 3)
        assert worker.answer(fresh_pages, 20) < 0.1 * 20 * 16 * 3 * 2**20 / resource.getpagesize()
    finally:
        worker.close()


@pytest.mark.parametrize("seconds", [2.2e6, 1e300, math.inf])
def test_an_answer_is_waited_for_however_long_the_limit_is(seconds):
    worker = Worker()
    try:
        assert worker.answer(root, 9, seconds=seconds) == 3.0
    finally:
        worker.close()


def test_a_limit_longer_than_one_wait_is_kept_to(monkeypatch):
    monkeypatch.setattr("saccade.processes._SLICE", 0.05)
    monkeypatch.setattr("saccade.processes._GRACE", 0.0)
    worker = Worker()
    try:
        assert worker.answer(root, 9) == 3.0  # started
        begun = time.monotonic()
        with pytest.raises(TimeoutError):
            worker.answer(time.sleep, 60, seconds=0.5)
        assert 0.5 <= time.monotonic() - begun < 30
    finally:
        worker.close()
