"""The rule for the next direction, against theory's closed form, the Jacobian's spectrum and the
velocity itself.
"""

from __future__ import annotations

import numpy as np
import pytest

import saccade
from saccade.engines.linearise import critical_point, spectrum
from saccade.errors import InputError
from saccade.models import embedded, rank_one
from saccade.models.embedded import Setting, Weights
from saccade.models.next_direction import composite_gradient, next_direction
from saccade.theories import focus_and_dilution as theory

WIDTH, KEY_WIDTH = 5, 3


@pytest.fixture(scope="module")
def chain():
    return saccade.MarkovChain.lazy([0.55, 0.25, 0.13, 0.07], stay=0.35)


def setting_of(chain, phi_scale=1.0, lr_decoder=1.0, lr_attention=1.0):
    return Setting(chain.stationary, chain.transition, phi_scale, lr_decoder, lr_attention)


def random_weights(chain, rank=WIDTH):
    """Weights that use the first `rank` directions of the width."""
    rng, n = np.random.default_rng(6), chain.n_vocab
    used = np.diag(np.arange(WIDTH) < rank).astype(float)
    shapes = (n, WIDTH), (WIDTH, KEY_WIDTH), (WIDTH, KEY_WIDTH), (WIDTH, n)
    embedding, query, key, projection = (rng.normal(size=shape) for shape in shapes)
    return Weights(embedding @ used, used @ query, used @ key, used @ projection)


def test_the_gradient_in_the_composite_matrices_is_the_closed_form(chain):
    weights = random_weights(chain)
    found = composite_gradient(weights, setting_of(chain, phi_scale=0.7))
    closed = theory.composite_gradients(
        *weights, stationary=chain.stationary, transition=chain.transition, phi_scale=0.7
    )
    np.testing.assert_allclose(found.decoder, closed.decoder, atol=1e-14)
    np.testing.assert_allclose(found.attention_logits, closed.attention_logits, atol=1e-14)


@pytest.mark.parametrize(
    ("phi_scale", "lr_decoder", "lr_attention"), [(1.0, 1.0, 1.0), (0.6, 2.0, 5.0)]
)
def test_rate_and_patterns_agree_with_the_theory(chain, phi_scale, lr_decoder, lr_attention):
    weights = random_weights(chain)
    found = next_direction(weights, setting_of(chain, phi_scale, lr_decoder, lr_attention))
    closed = theory.next_direction(
        *weights,
        stationary=chain.stationary,
        transition=chain.transition,
        phi_scale=phi_scale,
        lr_decoder=lr_decoder,
        lr_attention=lr_attention,
    )
    assert found.rate == pytest.approx(closed.rate, rel=1e-12)
    sign = np.sign(found.embedding @ closed.embedding)
    for name in ("embedding", "projection", "query", "key"):
        np.testing.assert_allclose(getattr(found, name), sign * getattr(closed, name), atol=1e-12)


@pytest.mark.parametrize(("logit_scale", "lr_attention"), [(1.0, 1.0), (1.5, 2.0)])
def test_every_unused_direction_grows_at_that_rate_at_a_rank_one_critical_point(
    chain, logit_scale, lr_attention
):
    setting = setting_of(chain, phi_scale=logit_scale, lr_attention=lr_attention)
    model = saccade.models.Embedded(logit_scale=logit_scale)
    end = saccade.reduced_flow(
        chain, t1=3000, n_times=2, model=model, lr_attention=lr_attention
    ).isel(time=-1)
    start = rank_one.RankOne(
        *(end[name].values for name in ("gamma", "beta", "query_scale", "key_scale"))
    )
    gamma, beta, query, key = critical_point(rank_one.velocity, start, setting).state
    first, across = np.eye(WIDTH)[0], np.outer(np.eye(WIDTH)[0], np.eye(KEY_WIDTH)[0])
    weights = Weights(np.outer(gamma, first), query * across, key * across, np.outer(first, beta))
    fastest = spectrum(embedded.velocity, weights, setting).eigenvalues[: WIDTH - 1]
    np.testing.assert_allclose(fastest.real, next_direction(weights, setting).rate, rtol=1e-9)


def test_an_embedding_that_does_not_move_opens_nothing(chain):
    with pytest.raises(InputError, match="lr_decoder"):
        next_direction(random_weights(chain), setting_of(chain, lr_decoder=0.0))
