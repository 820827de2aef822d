"""Ctrl-C in a sweep: an answer at once, whatever is being computed, and nothing finished is lost."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.sweeps.small_sweeps import (
    NAME,
    called,
    children,
    is_running,
    manifest_runs,
    one_sentence,
    small_arguments,
    started,
)

LONG = ("sweep", NAME, "--over", "pause=6000,6001", "--seeds", "2")  # runs of hours
SOON = 4.0  # seconds of a processor: without waiting for the units under way it takes 0.3 s
MEANS = [
    ("--workers", "2"),
    pytest.param(
        ("--cluster", "local", "--workers", "2"),
        marks=pytest.mark.skipif(
            importlib.util.find_spec("distributed") is None, reason="needs the extra `cluster`"
        ),
    ),
]


def interrupted(process, is_ready) -> tuple[int, str, float]:
    """Exit code, standard error, and the seconds that any of its processes computed from Ctrl-C to
    the end.
    """
    try:
        end = time.monotonic() + PATIENCE
        while not is_ready():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end, "did not begin"
            time.sleep(0.02)
        before = {pid: _cpu_seconds(pid) for pid in (process.pid, *children(process.pid))}
        process.send_signal(signal.SIGINT)
        seconds = 0.0
        while True:
            try:
                _, err = process.communicate(timeout=0.05)
                return process.returncode, err, seconds
            except subprocess.TimeoutExpired:
                assert time.monotonic() < end + PATIENCE, "did not end"
                seconds = max(seconds, *(_cpu_seconds(pid) - then for pid, then in before.items()))
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("means", MEANS)
def test_units_under_way_are_not_waited_for(means, tmp_path):
    process = started(*LONG, *means, "--out", tmp_path / "sweep")
    workers: list[int] = []

    def under_way() -> bool:
        """Both processes have had time to load and to begin."""
        workers[:] = children(process.pid)
        return len(workers) == 2 and all(_cpu_seconds(worker) > 0.3 for worker in workers)

    code, err, seconds = interrupted(process, under_way)
    assert (code, one_sentence(err)) == (130, True), err
    assert seconds < SOON
    end = time.monotonic() + PATIENCE
    while any(map(is_running, workers)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(is_running, workers))


def _cpu_seconds(process: int) -> float:
    try:
        user, system = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    except OSError:
        return 0.0
    return (int(user) + int(system)) / 100  # ticks of Linux


@pytest.mark.parametrize("means", MEANS)
def test_what_was_finished_is_kept(means, tmp_path):
    out = tmp_path / "sweep"
    process = started(*small_arguments(out, 5000, *means))
    code, err, seconds = interrupted(
        process, lambda: (out / "manifest.jsonl").exists() and len(manifest_runs(out)) > 0
    )
    assert (code, one_sentence(err)) == (130, True), err
    assert seconds < SOON
    finished = manifest_runs(out)
    assert 0 < len(finished) == len(set(finished)) < 10_000
    counts = json.loads(called("sweep", "--status", out, "--json")[1])
    assert (counts["finished"], counts["missing"]) == (len(finished), 10_000 - len(finished))
    code, printed, _ = called("check", out)
    assert (code, "missing" in printed, "not what was written" in printed) == (1, True, False), (
        printed
    )
