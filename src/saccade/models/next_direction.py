r"""Which direction of the embedding opens next in the embedded model, from the model's own
gradient.

Weights that use a subspace U of the width leave room for a direction $v \perp U$. Let $x = W_0 v$,
$y = W_1^\top v$, $q = W_Q^\top v$, $k = W_K^\top v$ be small components along it, and $w = (y, q,
k)$. To second order they change the loss by

$$\delta L = x \cdot B w, \qquad
  B = [\,\partial_M L \mid s\,\partial_\Phi L\, W_0 W_K \mid s\,\partial_\Phi L^\top W_0 W_Q\,].$$

So $\dot x = -\eta B w$ and $\dot w = -R B^\top x$, with R the rate of each part of w. With
$\sqrt{\eta/R}\,w$ in place of w both have the same matrix, $B\sqrt{\eta R}$: its first singular
value is the growth rate, its first singular vectors $u_1$ and $-v_1$ are what grows. Holds while
the state hardly moves. [derived, next-direction rule]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.errors import checked_number
from saccade.later import jax
from saccade.models.embedded import Composite, Setting, Weights, composite, population_loss


class NextDirection(NamedTuple):
    """The fastest new direction: its growth rate, and its component of each matrix, up to one
    common factor.

    Axes: `embedding` (token) of norm one, `projection` (next token), `query` and `key` (key width).
    `rates` (rank) are those of all directions, fastest first.
    """

    rate: float
    embedding: NDArray[np.float64]
    projection: NDArray[np.float64]
    query: NDArray[np.float64]
    key: NDArray[np.float64]
    rates: NDArray[np.float64]


def next_direction(weights: Weights, setting: Setting) -> NextDirection:
    """The first singular triple of B at these weights, with the signs of `velocity = -gradient`."""
    B = opening_matrix(weights, setting)
    n_vocab, d_key = len(B), np.shape(weights.query)[-1]
    eta = checked_number("lr_decoder", float(setting.lr_decoder), low=0.0, open_low=True)
    R = np.repeat([eta, float(setting.lr_attention)], [n_vocab, 2 * d_key])
    left, rates, right = np.linalg.svd(B * np.sqrt(eta * R), full_matrices=False)
    y, q, k = np.split(-np.sqrt(R / eta) * right[0], [n_vocab, n_vocab + d_key])
    return NextDirection(float(rates[0]), left[:, 0], y, q, k, rates)


def opening_matrix(weights: Weights, setting: Setting) -> NDArray[np.float64]:
    """B: token by (next token, key width of the query, key width of the key)."""
    slope = composite_gradient(weights, setting)
    D, E, (W0, WQ, WK, _) = slope.decoder, setting.phi_scale * slope.attention_logits, weights
    return np.concatenate([D, E @ W0 @ WK, E.T @ W0 @ WQ], axis=1)


def composite_gradient(weights: Weights, setting: Setting) -> Composite:
    """dL/dM and dL/dPhi at these weights."""
    with jax.enable_x64(True):
        given = jax.tree.map(lambda leaf: np.asarray(leaf, dtype=np.float64), (weights, setting))
        return jax.tree.map(np.asarray, _composite_gradient(*given))


@jax.jit
def _composite_gradient(weights: Weights, setting: Setting) -> Composite:
    return jax.grad(population_loss)(composite(weights, setting.phi_scale), setting)
