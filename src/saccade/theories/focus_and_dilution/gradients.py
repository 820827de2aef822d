r"""The population model and its gradient flow, in closed form: attention, loss, both composite
gradients, four velocities.

There are no positions, so a long context matters only through its shares of tokens, which are the
stationary law: attention is a table from the last token to the tokens before it. The loss then
depends on the weights through two token-by-token matrices, $M = W_0W_1$ and $\Phi = sW_0W_QW_K^\top
W_0^\top$. Every function takes leading axes (seed, time) in front of the weights. Not here: finite
contexts, and how the flow is integrated.

| ours          | theirs                    | axes             |
|---------------|---------------------------|------------------|
| query, key    | W_Q, W_K                  | width, key width |
| rate_ratio    | r = eta' / eta            |                  |
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax, softmax

__all__ = [
    "CompositeGradients",
    "WeightMatrices",
    "attention_balance",
    "attention_logits",
    "composite_gradients",
    "next_token_logits",
    "population_attention",
    "population_loss",
    "weight_balance",
    "weight_velocities",
]


class WeightMatrices(NamedTuple):
    """The four weight matrices, or their velocities. Theirs: W_0, W_Q, W_K, W_1."""

    embedding: NDArray[np.float64]
    query: NDArray[np.float64]
    key: NDArray[np.float64]
    projection: NDArray[np.float64]


class CompositeGradients(NamedTuple):
    """Gradients of the loss in M = W_0 W_1 and in the attention logits Phi, both token by token."""

    decoder: NDArray[np.float64]
    attention_logits: NDArray[np.float64]


def attention_logits(
    embedding: ArrayLike, query: ArrayLike, key: ArrayLike, *, phi_scale: float = 1.0
) -> NDArray[np.float64]:
    r"""Attention before the softmax, $\Phi = sW_0W_QW_K^\top W_0^\top$. [chen2026, composite
    matrices].
    """
    W0, WQ, WK = (np.asarray(w, float) for w in (embedding, query, key))
    return phi_scale * (W0 @ WQ) @ (W0 @ WK).mT


def population_attention(
    attention_logits: ArrayLike, *, stationary: ArrayLike
) -> NDArray[np.float64]:
    r"""Attention of last token i over an infinitely long context, $A_{ij} =
    \pi_je^{\Phi_{ij}}/\sum_k\pi_ke^{\Phi_{ik}}$.

    [derived, population limit] of the paper's softmax over positions: shares of tokens tend to
    $\pi$.
    """
    return softmax(
        np.asarray(attention_logits, float) + np.log(np.asarray(stationary, float)), axis=-1
    )


def next_token_logits(
    attention: ArrayLike, embedding: ArrayLike, projection: ArrayLike
) -> NDArray[np.float64]:
    r"""Logits of the next token after each last token, $z_i = A_iM$. [chen2026, model]."""
    return (
        np.asarray(attention, float) @ np.asarray(embedding, float) @ np.asarray(projection, float)
    )


def population_loss(
    embedding: ArrayLike,
    query: ArrayLike,
    key: ArrayLike,
    projection: ArrayLike,
    *,
    stationary: ArrayLike,
    transition: ArrayLike,
    phi_scale: float = 1.0,
) -> NDArray[np.float64]:
    r"""Cross-entropy of the next token in nats, $L =
    -\sum_i\pi_i\sum_jP_{ij}\log\mathrm{softmax}(z_i)_j$.

    [derived, population limit]. Its minimum is the entropy rate of the chain.
    """
    pi, P = np.asarray(stationary, float), np.asarray(transition, float)
    A = population_attention(
        attention_logits(embedding, query, key, phi_scale=phi_scale), stationary=pi
    )
    log_prob = log_softmax(next_token_logits(A, embedding, projection), axis=-1)
    return -np.sum(pi[:, None] * P * log_prob, axis=(-2, -1))


def composite_gradients(
    embedding: ArrayLike,
    query: ArrayLike,
    key: ArrayLike,
    projection: ArrayLike,
    *,
    stationary: ArrayLike,
    transition: ArrayLike,
    phi_scale: float = 1.0,
) -> CompositeGradients:
    r"""Both composite gradients, $\partial L/\partial M = A^\top\mathrm{diag}(\pi)G$ and, row by
    row, $(\partial L/\partial\Phi)_i = \pi_i(\mathrm{diag}A_i - A_i^\top A_i)MG_i$, with $G_i =
    \mathrm{softmax}(z_i) - P_i$.

    [derived, gradient flow].
    """
    pi, P = np.asarray(stationary, float), np.asarray(transition, float)
    W0, W1 = np.asarray(embedding, float), np.asarray(projection, float)
    A = population_attention(
        attention_logits(embedding, query, key, phi_scale=phi_scale), stationary=pi
    )
    G = softmax(next_token_logits(A, W0, W1), axis=-1) - P
    value = G @ (W0 @ W1).mT  # [i, j] = (M G_i)_j, what attention on token j costs after token i
    mean = np.sum(A * value, axis=-1, keepdims=True)
    return CompositeGradients(
        decoder=A.mT @ (pi[:, None] * G), attention_logits=pi[:, None] * A * (value - mean)
    )


def weight_velocities(
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
) -> WeightMatrices:
    r"""Gradient flow of the four matrices: with $D = \partial L/\partial M$ and $E = s\,\partial
    L/\partial\Phi$,

    $\dot W_0 = -\eta(DW_1^\top + EW_0W_KW_Q^\top + E^\top W_0W_QW_K^\top)$, $\dot W_1 = -\eta
    W_0^\top D$, $\dot W_Q = -\eta'W_0^\top EW_0W_K$, $\dot W_K = -\eta'W_0^\top E^\top W_0W_Q$.

    [derived, gradient flow].
    """
    W0, WQ, WK, W1 = (np.asarray(w, float) for w in (embedding, query, key, projection))
    grad = composite_gradients(
        W0, WQ, WK, W1, stationary=stationary, transition=transition, phi_scale=phi_scale
    )
    D, E = grad.decoder, phi_scale * grad.attention_logits
    to_query, to_key = E @ W0 @ WK, E.mT @ W0 @ WQ
    return WeightMatrices(
        embedding=-lr_decoder * (D @ W1.mT + to_query @ WQ.mT + to_key @ WK.mT),
        query=-lr_attention * W0.mT @ to_query,
        key=-lr_attention * W0.mT @ to_key,
        projection=-lr_decoder * W0.mT @ D,
    )


def weight_balance(
    embedding: ArrayLike,
    query: ArrayLike,
    key: ArrayLike,
    projection: ArrayLike,
    *,
    rate_ratio: float = 1.0,
) -> NDArray[np.float64]:
    r"""First exact invariant, $C_1 = W_0^\top W_0 - W_1W_1^\top - (W_QW_Q^\top + W_KW_K^\top)/r$.

    [derived, gradient flow]: constant for any $\pi$, P and s.
    """
    W0, WQ, WK, W1 = (np.asarray(w, float) for w in (embedding, query, key, projection))
    return W0.mT @ W0 - W1 @ W1.mT - (WQ @ WQ.mT + WK @ WK.mT) / rate_ratio


def attention_balance(query: ArrayLike, key: ArrayLike) -> NDArray[np.float64]:
    r"""Second exact invariant, $C_2 = W_Q^\top W_Q - W_K^\top W_K$, whatever the rates. [derived,
    gradient flow].
    """
    WQ, WK = np.asarray(query, float), np.asarray(key, float)
    return WQ.mT @ WQ - WK.mT @ WK
