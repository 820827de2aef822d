r"""What Adam does to the pairwise model, and momentum: steps of one size for every entry, so that
frequency drops out.

Adam divides a gradient by its own size. From zero, every entry of a decoder's row therefore moves
alike, and a row is one number, its height a, times signs: + for the token's own next tokens, - for
all others. At first all rows are equal, unlike under SGD, where they are proportional to frequency;
and equal rows are read best by *flat* attention. They part later: Adam divides by what it
remembers, so the row of a token whose attention has grown since takes larger steps. Rare tokens
gain most from flat attention, their rows become the highest, and in long training the rarest token
wins. Ours: the papers leave Adam open. Not here: noise of batches, short contexts, weight decay.

| ours                | letter | meaning                                                            |
|---------------------|--------|--------------------------------------------------------------------|
| `height`            | a      | size of every entry of a row of the decoder                        |
| `own`, `shared`     | D, C   | sum of the feature over a class's distinct and over common tokens  |
| `unused_share`      | q      | share of the output error on tokens that never follow              |
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...errors import InputError, checked_number
from .features import limit_attention, normalised_feature

__all__ = [
    "AdamLimit",
    "OutputError",
    "adam_limit",
    "critical_feature",
    "critical_rate",
    "momentum_clock",
    "sign_error",
]


class OutputError(NamedTuple):
    """Of a decoder of signs: 1 - alpha_n, and the share of it on tokens that never follow."""

    error: NDArray[np.float64]
    unused_share: NDArray[np.float64]


def sign_error(
    height: float, *, own: ArrayLike, shared: ArrayLike, n_vocab: int, n_classes: int
) -> OutputError:
    r"""Output error of a decoder of signs and height a: logits are $a(D + C)$ for n, $a(C - D)$ for
    the other classes' next tokens, $-a(D + C)$ for the rest; $q = 1/(1 + \frac{K-1}{M-K} e^{2aC})$.

    Ours. Domain: 2 <= K < M classes alike, all with the same common tokens, a query each.

    | ours        | letter |
    |-------------|--------|
    | height      | a      |
    | own, shared | D, C   |
    """
    M, K, a, D, C = n_vocab, n_classes, height, np.asarray(own, float), np.asarray(shared, float)
    other, unused = np.log(K - 1) - 2 * a * D, np.log(M - K) - 2 * a * (D + C)  # against n
    wrong = np.logaddexp(other, unused)
    return OutputError(1 / (1 + np.exp(-wrong)), np.exp(unused - wrong))


def critical_feature(unused_share: float, *, own: float, shared: float) -> float:
    r"""Distinct tokens below $f^* = 1/(D + qC)$ gain attention, those above it lose it.

    Ours. Early $q \approx 1$ and $f^* = 1/\lVert f\rVert_1$: tokens more frequent than $\sum_l
    P(l|n)^2$ fall. Late q = 0 and only the distinct tokens count: attention is pushed to be flat on
    them.

    | ours         | letter |
    |--------------|--------|
    | unused_share | q      |
    | own, shared  | D, C   |
    """
    return 1 / (own + unused_share * shared)


def critical_rate(
    feature: float, *, own: float, shared: float, n_vocab: int, n_classes: int
) -> float:
    r"""Below this rate a distinct token of that feature first loses attention:
    $\eta = \frac{1}{2C} \ln\left[\frac{M-K}{K-1}\left(\frac{C}{1/f - D} - 1\right)\right]$.

    Ours. The decoder is one step, a = eta, when attention makes its first. Zero: it gains at every
    rate; infinite: at none.

    | ours        | letter |
    |-------------|--------|
    | feature     | f_l    |
    | own, shared | D, C   |
    """
    M, K, D, C = n_vocab, n_classes, own, shared
    q = (1 / feature - D) / C  # at which the critical feature is this one
    if q <= 0:
        return np.inf
    odds = (M - K) / (K - 1) * (1 / q - 1)
    return float(np.log(odds) / (2 * C)) if odds > 1 else 0.0


class AdamLimit(NamedTuple):
    """After 0, 1, ... steps."""

    height: NDArray[np.float64]  # step, rate (if several), token
    logits: NDArray[np.float64]  # step, rate (if several), token


def adam_limit(
    token_prob: ArrayLike,
    distinct: ArrayLike,
    *,
    n_vocab: int,
    n_classes: int,
    lr: ArrayLike,
    steps: int,
    decay: tuple[float, float] = (0.9, 0.999),
    rows_alike: bool = False,
) -> AdamLimit:
    r"""One class under Adam without noise, each row of its decoder one number: a and z take Adam's
    normalised steps along $\dot a_l \propto f_l (1 - \alpha_n)$ and $\dot z_l \propto (1 -
    \alpha_n) f_l (G_l - f_l\, f \cdot G)$, with $G_l = a_l$ for distinct tokens and $q a_l$ for
    common ones.

    Ours. `token_prob` and `distinct` are those of one class over its tokens; the other classes are
    alike. `lr` moves both parts; several rates are followed at once. With `rows_alike` all rows are
    one number, $\dot a \propto 1 - \alpha_n$: so it is while attention has hardly moved since the
    gradients that Adam remembers, about the first hundred steps.

    | ours                 | letter                     |
    |----------------------|----------------------------|
    | token_prob, distinct | P(l given n), l in G_DT(n) |
    | lr, steps            | eta, s                     |
    | decay                | beta_1, beta_2             |
    | rows_alike           | a_l = a                    |
    """
    prob, own, rate = (
        np.asarray(token_prob, float),
        np.asarray(distinct, bool),
        np.asarray(lr, float)[..., None],
    )
    n, zero = len(prob), np.zeros((*rate.shape[:-1], len(prob)))
    height, logits, memory = [zero], [zero], np.zeros((2, *rate.shape[:-1], 2 * n))
    for step in range(1, steps + 1):
        a, z = height[-1], logits[-1]
        f = normalised_feature(limit_attention(prob, z))
        sums = {"own": (f * a)[..., own].sum(axis=-1), "shared": (f * a)[..., ~own].sum(axis=-1)}
        error, unused_share = (
            part[..., None]
            for part in sign_error(1.0, **sums, n_vocab=n_vocab, n_classes=n_classes)
        )
        G = np.where(own, 1.0, unused_share) * a
        push = f * (G - f * np.sum(f * G, axis=-1, keepdims=True))
        move, memory = _normalised(
            error * np.concatenate([np.ones_like(f) if rows_alike else f, push], axis=-1),
            memory,
            step,
            decay,
        )
        height.append(a + rate * move[..., :n])
        logits.append(z + rate * move[..., n:])
    return AdamLimit(np.array(height), np.array(logits))


def _normalised(
    slope: NDArray[np.float64], memory: NDArray[np.float64], step: int, decay: tuple[float, float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Adam's step at rate 1: the mean gradient over its root mean square, each over its own memory;
    0 where none was ever felt.
    """
    rates = np.reshape(decay, (2,) + (1,) * slope.ndim)
    memory = rates * memory + (1 - rates) * np.stack([slope, slope**2])
    mean, square = memory / (1 - rates**step)
    return np.divide(mean, np.sqrt(square), out=np.zeros_like(mean), where=square > 0), memory


def momentum_clock(steps: ArrayLike, *, lr: float, momentum: float) -> NDArray[np.float64]:
    r"""Flow time that s steps with momentum are worth, $t = \frac{\eta}{1-\mu}\left(s -
    \mu\frac{1-\mu^s}{1-\mu}\right)$.

    Ours. Exact for a constant gradient. The plain reading, ten times the rate at momentum .9, is
    the first term; the second is the delay until the memory has filled. Domain: gradients that
    hardly change within $1/(1-\mu)$ steps.

    | ours                | letter     |
    |---------------------|------------|
    | steps, lr, momentum | s, eta, mu |
    """
    s, mu = np.asarray(steps, float), checked_number("momentum", momentum, low=0.0)
    if mu >= 1:
        raise InputError(f"`momentum` must be below 1, or its memory never fills; got {mu:g}.")
    return lr / (1 - mu) * (s - mu * (1 - mu**s) / (1 - mu))
