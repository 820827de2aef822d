"""Intervals, separation and ranks against laws whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.observe.fits import interval, rank_correlation, separation


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
