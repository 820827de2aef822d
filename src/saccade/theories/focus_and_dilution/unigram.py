r"""The plateau after condensation: the rank-one critical point that predicts the unigram law, and
how fast it is left.

There attention is off ($W_Q = W_K = 0$), every last token predicts $\pi$, and the loss is the
entropy of $\pi$. The only growing modes are those of query and key along $\alpha$; their rate c has
the sign of the chain's persistence, so that an anti-persistent chain turns attention away from
frequent tokens. Domain: every mass positive, law not uniform.

| ours        | theirs       | axes         |
|-------------|--------------|--------------|
| centred_log | zeta         | token        |
| gamma, beta | gamma, beta  | token        |
| d_key       | d_k          |              |
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr

from .gradients import WeightMatrices
from .laws import chances, positive, shares, unequal

__all__ = [
    "UnigramPoint",
    "centred_log",
    "embedding_norm",
    "focus_rate",
    "focus_sign",
    "persistence",
    "spread",
    "unigram_loss",
    "unigram_point",
    "unigram_weights",
]


class UnigramPoint(NamedTuple):
    """The critical point as two patterns: W_0 = gamma alpha^T and W_1 = alpha beta^T, with no
    attention.
    """

    gamma: NDArray[np.float64]
    beta: NDArray[np.float64]


def centred_log(*, stationary: ArrayLike) -> NDArray[np.float64]:
    r"""Logits of the unigram law, $\zeta = \log\pi - \overline{\log\pi}$. [derived, plateau]."""
    log_pi = np.log(positive(stationary))
    return log_pi - log_pi.mean()


def embedding_norm(*, stationary: ArrayLike) -> float:
    r"""Norm of embedding and projection on the plateau, $g =
    \sqrt{\lVert\zeta\rVert/\lVert\pi\rVert}$. [derived, plateau].
    """
    return float(
        np.sqrt(np.linalg.norm(centred_log(stationary=stationary)) / np.linalg.norm(stationary))
    )


def unigram_point(*, stationary: ArrayLike) -> UnigramPoint:
    r"""The patterns $\gamma = g\pi/\lVert\pi\rVert$ and $\beta = \zeta/(g\lVert\pi\rVert)$, of
    equal norm.

    [derived, plateau]; that there is such a point and that it has rank one is [chen2026,
    Propositions 3.3, 3.4].
    """
    pi, g = unequal(stationary), embedding_norm(stationary=stationary)
    size = np.linalg.norm(pi)
    return UnigramPoint(gamma=g * pi / size, beta=centred_log(stationary=pi) / (g * size))


def unigram_weights(*, stationary: ArrayLike, direction: ArrayLike, d_key: int) -> WeightMatrices:
    r"""The critical point as weights: $W_0 = \gamma\alpha^\top$, $W_1 = \alpha\beta^\top$, $W_Q =
    W_K = 0$. [derived, plateau].
    """
    gamma, beta = unigram_point(stationary=stationary)
    alpha = np.asarray(direction, float) / np.linalg.norm(direction)
    nothing = np.zeros((len(alpha), d_key))
    return WeightMatrices(np.outer(gamma, alpha), nothing, nothing.copy(), np.outer(alpha, beta))


def unigram_loss(*, stationary: ArrayLike) -> float:
    r"""Loss on the plateau, the entropy $H(\pi)$ in nats. [derived, plateau]."""
    return float(entr(shares(stationary)).sum())


def persistence(*, stationary: ArrayLike, transition: ArrayLike) -> float:
    r"""How far frequent tokens foretell frequent tokens, $\sum_i\pi_i^2\,\zeta\cdot(P_i-\pi)$.

    [derived, plateau]. For the lazy chain it is $\lambda\,\mathrm{Cov}_\pi(\pi,\log\pi)$, of the
    sign of $\lambda$.
    """
    pi, P = positive(stationary), chances(transition, np.size(stationary))
    return float(pi**2 @ (P - pi) @ centred_log(stationary=pi))


def spread(*, stationary: ArrayLike) -> float:
    r"""How unequal tokens are as seen by attention, $\sum_j\pi_j^3 - \lVert\pi\rVert^4 =
    \mathrm{Var}_\pi(\pi) \ge 0$.

    [derived, plateau].
    """
    pi = shares(stationary)
    return float(np.sum(pi**3) - np.sum(pi**2) ** 2)


def focus_rate(
    *,
    stationary: ArrayLike,
    transition: ArrayLike,
    phi_scale: float = 1.0,
    lr_attention: float = 1.0,
) -> float:
    r"""Growth rate of query and key along $\alpha$, $c =
    \eta's\,\frac{\lVert\zeta\rVert}{\lVert\pi\rVert^5}\cdot\mathrm{persistence}\cdot\mathrm{spread}$.

    $\dot W_Q = c\,\alpha\alpha^\top W_K$ and $\dot W_K = c\,\alpha\alpha^\top W_Q$: rates c and -c,
    each as often as there are key dimensions. The learning rate $\eta$ of the embedding does not
    enter; in the embedding's own time $\eta t$ the rate is $c/\eta$. [chen2026, Propositions 3.3,
    3.4] have the same block; the closed form is [derived, plateau]. Our c is that of Proposition
    3.4; the c of Theorem 3.7 is twice as large.
    """
    zeta, size = centred_log(stationary=stationary), np.linalg.norm(stationary)
    brackets = persistence(stationary=stationary, transition=transition) * spread(
        stationary=stationary
    )
    return float(lr_attention * phi_scale * np.linalg.norm(zeta) / size**5 * brackets)


def focus_sign(*, stationary: ArrayLike, transition: ArrayLike) -> int:
    """+1: attention first turns to frequent tokens; -1: away from them (W_Q and W_K grow opposite);
    0: it does neither.

    [derived, sign rule]: the sign of the persistence, since the other factors are positive.
    """
    return int(np.sign(persistence(stationary=stationary, transition=transition)))
