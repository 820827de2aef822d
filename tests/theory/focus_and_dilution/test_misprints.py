"""Misprints of the paper that can be computed: what is meant holds at random weights, what is printed does not."""

import numpy as np
import pytest

from saccade.theory import focus_and_dilution as theory

from .chains import random_weights, two_level

HIGH, N_VOCAB = 0.6, 4
CHAIN = two_level(HIGH, N_VOCAB, 0.5)
PI = CHAIN["stationary"]
Q, U = PI / np.linalg.norm(PI), (PI - 1 / N_VOCAB) / np.linalg.norm(PI - 1 / N_VOCAB)


@pytest.fixture
def weights():
    return random_weights(seed=3, n_vocab=N_VOCAB, scale=0.3)


@pytest.fixture
def errors(weights):
    """E_a and E_b of eqs. 81 and 82: what the velocities of a and b have beside g b and g a."""
    W0, _, _, W1 = weights
    moves = theory.weight_velocities(*weights, **CHAIN)
    a, b, *_ = theory.ray_parts(W0, W1, stationary=PI)
    g = np.linalg.norm(PI) * np.sqrt(N_VOCAB / (N_VOCAB - 1)) * theory.missing_share(a @ b, high=HIGH, n_vocab=N_VOCAB)
    return a, b, g, Q @ moves.embedding - g * b, moves.projection @ U - g * a


def test_equation_93_and_99_pair_each_error_with_its_own_amplitude(errors):
    """d/dt (|a|^2 + |b|^2 - 2z) and d/dt (|a|^2 + |b|^2)."""
    a, b, g, E_a, E_b = errors
    squares = 2 * a @ (g * b + E_a) + 2 * b @ (g * a + E_b)
    product = b @ (g * b + E_a) + a @ (g * a + E_b)
    own, crossed = a @ E_a + b @ E_b, b @ E_a + a @ E_b
    assert squares - 4 * g * (a @ b) == pytest.approx(2 * own, abs=1e-15)
    assert squares - 4 * g * (a @ b) != pytest.approx(2 * crossed, rel=0.01)
    assert product - g * (a @ a + b @ b) == pytest.approx(crossed, abs=1e-15)


def test_what_the_ray_leaves_of_the_embedding_drops_out_of_the_average(weights):
    W0, _, _, W1 = weights
    R_0 = theory.ray_parts(W0, W1, stationary=PI).embedding_off
    assert pytest.approx(0, abs=1e-16) == PI @ R_0
    assert np.abs(R_0).max() > 0.1


def test_the_embedding_off_the_ray_feels_attention_only(weights):
    """Eqs. 67 and 70: with E_1 the part of -dL/dM that attention makes, signs minus and W_1 transposed."""
    W0, WQ, WK, W1 = weights
    slope = theory.composite_gradients(*weights, **CHAIN)
    bare = theory.composite_gradients(W0, 0 * WQ, 0 * WK, W1, **CHAIN)
    E_1, phi, off = slope.decoder - bare.decoder, slope.attention_logits, np.eye(N_VOCAB) - np.outer(Q, Q)
    through_phi = phi @ W0 @ WK @ WQ.T + phi.T @ W0 @ WQ @ WK.T
    found = off @ theory.weight_velocities(*weights, **CHAIN).embedding
    assert found == pytest.approx(-off @ (E_1 @ W1.T + through_phi), abs=1e-15)
    assert found != pytest.approx(off @ (E_1 @ W1.T - through_phi), rel=0.1)


def test_small_moves_from_the_critical_point_are_pulled_back():
    """Eqs. 138, 141 and after 145: minus signs, and the factor of the block is kappa_1^2."""
    alpha = np.array([0.6, 0.8])
    point = theory.unigram_weights(stationary=PI, direction=alpha, d_key=1)
    kappa_2 = theory.overlap_target(high=HIGH, n_vocab=N_VOCAB)
    C, size, h = np.diag(PI) - np.outer(PI, PI), np.linalg.norm(PI), 1e-6
    x, y = np.random.default_rng(0).normal(size=(2, N_VOCAB))
    a, mixed = U @ C @ U, size * np.outer(PI, U @ C)
    block = np.block([[a * np.outer(PI, PI), mixed], [mixed.T, size**2 * C]])

    def moves(sign):
        moved = point._replace(
            embedding=point.embedding + sign * h * np.outer(x, alpha), projection=point.projection + sign * h * np.outer(alpha, y)
        )
        found = theory.weight_velocities(*moved, **CHAIN)
        return np.concatenate([found.embedding @ alpha, alpha @ found.projection])

    assert (moves(1) - moves(-1)) / (2 * h) == pytest.approx(-kappa_2 * block @ np.concatenate([x, y]), abs=1e-9)
    assert np.linalg.eigvalsh(block).min() > -1e-15


def test_equation_147_needs_permutations(weights):
    """Equal low tokens may trade places without a change of the loss; a map that merges two of them changes it."""
    W0, WQ, WK, W1 = weights

    def moved(order):
        return theory.population_loss(W0[order], WQ, WK, W1[:, order], **CHAIN)

    assert moved([0, 2, 3, 1]) == pytest.approx(moved([0, 1, 2, 3]), abs=1e-15)
    assert moved([0, 1, 1, 3]) != pytest.approx(moved([0, 1, 2, 3]), rel=1e-4)


@pytest.mark.parametrize(("high", "stay"), [(0.6, 0.6), (0.75, 0.8)])
def test_the_change_of_the_jacobian_has_the_factor_that_the_display_before_equation_228_lacks(high, stay):
    """H_1 of eq. 229 against the Hessian of the saturated loss at the solution of first order, by complex steps and differences."""
    at, delta, h = theory.saturated_triple(high, stay), 1e-5, 1e-30

    def force(theta, asymmetry):
        low = (1 - high) / 2
        pi = np.array([high, low + asymmetry, low - asymmetry])
        gamma, beta = theta[:3], theta[3:]
        A = np.array([[1, 0, 0], [0, *(pi[1:] / (1 - high))], [0, *(pi[1:] / (1 - high))]])  # no kappa: it has no part in H_1
        p = np.exp(np.outer(A @ gamma, beta))
        G = pi[:, None] * (p / p.sum(axis=1, keepdims=True) - stay * np.eye(3) - (1 - stay) * pi)
        return -np.concatenate([A.T @ G @ beta, (A @ gamma) @ G])

    def slope(theta, asymmetry):
        return np.stack([force(theta + 1j * h * move, asymmetry).imag / h for move in np.eye(6)], axis=1)

    rest = np.append(at.gamma, at.beta)
    up, down = (slope(rest + sign * delta * theory.range_response(at), sign * delta) for sign in (1, -1))
    found, ratio = (up - down) / (2 * delta), np.divide(*theory.force_and_stiffness(at))
    lacking = theory.mixed_jacobian(at) + (theory.hessian_slope(at) - theory.mixed_jacobian(at)) / ratio
    assert found == pytest.approx(theory.hessian_slope(at), abs=1e-7)
    assert np.abs(found - lacking).max() > 0.01


def test_an_asymmetry_moves_low_attention_by_one_over_the_low_mass_and_no_prediction():
    """Lemma D.7, proof: the printed factor is 1 - pi_1."""
    at, h = theory.saturated_triple(HIGH, 0.6), 1e-6
    state = theory.RankOneState(at.gamma, at.beta, 2.0, 2.0)

    def low_row(delta):
        low = (1 - HIGH) / 2
        return theory.saturated_attention(state, stationary=[HIGH, low + delta, low - delta])[1]

    slope = (low_row(h) - low_row(-h)) / (2 * h)
    assert slope == pytest.approx(np.array([0, 1, -1]) / (1 - HIGH), rel=1e-9)
    assert slope @ np.outer(at.gamma, at.beta) == pytest.approx(0, abs=1e-9)


def test_attention_changes_with_the_change_of_its_logits():
    """Lemma D.9, proof, item 2: dA_i = e_i^T dPhi Var(A_i), where Phi is printed for dPhi."""
    rng, h = np.random.default_rng(5), 1e-6
    phi, move = rng.normal(size=(2, N_VOCAB, N_VOCAB))
    A = theory.population_attention(phi, stationary=PI)
    ahead, behind = (theory.population_attention(phi + sign * h * move, stationary=PI) for sign in (1, -1))
    for row, change, dphi in zip(A, (ahead - behind) / (2 * h), move, strict=True):
        assert change == pytest.approx(dphi @ (np.diag(row) - np.outer(row, row)), abs=1e-9)
