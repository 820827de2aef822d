"""From embeddings to Y and Z: the Gram form is the embedded model."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.scan_and_snap.reparameterisation import (
    GramWeights,
    WithGram,
    two_small_classes,
)
from saccade.models.token_embedded import TokenEmbedded, pair, pairwise_loss


def test_random_embeddings_enter_through_their_gram_matrix_alone():
    """Y and Z of a model of width 7, with everything away from its start, move as the Gram form
    says.
    """
    task, rng = two_small_classes(), np.random.default_rng(3)
    system = TokenEmbedded(task, width=7, embedding="random", lr_attention=0.3)
    with jax.enable_x64(True):
        start = system.start(rng)
        weights = start._replace(
            query=0.1 * rng.standard_normal((7, 7)), value=0.1 * rng.standard_normal((7, 7))
        )
        gram = weights.embedding @ weights.embedding.T

        def moved(weights, gram):
            slope = jax.grad(lambda each: pairwise_loss(*pair(each), gram, task))(weights)
            still = {name: 0 * getattr(slope, name) for name in ("embedding", "key", "decoder")}
            step = weights._replace(query=-0.3 * slope.query, value=-slope.value, **still)
            by_gram = WithGram(task, 0.3).velocity(GramWeights(*pair(weights), gram))
            return jax.jvp(pair, (weights,), (step,))[1], by_gram

        (decoder_dot, logits_dot), expected = jax.jit(moved)(weights, jnp.asarray(gram))
        np.testing.assert_allclose(decoder_dot, expected.decoder, atol=1e-13)
        np.testing.assert_allclose(logits_dot, expected.attention_logits, atol=1e-13)


def test_orthonormal_embeddings_need_the_width_of_the_vocabulary():
    with pytest.raises(InputError, match="orthonormal embeddings need at least 9"):
        TokenEmbedded(two_small_classes(), width=8)
