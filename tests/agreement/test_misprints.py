"""Misprints of Focus and Dilution that have a number: corrected formulas against derivatives, and
how far the printed ones are off.

Blocks of Appendix D are third derivatives by JAX for three tokens at the saturated point, π₁ = λ =
0.6, η = 6; k₃ and V are the third cumulant and the variance of p_l. Equations of Appendix C are
held to the loss and the weights by differences.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

import saccade
from saccade.experiments.focus_and_dilution.saturated_jets import Triple, jet
from saccade.theories import focus_and_dilution as theory

HIGH, LOW, BETA, ETA = 0, 1, slice(3, 6), 6.0
AT = theory.saturated_triple(0.6, 0.6)
MASS, GAMMA, B, P = 1 - AT.high, AT.gamma[LOW], AT.beta, AT.after_low
V = np.diag(P) - np.outer(P, P)


def third_cumulant(*directions: np.ndarray) -> float:
    centred = [direction - P @ direction for direction in directions]
    return float(P @ np.prod(centred, axis=0))


@pytest.fixture(scope="module")
def third():
    """Third derivatives of the loss without and with attention inside the low block."""
    base = np.append(AT.gamma, AT.beta)
    return {eta: -jet(Triple(0.6, 0.6, eta), base).bend[:6, :6, :6] for eta in (0.0, ETA)}


def test_the_lower_right_block_of_eq_206_has_the_mass_of_low_tokens_once(third):
    """The variance's part of B₂ between β and β without attention; the rest is eq. 214."""
    cumulant = np.array(
        [[GAMMA**2 * third_cumulant(B, one, other) for other in np.eye(3)] for one in np.eye(3)]
    )
    by_variance = third[0.0][LOW, BETA, BETA] - MASS / 2 * cumulant
    corrected, printed = GAMMA * V, MASS * GAMMA * V
    np.testing.assert_allclose(by_variance, MASS * corrected, atol=1e-12)
    assert np.abs(by_variance - MASS * printed).max() == pytest.approx(0.015, abs=5e-4)


def test_the_diagonal_of_eq_211_is_that_of_beta_times_the_variance(third):
    """B₁ between β and β is π₁γ₁(2 Var(p₁) + γ₁ d Var(p₁)), with the change of the variance along
    β.
    """
    p, gamma = AT.after_high, AT.gamma[HIGH]
    variance = np.diag(p) - np.outer(p, p)
    along = variance @ B
    rest = np.outer(along, p) + np.outer(p, along)
    corrected, printed = np.diag(along), np.diag(np.diag(variance))
    for block in (third[0.0][HIGH, BETA, BETA], third[ETA][HIGH, BETA, BETA]):
        np.testing.assert_allclose(
            block, AT.high * gamma * (2 * variance + gamma * (corrected - rest)), atol=1e-12
        )
        assert np.abs(
            block - AT.high * gamma * (2 * variance + gamma * (printed - rest))
        ).max() == pytest.approx(0.211, abs=5e-4)


def test_c4_c5_and_c6_are_cumulants(third):
    """Eqs. 213 and 214, with the factor (1 - π₁)/2 in front."""
    axes = np.eye(3)
    c_4 = third_cumulant(B, B, B) / 4
    c_5 = np.array([GAMMA * third_cumulant(B, B, axis) / 2 for axis in axes])
    c_6 = np.array([[GAMMA**2 * third_cumulant(B, one, other) for other in axes] for one in axes])
    flat = third[0.0][LOW]
    np.testing.assert_allclose(flat[LOW, LOW], MASS / 2 * c_4, atol=1e-12)
    np.testing.assert_allclose(flat[LOW, BETA], MASS / 2 * (B @ V + c_5), atol=1e-12)
    np.testing.assert_allclose(flat[BETA, BETA], MASS * GAMMA * V + MASS / 2 * c_6, atol=1e-12)


def test_the_off_diagonal_block_of_eq_216_needs_gamma(third):
    """What attention adds to B₂ between γ₂ and β is (1 - π₁)ηγ_l/2 times the block, from either of
    two places.
    """
    by_attention = third[ETA][LOW, LOW, BETA] - third[0.0][LOW, LOW, BETA]
    corrected, printed = GAMMA * B @ V / 2, B @ V / 2
    factor = MASS * ETA * GAMMA / 2
    np.testing.assert_allclose(by_attention, 2 * factor * corrected, atol=1e-12)
    assert np.abs(by_attention - factor * (corrected + printed)).max() == pytest.approx(
        0.064, abs=5e-4
    )


def test_the_off_diagonal_block_of_eq_219_needs_the_mass_and_gamma(third):
    """The variance's part of B₄ to B₆ between γ_l and β is four times the block; half of it comes
    from eq. 219.
    """
    cumulant = np.array(
        [[GAMMA**2 * third_cumulant(B, one, other) for other in np.eye(3)] for one in np.eye(3)]
    )
    by_variance = third[ETA][LOW, BETA, BETA] - MASS / 2 * cumulant
    corrected, printed = MASS * GAMMA * V / 4, V / 4
    np.testing.assert_allclose(by_variance, 4 * corrected, atol=1e-12)
    assert np.abs(by_variance - 2 * (corrected + printed)).max() == pytest.approx(0.130, abs=5e-4)


LAZY = saccade.MarkovChain.two_level(4, 0.6, stay=0.5)
CHAIN = {"stationary": LAZY.stationary, "transition": LAZY.transition}


def test_the_outer_flow_at_the_second_critical_point_has_minus_signs():
    """Eq. 138: the loss is convex along a move of W_0 and W_1 as the minus signs say; by
    differences of the loss.
    """
    rng, h = np.random.default_rng(0), 1e-4
    at = theory.unigram_weights(
        stationary=CHAIN["stationary"], direction=rng.standard_normal(5), d_key=3
    )
    move_0, move_1 = (
        rng.standard_normal(at.embedding.shape),
        rng.standard_normal(at.projection.shape),
    )
    moved = [
        at._replace(embedding=at.embedding + t * move_0, projection=at.projection + t * move_1)
        for t in (-h, 0, h)
    ]
    back, here, on = (theory.population_loss(*weights, **CHAIN) for weights in moved)
    before, _, after = (theory.composite_gradients(*weights, **CHAIN).decoder for weights in moved)
    change = (after - before) / (2 * h)
    corrected = -np.sum(move_0 * (change @ at.projection.T)) - np.sum(
        move_1 * (at.embedding.T @ change)
    )
    assert -(back - 2 * here + on) / h**2 == pytest.approx(corrected, rel=1e-5)
    assert corrected == pytest.approx(-0.0839, abs=5e-5)  # as printed, with the other sign


def test_the_errors_on_the_ray_are_paired_with_their_own_amplitudes():
    """Eqs. 93 and 99: along the flow |a|² + |b|² changes by 4gz + 2⟨E_a, a⟩ + 2⟨E_b, b⟩; eq. 93 has
    minus half of the last two.
    """
    rng, h, pi = np.random.default_rng(1), 1e-5, CHAIN["stationary"]
    shapes = (4, 5), (5, 3), (5, 3), (5, 4)
    weights = theory.WeightMatrices(*(0.5 * rng.standard_normal(shape) for shape in shapes))
    velocity = theory.weight_velocities(*weights, **CHAIN)

    def size(t):
        a, b, *_ = theory.ray_parts(
            weights.embedding + t * velocity.embedding,
            weights.projection + t * velocity.projection,
            stationary=pi,
        )
        return a @ a + b @ b

    a, b, *_ = theory.ray_parts(weights.embedding, weights.projection, stationary=pi)
    a_dot, b_dot, *_ = theory.ray_parts(velocity.embedding, velocity.projection, stationary=pi)
    u = (pi - pi.mean()) / np.linalg.norm(pi - pi.mean())
    g = np.linalg.norm(pi) * np.linalg.norm(pi - softmax(np.linalg.norm(pi) * (a @ b) * u))
    error_a, error_b = a_dot - g * b, b_dot - g * a
    measured = (size(h) - size(-h)) / (2 * h)
    assert measured == pytest.approx(4 * g * (a @ b) + 2 * error_a @ a + 2 * error_b @ b, rel=1e-8)
    assert measured - (4 * g * (a @ b) + 2 * error_a @ b + 2 * error_b @ a) == pytest.approx(
        -0.0027, abs=5e-5
    )
