"""Misprints of Appendix D that have a number: third derivatives by JAX, the corrected blocks, and how far the printed ones are off.

Blocks are for three tokens at the saturated point, π₁ = λ = 0.6, η = 6; k₃ and V are the third cumulant and the variance of p_l.
"""

from __future__ import annotations

import numpy as np
import pytest

from saccade.experiments.focus_and_dilution.saturated_jets import Triple, jet
from saccade.theory import focus_and_dilution as theory

LOW, BETA, ETA = 1, slice(3, 6), 6.0
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
    """What attention adds to B₂ between γ₂ and β is (1 - π₁)ηγ_l/2 times the block, from either of two places."""
    by_attention = third[ETA][LOW, LOW, BETA] - third[0.0][LOW, LOW, BETA]
    corrected, printed = GAMMA * B @ V / 2, B @ V / 2
    factor = MASS * ETA * GAMMA / 2
    np.testing.assert_allclose(by_attention, 2 * factor * corrected, atol=1e-12)
    assert np.abs(by_attention - factor * (corrected + printed)).max() == pytest.approx(0.064, abs=5e-4)


def test_the_off_diagonal_block_of_eq_219_needs_the_mass_and_gamma(third):
    """The variance's part of B₄ to B₆ between γ_l and β is four times the block; half of it comes from eq. 219."""
    cumulant = np.array([[GAMMA**2 * third_cumulant(B, one, other) for other in np.eye(3)] for one in np.eye(3)])
    by_variance = third[ETA][LOW, BETA, BETA] - MASS / 2 * cumulant
    corrected, printed = MASS * GAMMA * V / 4, V / 4
    np.testing.assert_allclose(by_variance, 4 * corrected, atol=1e-12)
    assert np.abs(by_variance - 2 * (corrected + printed)).max() == pytest.approx(0.130, abs=5e-4)
