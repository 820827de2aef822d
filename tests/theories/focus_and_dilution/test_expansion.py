"""Appendix D against derivatives of the saturated loss by complex steps and differences: bases,
expansion, misprints.
"""

import numpy as np
import pytest

from saccade.theories.focus_and_dilution import (
    asymmetry_force,
    decoder_gradient_slope,
    force_and_stiffness,
    hessian_slope,
    kernel_basis,
    mild_condition,
    printed_kernel_block,
    range_basis,
    range_response,
    rest_jacobian,
    saturated_opening_rate,
    saturated_triple,
    second_differential,
)

STRENGTH = 6.0
triples = pytest.mark.parametrize(
    "at", [saturated_triple(0.6, 0.6), saturated_triple(0.75, 0.8), saturated_triple(0.5, 0.5)]
)


def gradient(theta, at, asymmetry=0.0):
    """Of the loss with saturated attention, by complex steps: exact to rounding."""
    law = np.array([at.high, (1 - at.high) / 2 + asymmetry, (1 - at.high) / 2 - asymmetry])
    table = at.stay * np.eye(3) + (1 - at.stay) * law

    def loss(theta):
        gamma, beta = theta[:3], theta[3:]
        weight = law[1:] * np.exp(STRENGTH * np.outer(gamma[1:], gamma[1:]))
        h = np.append(gamma[0], weight @ gamma[1:] / weight.sum(axis=1))
        odds = np.exp(np.outer(h, beta))
        return -np.sum(law[:, None] * table * np.log(odds / odds.sum(axis=1, keepdims=True)))

    return np.array([loss(theta + 1e-30j * e).imag / 1e-30 for e in np.eye(6)])


def jacobian(theta, at, asymmetry=0.0, step=1e-5):
    """Minus the Hessian, by central differences."""
    return -np.stack(
        [
            gradient(theta + step * e, at, asymmetry) - gradient(theta - step * e, at, asymmetry)
            for e in np.eye(6)
        ],
        1,
    ) / (2 * step)


def base(at):
    return np.append(at.gamma, at.beta)


@triples
def test_the_jacobian_is_the_printed_one_and_vanishes_on_the_kernel(at):
    np.testing.assert_allclose(jacobian(base(at), at), rest_jacobian(at), atol=1e-9)
    bases = np.concatenate([kernel_basis(at), range_basis(at)], axis=1)
    assert np.linalg.matrix_rank(bases) == 6
    assert np.abs(rest_jacobian(at) @ kernel_basis(at)).max() < 1e-14
    assert np.abs(kernel_basis(at).T @ range_basis(at)).max() < 1e-14


@triples
def test_asymmetry_pushes_along_the_second_range_direction_and_the_response_cancels_it(at):
    force, stiffness = force_and_stiffness(at)
    np.testing.assert_allclose(-gradient(base(at), at, 1e-6) / 1e-6, asymmetry_force(at), atol=1e-5)
    np.testing.assert_allclose(
        rest_jacobian(at) @ range_response(at), -asymmetry_force(at), atol=1e-14
    )
    np.testing.assert_allclose(
        range_basis(at).T @ range_response(at), [0, np.sqrt(2) * force / stiffness, 0], atol=1e-14
    )


@triples
def test_the_jacobian_at_the_first_order_point_changes_by_the_printed_slope(at):
    """Minus the Hessian is J0 + delta H1; a display of the paper has the Hessian itself, which is a
    misprint.
    """
    delta, response = 1e-4, range_response(at)
    up, down = (jacobian(base(at) + sign * delta * response, at, sign * delta) for sign in (1, -1))
    np.testing.assert_allclose((up - down) / (2 * delta), hessian_slope(at), atol=1e-5)
    assert np.abs((up - down) / (2 * delta) + hessian_slope(at)).max() > 0.1


@triples
def test_third_derivatives_are_those_of_the_loss(at):
    step = 1e-4
    slopes = [
        (jacobian(base(at) + step * e, at) - jacobian(base(at) - step * e, at)) / (2 * step)
        for e in np.eye(6)
    ]
    B = second_differential(at, strength=STRENGTH)
    np.testing.assert_allclose(np.stack(slopes), B, atol=1e-5)
    for order in ((0, 2, 1), (1, 0, 2), (2, 1, 0)):
        np.testing.assert_allclose(B, B.transpose(order), atol=1e-15)


@triples
def test_blocks_that_are_misprinted_are_those_of_the_corrected_formulas(at):
    """Eqs. 206, 211, 213 and 214: the beta-beta block of B for token 2."""
    pi_1, _, (_, g_l, _), b, _, p = at
    variance = np.diag(p) - np.outer(p, p)
    along = variance @ b
    cumulant = np.diag(along) - np.outer(along, p) - np.outer(p, along)
    block = second_differential(at, strength=STRENGTH)[1, 3:, 3:]
    np.testing.assert_allclose(
        block, -(1 - pi_1) * (g_l * variance + g_l**2 / 2 * cumulant), atol=1e-15
    )
    assert (
        np.abs(block + (1 - pi_1) * ((1 - pi_1) * g_l * variance + g_l**2 / 2 * cumulant)).max()
        > 0.01
    )
    assert np.abs(block + (1 - pi_1) * (g_l * variance + cumulant / 2)).max() > 0.01


@triples
def test_eq_173_gives_rates_that_are_not_there(at):
    """The largest is of order one times the square of the asymmetry; at the exact point all three
    are zero.
    """
    rates = np.linalg.eigvalsh(printed_kernel_block(at))
    assert abs(rates[0]) < 1e-14
    assert rates[2] > 1


@triples
def test_the_opening_rate_is_the_norm_of_the_printed_gradient_and_never_zero(at):
    slope = decoder_gradient_slope(at)
    rate = saturated_opening_rate(high=at.high, n_vocab=3, stay=at.stay, asymmetry=[1, -1])
    assert np.linalg.svd(slope)[1] == pytest.approx([rate, 0, 0], abs=1e-14)
    assert mild_condition(at) < 0
