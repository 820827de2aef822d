"""The unigram point: what it predicts, how it is balanced, and the rate at which attention grows."""

import numpy as np
import pytest

from saccade.theories.focus_and_dilution import (
    centred_log,
    embedding_norm,
    focus_rate,
    focus_sign,
    persistence,
    plateau_drive,
    population_loss,
    spread,
    unigram_loss,
    unigram_point,
    unigram_weights,
    weight_balance,
    weight_velocities,
)

from .chains import CHAINS, D_KEY, D_MODEL, PAPER_LAW, ZIPF, lazy

chains = pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS.keys())
DIRECTION = np.random.default_rng(3).normal(size=D_MODEL)


def plateau(chain):
    return unigram_weights(stationary=chain["stationary"], direction=DIRECTION, d_key=D_KEY)


@chains
def test_unigram_point_predicts_the_law_at_the_cost_of_its_entropy(chain):
    loss = unigram_loss(stationary=chain["stationary"])
    assert population_loss(*plateau(chain), **chain) == pytest.approx(loss, rel=1e-14)


@chains
def test_unigram_point_is_balanced_as_a_small_start_makes_it(chain):
    gamma, beta = unigram_point(stationary=chain["stationary"])
    assert np.linalg.norm(gamma) == pytest.approx(
        embedding_norm(stationary=chain["stationary"]), rel=1e-14
    )
    assert np.linalg.norm(beta) == pytest.approx(np.linalg.norm(gamma), rel=1e-14)
    np.testing.assert_allclose(weight_balance(*plateau(chain)), 0, atol=1e-14)


@pytest.mark.parametrize(("chain", "rate"), [("paper", 0.0478708), ("zipf", 0.0405535)])
def test_focus_rate_has_the_value_of_an_independent_calculation(chain, rate):
    assert focus_rate(**CHAINS[chain]) == pytest.approx(rate, abs=5e-8)


@pytest.mark.parametrize(
    "rates", [{"phi_scale": 0.4}, {"lr_attention": 5.0}, {"phi_scale": 3.0, "lr_attention": 0.2}]
)
def test_focus_rate_is_proportional_to_the_scale_of_attention_and_to_its_learning_rate(rates):
    chain, step = CHAINS["irreversible"], 1e-6
    W0, _, _, W1 = plateau(chain)
    rng = np.random.default_rng(5)
    WQ, WK = step * rng.normal(size=(2, D_MODEL, D_KEY))
    alpha = DIRECTION / np.linalg.norm(DIRECTION)
    velocity = weight_velocities(W0, WQ, WK, W1, **chain, lr_decoder=11.0, **rates)
    c = focus_rate(**chain, **rates)
    np.testing.assert_allclose(
        velocity.query, c * np.outer(alpha, alpha @ WK), rtol=1e-7, atol=1e-14 * step
    )
    np.testing.assert_allclose(
        velocity.key, c * np.outer(alpha, alpha @ WQ), rtol=1e-7, atol=1e-14 * step
    )


@pytest.mark.parametrize("stay", [0.5, 0.1, -0.02])
def test_persistence_of_a_lazy_chain_is_its_stay_times_a_covariance(stay):
    law = ZIPF
    covariance = np.sum(law * law * np.log(law)) - np.sum(law * law) * np.sum(law * np.log(law))
    assert persistence(**lazy(law, stay)) == pytest.approx(stay * covariance, rel=1e-12)
    assert covariance > 0
    assert focus_sign(**lazy(law, stay)) == np.sign(stay)


def test_spread_is_a_variance_under_the_law():
    assert spread(stationary=PAPER_LAW) == pytest.approx(
        np.average(PAPER_LAW**2, weights=PAPER_LAW) - (PAPER_LAW @ PAPER_LAW) ** 2
    )
    assert spread(stationary=np.full(7, 1 / 7)) == pytest.approx(0, abs=1e-17)


@chains
def test_focus_rate_is_the_drive_of_attention_at_the_unigram_point(chain):
    point = unigram_point(stationary=chain["stationary"])
    assert plateau_drive(*point, **chain) == pytest.approx(focus_rate(**chain), rel=1e-12)
    shifted = centred_log(stationary=chain["stationary"]) + 3.0
    assert plateau_drive(point.gamma, shifted, **chain) == pytest.approx(
        plateau_drive(point.gamma, shifted - 3.0, **chain), rel=1e-9
    )  # a constant added to all logits changes nothing


def test_independent_tokens_give_attention_nothing_to_learn():
    chain = lazy(PAPER_LAW, 0.0)
    assert focus_rate(**chain) == pytest.approx(0, abs=1e-16)


def test_the_drive_of_any_pattern_is_the_slope_of_the_loss_in_the_strength_of_attention():
    """With the unigram law as prediction, -dL/d kappa at kappa = 0 is D: by differences of the
    loss, at patterns of no meaning.
    """
    rng = np.random.default_rng(8)
    pi = np.array([0.41, 0.29, 0.19, 0.11])
    P = 0.3 * np.eye(4) + 0.7 * pi
    gamma, beta = rng.standard_normal(4), rng.standard_normal(4)

    def averaged(kappa):
        """The part of the loss that moves with attention, logits h_i beta met by the errors of the
        unigram law.
        """
        weights = pi * np.exp(kappa * np.outer(gamma, gamma))
        h = (weights / weights.sum(axis=1, keepdims=True)) @ gamma
        return np.sum(pi * h * ((P - pi) @ beta))

    slope = (averaged(1e-5) - averaged(-1e-5)) / 2e-5
    assert plateau_drive(gamma, beta, stationary=pi, transition=P) == pytest.approx(slope, rel=1e-7)
