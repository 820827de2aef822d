"""Misprints of From Condensation to Rank Collapse that have a number: what is meant against
differences along the cubic flow, and how far the printed form is off. The print is as our notes on
the paper have it.
"""

from __future__ import annotations

import numpy as np
import pytest

from saccade.theories import rank_collapse as theory

RNG = np.random.default_rng(7)
W, A, B = RNG.standard_normal(4), RNG.standard_normal((4, 4)), RNG.standard_normal(4)
W_DOT, A_DOT, B_DOT = theory.slopes(W, A, B)
E = float(theory.factor_energy(W, A, B))
H = 1e-5


def rate(quantity):
    """Time derivative along the cubic flow by central differences, to a second order in time."""
    ends = []
    for h in (H, -H):
        middle = [
            part + h / 2 * slope
            for part, slope in zip((W, A, B), (W_DOT, A_DOT, B_DOT), strict=True)
        ]
        ends.append(
            quantity(
                *(
                    part + h * slope
                    for part, slope in zip((W, A, B), theory.slopes(*middle), strict=True)
                )
            )
        )
    return (ends[0] - ends[1]) / (2 * H)


def test_the_third_equation_of_proposition_2_is_twice_the_energy():
    assert rate(lambda w, A, b: w @ w) == pytest.approx(2 * E, rel=1e-8)


def test_the_inequality_of_means_has_the_power_one_third_and_its_factor_three():
    squares = W_DOT @ W_DOT, B_DOT @ B_DOT, (W @ W) * (B @ B)
    assert sum(squares) >= 3 * np.prod(squares) ** (1 / 3) >= 3 * abs(E) ** (4 / 3)
    assert sum(squares) < 3 * np.prod(squares) ** 3


def test_the_second_derivative_of_w_has_the_readout():
    found = rate(lambda w, A, b: theory.slopes(w, A, b).along)
    np.testing.assert_allclose(found, (B @ B) * W + A @ A.T @ W, rtol=1e-7)
    assert np.abs(found - ((A**2).sum() * W + A @ A.T @ W)).max() > 1


def test_the_hidden_matrix_rests_where_the_readout_does_and_not_because_it_vanishes_itself():
    """At the limits of starts that do not blow up: b = 0, w A = 0, A not zero."""
    rest = A - np.outer(W, W @ A) / (W @ W)
    w_dot, A_dot, b_dot = theory.slopes(W, rest, 0 * B)
    assert np.abs(np.outer(w_dot, 0 * B) + np.outer(W, b_dot)).max() < 1e-14 < np.abs(rest).max()
    assert np.abs(A_dot).max() == 0


def test_the_speed_of_w_gains_with_the_readout_not_with_the_hidden_matrix():
    found = rate(lambda w, A, b: theory.slopes(w, A, b).along @ theory.slopes(w, A, b).along)
    meant = 2 * E * (B @ B) + 2 * W_DOT @ A @ B_DOT
    assert found == pytest.approx(meant, rel=1e-7)
    assert abs(found - (2 * E * (A**2).sum() + 2 * W_DOT @ A @ B_DOT)) > 1


def test_the_third_display_of_proposition_4_has_the_readout():
    found = rate(lambda w, A, b: b * (w @ A))
    np.testing.assert_allclose(found, B_DOT**2 + B * (A.T @ A @ B) + B**2 * (W @ W), rtol=1e-7)
    assert np.abs(found - (W_DOT**2 + W * (A.T @ A @ W) + B**2 * (W @ W))).max() > 1


def test_the_direction_of_the_readout_turns_with_its_velocity_and_the_printed_numerator_is_zero():
    found = rate(lambda w, A, b: b / np.linalg.norm(b))
    size = np.linalg.norm(B)
    np.testing.assert_allclose(found, (B_DOT * size**2 - B * (B @ B_DOT)) / size**3, atol=1e-8)
    np.testing.assert_allclose(B * size**2 - B * (B @ B), 0, atol=1e-12)
    np.testing.assert_allclose(rate(lambda w, A, b: A[1]), W[1] * B, atol=1e-8)


def test_ratios_of_proposition_5_and_8_tend_to_one_and_three_only_as_meant():
    a, c = (part / np.linalg.norm(part) for part in (W, B))
    for size in (1e2, 1e4):
        w, hidden, b = size * a, size * np.outer(a, c) + A, size * c
        w_dot, A_dot, b_dot = theory.slopes(w, hidden, b)
        speed = np.linalg.norm(b_dot)
        assert speed / (w @ w) == pytest.approx(1, abs=10 / size)
        assert speed / (w_dot @ w_dot) < 10 / size**2
        energy, slope = (
            theory.factor_energy(w, hidden, b),
            w_dot @ w_dot + (A_dot**2).sum() + b_dot @ b_dot,
        )
        assert slope / energy ** (4 / 3) == pytest.approx(3, abs=50 / size)
        assert slope / energy > size
