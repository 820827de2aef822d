"""Scores against what they must give for forecasts whose quality is known."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.forecasting import score


def test_times_count_within_a_factor_either_way_and_missed_events_count_against():
    predicted = [10.0, 10.0, 10.0, np.nan, 7.0, np.nan]
    measured = [19.0, 5.1, 21.0, 3.0, np.nan, np.nan]
    np.testing.assert_array_equal(
        score.in_time(predicted, measured, factor=2), [1, 1, 0, 0, 0, np.nan]
    )


def test_growth_rate_is_that_of_an_exponential_between_its_start_and_its_plateau():
    time = np.linspace(0, 50, 211)
    assert score.exponential_rate(
        time, np.minimum(0.01 * np.exp(0.3 * time), 7.0)
    ) == pytest.approx(0.3)
    assert np.isnan(score.exponential_rate(time, np.ones(211)))
