"""The shared runs of the tests: computed once, whoever asks, and the same as a run of one's own."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import xarray as xr

from saccade.experiments import experiment
from saccade.lab.experiment import Experiment
from tests.experiments.default_runs import record_of

SMALL = {"n_vocab": (20,), "draws": 2, "remark_vocab": 20, "remark_all": 8, "remark_draws": 2}


def test_a_shared_record_is_what_the_run_gives():
    asked = experiment("decoder-dynamics")
    xr.testing.assert_equal(record_of("decoder-dynamics", **SMALL), asked.run(asked.settings(**SMALL)))


def test_other_settings_are_another_run():
    assert record_of("decoder-dynamics", **SMALL).sizes != record_of("decoder-dynamics", **SMALL | {"draws": 3}).sizes


def test_those_who_ask_at_once_get_one_run(monkeypatch, tmp_path):
    """Threads stand for processes: the lock is on the file as each of them opened it."""
    made = record_of("decoder-dynamics", **SMALL)
    runs = []

    def slow(self, config):
        runs.append(config)
        time.sleep(0.2)
        return made

    monkeypatch.setenv("SACCADE_TEST_RUNS", str(tmp_path))
    monkeypatch.setattr(Experiment, "run", slow)
    with ThreadPoolExecutor(3) as pool:
        records = list(pool.map(lambda _: record_of("decoder-dynamics", **SMALL), range(3)))
    assert len(runs) == 1
    assert all(record.identical(records[0]) and record is not records[0] for record in records[1:])
