"""A run seen along its direction, against weights of rank one; the unigram point and the force of
attention, against JAX.
"""

from __future__ import annotations

import numpy as np
import pytest

import saccade
from saccade.errors import InputError
from saccade.experiments.focus_and_dilution import embedded_gradients, stage_fits
from saccade.theories import focus_and_dilution as theory


def test_the_velocity_is_zero_at_the_unigram_point_and_attention_there_has_the_size_asked_for():
    chain = saccade.MarkovChain.zipf(7, 0.4)
    assert (
        max(
            np.abs(part).max()
            for part in embedded_gradients.velocity(stage_fits.near_unigram(chain, 0.0, 0), chain)
        )
        < 1e-14
    )
    assert np.std(stage_fits.near_unigram(chain, 1e-4, 1).query) == pytest.approx(1e-4, rel=0.2)
    assert not np.allclose(
        stage_fits.near_unigram(chain, 1e-4, 1).query, stage_fits.near_unigram(chain, 1e-4, 2).query
    )


def test_a_path_along_the_direction_of_rank_one_weights_gives_back_their_patterns():
    chain = saccade.MarkovChain.zipf(5, 0.4)
    gamma, beta = theory.unigram_point(stationary=chain.stationary)
    alpha, across = np.array([0.6, 0.0, -0.8]), np.array([1.0, 2.0]) / np.sqrt(5)
    start = (
        np.outer(gamma, alpha),
        0.3 * np.outer(alpha, across),
        -0.2 * np.outer(alpha, across),
        np.outer(alpha, beta),
    )
    run = saccade.flow(
        chain, t1=0.1, n_times=2, start=start, model=saccade.models.Embedded(d_model=3, d_key=2)
    ).isel(seed=0)
    direction = stage_fits.top_direction(run.embedding.values[0])
    np.testing.assert_allclose(direction, alpha, atol=1e-12)
    path = stage_fits.along(run)
    np.testing.assert_allclose(path.gamma[0], gamma, atol=1e-12)
    assert path.strength[0] == pytest.approx(-0.06, rel=1e-12)
    np.testing.assert_allclose(path.scores[0], -0.06 * np.outer(gamma, gamma), atol=1e-12)


def test_the_linear_regime_ends_where_tokens_have_moved_by_a_hundredth_of_how_far_they_are_apart():
    """Nearly equal tokens move long before attention is strong, and a gamma that only grows does
    not count.
    """
    chain = saccade.MarkovChain.lazy([0.36, 0.34, 0.3], 0.5)
    start = stage_fits.near_unigram(chain, 1e-4, 0)
    run = saccade.flow(chain, t1=1.0, n_times=3, start=start).isel(seed=0)
    grown = run.assign(embedding=run.embedding * (1 + 0.1 * run.time))
    assert stage_fits.along(grown).moved.max() < 1e-6
    one, half = np.zeros(run.embedding.shape), np.ptp(stage_fits.along(run).gamma[0]) / 2
    one[-1, 0] = 0.02 * half * stage_fits.top_direction(run.embedding.values[0])
    path = stage_fits.along(run.assign(embedding=run.embedding + one))
    assert path.departure[-1] == pytest.approx(0.02, rel=0.4)
    assert stage_fits.linear_end(path) == len(path.time) - 1


def test_gradients_agree_with_differences_and_with_the_closed_form_on_a_chain_that_is_not_reversible():
    law = np.array([0.41, 0.29, 0.17, 0.08, 0.05])
    gaps = embedded_gradients.gradient_gaps(saccade.MarkovChain.random(law, 3), seed=5)
    assert gaps.finite_difference < 1e-8
    assert gaps.closed_form < 1e-14


def test_the_force_of_attention_off_the_law_is_the_predicted_one_on_a_chain_that_is_not_reversible():
    chain = saccade.MarkovChain.random(np.array([0.41, 0.29, 0.17, 0.08, 0.05]), 3)
    pi, P = chain.stationary, chain.transition
    measured = theory.off_stationary(embedded_gradients.attention_force(chain), stationary=pi)
    np.testing.assert_allclose(
        measured, theory.drift_direction(stationary=pi, transition=P), atol=1e-8
    )


def test_a_chain_without_memory_is_named_as_one_on_which_attention_does_not_move():
    with pytest.raises(InputError, match="flat"):
        stage_fits.checked_moving(
            {"other": saccade.MarkovChain.zipf(5, 0.3), "flat": saccade.MarkovChain.zipf(5, 0.0)}
        )


def test_an_anti_persistent_chain_does_not_meet_what_focus_assumes_and_is_asked_only_about_its_stages():
    chain = saccade.MarkovChain.zipf(6, -0.05)
    found = stage_fits.conditions(chain, ("I", "II"), init_scale=1e-3)
    assert [condition.name for condition in found if not condition.holds] == [
        "stage II, positive focus rate"
    ]
    assert all(
        condition.holds for condition in stage_fits.conditions(chain, ("I",), init_scale=1e-3)
    )


def test_a_flow_goes_on_until_it_has_left_or_its_longest_time_is_over():
    asked = []

    def flow(end, n_times):
        asked.append((end, n_times))
        return end

    assert stage_fits.until_left(flow, lambda end: end >= 35, 10.0, 100, 60.0) == 40.0
    assert asked == [(10.0, 100), (20.0, 200), (40.0, 400)]
    assert stage_fits.until_left(flow, lambda end: False, 10.0, 100, 25.0) == 25.0
    asked.clear()
    assert stage_fits.until_left(flow, lambda end: True, 10.0, 100, 25.0) == 10.0
    assert asked == [(10.0, 100)]
