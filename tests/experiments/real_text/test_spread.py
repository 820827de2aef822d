"""Intervals and chance levels against laws whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.experiments.real_text.runs import in_processes
from saccade.experiments.real_text.spread import interval, rank_correlation, separation


def test_an_interval_covers_the_mean_as_often_as_it_says():
    draws = np.random.default_rng(0).normal(3.0, 2.0, (4000, 5))
    covered = np.mean([found.low <= 3.0 <= found.high for found in map(interval, draws)])
    assert covered == pytest.approx(0.95, abs=0.015)


def test_one_seed_has_no_interval():
    assert np.isnan(interval([2.0]).low)
    assert interval([2.0, np.nan]).mean == 2.0


def test_separation_is_one_half_by_chance_and_one_when_apart():
    drawn = np.random.default_rng(1).normal(size=(2, 4001))
    assert separation(*drawn) == pytest.approx(0.5, abs=0.02)
    assert separation([3, 4, 5], [0, 1]) == 1
    assert separation([1, 1], [1]) == 0.5


def test_rank_correlation_knows_order_only():
    assert rank_correlation([1, 2, 3, 10], [1, 4, 9, 11]) == 1
    assert np.isnan(rank_correlation([1, 1, 1], [1, 2, 3]))


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
