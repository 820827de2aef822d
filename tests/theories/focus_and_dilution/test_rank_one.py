"""The rank-one manifold: invariant under the whole flow, and its reduced flow the one that the
whole flow induces.
"""

import numpy as np
import pytest

from saccade.theories.focus_and_dilution import (
    RankOneState,
    attention_logits,
    population_attention,
    population_loss,
    rank_one_attention,
    rank_one_balance,
    rank_one_loss,
    rank_one_velocity,
    rank_one_weights,
    unigram_point,
    weight_velocities,
)

from .chains import D_KEY, D_MODEL, N_VOCAB, irreversible
from .numeric import rank_one_flow

CHAIN = irreversible()
RNG = np.random.default_rng(11)
STATE = RankOneState(RNG.normal(size=N_VOCAB), RNG.normal(size=N_VOCAB), 0.7, -1.1)
DIRECTIONS = {"direction": RNG.normal(size=D_MODEL), "key_direction": RNG.normal(size=D_KEY)}
RATES = [{}, {"phi_scale": 0.4}, {"phi_scale": 1.7, "lr_decoder": 0.5, "lr_attention": 3.0}]


@pytest.mark.parametrize("rates", RATES)
def test_reduced_velocity_lifts_to_the_velocity_of_the_weights(rates):
    lifted = rank_one_weights(rank_one_velocity(STATE, **CHAIN, **rates), **DIRECTIONS)
    whole = weight_velocities(*rank_one_weights(STATE, **DIRECTIONS), **CHAIN, **rates)
    for reduced, velocity in zip(lifted, whole, strict=True):
        np.testing.assert_allclose(reduced, velocity, atol=1e-14)
        assert np.abs(velocity).max() > 1e-3


def test_attention_and_loss_are_those_of_the_weights():
    weights = rank_one_weights(STATE, **DIRECTIONS)
    whole = population_attention(
        attention_logits(*weights[:3], phi_scale=0.4), stationary=CHAIN["stationary"]
    )
    np.testing.assert_allclose(
        rank_one_attention(STATE, stationary=CHAIN["stationary"], phi_scale=0.4), whole, rtol=1e-12
    )
    loss = population_loss(*weights, **CHAIN, phi_scale=0.4)
    assert rank_one_loss(STATE, **CHAIN, phi_scale=0.4) == pytest.approx(float(loss), rel=1e-14)


@pytest.mark.parametrize("rates", RATES)
def test_balance_is_conserved_along_the_reduced_flow(rates):
    ratio = rates.get("lr_attention", 1.0) / rates.get("lr_decoder", 1.0)
    gamma, beta = unigram_point(stationary=CHAIN["stationary"])
    start = RankOneState(gamma, beta, 0.3, 0.2)
    path = rank_one_flow(start, [10.0, 100.0], **CHAIN, **rates)
    for state in path:
        assert rank_one_balance(state, rate_ratio=ratio) == pytest.approx(
            rank_one_balance(start, rate_ratio=ratio), abs=1e-8
        )
        assert state.query_scale**2 - state.key_scale**2 == pytest.approx(0.05, abs=1e-8)
    assert np.abs(path[-1].gamma - gamma).max() > 0.05  # it did move


def test_sum_of_the_projection_is_conserved():
    assert rank_one_velocity(STATE, **CHAIN).beta.sum() == pytest.approx(0, abs=1e-15)
