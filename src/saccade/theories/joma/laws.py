r"""The joint laws of JoMA [tian2024]: attention logits are a function of the weights above them,
and so attention moves alone.

| ours       | theirs | meaning                                                                     |
|------------|--------|-----------------------------------------------------------------------------|
| `weights`  | v_k    | weights of neuron k on each token (..., neuron, token)                      |
| `drive`    | Delta  | backpropagated gradient times frequency, by token; constant in time         |
| `target`   | mu     | where a component settles                                                   |
| `distance` | delta  | $1 - v/\mu$                                                                 |
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import quad
from scipy.special import erf, erfinv

from ...errors import InputError

__all__ = [
    "approach_delay",
    "approach_log",
    "blow_up_time",
    "invariant",
    "layer_invariant",
    "linear_weight",
    "reach_time",
    "softmax_logits",
]


def invariant(
    kind: str, logits: ArrayLike, weights: ArrayLike, *, rate_ratio: float = 1.0
) -> NDArray[np.float64]:
    r"""What is conserved: $z^2 - r\sum_k v_k^2$ for linear attention, $z - \frac r2\sum_k v_k^2$
    for exponential (..., token), with r the rate of attention over that of the layer above.

    [tian2024, Theorem 1], there with r = 1. From $\dot v_k = E[g_k h_k' b]$ and $\dot z = r\sum_k
    v_k \circ E[g_k h_k' \partial b/\partial z]$, with $\partial b/\partial z$ = b/z or b: exact for
    any loss and activation, if one query owns the layer and tokens are orthonormal.
    """
    if kind not in ("linear", "exp"):
        raise InputError(
            f"`kind` must be linear or exp: no such law is known for other attention; got {kind}."
        )
    z, squares = np.asarray(logits, float), np.sum(np.asarray(weights, float) ** 2, axis=-2)
    return z**2 - rate_ratio * squares if kind == "linear" else z - rate_ratio * squares / 2


def layer_invariant(
    logits: ArrayLike, weights: ArrayLike, *, rate_ratio: float = 1.0
) -> NDArray[np.float64]:
    r"""What every layer of exponential attention conserves, $\sum_c z_c - \frac r2\lVert
    W\rVert^2$, r as in `invariant`.

    Ours. The layer sees $W\sum_c e^{z_c}x_c$, so adding $\epsilon$ to every logit is multiplying W
    by $e^\epsilon$: $\sum_c\partial L/\partial z_c = \langle W, \partial L/\partial W\rangle$,
    whatever the x_c are and however they move.
    """
    squares = np.sum(np.asarray(weights, float) ** 2, axis=(-2, -1))
    return np.asarray(logits, float).sum(axis=-1) - rate_ratio * squares / 2


def softmax_logits(weights: ArrayLike, mean_attention: ArrayLike) -> NDArray[np.float64]:
    r"""Logits under softmax attention up to a constant, $z \approx \frac12\sum_k (v_k^2 - \lVert
    v_k\rVert^2\, \bar b)$.

    [tian2024, Theorem 1]; takes the mean attention as constant and uncorrelated with the gradient.
    """
    squares = np.sum(np.asarray(weights, float) ** 2, axis=-2)
    return (squares - squares.sum(axis=-1, keepdims=True) * np.asarray(mean_attention, float)) / 2


def linear_weight(t: ArrayLike, drive: ArrayLike) -> NDArray[np.float64]:
    r"""One linear neuron, constant gradient: $\dot v = \Delta e^{v^2/2}$, so
    $\mathrm{erf}(v/\sqrt2) = \sqrt{2/\pi}\,\Delta t$.

    [tian2024, section 4], integrated by us. Domain: v(0) = z(0) = 0, before `blow_up_time`.
    """
    return np.sqrt(2) * erfinv(np.sqrt(2 / np.pi) * np.multiply.outer(t, drive))


def reach_time(weight: float, drive: float) -> float:
    """When a weight is reached; `linear_weight` the other way round."""
    return float(np.sqrt(np.pi / 2) * erf(weight / np.sqrt(2)) / drive)


def blow_up_time(drive: float) -> float:
    r"""When attention has gone to one token, $\sqrt{\pi/2}/\Delta$: the largest drive is first, the
    others are still finite.
    """
    return float(np.sqrt(np.pi / 2) / abs(drive))


def approach_delay(target: float) -> float:
    r"""C in $\ln(1/\delta) \to e^{\mu^2/2} (t - C)$ for $\dot v = (\mu - v) e^{v^2/2}$, v(0) = 0:
    $C(\mu) = \int_0^\mu \frac{e^{-u^2/2} - e^{-\mu^2/2}}{\mu - u} du$.

    Ours: [tian2024, Theorem 4] has the limit of the ratio of two such logarithms, which is reached
    only as C/t.
    """
    mu = abs(target)
    return float(
        quad(
            lambda u: (np.exp(-(u**2) / 2) - np.exp(-(mu**2) / 2)) / (mu - u) if u < mu else 0.0,
            0,
            mu,
        )[0]
    )


def approach_log(t: ArrayLike, target: float) -> NDArray[np.float64]:
    r"""$\ln(1/\delta)$ at late times, $e^{\mu^2/2} (t - C(\mu))$."""
    return np.exp(target**2 / 2) * (np.asarray(t, float) - approach_delay(target))
