r"""The invariant rank-one manifold and the flow on it, 2d + 2 numbers: the whole of stages II and
III after condensation.

The gradient flow keeps $W_0 = \gamma\alpha^\top$, $W_1 = \alpha\beta^\top$, $W_Q =
l_q\alpha\tilde\alpha^\top$, $W_K = l_k\alpha\tilde\alpha^\top$ with fixed unit vectors $\alpha$,
$\tilde\alpha$ [chen2026, Proposition 3.6]. Here is the flow it induces, written from $h_i =
A_i\cdot\gamma$ and not from the weight velocities. Not here: leaving the manifold
(new_directions.py).

| ours          | theirs                       | axes         |
|---------------|------------------------------|--------------|
| state         | gamma, beta (token), l_q, l_k|              |
| key_direction | alpha tilde                  | key width    |
| rate_ratio    | r = eta' / eta               |              |
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax, softmax

from .condensation import condensed_direction
from .gradients import WeightMatrices, population_attention
from .unigram import focus_sign

__all__ = [
    "RankOneStart",
    "RankOneState",
    "rank_one_attention",
    "rank_one_balance",
    "rank_one_loss",
    "rank_one_start",
    "rank_one_velocity",
    "rank_one_weights",
]


class RankOneState(NamedTuple):
    """A point of the rank-one manifold, or a velocity on it. Theirs: gamma, beta, l_q, l_k."""

    gamma: NDArray[np.float64]
    beta: NDArray[np.float64]
    query_scale: float
    key_scale: float


class RankOneStart(NamedTuple):
    """A point of the manifold, and the direction of the width that it lies along. Theirs: alpha."""

    direction: NDArray[np.float64]
    state: RankOneState


def rank_one_start(
    embedding: ArrayLike,
    query: ArrayLike,
    key: ArrayLike,
    projection: ArrayLike,
    *,
    stationary: ArrayLike,
    transition: ArrayLike,
) -> RankOneStart:
    r"""The start on the manifold that ends, to first order, where a small random start does.

    Condensation keeps what lies along $\alpha$, focus the mode of query and key that grows. With $q
    = W_Q^\top\alpha$, $k = W_K^\top\alpha$ and $\pm$ the sign of the focus rate: $\gamma =
    W_0\alpha$, $\beta = W_1^\top\alpha$, $\tilde\alpha \propto q \pm k$, $l_q = \tilde\alpha\cdot
    q$, $l_k = \tilde\alpha\cdot k$. [derived, stages I and II]. What is left out dies out, along
    the other mode, or stays as small as it began, across $\alpha$, until the next direction opens.
    """
    W_0, W_Q, W_K, W_1 = (np.asarray(part, float) for part in (embedding, query, key, projection))
    alpha = condensed_direction(W_0, W_1, stationary=stationary)
    sign = focus_sign(stationary=stationary, transition=transition) or 1
    q, k = alpha @ W_Q, alpha @ W_K
    mode = (q + sign * k) / np.linalg.norm(q + sign * k)
    return RankOneStart(
        alpha, RankOneState(W_0 @ alpha, alpha @ W_1, float(q @ mode), float(k @ mode))
    )


def rank_one_weights(
    state: RankOneState, *, direction: ArrayLike, key_direction: ArrayLike
) -> WeightMatrices:
    r"""The weights that a state stands for. [chen2026, Proposition 3.6]. Directions are scaled to
    norm 1.
    """
    alpha, key_alpha = (
        np.asarray(v, float) / np.linalg.norm(v) for v in (direction, key_direction)
    )
    across = np.outer(alpha, key_alpha)
    return WeightMatrices(
        np.outer(state.gamma, alpha),
        state.query_scale * across,
        state.key_scale * across,
        np.outer(alpha, state.beta),
    )


def rank_one_attention(
    state: RankOneState, *, stationary: ArrayLike, phi_scale: float = 1.0
) -> NDArray[np.float64]:
    r"""Attention on the manifold, $A_{ij} \propto \pi_je^{\kappa\gamma_i\gamma_j}$, $\kappa =
    sl_ql_k$. [derived, stage III].
    """
    kappa = phi_scale * state.query_scale * state.key_scale
    return population_attention(kappa * np.outer(state.gamma, state.gamma), stationary=stationary)


def rank_one_loss(
    state: RankOneState, *, stationary: ArrayLike, transition: ArrayLike, phi_scale: float = 1.0
) -> float:
    r"""Loss on the manifold: logits are $z_i = h_i\beta$ with $h_i = A_i\cdot\gamma$. [derived,
    stage III].
    """
    pi, P = np.asarray(stationary, float), np.asarray(transition, float)
    h = rank_one_attention(state, stationary=pi, phi_scale=phi_scale) @ state.gamma
    return float(-np.sum(pi[:, None] * P * log_softmax(np.outer(h, state.beta), axis=1)))


def rank_one_velocity(
    state: RankOneState,
    *,
    stationary: ArrayLike,
    transition: ArrayLike,
    phi_scale: float = 1.0,
    lr_decoder: float = 1.0,
    lr_attention: float = 1.0,
) -> RankOneState:
    r"""The reduced flow. With $e_i = \pi_i\,G_i\cdot\beta$, the error as query i's average $h_i$
    sees it, and $v_i = \mathrm{Var}_{A_i}\gamma$:

    $\dot\gamma_j = -\eta\sum_ie_i\,A_{ij}[1 + \kappa\gamma_i(\gamma_j-h_i)] - \eta\kappa e_jv_j$,
    $\dot\beta = -\eta\sum_i\pi_ih_iG_i$, $\dot l_q = -\eta'sl_k\sum_ie_i\gamma_iv_i$, $\dot l_k$
    likewise with $l_q$.

    [derived, stage III]: $-\partial L/\partial h_i = -e_i$ times $\partial h_i/\partial\gamma_j$.
    """
    pi, P = np.asarray(stationary, float), np.asarray(transition, float)
    gamma, beta = np.asarray(state.gamma, float), np.asarray(state.beta, float)
    kappa = phi_scale * state.query_scale * state.key_scale
    A = rank_one_attention(state, stationary=pi, phi_scale=phi_scale)
    h = A @ gamma
    G = softmax(np.outer(h, beta), axis=1) - P
    e, above = pi * (G @ beta), gamma - h[:, None]
    v = np.sum(A * above**2, axis=1)
    as_key = e @ (A * (1 + kappa * gamma[:, None] * above))
    pull = phi_scale * np.sum(e * gamma * v)
    return RankOneState(
        gamma=-lr_decoder * (as_key + kappa * e * v),
        beta=-lr_decoder * (pi * h) @ G,
        query_scale=float(-lr_attention * state.key_scale * pull),
        key_scale=float(-lr_attention * state.query_scale * pull),
    )


def rank_one_balance(state: RankOneState, *, rate_ratio: float = 1.0) -> float:
    r"""Invariant of the reduced flow, $\lVert\gamma\rVert^2 - \lVert\beta\rVert^2 -
    (l_q^2+l_k^2)/r$; 0 from a small start.

    [derived, stage III], the only entry of C_1 that the manifold has.
    """
    gamma, beta, l_q, l_k = state
    return float(
        np.sum(np.square(gamma)) - np.sum(np.square(beta)) - (l_q**2 + l_k**2) / rate_ratio
    )
