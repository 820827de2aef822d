"""Saturated attention: the two-group point is critical, its rate has a closed form, its flat
directions end at sixth order.
"""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from saccade.errors import InputError
from saccade.theories.focus_and_dilution import (
    RankOneState,
    critical_stay,
    least_saturated_stay,
    rank_one_attention,
    rank_one_velocity,
    saturated_attention,
    saturated_descent,
    saturated_opening_rate,
    saturated_point,
    two_group_point,
    two_group_rate,
)

from .chains import lazy, two_level
from .numeric import flatten

STRONG = 12.0  # scale of queries and of keys: attention between the groups is then below rounding
LAWS = [([0.6, 0.25, 0.15], 0.6), ([0.5, 0.2, 0.13, 0.1, 0.07], 0.8), ([0.4] + [0.1] * 6, 0.9)]
laws = pytest.mark.parametrize(("law", "stay"), LAWS)


def saturated_loss(state, *, stationary, transition):
    h = saturated_attention(state, stationary=stationary) @ state.gamma
    return -np.sum(stationary[:, None] * transition * log_softmax(np.outer(h, state.beta), axis=1))


@laws
def test_the_two_group_point_rests_in_the_model_whose_attention_is_strong(law, stay):
    chain = lazy(law, stay)
    gamma, beta, *_ = two_group_point(**chain)
    assert gamma[0] * gamma[1] < 0
    at_rest = RankOneState(gamma, beta, STRONG, STRONG)
    np.testing.assert_allclose(
        rank_one_attention(at_rest, stationary=chain["stationary"]),
        saturated_attention(at_rest, stationary=chain["stationary"]),
        atol=1e-12,
    )
    assert np.abs(flatten(rank_one_velocity(at_rest, **chain))).max() < 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_the_two_group_point_is_the_lowest_minimum_that_many_starts_find(seed):
    """The first law has a minimum on either side; a single search from the logits' singular vectors
    ends in the higher one.
    """
    rng = np.random.default_rng(seed)
    law, stay = np.sort(rng.dirichlet(np.ones(6)))[::-1], rng.uniform(0.5, 0.95)
    chain = lazy(law, stay) if seed else lazy([0.4378, 0.2785, 0.0865, 0.0775, 0.0684, 0.0513], 0.8)
    pi, P = chain["stationary"], chain["transition"]
    mass, rows = np.array([pi[0], 1 - pi[0]]), np.stack([P[0], pi[1:] @ P[1:] / (1 - pi[0])])

    def loss(z):
        return -np.sum(mass[:, None] * rows * log_softmax(np.outer(z[:2], z[2:]), axis=1))

    def slope(z):
        error = mass[:, None] * (np.exp(log_softmax(np.outer(z[:2], z[2:]), axis=1)) - rows)
        return np.append(error @ z[2:], z[:2] @ error)

    best = min(minimize(loss, rng.normal(size=8), jac=slope, method="BFGS").fun for _ in range(8))
    gamma, beta, *_ = two_group_point(**chain)
    assert loss(np.append(gamma[:2], beta)) == pytest.approx(best, abs=1e-7)
    assert seed or (gamma[0] * gamma[1] < 0 and best == pytest.approx(1.1846, abs=1e-4))


@pytest.mark.parametrize(
    ("high", "n_vocab", "stay"), [(0.6, 3, 0.6), (0.75, 3, 0.8), (0.5, 5, 0.7), (0.3, 7, 0.9)]
)
def test_the_rate_to_first_order_is_that_of_a_small_asymmetry(high, n_vocab, stay):
    misses = []
    for size in (1e-3, 1e-4):
        chain = two_level(high, n_vocab, stay, size)
        rate = two_group_rate(two_group_point(**chain), **chain)
        asymmetry = chain["stationary"][1:] - (1 - high) / (n_vocab - 1)
        misses.append(
            rate
            / saturated_opening_rate(high=high, n_vocab=n_vocab, stay=stay, asymmetry=asymmetry)
            - 1
        )
    assert abs(misses[1]) < 1e-5
    assert np.log10(misses[0] / misses[1]) == pytest.approx(2, abs=0.05)


def test_equal_low_tokens_give_the_closed_form_of_the_two_group_point():
    point, chain = (
        saturated_point(high=0.5, n_vocab=4, stay=0.7, strength=2.0),
        two_level(0.5, 4, 0.7),
    )
    np.testing.assert_allclose(
        flatten(point), flatten(two_group_point(**chain, strength=2.0)), rtol=1e-10
    )
    assert np.linalg.norm(point.gamma) == pytest.approx(np.linalg.norm(point.beta))


def test_signs_are_opposite_just_above_the_least_stay_and_not_below():
    least = least_saturated_stay(0.6, 4)
    below, above = (
        two_group_point(**two_level(0.6, 4, least + step)).gamma[1] for step in (-1e-3, 1e-3)
    )
    assert above < 0 < below
    with pytest.raises(InputError, match="`stay`"):
        saturated_point(high=0.6, n_vocab=4, stay=least)


@pytest.mark.parametrize("stay", [0.77, 0.9])
def test_pulled_apart_low_tokens_change_the_loss_at_sixth_order(stay):
    """On both sides of the critical stay, for four rare tokens in any proportion; the rest at its
    best by a minimiser.
    """
    high, n_vocab = 0.85, 5
    base, chain = (
        saturated_point(high=high, n_vocab=n_vocab, stay=stay, strength=4.0),
        two_level(high, n_vocab, stay),
    )
    assert (stay > critical_stay(high, n_vocab)) == (stay == 0.9)
    contrast = 0.03 * np.array([1.0, 0.5, -0.2, -1.3])

    def loss(z):  # gamma of token 0, mean of the low ones, beta
        gamma = np.append(z[0], z[1] + contrast)
        return saturated_loss(
            base._replace(gamma=gamma, beta=np.append(base.beta[0], z[2:])), **chain
        )

    start = np.concatenate([base.gamma[:2], base.beta[1:]])
    best = minimize(loss, start, method="BFGS", options={"gtol": 1e-11}).fun
    predicted = saturated_descent(base, high=high, stay=stay, contrast=contrast)
    assert best - saturated_loss(base, **chain) == pytest.approx(predicted, rel=0.02)
    assert (predicted < 0) == (stay == 0.9)


def test_if_beta_alone_follows_the_loss_rises_at_fourth_order():
    base, chain = (
        saturated_point(high=0.6, n_vocab=3, stay=0.6, strength=6.0),
        two_level(0.6, 3, 0.6),
    )

    def rise(x):
        apart = base._replace(gamma=base.gamma + x / np.sqrt(2) * np.array([0, 1, -1]))
        best = minimize(
            lambda z: saturated_loss(apart._replace(beta=np.append(base.beta[0], z)), **chain),
            base.beta[1:],
            tol=1e-12,
        )
        return best.fun - saturated_loss(base, **chain)

    assert rise(0.1) == pytest.approx(6.45e-6, rel=1e-3)
    assert rise(0.1) / rise(0.05) == pytest.approx(2**4, rel=0.05)
