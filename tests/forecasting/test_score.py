"""Scores and naive forecasts against what they must give for forecasts whose quality is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import spearmanr

from saccade.errors import InputError
from saccade.forecasting import naive, score


def test_rank_agreement_is_spearmans_correlation_with_ties_and_gaps():
    rng = np.random.default_rng(7)
    guess, truth = rng.integers(0, 5, 31).astype(float), rng.integers(0, 5, 31).astype(float)
    assert score.rank_agreement(guess, truth) == pytest.approx(spearmanr(guess, truth).statistic)
    guess[3], truth[11] = np.nan, np.nan
    whole = np.isfinite(guess) & np.isfinite(truth)
    assert score.rank_agreement(guess, truth) == pytest.approx(spearmanr(guess[whole], truth[whole]).statistic)


def test_a_forecast_without_an_order_scores_as_chance_and_a_truth_without_one_cannot_be_scored():
    assert score.rank_agreement([0, 0, 0, 0], [1, 2, 3, 4]) == 0
    assert math.isnan(score.rank_agreement([1, 2, 3, 4], [5, 5, 5, 5]))
    assert math.isnan(score.rank_agreement([1, 2], [1, 2]))


def test_times_count_within_a_factor_either_way_and_missed_events_count_against():
    predicted = [10.0, 10.0, 10.0, np.nan, 7.0, np.nan]
    measured = [19.0, 5.1, 21.0, 3.0, np.nan, np.nan]
    assert score.within_factor(predicted, measured, factor=2) == 2 / 5
    assert score.typical_factor([10, 10, 10], [20, 5, 10]) == pytest.approx(2)
    assert math.isnan(score.within_factor([np.nan], [np.nan]))


def test_signs_are_asked_only_of_what_moved():
    assert score.sign_agreement([1, -1, 1, 1], [2, -3, -0.01, -5], least=0.1) == 2 / 3
    assert math.isnan(score.sign_agreement([1.0], [0.0]))


def test_the_first_tokens_found_are_counted():
    assert score.first_found([5, 4, 3, 2, 1], [5, 1, 4, 2, 3], n_first=2) == 0.5
    with pytest.raises(InputError, match="n_first"):
        score.first_found([1, 2], [1, 2], n_first=3)


def test_attention_distance_is_one_for_different_tokens_and_zero_for_the_same():
    assert score.attention_distance([[1, 0], [0.5, 0.5]], [[0, 1], [0.5, 0.5]]) == 0.5


def test_arrays_that_do_not_pair_get_a_sentence():
    with pytest.raises(InputError, match="one shape"):
        score.sign_agreement([1, 2, 3], [1, 2])


def test_naive_forecasts_say_what_they_are_named_for():
    gain = naive.follows_frequency([0.5, 0.1, 0.4], n_queries=2)
    assert gain.shape == (2, 3)
    assert score.rank_agreement(gain[0], [0.5, 0.1, 0.4]) == pytest.approx(1)
    zero, stays = naive.nothing_changes([[0.3, 0.7]])
    assert (zero == 0).all()
    assert (stays == [[0.3, 0.7]]).all()
    shuffled = naive.any_order(np.random.default_rng(0), n_queries=300, n_tokens=11)
    agreement = [score.rank_agreement(row, np.arange(11)) for row in shuffled]
    assert abs(np.mean(agreement)) < 4 / math.sqrt(300 * 10)  # four standard errors of Spearman's correlation by chance


def test_growth_rate_is_that_of_an_exponential_between_its_start_and_its_plateau():
    time = np.linspace(0, 50, 211)
    assert score.growth_rate(time, np.minimum(0.01 * np.exp(0.3 * time), 7.0)) == pytest.approx(0.3)
    assert np.isnan(score.growth_rate(time, np.ones(211)))
