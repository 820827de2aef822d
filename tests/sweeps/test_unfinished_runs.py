"""Runs that raise, run out of time, diverge or lose their process: kept with their reason, counted,
and no bar to the others.
"""

from __future__ import annotations

import json
import os
import signal
import time

import numpy as np
from saccade.lab.protocol import Experiment

import saccade
from saccade import processes
from saccade.processes import Worker
from saccade.sweeps.execution import execute
from saccade.sweeps.grid import Grid
from saccade.sweeps.outcome_file import FAILED, FINISHED, TIMED_OUT
from saccade.sweeps.processes import outcomes_of
from saccade.sweeps.sweep import sweep
from saccade.sweeps.units import units_of
from tests.kept_processes import Kept
from tests.patience import PATIENCE
from tests.sweeps.small_sweeps import (
    NAME,
    SETTINGS,
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
    (unit,) = units_of(grid.name, grid.runs, {grid.runs[0].identity})
    return unit


def test_a_run_that_raises_is_kept_with_its_reason_and_the_others_finish(tmp_path):
    arguments = (
        "sweep",
        NAME,
        *SETTINGS,
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

    monkeypatch.setattr(Experiment, "run_together", broken)
    (outcome,) = execute(one_unit())
    assert (outcome.status, outcome.reason, outcome.record) == (
        FAILED,
        "ZeroDivisionError: by zero",
        None,
    )


def test_runs_beyond_their_time_are_ended_whether_they_listen_or_not(tmp_path, monkeypatch):
    """A run with 10^7 draws does not look at the clock within a minute, so its process is ended and
    replaced.
    """
    monkeypatch.setattr(processes, "_GRACE", 1.0)
    dataset = sweep(
        NAME,
        {"draws": [2, 10**7, 3]},
        out=tmp_path,
        config=small_config(),
        workers=1,
        time_limit=2.0,
    )
    assert list(dataset.status.values) == [FINISHED, TIMED_OUT, FINISHED]
    assert "took more than 2 s" in str(dataset.reason.values[1])


def test_a_run_that_hears_that_its_time_is_over_ends_by_itself():
    unit = one_unit()
    (outcome,) = execute(type(unit)(unit.name, unit.identities, unit.settings, None, 1e-9))
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
        assert outcomes_of(worker, one_unit())[0].status == FINISHED
        os.kill(worker._process.pid, signal.SIGKILL)
        worker._process.wait()
        assert (
            outcomes_of(worker, one_unit())[0].status == FINISHED
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


class Killed(Kept):
    """A worker whose first process is killed while it still loads."""

    n_started = 0

    def _start_process(self):
        self.n_started += 1
        if self.n_started > 1:
            super()._start_process()
        else:
            Worker._start_process(self)  # a new one
            self._process.kill()


def computed_by(worker, unit):
    try:
        return outcomes_of(worker, unit)
    finally:
        worker.close()


class Dying(Kept):
    """A worker whose process is ended just before it begins some of its jobs."""

    def __init__(self, *jobs: int) -> None:
        super().__init__()
        self.jobs, self.n_asked = jobs, 0

    def answer(self, run, *job, seconds=None):
        self.n_asked += 1
        if self.n_asked - 1 in self.jobs:
            raise processes.LostProcessError("its process was ended by signal 9")
        return super().answer(run, *job, seconds=seconds)


def assert_same_bits(outcomes, others):
    for one, other in zip(outcomes, others, strict=True):
        assert one.company == other.company
        for name, values in one.record[1].items():
            np.testing.assert_array_equal(values, other.record[1][name], err_msg=name)


def test_a_name_in_keep_that_no_record_has_ends_the_sweep_at_its_first_run(tmp_path):
    code, _, err = called(*small_arguments(tmp_path, 3, "--workers", 1, "--keep", "heigth"))
    assert code == 2
    assert "`keep` variable 'heigth' is not known" in err
    assert not (tmp_path / "manifest.jsonl").exists()
