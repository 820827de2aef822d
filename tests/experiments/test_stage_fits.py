"""Windows, rates and times against curves whose answer is known, and the unigram point against JAX."""

from __future__ import annotations

import numpy as np
import pytest

import saccade
from saccade.errors import InputError
from saccade.experiments.focus_and_dilution import embedded_gradients, stage_fits
from saccade.observe import fits
from saccade.theory import focus_and_dilution as theory

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
    early, late = fits.peak_time(TIME, waves, 0), fits.peak_time(TIME, waves, int(np.argmax(TIME > 3)))
    assert (early, late) == pytest.approx((np.pi / 2, 2.5 * np.pi), abs=1e-2)


def test_the_power_of_a_power_law_is_its_exponent():
    x = np.geomspace(1e-3, 2.0, 13)
    assert fits.power(x, 0.7 * x**2.5) == pytest.approx(2.5, rel=1e-12)


def test_a_missing_value_is_further_from_its_target_than_any_other():
    assert fits.furthest([1.0, 1.2, 0.7], 1.0) == 0.7
    assert np.isnan(fits.furthest([1.0, np.nan, 5.0], 1.0))


def test_the_velocity_is_zero_at_the_unigram_point_and_attention_there_has_the_size_asked_for():
    chain = saccade.MarkovChain.zipf(7, 0.4)
    assert max(np.abs(part).max() for part in embedded_gradients.velocity(stage_fits.near_unigram(chain, 0.0, 0), chain)) < 1e-14
    assert np.std(stage_fits.near_unigram(chain, 1e-4, 1).query) == pytest.approx(1e-4, rel=0.2)
    assert not np.allclose(stage_fits.near_unigram(chain, 1e-4, 1).query, stage_fits.near_unigram(chain, 1e-4, 2).query)


def test_a_path_along_the_direction_of_rank_one_weights_gives_back_their_patterns():
    chain = saccade.MarkovChain.zipf(5, 0.4)
    gamma, beta = theory.unigram_point(stationary=chain.stationary)
    alpha, across = np.array([0.6, 0.0, -0.8]), np.array([1.0, 2.0]) / np.sqrt(5)
    start = (np.outer(gamma, alpha), 0.3 * np.outer(alpha, across), -0.2 * np.outer(alpha, across), np.outer(alpha, beta))
    run = saccade.flow(chain, t1=0.1, n_times=2, start=start, model=saccade.Embedded(d_model=3, d_key=2)).isel(seed=0)
    direction = stage_fits.top_direction(run.embedding.values[0])
    np.testing.assert_allclose(direction, alpha, atol=1e-12)
    path = stage_fits.along(run)
    np.testing.assert_allclose(path.gamma[0], gamma, atol=1e-12)
    assert path.strength[0] == pytest.approx(-0.06, rel=1e-12)
    np.testing.assert_allclose(path.scores[0], -0.06 * np.outer(gamma, gamma), atol=1e-12)


def test_gradients_agree_with_differences_and_with_the_closed_form_on_a_chain_that_is_not_reversible():
    law = np.array([0.41, 0.29, 0.17, 0.08, 0.05])
    gaps = embedded_gradients.gradient_gaps(saccade.MarkovChain.random(law, 3), seed=5)
    assert gaps.finite_difference < 1e-8
    assert gaps.closed_form < 1e-14


def test_the_force_of_attention_off_the_law_is_the_predicted_one_on_a_chain_that_is_not_reversible():
    chain = saccade.MarkovChain.random(np.array([0.41, 0.29, 0.17, 0.08, 0.05]), 3)
    pi, P = chain.stationary, chain.transition
    measured = theory.off_stationary(embedded_gradients.attention_force(chain), stationary=pi)
    np.testing.assert_allclose(measured, theory.drift_direction(stationary=pi, transition=P), atol=1e-8)


def test_a_chain_without_memory_is_named_as_one_on_which_attention_does_not_move():
    with pytest.raises(InputError, match="flat"):
        stage_fits.checked_moving({"other": saccade.MarkovChain.zipf(5, 0.3), "flat": saccade.MarkovChain.zipf(5, 0.0)})


def test_an_anti_persistent_chain_does_not_meet_what_focus_assumes_and_is_asked_only_about_its_stages():
    chain = saccade.MarkovChain.zipf(6, -0.05)
    found = stage_fits.conditions(chain, ("I", "II"), init_scale=1e-3)
    assert [condition.name for condition in found if not condition.holds] == ["II positive focus rate"]
    assert all(condition.holds for condition in stage_fits.conditions(chain, ("I",), init_scale=1e-3))
