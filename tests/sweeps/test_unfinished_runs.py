"""Runs that raise, run out of time, diverge or lose their process: kept with their reason, counted,
and no bar to the others.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from dataclasses import replace

import saccade
from saccade import processes
from saccade.lab.experiment import Experiment
from saccade.processes import Worker
from saccade.sweeps.execution import execute
from saccade.sweeps.grid import Grid
from saccade.sweeps.outcome_file import DIVERGED, FAILED, FINISHED, TIMED_OUT
from saccade.sweeps.processes import outcome_of
from saccade.sweeps.sweep import sweep
from saccade.sweeps.units import units_of
from tests.patience import PATIENCE
from tests.sweeps.small_sweeps import (
    NAME,
    assert_same_dataset,
    called,
    children,
    manifest_runs,
    small_arguments,
    small_config,
    started,
)


def one_unit(**changes):
    grid = Grid.of(NAME, {"seed": [0]}, config=small_config(**changes))
    return units_of(grid, grid.runs, None)[0]


def test_a_run_that_raises_is_kept_with_its_reason_and_the_others_finish(tmp_path):
    arguments = (
        "sweep",
        NAME,
        "--over",
        "lr_decoder=-1,2,3",
        "--out",
        tmp_path,
        "--workers",
        1,
        "--json",
    )
    code, printed, _ = called(*arguments)
    assert code == 1
    counts = json.loads(printed)
    assert (counts["runs"], counts[FINISHED], counts[FAILED], counts["missing"]) == (3, 2, 1, 0)
    dataset = saccade.load_record(tmp_path / "dataset.zarr")
    assert list(dataset.status.values) == [FAILED, FINISHED, FINISHED]
    assert "`lr_decoder` must be" in str(dataset.reason.values[0])
    assert list(dataset.share_of_claims_holding.isnull().values) == [True, False, False]
    assert "1 failed" in called("sweep", "--status", tmp_path)[1]
    before = manifest_runs(tmp_path)
    assert called(*arguments)[0] == 1
    assert manifest_runs(tmp_path) == before  # not tried again unless asked for
    assert called(*arguments, "--retry-failed")[0] == 1
    assert manifest_runs(tmp_path) == [*before, before[0]]


def test_any_exception_is_a_reason(monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setattr(Experiment, "run", broken)
    outcome = execute(one_unit())
    assert (outcome.status, outcome.reason, outcome.record) == (
        FAILED,
        "ZeroDivisionError: by zero",
        None,
    )


def test_runs_beyond_their_time_are_ended_whether_they_listen_or_not(tmp_path, monkeypatch):
    """A run that pauses for a minute does not look at the clock, so its process is replaced."""
    monkeypatch.setattr(processes, "_GRACE", 1.0)
    dataset = sweep(
        NAME,
        {"pause": [0.0, 60.0, 0.1]},
        out=tmp_path,
        config=small_config(),
        workers=1,
        time_limit=2.0,
    )
    assert list(dataset.status.values) == [FINISHED, TIMED_OUT, FINISHED]
    assert "took more than 2 s" in str(dataset.reason.values[1])


def test_a_run_that_hears_that_its_time_is_over_ends_by_itself():
    outcome = execute(replace(one_unit(), seconds=1e-9))
    assert (outcome.status, outcome.reason) == (TIMED_OUT, "took more than 1e-09 s")


def test_if_no_run_finishes_the_table_says_so_and_nothing_is_drawn(tmp_path):
    code, printed, err = called(
        *small_arguments(tmp_path, 1, "--time-limit", "1e-9", "--workers", 1)
    )
    assert (code, err) == (1, "")
    assert printed.startswith("0 finished, 2 out of time\n")
    assert (tmp_path / "summary.csv").read_text().count(TIMED_OUT) >= 2
    assert not (tmp_path / "figure.svg").exists()
    assert called(*small_arguments(tmp_path, 1, "--retry-failed"))[0] == 0
    assert (tmp_path / "figure.svg").exists()


def test_a_run_that_diverges_is_kept_with_its_record_and_counted(tmp_path):
    dataset = sweep(NAME, {"lr_decoder": [1.0, 900.0]}, out=tmp_path, workers=1)
    assert list(dataset.status.values) == [FINISHED, DIVERGED]
    assert str(dataset.reason.values[1]) == "1 of 1 trajectories left all bounds"
    assert dataset.drawn.notnull().all()
    assert "1 diverged" in called("sweep", "--status", tmp_path)[1]


def test_a_process_killed_from_outside_is_replaced_and_its_run_can_be_tried_again(tmp_path):
    n_seeds = 60
    sweeping = started(*small_arguments(tmp_path / "killed", n_seeds, "--workers", 1))
    manifest = tmp_path / "killed" / "manifest.jsonl"
    end = time.monotonic() + PATIENCE
    while not manifest.exists() and sweeping.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    (worker,) = children(sweeping.pid)
    os.kill(worker, signal.SIGSTOP)
    time.sleep(1)  # if it had just answered, the next run has reached it by now
    os.kill(worker, signal.SIGKILL)
    out, err = sweeping.communicate(timeout=PATIENCE)
    assert sweeping.returncode == 1, err
    assert out.startswith(f"{2 * n_seeds - 1} finished, 1 failed\n")
    assert "its process was ended by signal 9" in out
    assert called(*small_arguments(tmp_path / "killed", n_seeds, "--retry-failed"))[0] == 0
    assert called(*small_arguments(tmp_path / "untouched", n_seeds))[0] == 0
    assert_same_dataset(tmp_path / "killed", tmp_path / "untouched")


def test_a_process_that_was_killed_between_two_runs_does_not_hold_up_the_next():
    worker = processes.Worker(0)
    try:
        assert outcome_of(worker, one_unit()).status == FINISHED
        os.kill(worker._process.pid, signal.SIGKILL)
        worker._process.wait()
        assert (
            outcome_of(worker, one_unit()).status == FINISHED
        )  # an idle process that was lost is no run's fault
    finally:
        worker.stop()


def test_a_run_beyond_its_share_of_memory_fails_and_the_others_finish(tmp_path):
    """A billion draws would take 8 GB."""
    dataset = sweep(
        NAME, {"draws": [2, 10**9]}, out=tmp_path, config=small_config(), workers=1, memory=1.0
    )
    assert list(dataset.status.values) == [FINISHED, FAILED]
    assert "Unable to allocate" in str(dataset.reason.values[1])


def test_a_worker_that_is_closed_leaves_its_unit_and_starts_no_other_process():
    worker = Worker()

    def close_once_it_loads():
        while worker._process is None:
            time.sleep(0.01)
        worker.close()

    threading.Thread(target=close_once_it_loads, daemon=True).start()
    assert outcome_of(worker, one_unit()).status == FAILED
    assert worker._process is None


def test_a_name_in_keep_that_no_record_has_ends_the_sweep_at_its_first_run(tmp_path):
    code, _, err = called(*small_arguments(tmp_path, 3, "--workers", 1, "--keep", "drwan"))
    assert code == 2
    assert "`keep` variable 'drwan' is not known" in err
    assert not (tmp_path / "manifest.jsonl").exists()
