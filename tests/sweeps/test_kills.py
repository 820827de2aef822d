"""A sweep that is killed again and again ends with the same dataset to the last bit, and no finished run is done twice.

How many kills: the environment's SACCADE_KILLS, 4 if it says nothing, since each start takes seconds; `benchmarks/sweeps.py` makes
the full 25.
"""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest

from tests.sweeps.small_sweeps import (
    assert_same_dataset,
    called,
    children,
    is_running,
    manifest_runs,
    small_arguments,
    started,
)

N_SEEDS = 100  # with two rates: 200 runs
N_KILLS = int(os.environ.get("SACCADE_KILLS", "4"))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Folder, and the seconds it took."""
    out = tmp_path_factory.mktemp("kills") / "uninterrupted"
    begun = time.monotonic()
    assert called(*small_arguments(out, N_SEEDS))[0] == 0
    return out, time.monotonic() - begun


def killed(out, patience: float) -> int:
    """Start the sweep and kill it that long after its first process has begun to work; how many runs are finished then."""
    process = started(*small_arguments(out, N_SEEDS))
    end = time.monotonic() + 120
    while not (workers := children(process.pid)) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(patience)
    workers = children(process.pid) or workers
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    end = time.monotonic() + 20
    while any(map(is_running, workers)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(is_running, workers)), "a worker has outlived its parent"
    return len(manifest_runs(out)) if (out / "manifest.jsonl").exists() else 0


def test_a_sweep_of_200_runs_killed_at_random_moments_is_the_same_to_the_last_bit(tmp_path, uninterrupted):
    whole, seconds = uninterrupted
    rng = np.random.default_rng(0)
    out = tmp_path / "killed"
    finished = [killed(out, float(rng.uniform(0, seconds))) for _ in range(N_KILLS)]
    assert finished == sorted(finished)
    code, _, err = called(*small_arguments(out, N_SEEDS))
    assert code == 0, err
    runs = manifest_runs(out)
    assert len(runs) == len(set(runs)) == 2 * N_SEEDS
    assert_same_dataset(out, whole)
    assert not [name for name in os.listdir(out) + os.listdir(out / "runs") if name.endswith((".unfinished", ".replaced"))]


def test_the_same_command_again_computes_nothing_and_changes_nothing(uninterrupted):
    out, _ = uninterrupted
    before = (out / "manifest.jsonl").read_bytes()
    code, printed, _ = called(*small_arguments(out, N_SEEDS))
    assert (code, printed.startswith("200 finished\n")) == (0, True)
    assert (out / "manifest.jsonl").read_bytes() == before
