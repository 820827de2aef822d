"""Rates, powers, turns and times against curves whose answer is known; what is not there is not
found.
"""

from __future__ import annotations

import numpy as np
import pytest

from saccade.measures import fits

TIME = np.append(0.0, np.geomspace(0.1, 50.0, 211))  # uneven, as records are


def test_the_rate_of_an_exponential_is_its_exponent_over_any_window():
    values = 3e-4 * np.exp(0.17 * TIME)
    for low, high in ((1e-3, 1e-1), (3e-3, 0.9)):
        inside = fits.between(values, low, high)
        assert fits.growth_rate(TIME, values, inside) == pytest.approx(0.17, rel=1e-12)


def test_without_room_for_a_window_there_is_no_rate():
    values = np.exp(0.17 * TIME)
    assert np.isnan(fits.growth_rate(TIME, values, fits.between(values, 10.0, 10.0)))
    assert np.isnan(fits.power([2.0], [3.0]))


def test_a_window_opens_once_and_closes_for_good():
    values = np.array([0.0, 2.0, 0.5, 3.0, 9.0, 3.0])
    assert fits.between(values, 1.0, 5.0).tolist() == [False, True, True, True, False, False]


def test_a_level_is_reached_on_the_line_between_samples():
    assert fits.reaching_time(TIME, 2 * TIME + 1, 7.3) == pytest.approx(3.15, rel=1e-12)
    assert np.isnan(fits.reaching_time(TIME, 2 * TIME + 1, 1e3))
    assert fits.reaching_time(TIME, 2 * TIME + 1, 0.5) == 0.0


def test_the_turn_of_a_parabola_is_found_between_uneven_samples():
    assert fits.peak_time(TIME, 5 - (TIME - 7.77) ** 2, 0) == pytest.approx(7.77, rel=1e-9)
    assert np.isnan(fits.peak_time(TIME, TIME, 0))


def test_only_turns_after_the_given_sample_count():
    waves = np.sin(TIME)
    early, late = (
        fits.peak_time(TIME, waves, 0),
        fits.peak_time(TIME, waves, int(np.argmax(TIME > 3))),
    )
    assert (early, late) == pytest.approx((np.pi / 2, 2.5 * np.pi), abs=1e-2)


def test_the_power_of_a_power_law_is_its_exponent():
    x = np.geomspace(1e-3, 2.0, 13)
    assert fits.power(x, 0.7 * x**2.5) == pytest.approx(2.5, rel=1e-12)


def test_a_missing_value_is_further_from_its_target_than_any_other():
    assert fits.furthest([1.0, 1.2, 0.7], 1.0) == 0.7
    assert np.isnan(fits.furthest([1.0, np.nan, 5.0], 1.0))


def test_a_rise_needs_a_sample_below_it_and_one_after_it():
    assert fits.rise_index([0.5, 0.1, 0.4, 0.6, 0.2, 0.9], 0.4) == 2
    assert fits.rise_index([0.5, 0.6, 0.7], 0.4) is None
    assert fits.rise_index([0.1, 0.2, 0.5], 0.4) is None


def test_a_path_is_half_way_where_half_of_its_change_is_made_and_never_if_it_comes_back():
    path = np.stack([TIME / 50, -3 * TIME / 50], axis=1)
    assert fits.half_way_time(TIME, path) == TIME[TIME >= 25][0]
    assert np.isnan(fits.half_way_time(TIME, np.zeros((len(TIME), 2))))


def test_the_first_time_is_that_of_the_first_sample_that_counts():
    assert fits.first_time(TIME, TIME > 3) == TIME[TIME > 3][0]
    assert np.isnan(fits.first_time(TIME, TIME > 99))


def test_the_agreement_of_two_kinds_of_runs_is_that_of_their_signals_whatever_the_noise():
    rng = np.random.default_rng(1)
    signals = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], size=20_000).T
    one, other = (
        signal + noise * rng.normal(size=(5, 20_000))
        for signal, noise in zip(signals, (0.5, 2), strict=True)
    )
    scores = [np.corrcoef(a, b)[:5, 5:] for a, b in ((one, other), (one, one), (other, other))]
    assert scores[0].mean() < 0.3
    assert fits.disattenuated(*scores) == pytest.approx(0.6, abs=0.03)
    assert np.isnan(fits.disattenuated(scores[0], -scores[1], scores[2]))
    assert np.isnan(fits.disattenuated(*np.ones((3, 1, 1))))


def test_jackknife_values_of_a_mean_are_the_values_and_of_a_variance_have_no_bias():
    values = np.array([2.0, 3.0, 5.0, 11.0, 13.0])
    np.testing.assert_allclose(fits.jackknife(lambda kept: float(values[kept].mean()), 5), values)
    assert fits.jackknife(lambda kept: float(values[kept].var()), 5).mean() == pytest.approx(
        values.var(ddof=1)
    )
