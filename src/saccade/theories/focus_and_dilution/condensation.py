r"""Stage I, condensation: near the origin embedding and projection grow along one direction while
attention stands still.

At the origin $\partial L/\partial\Phi = 0$ and $-\partial L/\partial M = \pi u^\top$ with $u = \pi
- 1/d$, a single direction. The linear flow is solved exactly, from any start; it ends where the
cubic terms do, when the embedding is about half as large as at the unigram point (unigram.py). Not
here: query and key, whose velocity is of fifth order in the weights.

| ours         | theirs                     | axes         |
|--------------|----------------------------|--------------|
| embedding_0  | W_0 at t = 0               | token, width |
| projection_0 | W_1 at t = 0               | width, token |
| fraction     | f, of the norm g           |              |
| t            | t                          |              |
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .laws import shares, unequal
from .unigram import embedding_norm

__all__ = [
    "LinearWeights",
    "centred_stationary",
    "condensation_drive",
    "condensation_rate",
    "condensation_slope",
    "condensation_time",
    "condensed_direction",
    "linear_weights",
]


class LinearWeights(NamedTuple):
    """Embedding and projection of the linear flow. Theirs: W_0, W_1."""

    embedding: NDArray[np.float64]
    projection: NDArray[np.float64]


def centred_stationary(*, stationary: ArrayLike) -> NDArray[np.float64]:
    r"""What the projection condenses to, $u = \pi - 1/d$. [derived, stage I]."""
    pi = shares(stationary)
    return pi - 1 / len(pi)


def condensation_drive(*, stationary: ArrayLike) -> NDArray[np.float64]:
    r"""The only force at the origin, $-\partial L/\partial M = \pi(\pi-1/d)^\top$. [derived, stage
    I].
    """
    return np.outer(np.asarray(stationary, float), centred_stationary(stationary=stationary))


def condensation_rate(*, stationary: ArrayLike, lr_decoder: float = 1.0) -> float:
    r"""Growth rate at the origin, $\mu_0 = \eta\lVert\pi\rVert\,\lVert\pi-1/d\rVert$. [derived,
    stage I].

    Zero for a uniform law: nothing to learn before attention, and the theory does not apply.
    """
    size = np.linalg.norm(stationary) * np.linalg.norm(centred_stationary(stationary=stationary))
    return float(lr_decoder * size)


def _components(
    embedding_0: ArrayLike, projection_0: ArrayLike, stationary: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Unit vectors along pi and u, and the part of each weight that they see, a vector over the
    width.
    """
    pi, u = unequal(stationary), centred_stationary(stationary=stationary)
    pi_hat, u_hat = pi / np.linalg.norm(pi), u / np.linalg.norm(u)
    return (
        pi_hat,
        u_hat,
        np.asarray(embedding_0, float).T @ pi_hat,
        np.asarray(projection_0, float) @ u_hat,
    )


def linear_weights(
    t: ArrayLike,
    embedding_0: ArrayLike,
    projection_0: ArrayLike,
    *,
    stationary: ArrayLike,
    lr_decoder: float = 1.0,
) -> LinearWeights:
    r"""The linear flow $\dot W_0 = \eta\pi u^\top W_1^\top$, $\dot W_1 = \eta W_0^\top\pi u^\top$,
    solved.

    With $a = W_0^\top\hat\pi$ and $b = W_1\hat u$: $a(t) = a\cosh\mu_0t + b\sinh\mu_0t$, b
    likewise, and the rest of both matrices stays. Axes of t come first in the result. [derived,
    stage I]; [chen2026, Lemma 3.1] bounds the distance to the flow.
    """
    pi_hat, u_hat, a, b = _components(embedding_0, projection_0, stationary)
    phase = (
        condensation_rate(stationary=stationary, lr_decoder=lr_decoder)
        * np.asarray(t, float)[..., None]
    )
    grown_a = a * (np.cosh(phase) - 1) + b * np.sinh(phase)
    grown_b = b * (np.cosh(phase) - 1) + a * np.sinh(phase)
    return LinearWeights(
        embedding=np.asarray(embedding_0, float) + pi_hat[:, None] * grown_a[..., None, :],
        projection=np.asarray(projection_0, float) + grown_b[..., :, None] * u_hat,
    )


def condensed_direction(
    embedding_0: ArrayLike, projection_0: ArrayLike, *, stationary: ArrayLike
) -> NDArray[np.float64]:
    r"""The direction all tokens condense to, $\alpha \propto W_0(0)^\top\hat\pi + W_1(0)\hat u$, of
    norm 1.

    [chen2026, Theorem 3.2] states $W_0/\lVert W_0\rVert \to \hat\pi\alpha^\top$; $\alpha$ and
    $W_1/\lVert W_1\rVert \to \alpha\hat u^\top$ are [derived, stage I].
    """
    _, _, a, b = _components(embedding_0, projection_0, stationary)
    return (a + b) / np.linalg.norm(a + b)


def condensation_slope(*, stationary: ArrayLike, lr_decoder: float = 1.0) -> float:
    r"""How much longer stage I takes per e-fold of a smaller start, $dt/d\ln(1/\epsilon) =
    1/\mu_0$. [derived, stage I].
    """
    return 1 / condensation_rate(stationary=unequal(stationary), lr_decoder=lr_decoder)


def condensation_time(
    embedding_0: ArrayLike,
    projection_0: ArrayLike,
    *,
    stationary: ArrayLike,
    lr_decoder: float = 1.0,
    fraction: float = 0.5,
) -> float:
    r"""When the growing mode of the linear flow reaches `fraction` of the embedding's norm g at the
    unigram point: $\tfrac12\lVert a+b\rVert e^{\mu_0t} = fg$.

    [derived, stage I]. The flow itself slows down before the end and arrives later, by a delay that
    tends to a constant as the start shrinks.
    """
    _, _, a, b = _components(embedding_0, projection_0, stationary)
    target = 2 * fraction * embedding_norm(stationary=stationary)
    return float(
        np.log(target / np.linalg.norm(a + b))
        * condensation_slope(stationary=stationary, lr_decoder=lr_decoder)
    )
