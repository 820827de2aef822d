"""JoMA's laws against their own differential equations, integrated here another way."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from saccade.errors import InputError
from saccade.theories import joma


@pytest.mark.parametrize("kind", ["linear", "exp"])
def test_what_is_conserved_stays_under_any_gradient(kind):
    """Neurons see b = z x or e^z x and are pushed by gradients that change with time and neuron."""
    rng = np.random.default_rng(0)
    push, x = rng.normal(size=(3, 5)), rng.uniform(0.5, 1.5, size=5)

    def velocity(t, state):
        v, z = state[:15].reshape(3, 5), state[15:]
        g = push * np.cos(t + np.arange(3))[:, None]
        b, slope = (z * x, x) if kind == "linear" else (np.exp(z) * x, np.exp(z) * x)
        return np.concatenate([(g * b).ravel(), np.sum(g * v, axis=0) * slope])

    start = np.concatenate([0.2 * rng.normal(size=15), np.ones(5)])
    path = solve_ivp(velocity, (0, 1.5), start, rtol=1e-10, atol=1e-12).y
    kept = [joma.invariant(kind, state[15:], state[:15].reshape(3, 5)) for state in path.T]
    assert np.abs(path[15:, -1] - 1).max() > 0.1
    np.testing.assert_allclose(kept[-1], kept[0], atol=1e-8)


def test_the_other_law_is_not_conserved():
    weights = np.array([[0.0, 1.0]])
    assert joma.invariant("linear", [2.0, 2.0], weights).tolist() == [4.0, 3.0]
    assert joma.invariant("exp", [2.0, 2.0], weights).tolist() == [2.0, 1.5]


def test_softmax_logits_sum_to_zero_if_attention_sums_to_one():
    rng = np.random.default_rng(1)
    found = joma.softmax_logits(rng.normal(size=(3, 7)), np.full(7, 1 / 7))
    assert abs(found.sum()) < 1e-12 < np.abs(found).max()


def test_the_erf_law_solves_its_equation_and_blows_up_when_said():
    drive = np.array([0.3, 0.8])
    path = solve_ivp(
        lambda t, v: drive * np.exp(v**2 / 2), (0, 1.5), [0.0, 0.0], rtol=1e-10, atol=1e-12
    ).y[:, -1]
    np.testing.assert_allclose(joma.linear_weight(1.5, drive), path, rtol=1e-7)
    assert joma.reach_time(3.0, 0.8) == pytest.approx(0.9973 * joma.blow_up_time(0.8), rel=1e-4)
    np.testing.assert_allclose(
        joma.linear_weight(joma.reach_time(1.2, 0.3), [0.3]), 1.2, rtol=1e-12
    )


def test_a_component_settles_alike_on_either_side():
    assert joma.approach_delay(-1.3) == joma.approach_delay(1.3) > 0


def test_attention_without_a_law_is_refused():
    with pytest.raises(InputError, match="`kind` must be linear or exp"):
        joma.invariant("softmax", [1.0], [[1.0]])
