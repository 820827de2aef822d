r"""Stage II, focus: query and key grow along the one embedding direction, so every query tilts to
the same keys.

Around the unigram point the attention block is linear and solved exactly. Attention sees only the
strength $\kappa$ of $\Phi = \kappa\gamma\gamma^\top$; with $\gamma \propto \pi$ every query looks
more at frequent tokens, or less where $\kappa < 0$. Valid while $\kappa\gamma\gamma^\top$ is small.
Not here: what the tilt does to the embedding (drift.py).

| ours           | theirs                      | axes             |
|----------------|-----------------------------|------------------|
| query_0, key_0 | W_Q, W_K on the plateau     | width, key width |
| rate           | c (`focus_rate`)            |                  |
| t              | t from the plateau on       |                  |
| growth         | factor by which queries grow|                  |
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "LinearAttention",
    "alignment",
    "first_order_attention",
    "focus_logits",
    "focus_onset",
    "focus_slope",
    "focus_strength",
    "linear_attention",
]


class LinearAttention(NamedTuple):
    """Query and key matrices of the linear flow. Theirs: W_Q, W_K."""

    query: NDArray[np.float64]
    key: NDArray[np.float64]


def linear_attention(
    t: ArrayLike, query_0: ArrayLike, key_0: ArrayLike, *, direction: ArrayLike, rate: float
) -> LinearAttention:
    r"""The flow $\dot W_Q = c\,\alpha\alpha^\top W_K$, $\dot W_K = c\,\alpha\alpha^\top W_Q$,
    solved: with $q = W_Q^\top\alpha$, $k = W_K^\top\alpha$, $q(t) = q\cosh ct + k\sinh ct$, k
    likewise, and the rest of both matrices stays.

    [derived, stage II]. Axes of t come first in the result.
    """
    WQ, WK = np.asarray(query_0, float), np.asarray(key_0, float)
    alpha = np.asarray(direction, float) / np.linalg.norm(direction)
    q, k, phase = alpha @ WQ, alpha @ WK, rate * np.asarray(t, float)[..., None]
    grown_q = q * (np.cosh(phase) - 1) + k * np.sinh(phase)
    grown_k = k * (np.cosh(phase) - 1) + q * np.sinh(phase)
    return LinearAttention(
        WQ + alpha[:, None] * grown_q[..., None, :], WK + alpha[:, None] * grown_k[..., None, :]
    )


def focus_strength(
    t: ArrayLike,
    query_0: ArrayLike,
    key_0: ArrayLike,
    *,
    direction: ArrayLike,
    rate: float,
    phi_scale: float = 1.0,
) -> NDArray[np.float64]:
    r"""Strength of attention, $\kappa(t) = s\,[q\cdot k\cosh 2ct + \tfrac12(\lVert q\rVert^2+\lVert
    k\rVert^2)\sinh 2ct]$.

    [derived, stage II]. Tends to $\frac s4\lVert q\pm k\rVert^2e^{2|c|t}$ times the sign of c,
    whatever the start.
    """
    alpha = np.asarray(direction, float) / np.linalg.norm(direction)
    q, k = alpha @ np.asarray(query_0, float), alpha @ np.asarray(key_0, float)
    phase = 2 * rate * np.asarray(t, float)
    return phi_scale * (q @ k * np.cosh(phase) + (q @ q + k @ k) / 2 * np.sinh(phase))


def focus_logits(strength: ArrayLike, *, gamma: ArrayLike) -> NDArray[np.float64]:
    r"""Attention logits on the rank-one manifold, $\Phi = \kappa\gamma\gamma^\top$.

    Around the unigram point $\Phi/\lVert\Phi\rVert \to \pm\pi\pi^\top/\lVert\pi\rVert^2$ [chen2026,
    Propositions 3.3, 3.4].
    """
    gamma = np.asarray(gamma, float)
    return np.asarray(strength, float)[..., None, None] * np.outer(gamma, gamma)


def first_order_attention(
    strength: ArrayLike, *, stationary: ArrayLike, gamma: ArrayLike
) -> NDArray[np.float64]:
    r"""Attention to first order in its strength, $A_{ij} \approx \pi_j[1 +
    \kappa\gamma_i(\gamma_j-\langle\gamma\rangle)]$, with $\langle\gamma\rangle =
    \sum_j\pi_j\gamma_j$. [derived, stage II].
    """
    pi, gamma = np.asarray(stationary, float), np.asarray(gamma, float)
    kappa = np.asarray(strength, float)[..., None, None]
    return pi * (1 + kappa * np.outer(gamma, gamma - pi @ gamma))


def focus_slope(*, rate: float) -> float:
    r"""How much longer stage II takes per e-fold of a smaller start, $dt/d\ln(1/\epsilon) = 1/|c|$.
    [derived, stage II].
    """
    return 1 / abs(rate)


def focus_onset(
    query_0: ArrayLike, key_0: ArrayLike, *, direction: ArrayLike, rate: float, growth: float = 3.0
) -> float:
    r"""Time from the plateau on until $\lVert W_Q\rVert$ is `growth` = f times its start: the later
    root of $ae^{2|c|t} + be^{-2|c|t} = (f^2-1)\lVert W_Q\rVert^2 + a + b$, with $4a = \lVert q\pm
    k\rVert^2$, $4b = \lVert q\mp k\rVert^2$.

    [derived, stage II], exact for the linear flow. Upper signs where c > 0.
    """
    WQ, WK = np.asarray(query_0, float), np.asarray(key_0, float)
    alpha = np.asarray(direction, float) / np.linalg.norm(direction)
    q, k = alpha @ WQ, np.sign(rate) * (alpha @ WK)
    a, b = np.sum((q + k) ** 2) / 4, np.sum((q - k) ** 2) / 4
    target = (growth**2 - 1) * np.sum(WQ**2) + a + b
    return float(
        np.log((target + np.sqrt(target**2 - 4 * a * b)) / (2 * a)) / 2 * focus_slope(rate=rate)
    )


def alignment(matrix: ArrayLike, pattern: ArrayLike) -> NDArray[np.float64]:
    """Cosine between two arrays over the axes of `pattern`: 1 same direction, -1 opposite, 0
    nothing in common.

    Leading axes (seed, time) of `matrix` are kept.
    """
    matrix, pattern = np.asarray(matrix, float), np.asarray(pattern, float)
    axes = tuple(range(-pattern.ndim, 0))
    return np.sum(matrix * pattern, axis=axes) / (
        np.sqrt(np.sum(matrix**2, axis=axes)) * np.linalg.norm(pattern)
    )
