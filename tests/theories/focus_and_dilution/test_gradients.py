"""Closed-form gradients against finite differences of the loss, the loss against sequences,
invariants against velocities.
"""

import numpy as np
import pytest

from saccade.theories.focus_and_dilution import (
    attention_balance,
    attention_logits,
    composite_gradients,
    next_token_logits,
    population_attention,
    population_loss,
    weight_balance,
    weight_velocities,
)

from .chains import irreversible, lazy, random_weights

CHAIN = irreversible()
SCALES = [1.0, 0.37]


def finite_difference(function, weights, index, step=1e-5):
    """Central differences of a scalar function of the weights, entry by entry of one matrix."""
    gradient = np.zeros_like(weights[index])
    for place in np.ndindex(gradient.shape):
        values = []
        for sign in (1, -1):
            moved = [w.copy() for w in weights]
            moved[index][place] += sign * step
            values.append(function(*moved))
        gradient[place] = (values[0] - values[1]) / (2 * step)
    return gradient


@pytest.mark.parametrize("phi_scale", SCALES)
@pytest.mark.parametrize("index", range(4))
def test_velocity_is_minus_the_gradient_of_the_loss(index, phi_scale):
    weights = random_weights()
    velocity = weight_velocities(*weights, **CHAIN, phi_scale=phi_scale)
    numeric = finite_difference(
        lambda *w: population_loss(*w, **CHAIN, phi_scale=phi_scale), weights, index
    )
    np.testing.assert_allclose(velocity[index], -numeric, atol=1e-8)
    assert np.abs(numeric).max() > 1e-3


def test_each_learning_rate_scales_its_own_matrices():
    weights = random_weights()
    plain = weight_velocities(*weights, **CHAIN)
    scaled = weight_velocities(*weights, **CHAIN, lr_decoder=2.0, lr_attention=7.0)
    for velocity, reference, factor in zip(scaled, plain, [2, 7, 7, 2], strict=True):
        np.testing.assert_allclose(velocity, factor * reference, rtol=1e-14)


def test_population_attention_is_that_of_a_sequence_with_the_shares_of_the_law():
    law, counts = np.array([0.5, 0.3, 0.2]), [5, 3, 2]
    W0, WQ, WK, W1 = random_weights(n_vocab=3)
    tokens = np.repeat(np.arange(3), counts)
    for last in range(3):
        sequence = np.append(np.delete(tokens, np.flatnonzero(tokens == last)[0]), last)
        X = np.eye(3)[sequence]
        weight = np.exp((X @ W0 @ WQ @ WK.T @ W0.T @ X.T)[-1])
        f = weight / weight.sum() @ X @ W0 @ W1
        A = population_attention(attention_logits(W0, WQ, WK), stationary=law)
        np.testing.assert_allclose(next_token_logits(A, W0, W1)[last], f, rtol=1e-12)


def test_loss_of_the_true_table_is_the_entropy_rate():
    chain = lazy([0.5, 0.3, 0.2], 0.4)
    pi, P = chain["stationary"], chain["transition"]
    size = 40.0  # scores of 40 * 40 leave attention on the last token itself to within exp(-1600)
    weights = [size * np.eye(3), np.eye(3), np.eye(3), np.log(P) / size]
    assert population_loss(*weights, **chain) == pytest.approx(
        -np.sum(pi[:, None] * P * np.log(P)), rel=1e-14
    )


@pytest.mark.parametrize("phi_scale", SCALES)
@pytest.mark.parametrize("rate_ratio", [1.0, 13.0])
def test_both_invariants_stand_still_under_the_flow(phi_scale, rate_ratio):
    weights, lr_decoder = random_weights(), 0.3
    rates = {"lr_decoder": lr_decoder, "lr_attention": rate_ratio * lr_decoder}
    velocity = weight_velocities(*weights, **CHAIN, phi_scale=phi_scale, **rates)
    step = 1e-4
    ahead, behind = ([w + sign * step * v for w, v in zip(weights, velocity)] for sign in (1, -1))
    C1 = [weight_balance(*w, rate_ratio=rate_ratio) for w in (ahead, behind)]
    C2 = [attention_balance(w[1], w[2]) for w in (ahead, behind)]
    for before, after in (C1, C2):  # quadratic in the weights: central differences are exact
        np.testing.assert_allclose(after - before, 0, atol=1e-14)
    assert (
        np.abs(
            weight_balance(*ahead, rate_ratio=2.0) - weight_balance(*behind, rate_ratio=2.0)
        ).max()
        > 1e-7
    )


def test_leading_axes_are_kept():
    runs = [random_weights(seed) for seed in range(2)]
    stacked = [np.stack(matrices) for matrices in zip(*runs, strict=True)]
    for result, singles in [
        (weight_velocities(*stacked, **CHAIN), [weight_velocities(*w, **CHAIN) for w in runs]),
        (composite_gradients(*stacked, **CHAIN), [composite_gradients(*w, **CHAIN) for w in runs]),
        ((population_loss(*stacked, **CHAIN),), [(population_loss(*w, **CHAIN),) for w in runs]),
        ((weight_balance(*stacked),), [(weight_balance(*w),) for w in runs]),
    ]:
        for whole, parts in zip(result, zip(*singles, strict=True), strict=True):
            np.testing.assert_allclose(whole, np.stack(parts), rtol=1e-12, atol=1e-15)
