"""The embedded model against the token-by-token form, against finite differences and against the
theory's closed forms.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest
import torch

from saccade.data.markov import MarkovChain
from saccade.models.embedded import (
    Embedded,
    Setting,
    Weights,
    composite,
    context_attention,
    context_loss,
    loss,
    velocity,
)
from saccade.theories import focus_and_dilution as theory
from tests.agreement.embedded_sequence_form import sequence_loss

N_VOCAB, N_SEQUENCES = 5, 11
CHAIN = MarkovChain.random([0.43, 0.29, 0.17, 0.07, 0.04], seed=3)


def random_weights(scaled: bool = False) -> tuple[Embedded, Weights]:
    model = Embedded(d_model=7, d_key=3, init_scale=0.7, scaled=scaled, logit_scale=1.0)
    return model, model.initial(N_VOCAB, np.random.default_rng(2))


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("length", [1, 13])
def test_loss_and_gradients_from_counts_equal_those_of_the_sequence(scaled, length):
    model, weights = random_weights(scaled)
    tokens = CHAIN.sample(N_SEQUENCES, length + 1, np.random.default_rng(5))
    with jax.enable_x64(True):
        counts = np.stack([np.bincount(row[:-1], minlength=N_VOCAB) for row in tokens])
        value, slopes = jax.value_and_grad(
            lambda w: context_loss(
                composite(w, model.phi_scale), counts, tokens[:, -2], tokens[:, -1]
            )
        )(weights)
    explicit = tuple(torch.tensor(matrix, requires_grad=True) for matrix in weights)
    rows = [
        sequence_loss(explicit, torch.tensor(row[:-1]), int(row[-1]), scaled=scaled)
        for row in tokens
    ]
    mean = torch.stack(rows).mean()
    mean.backward()
    assert float(value) == pytest.approx(mean.item(), rel=1e-13)
    for slope, matrix in zip(slopes, explicit, strict=True):
        np.testing.assert_allclose(slope, matrix.grad, atol=1e-13)


def test_the_gradient_equals_finite_differences():
    model, weights = random_weights()
    setting = Setting(CHAIN.stationary, CHAIN.transition, model.phi_scale, 1.0, 1.0)
    rng, step = np.random.default_rng(7), 1e-5
    with jax.enable_x64(True):
        for field in Weights._fields:
            way = rng.standard_normal(getattr(weights, field).shape)
            ends = [
                float(
                    loss(
                        weights._replace(**{field: getattr(weights, field) + s * step * way}),
                        setting,
                    )
                )
                for s in (1, -1)
            ]
            along = -np.sum(np.asarray(getattr(velocity(weights, setting), field)) * way)
            assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(along, abs=1e-8)


@pytest.mark.parametrize("rates", [(1.0, 1.0), (0.7, 1.9)])
@pytest.mark.parametrize("scaled", [False, True])
def test_the_velocity_equals_the_closed_form_of_the_theory(scaled, rates):
    model, weights = random_weights(scaled)
    setting = Setting(CHAIN.stationary, CHAIN.transition, model.phi_scale, *rates)
    with jax.enable_x64(True):
        ours = velocity(weights, setting)
    closed = theory.weight_velocities(
        *weights,
        stationary=CHAIN.stationary,
        transition=CHAIN.transition,
        phi_scale=model.phi_scale,
        lr_decoder=rates[0],
        lr_attention=rates[1],
    )
    for mine, theirs in zip(ours, closed, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-14)


def test_a_long_context_has_the_gradient_of_the_population():
    """The distance of the mean gradient to the population's is a bias that falls as one over the
    length.
    """
    model, weights = random_weights()
    with jax.enable_x64(True):
        limit = velocity(
            weights, Setting(CHAIN.stationary, CHAIN.transition, model.phi_scale, 1.0, 1.0)
        )
        gaps = []
        for length in (10, 160):
            slope = jax.grad(expected_loss)(
                weights, CHAIN.sample(30_000, length, np.random.default_rng(1))
            )
            gaps.append(
                max(
                    np.abs(np.asarray(a) + np.asarray(b)).max()
                    for a, b in zip(slope, limit, strict=True)
                )
            )
    assert 8 < gaps[0] / gaps[1] < 32  # sixteen times the length


def expected_loss(weights: Weights, tokens: np.ndarray) -> jax.Array:
    """Over contexts as drawn, but last tokens weighted by the stationary law and next tokens by
    their chances.
    """
    last = tokens[:, -1]
    counts = np.stack([(tokens == token).sum(axis=1) for token in range(N_VOCAB)], axis=1)
    weight = (CHAIN.stationary / np.bincount(last, minlength=N_VOCAB))[
        last, None
    ] * CHAIN.transition[last]
    matrices = composite(weights, 1.0)
    seen = context_attention(matrices.attention_logits, counts, last)
    return -(weight * jax.nn.log_softmax(seen @ matrices.decoder, axis=-1)).sum()
