"""Flow against linear flow, where both are known in closed form, and the order of the error in the
embedded model.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

import saccade
from saccade.engines.linear_validity import linear_validity
from saccade.errors import InputError
from saccade.models import embedded
from saccade.models.embedded import Setting, Weights
from saccade.theories import focus_and_dilution as theory


class Line(NamedTuple):
    x: Any


def logistic(state: Line, rate: Any) -> Line:
    return Line(rate * state.x * (1 - state.x))


def sheared(state: Line, matrix: Any) -> Line:
    return Line(matrix @ state.x)


def grown(x_0, t):
    return x_0 * np.exp(t) / (1 - x_0 + x_0 * np.exp(t))


def test_the_logistic_flow_parts_from_its_linear_flow_as_the_closed_form_says():
    x_0, times = 1e-3, np.linspace(0, 6, 13)
    found = linear_validity(logistic, Line(0.0), Line(x_0), 1.0, times)
    np.testing.assert_allclose(found.full[:, 0], grown(x_0, times), rtol=1e-9)
    np.testing.assert_allclose(found.linear[:, 0], x_0 * np.exp(times), rtol=1e-12)
    np.testing.assert_allclose(found.error, x_0 * np.exp(times) - grown(x_0, times), atol=1e-11)
    assert found.growth_rate == pytest.approx(1.0)
    assert found.constant == pytest.approx(
        np.max((x_0 * np.exp(times) - grown(x_0, times)) / (x_0**2 * np.exp(2 * times))), rel=1e-6
    )


def test_the_linear_flow_is_valid_until_the_displacement_is_a_given_fraction():
    fine = np.linspace(0, 9, 91)
    found = linear_validity(logistic, Line(0.0), Line(1e-3), 1.0, fine, fraction=0.1)
    # relative error y / (1 + y) with y = x_0 (e^t - 1): a tenth at y = 1/9
    assert found.valid_until == pytest.approx(np.log(1 + 1e3 / 9), abs=1e-3)
    assert (
        linear_validity(logistic, Line(0.0), Line(1e-3), 1.0, fine[:20], fraction=0.1).valid_until
        == np.inf
    )


def test_a_jacobian_without_a_basis_of_eigenvectors_is_followed_exactly():
    matrix, start, times = (
        np.array([[0.3, 1.0, 0], [0, 0.3, 1.0], [0, 0, 0.3]]),
        np.array([1e-3, 2e-3, -1e-3]),
        np.linspace(0, 5, 6),
    )
    found = linear_validity(sheared, Line(np.zeros(3)), Line(start), matrix, times)
    np.testing.assert_allclose(found.linear, [expm(matrix * t) @ start for t in times], atol=1e-14)
    assert found.error.max() < 1e-12


@pytest.mark.parametrize(("at_unigram", "order"), [(False, 3), (True, 2)])
def test_the_error_is_cubic_at_the_origin_and_quadratic_at_the_unigram_point(at_unigram, order):
    chain, rng = saccade.MarkovChain.zipf(5, stay=0.4), np.random.default_rng(5)
    setting = Setting(chain.stationary, chain.transition, 1.0, 1.0, 1.0)
    point = Weights(
        *theory.unigram_weights(stationary=chain.stationary, direction=rng.normal(size=7), d_key=3)
    )
    unit = Weights(*(rng.normal(size=matrix.shape) / 10 for matrix in point))
    rate = theory.focus_rate(stationary=chain.stationary, transition=chain.transition)
    if not at_unigram:
        point = Weights(*(np.zeros_like(matrix) for matrix in point))
        rate = theory.condensation_rate(stationary=chain.stationary)
    errors = [
        linear_validity(
            embedded.velocity,
            point,
            Weights(*(scale * m for m in unit)),
            setting,
            np.array([0, 1.5, 3]) / rate,
        ).error[-1]
        for scale in (4e-3, 2e-3)
    ]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.02)


def test_times_and_displacements_that_lead_nowhere_are_named():
    with pytest.raises(InputError, match="times"):
        linear_validity(logistic, Line(0.0), Line(1e-3), 1.0, [1.0, 2.0])
    with pytest.raises(InputError, match="displacement"):
        linear_validity(logistic, Line(0.0), Line(jnp.zeros(())), 1.0, [0.0, 2.0])
