"""Theorem 3: who wins among distinct tokens, along the theory's own flow integrated here from its
definition.
"""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from saccade.theories.scan_and_snap import (
    conserved_gain,
    follower_logit_gain,
    growth_factor,
    growth_factor_bounds,
    relative_gain,
    relative_gain_forecast,
)

N_VOCAB, LR_DECODER, LR_ATTENTION = 1000, 1.0, 5.0
TOKEN_PROB = np.array([[0.2, 0.1, 0.2, 0.5, 0, 0, 0, 0], [0.2, 0, 0, 0, 0.15, 0.35, 0.05, 0.25]])
OWN = [1, 2, 3]  # distinct tokens of class 0, rare to frequent
LEADER = 3


def theory_flow(times, *, initial_logits):
    """Reduced flow: height, logits and the integral of lr_attention xi / K, with g computed from Y
    and not from Theorem 1.
    """
    n_classes, n_tokens = TOKEN_PROB.shape
    M = N_VOCAB
    products = np.full((n_classes, n_classes), -M / (M - 1) ** 2)
    np.fill_diagonal(products, M / (M - 1))

    def velocity(_t, state):
        h, z = state[0], state[1 : 1 + n_tokens]
        f = TOKEN_PROB * np.exp(z)
        f /= np.linalg.norm(f, axis=1, keepdims=True)
        gram, error = f @ f.T, (M - 1) / (M - 1 + np.exp(M * h))
        back = (
            np.linalg.solve(gram, products) * (M - 1) * h * error
        )  # column n: coefficients of g_n on the features
        g = back.T @ f
        z_dot = np.sum(f * (g - f * np.sum(f * g, axis=1, keepdims=True)), axis=0)
        xi = np.diag(back) - np.sum(back * gram, axis=0)
        rate = LR_ATTENTION / n_classes
        return np.concatenate([[LR_DECODER / n_classes * error / (M - 1)], rate * z_dot, rate * xi])

    start = np.concatenate([[0.0], initial_logits, np.zeros(n_classes)])
    path = solve_ivp(
        velocity, (0, times[-1]), start, t_eval=times, method="LSODA", rtol=1e-11, atol=1e-13
    ).y.T
    return path[:, 1 : 1 + n_tokens], path[:, 1 + n_tokens :]


@pytest.fixture(scope="module", params=["zero", "random"])
def flow(request):
    initial = (
        np.random.default_rng(0).normal(scale=0.1, size=8)
        if request.param == "random"
        else np.zeros(8)
    )
    logits, bound = theory_flow(np.geomspace(0.1, 1e6, 40), initial_logits=initial)
    return {
        "gain": logits - initial,
        "weight": TOKEN_PROB[0] * np.exp(logits),
        "initial": TOKEN_PROB[0] * np.exp(initial),
        "bound": bound,
    }


def test_relative_gain_is_its_initial_value_times_the_growth_factor(flow):
    for follower in (1, 2):
        initial = relative_gain(flow["initial"][LEADER], flow["initial"][follower])
        measured = relative_gain(flow["weight"][:, LEADER], flow["weight"][:, follower])
        np.testing.assert_allclose(
            measured, relative_gain_forecast(initial, flow["gain"][:, LEADER]), rtol=1e-7
        )
        assert measured[-1] > 2 * initial  # it does grow


def test_relative_gain_is_conserved_along_the_reduced_flow(flow):
    shared = conserved_gain(flow["gain"][:, OWN], flow["initial"][OWN])
    np.testing.assert_allclose(shared, np.tile(shared[:, :1], 3), rtol=1e-6)


def test_growth_of_the_leader_gives_the_growth_of_every_follower(flow):
    for follower in (1, 2):
        initial = relative_gain(flow["initial"][LEADER], flow["initial"][follower])
        predicted = follower_logit_gain(flow["gain"][:, LEADER], initial)
        np.testing.assert_allclose(predicted, flow["gain"][:, follower], rtol=1e-6)
        assert predicted[-1] < 0.5 * np.log1p(1 / initial)


def test_a_follower_stops_at_a_logit_fixed_by_its_frequency_however_far_the_leader_goes():
    initial = relative_gain(0.5, 0.2)
    assert follower_logit_gain(400.0, initial) == pytest.approx(
        0.5 * np.log1p(1 / initial), rel=1e-14
    )


def test_growth_factor_of_the_leader_stays_within_its_bounds(flow):
    feature = flow["initial"][LEADER] / np.linalg.norm(flow["initial"])
    bounds = growth_factor_bounds(flow["bound"][:, 0], initial_feature=feature)
    measured = growth_factor(flow["gain"][:, LEADER])
    assert np.all((bounds.lower <= measured) & (measured <= bounds.upper))
    assert np.all(np.diff(measured) > 0)


def test_the_lower_bound_is_reached_at_first_and_both_are_one_if_the_leader_is_alone(flow):
    feature = flow["initial"][LEADER] / np.linalg.norm(flow["initial"])
    lower = growth_factor_bounds(flow["bound"][:, 0], initial_feature=feature).lower
    assert 2 * flow["gain"][0, LEADER] == pytest.approx(np.log(lower[0]), rel=0.01)
    alone = growth_factor_bounds(flow["bound"][:, 0], initial_feature=1.0)
    np.testing.assert_allclose(alone.lower, alone.upper, rtol=1e-14)


def test_initial_relative_gain_is_the_squared_ratio_of_frequencies_less_one():
    assert relative_gain(0.5, 0.2) == pytest.approx(5.25)
    assert relative_gain(0.3, 0.3) == 0
    assert relative_gain(0.0, 0.3) == -1
