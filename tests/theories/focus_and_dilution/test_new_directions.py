"""The next-direction rule against the linearised flow of the whole model, in directions that the
weights do not use.
"""

import numpy as np
import pytest

from saccade.theories.focus_and_dilution import (
    condensation_drive,
    condensation_rate,
    next_direction,
    opening_matrix,
    weight_velocities,
)

from .chains import CHAINS, D_KEY, D_MODEL, N_VOCAB, irreversible, random_weights
from .numeric import NUMERIC, STEP

CHAIN = irreversible()
RATES = [{}, {"phi_scale": 0.4}, {"phi_scale": 1.7, "lr_decoder": 0.5, "lr_attention": 3.0}]


def low_rank_weights(used=2):
    """Random weights inside a random subspace of embedding space, and a unit vector orthogonal to
    it.
    """
    basis = np.linalg.qr(np.random.default_rng(2).normal(size=(D_MODEL, D_MODEL)))[0]
    inside = basis[:, :used] @ basis[:, :used].T
    W0, WQ, WK, W1 = random_weights(scale=0.8)
    return [W0 @ inside, inside @ WQ, inside @ WK, inside @ W1], basis[:, -1]


@pytest.mark.parametrize("rates", RATES)
def test_predicted_pattern_grows_along_itself_at_the_predicted_rate(rates):
    weights, v = low_rank_weights()
    opened = next_direction(*weights, **CHAIN, **rates)
    pattern = [
        np.outer(opened.embedding, v),
        np.outer(v, opened.query),
        np.outer(v, opened.key),
        np.outer(v, opened.projection),
    ]
    ahead, behind = (
        weight_velocities(
            *[w + sign * STEP * p for w, p in zip(weights, pattern)], **CHAIN, **rates
        )
        for sign in (1, -1)
    )
    for a, b, p in zip(ahead, behind, pattern, strict=True):
        np.testing.assert_allclose((a - b) / (2 * STEP), opened.rate * p, atol=NUMERIC)
    assert opened.rate > 1e-3


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS.keys())
def test_at_the_origin_the_rule_is_condensation(chain):
    origin = random_weights(n_vocab=len(chain["stationary"]), scale=0.0)
    drive = condensation_drive(stationary=chain["stationary"])
    np.testing.assert_allclose(
        opening_matrix(*origin, **chain)[:, : len(drive)], -drive, atol=1e-16
    )
    opened = next_direction(*origin, **chain, lr_decoder=0.6)
    assert opened.rate == pytest.approx(
        condensation_rate(stationary=chain["stationary"], lr_decoder=0.6), rel=1e-12
    )
    np.testing.assert_allclose(
        np.outer(opened.embedding, opened.projection), drive / np.linalg.norm(drive), atol=1e-14
    )


def test_leading_axes_are_kept():
    runs = [random_weights(seed) for seed in range(2)]
    stacked = [np.stack(matrices) for matrices in zip(*runs, strict=True)]
    singles = np.stack([opening_matrix(*weights, **CHAIN) for weights in runs])
    np.testing.assert_allclose(opening_matrix(*stacked, **CHAIN), singles, rtol=1e-12, atol=1e-15)
    assert singles.shape == (2, N_VOCAB, N_VOCAB + 2 * D_KEY)
