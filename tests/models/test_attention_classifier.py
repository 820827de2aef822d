"""The attention classifier against an independent NumPy model: loss, velocity of every block,
drive; and the cubic flow.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest

import saccade
from saccade.engines.linearise import jacobian
from saccade.errors import InputError
from saccade.models.attention_classifier import Weights
from saccade.theories import rank_collapse as theory

DATA = saccade.data.LabelledSequences.noisy_teacher(11, (1.0, 0.5, 2.0), length=5, seed=4)


def by_hand(weights, data, activation, loss_kind, logit_matrix=0.0):
    """The loss one sequence at a time."""
    total = 0.0
    for tokens, label, weight in zip(data.tokens, data.label, data.weight, strict=True):
        logits = (
            tokens[-1]
            @ (weights.query @ weights.key.T + logit_matrix)
            @ tokens.T
            / np.sqrt(data.width)
        )
        attention = np.exp(logits - logits.max())
        hidden = (attention / attention.sum()) @ tokens @ weights.value @ weights.hidden
        margin = label * float(
            (np.tanh(hidden) if activation == "tanh" else hidden) @ weights.readout
        )
        total += weight * (
            np.exp(-margin) if loss_kind == "exponential" else np.log1p(np.exp(-margin))
        )
    return total


@pytest.mark.parametrize("activation", ["identity", "tanh"])
@pytest.mark.parametrize("loss_kind", ["exponential", "logistic"])
def test_loss_velocity_and_drive_are_those_of_the_model_by_hand(activation, loss_kind):
    options = {
        "d_hidden": 7,
        "d_key": 2,
        "activation": activation,
        "loss_kind": loss_kind,
        "lr_attention": 0.3,
    }
    system = saccade.models.AttentionClassifier(DATA, init_scale=0.6, **options)
    weights = system.start(np.random.default_rng(1))
    with jax.enable_x64(True):
        assert float(system.loss(weights)) == pytest.approx(
            by_hand(weights, DATA, activation, loss_kind), rel=1e-12
        )
        velocity, drive = (
            system.equations().velocity(weights, system.setting()),
            system.downhill(weights)[1],
        )
    rng, h = np.random.default_rng(2), 1e-6
    for name in Weights._fields:
        part = getattr(weights, name)
        place = tuple(rng.integers(size) for size in part.shape)
        bump = np.zeros_like(part)
        bump[place] = h
        ends = [
            by_hand(weights._replace(**{name: part + sign * bump}), DATA, activation, loss_kind)
            for sign in (1, -1)
        ]
        rate = 0.3 if name in ("query", "key") else 1.0
        assert np.asarray(getattr(velocity, name))[place] == pytest.approx(
            -rate * (ends[0] - ends[1]) / (2 * h), abs=1e-8
        )
    bump = np.zeros((3, 3))
    bump[1, 2] = h
    ends = [by_hand(weights, DATA, activation, loss_kind, sign * bump) for sign in (1, -1)]
    assert drive[1, 2] == pytest.approx(-(ends[0] - ends[1]) / (2 * h), abs=1e-8)


def test_nothing_grows_exponentially_at_the_origin():
    system = saccade.models.AttentionClassifier(DATA)
    zero = jax.tree.map(np.zeros_like, system.start(np.random.default_rng(0)))
    equations = system.equations()
    assert np.abs(jacobian(equations.velocity, zero, equations.setting)).max() == 0
    assert saccade.linearise(system, at=zero).n_unstable == 0


def test_descent_at_a_small_rate_follows_the_flow():
    system = saccade.models.AttentionClassifier(
        DATA, init_scale=0.5, lr_outer=0.01, lr_attention=0.01
    )
    trained = saccade.train(system, steps=100, save=[100], seeds=[0])
    flow = saccade.flow(system, times=[100.0], seed=0)
    assert float(trained.loss[0, -1]) == pytest.approx(float(flow.loss[-1]), abs=2e-3)
    assert float(flow.loss[-1]) < float(flow.loss[0]) - 0.02


def test_conserved_matrices_keep_to_rounding_along_a_flow():
    run = saccade.flow(
        saccade.models.AttentionClassifier(DATA, init_scale=0.5),
        t1=5.0,
        n_times=10,
        seed=0,
        rtol=1e-12,
    )
    V, A = run.parameter_value.values, run.parameter_hidden.values
    law = V.mT @ V - A @ A.mT
    assert np.abs(law - law[0]).max() < 1e-10
    assert np.abs(V.mT @ V - (V.mT @ V)[0]).max() > 1e-2


def test_the_cubic_flow_moves_as_its_equations_say_and_its_clock_with_it():
    system = saccade.models.CubicFlow.random(3, 5, seed=1)
    start = system.start(np.random.default_rng(0))
    with jax.enable_x64(True):
        velocity = jax.tree.map(np.asarray, system.velocity(start))
    told, size = theory.slopes(*start[:3]), 1 / velocity.clock
    np.testing.assert_allclose(
        size,
        np.sqrt(sum((part.reshape(3, -1) ** 2).sum(axis=1) for part in start[:3]) / 3),
        rtol=1e-14,
    )
    for one, other in zip(told, velocity[:3], strict=True):
        np.testing.assert_allclose(one, other * size.reshape(-1, *[1] * (one.ndim - 1)), rtol=1e-12)
    np.testing.assert_allclose(
        system.observe(start)["energy"].values, theory.factor_energy(*start[:3]), rtol=1e-12
    )


def test_wrong_arguments_are_named():
    with pytest.raises(InputError, match="activation"):
        saccade.models.AttentionClassifier(DATA, activation="relu")
    with pytest.raises(InputError, match="sequences"):
        saccade.models.AttentionClassifier([1, 2])
    with pytest.raises(InputError, match="labels -1 or 1"):
        saccade.data.LabelledSequences(np.zeros((2, 3, 1)), [0, 1])
    with pytest.raises(InputError, match=r"`tokens` must be \(sequence, position, width\)"):
        saccade.data.LabelledSequences(np.zeros((2, 3)), [1, 1])
    with pytest.raises(InputError, match="along"):
        saccade.models.CubicFlow(np.zeros((2, 3)), np.zeros((2, 3, 4)), np.zeros((2, 3)))
