"""From stage I to II on the ray: closed forms against the equations of motion solved without them."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import softmax

from saccade.theories import focus_and_dilution as theory

LAWS = [{"high": 0.6, "n_vocab": 4}, {"high": 0.4, "n_vocab": 3}, {"high": 0.3, "n_vocab": 7}]
by_law = pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{law['high']} of {law['n_vocab']}")


def weights(law, scale, seed=0, width=5):
    rng = np.random.default_rng(seed)
    return scale * rng.normal(size=(law["n_vocab"], width)), scale * rng.normal(
        size=(width, law["n_vocab"])
    )


@by_law
def test_parts_on_and_off_the_ray_add_up_and_are_orthogonal(law):
    W0, W1 = weights(law, 1.0)
    pi = theory.two_level_law(**law)
    a, b, R_0, R_1 = theory.ray_parts(W0, W1, stationary=pi)
    q, u = pi / np.linalg.norm(pi), (pi - pi.mean()) / np.linalg.norm(pi - pi.mean())
    np.testing.assert_allclose(np.outer(q, a) + R_0, W0, atol=1e-14)
    np.testing.assert_allclose(np.outer(b, u) + R_1, W1, atol=1e-14)
    np.testing.assert_allclose(np.concatenate([q @ R_0, R_1 @ u]), 0, atol=1e-14)


@by_law
def test_what_is_missing_is_zero_at_the_unigram_point_and_all_but_chance_at_the_origin(law):
    assert theory.missing_share(0.0, **law) == pytest.approx(law["high"] - 1 / law["n_vocab"])
    assert theory.missing_share(theory.overlap_target(**law), **law) == pytest.approx(0, abs=1e-15)
    assert theory.missing_share(
        theory.arrival_overlap(shortfall=0.02, **law), **law
    ) == pytest.approx(0.02)
    pi, z = theory.two_level_law(**law), 0.7  # eq. 65: softmax(|pi| z u)
    u = (pi - pi.mean()) / np.linalg.norm(pi - pi.mean())
    assert pi[0] - softmax(np.linalg.norm(pi) * z * u)[0] == pytest.approx(
        float(theory.missing_share(z, **law))
    )


def test_arrival_from_a_start_whose_parts_on_the_ray_nearly_cancel():
    """a - b twenty times a + b: with the other sign of their joint cost the time would be off by
    0.04.
    """
    law, along, across = LAWS[0], np.eye(5)[0], np.eye(5)[0] + np.eye(5)[1]
    pi, share = theory.two_level_law(**law), np.array([0.1 * (law["high"] - 1 / law["n_vocab"])])
    q, u = pi / np.linalg.norm(pi), (pi - pi.mean()) / np.linalg.norm(pi - pi.mean())
    a, b, R_0, R_1 = theory.ray_parts(*weights(law, 3e-2), stationary=pi)
    a, b = 1e-3 * along + 2e-2 * across, 1e-3 * along - 2e-2 * across
    W0, W1 = R_0 + np.outer(q, a), R_1 + np.outer(b, u)
    np.testing.assert_allclose(
        theory.arrival_time(W0, W1, shortfall=share, **law), arrivals(W0, W1, share, law), atol=5e-3
    )


def arrivals(W0, W1, shares, law):
    """From the equations of W_0 and W_1 with attention off."""
    pi = theory.two_level_law(**law)

    def flow(t, y):
        V0, V1 = y[: W0.size].reshape(W0.shape), y[W0.size :].reshape(W1.shape)
        force = np.outer(pi, pi - softmax(pi @ V0 @ V1))
        return np.concatenate([(force @ V1.T).ravel(), (V0.T @ force).ravel()])

    def arrived(share):
        target = theory.arrival_overlap(shortfall=share, **law)

        def event(t, y):
            a, b, *_ = theory.ray_parts(
                y[: W0.size].reshape(W0.shape), y[W0.size :].reshape(W1.shape), stationary=pi
            )
            return a @ b - target

        return event

    until = 1.1 * theory.arrival_time(W0, W1, shortfall=shares, **law).max()
    start, events = np.concatenate([W0.ravel(), W1.ravel()]), [arrived(share) for share in shares]
    found = solve_ivp(
        flow, (0, until), start, events=events, rtol=1e-11, atol=1e-15, method="DOP853"
    )
    return [times[0] for times in found.t_events]


@by_law
def test_the_last_stretch_takes_one_over_the_relaxation_rate_for_each_e_fold(law):
    near, nearer = (theory.arrival_overlap(shortfall=share, **law) for share in (1e-6, 1e-6 / np.e))
    assert theory.ray_duration(near, nearer, **law) == pytest.approx(
        1 / theory.relaxation_rate(**law), rel=1e-4
    )


@by_law
def test_the_deadline_follows_the_linear_stage(law):
    mu_0 = theory.condensation_rate(stationary=theory.two_level_law(**law))
    end, deadline = (
        f(1e-6, order=4, **law) for f in (theory.linear_stage_end, theory.arrival_deadline)
    )
    assert end == pytest.approx(0.75 * np.log(1e6) / mu_0)
    assert deadline - end == pytest.approx(0.5 * np.log(1e6) / mu_0)
    assert theory.arrival_slope(order=4, **law)[0] == pytest.approx(1 / (4 * mu_0))
