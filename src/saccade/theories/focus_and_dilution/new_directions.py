r"""Which embedding direction opens next, and how fast: the first singular triple of one matrix B.

At any state whose weights use a subspace U of embedding space, a small new direction v orthogonal
to U sees the loss only through $B = [\,\partial L/\partial M\ |\ s\,\partial
L/\partial\Phi\,W_0W_K\ |\ s\,\partial L/\partial\Phi^\top W_0W_Q\,]$. Let $x = W_0v$, and let w
hold the components $v^\top W_1$, $v^\top W_Q$, $v^\top W_K$: then $\dot x = -Bw$ and $\dot w =
-B^\top x$. So x grows like the first left singular vector and w like minus the first right one, at
the rate of the first singular value. At the origin B is $-\pi(\pi-1/d)^\top$: stage I is the same
rule. Valid while the state hardly moves; U must leave room.

| ours          | theirs                    | axes             |
|---------------|---------------------------|------------------|
| query, key    | W_Q, W_K                  | width, key width |
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .gradients import composite_gradients

__all__ = ["NextDirection", "next_direction", "opening_matrix"]


class NextDirection(NamedTuple):
    """Growth rate of the new direction, and its pattern in each weight matrix, up to one common
    factor.

    Axes: embedding (token), projection (token), query and key (key width); the embedding pattern
    has norm 1.
    """

    rate: float
    embedding: NDArray[np.float64]
    query: NDArray[np.float64]
    key: NDArray[np.float64]
    projection: NDArray[np.float64]


def opening_matrix(
    embedding: ArrayLike,
    query: ArrayLike,
    key: ArrayLike,
    projection: ArrayLike,
    *,
    stationary: ArrayLike,
    transition: ArrayLike,
    phi_scale: float = 1.0,
) -> NDArray[np.float64]:
    r"""The matrix B, token by (token + twice the key width). Leading axes are kept. [derived,
    next-direction rule].
    """
    W0, WQ, WK = (np.asarray(w, float) for w in (embedding, query, key))
    grad = composite_gradients(
        W0, WQ, WK, projection, stationary=stationary, transition=transition, phi_scale=phi_scale
    )
    D, E = grad.decoder, phi_scale * grad.attention_logits
    return np.concatenate([D, E @ W0 @ WK, E.mT @ W0 @ WQ], axis=-1)


def next_direction(
    embedding: ArrayLike,
    query: ArrayLike,
    key: ArrayLike,
    projection: ArrayLike,
    *,
    stationary: ArrayLike,
    transition: ArrayLike,
    phi_scale: float = 1.0,
    lr_decoder: float = 1.0,
    lr_attention: float = 1.0,
) -> NextDirection:
    r"""Rate and patterns of the fastest new direction of one state.

    With unequal rates, $\dot w = -RB^\top x$ and $\dot x = -\eta Bw$ with R the rate of each
    column: the rate is the first singular value of $\sqrt\eta B\sqrt R$, and $w = -\sqrt{R/\eta}$
    times its right singular vector. [derived, next-direction rule].

    >>> pi, none = np.array([0.6, 0.3, 0.1]), np.zeros((2, 1))
    >>> origin = next_direction(
    ...     np.zeros((3, 2)), none, none, np.zeros((2, 3)), stationary=pi, transition=0.5 * np.eye(3) + 0.5 * pi
    ... )
    >>> round(origin.rate, 4)  # stage I is the same rule
    0.2414
    """
    B = opening_matrix(
        embedding,
        query,
        key,
        projection,
        stationary=stationary,
        transition=transition,
        phi_scale=phi_scale,
    )
    n_vocab, d_key = B.shape[0], np.shape(query)[-1]
    root = np.sqrt(np.repeat([lr_decoder, lr_attention], [n_vocab, 2 * d_key]) / lr_decoder)
    left, values, right = np.linalg.svd(lr_decoder * B * root, full_matrices=False)
    y, q, k = np.split(-root * right[0], [n_vocab, n_vocab + d_key])
    return NextDirection(rate=float(values[0]), embedding=left[:, 0], query=q, key=k, projection=y)
