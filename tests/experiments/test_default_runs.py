"""The shared runs of the tests: computed once, whoever asks, and the same as a run of one's own."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from tests.experiments import default_runs
from tests.experiments.default_runs import record_of


@dataclass(frozen=True)
class Settings:
    size: int = 3


@pytest.fixture
def runs(monkeypatch, tmp_path) -> list[Settings]:
    """The runs of an experiment that takes its time."""
    made: list[Settings] = []

    def slow(settings: Settings) -> xr.Dataset:
        made.append(settings)
        time.sleep(0.2)
        return xr.Dataset({"x": ("time", np.arange(settings.size))})

    monkeypatch.setenv("SACCADE_TEST_RUNS", str(tmp_path))
    monkeypatch.setattr(
        default_runs, "experiment", lambda name: SimpleNamespace(settings=Settings, run=slow)
    )
    return made


def test_a_shared_record_is_what_the_run_gives_with_these_settings(runs):
    assert record_of("slow").x.values.tolist() == [0, 1, 2]
    assert record_of("slow", size=5).x.values.tolist() == [0, 1, 2, 3, 4]
    assert record_of("slow", size=3).sizes == record_of("slow").sizes  # the default, said in words
    assert runs == [Settings(3), Settings(5)]


def test_those_who_ask_at_once_get_one_run(runs):
    """Threads stand for processes: the lock is on the file as each of them opened it."""
    with ThreadPoolExecutor(3) as pool:
        records = list(pool.map(lambda _: record_of("slow"), range(3)))
    assert runs == [Settings()]
    assert all(record.identical(records[0]) and record is not records[0] for record in records[1:])
