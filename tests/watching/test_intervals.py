"""Intervals, separation and ranks against laws whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.measures.fits import (
    agreement,
    enlargement,
    interval,
    rank_correlation,
    separation,
    simultaneous,
)


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


def test_simultaneous_intervals_cover_all_means_at_once_as_often_as_they_say():
    draws = np.random.default_rng(2).normal(3.0, 2.0, (1500, 7, 5))
    alone = [
        all(found.low <= 3.0 <= found.high for found in map(interval, seven)) for seven in draws
    ]
    at_once = [
        all(
            found.low <= 3.0 <= found.high
            for found in simultaneous(dict(enumerate(seven))).values()
        )
        for seven in draws
    ]
    assert np.mean(at_once) == pytest.approx(0.95, abs=0.02)
    assert np.mean(alone) < 0.75  # 0.95^7 = 0.70


def test_repetitions_on_a_larger_sample_agree_as_spearman_and_brown_have_it():
    rng = np.random.default_rng(3)
    signal, noise = rng.normal(size=100_003), rng.normal(size=(2, 11, 100_003))
    correlation = lambda one, other: float(np.corrcoef(one, other)[0, 1])  # noqa: E731
    one = agreement(signal + 2 * noise[:, 0], correlation)
    several = agreement(signal + 2 * noise.mean(axis=1), correlation)
    assert one == pytest.approx(1 / 5, abs=0.02)
    assert enlargement(one, several) == pytest.approx(11, rel=0.1)
    assert np.isinf([enlargement(-0.1, 0.5), enlargement(0.5, 1.0)]).all()


def test_agreement_is_the_mean_over_all_pairs_of_runs():
    assert agreement([[1, 2, 3], [1, 2, 3], [3, 2, 1]]) == pytest.approx(-1 / 3)
    assert np.isnan(agreement([[1, 2, 3]]))
