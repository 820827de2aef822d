"""The clock of attention: its speed gamma, set by the decoder, with integral, peak and onset times.

Attention moves only while the decoder is both wrong and informed, so its speed is height times
error: it rises while the decoder learns, peaks, and dies as the error does. Time here is batch-1
*training steps*, each class drawn every K of them. Not here: what attention does with that speed
(attention.py, snapping.py).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import lambertw

from .decoder import class_error, decoder_height, draws_to_height, regime_exponents

__all__ = [
    "SpeedPeak",
    "early_speed",
    "late_speed",
    "scan_time",
    "snap_time",
    "speed",
    "speed_at_height",
    "speed_integral",
    "speed_peak",
]


class SpeedPeak(NamedTuple):
    """When attention moves fastest (steps) and how fast."""

    time: float
    value: float


def speed_at_height(height: ArrayLike, *, n_vocab: int) -> NDArray[np.float64]:
    r"""Speed of attention when the decoder's height is h, $\gamma = (M-1)^2 h/(M-1+e^{Mh})$.

    [tian2023, eq. 85]. Give it $h^*$ and it is exact for the discrete decoder.

    | ours    | theirs  |
    |---------|---------|
    | height  | h or h* |
    """
    return (n_vocab - 1) * np.asarray(height, float) * class_error(height, n_vocab=n_vocab)


def speed(t: ArrayLike, *, n_vocab: int, n_classes: int, lr_decoder: float) -> NDArray[np.float64]:
    r"""Speed control of attention, $\gamma(t) = (M-1)^2 h(t/K)/(M-1+e^{M h(t/K)})$.

    [tian2023, eq. 85], which has $\lceil t/K \rceil$ for t/K; we drop the ceiling, as the paper
    does when it integrates. Domain: t >= 0, M >= 2, uniform classes.

    | ours       | theirs            |
    |------------|-------------------|
    | t          | t (batch-1 steps) |
    """
    height = decoder_height(
        np.asarray(t, float) / n_classes, n_vocab=n_vocab, lr_decoder=lr_decoder
    )
    return speed_at_height(height, n_vocab=n_vocab)


def speed_integral(
    t: ArrayLike, *, n_vocab: int, n_classes: int, lr_decoder: float
) -> NDArray[np.float64]:
    r"""Distance covered at that speed, $\int_0^t \gamma = K (M-1)^2 h(t/K)^2/(2\eta_Y)$: exact,
    since $\gamma \propto h \dot h$.

    [tian2023, Theorem 4, proof]; the paper's $\Gamma$ is $\eta_Z$ times this.

    | ours       | theirs            |
    |------------|-------------------|
    | t          | t (batch-1 steps) |
    """
    M, K, eta_Y = n_vocab, n_classes, lr_decoder
    h = decoder_height(np.asarray(t, float) / K, n_vocab=M, lr_decoder=eta_Y)
    return K * ((M - 1) * h) ** 2 / (2 * eta_Y)


def speed_peak(*, n_vocab: int, n_classes: int, lr_decoder: float) -> SpeedPeak:
    r"""The peak of the speed, $\gamma_{max} = \frac{M-1}{M}(x^*-1)$ at $x^* = Mh = 1 +
    W_0((M-1)/e)$.

    Ours, from $d\gamma/dh = 0$: the paper only bounds $\gamma$ on either side. The peak comes
    *before* t_0', at 0.82 to 0.86 t_0' for M = 10^2 to 10^6.
    """
    M, K = n_vocab, n_classes
    x = 1 + float(lambertw((M - 1) / np.e).real)
    draws = float(draws_to_height(x / M, n_vocab=M, lr_decoder=lr_decoder))
    return SpeedPeak(time=K * draws, value=(M - 1) / M * (x - 1))


def scan_time(*, n_vocab: int, n_classes: int, lr_decoder: float) -> float:
    r"""End of scanning, $t_0' = K \ln M/\eta_Y$: until here the early forms hold.

    [tian2023, Lemma 9].
    """
    return n_classes * float(np.log(n_vocab)) / lr_decoder


def snap_time(*, n_vocab: int, n_classes: int, lr_decoder: float) -> float:
    r"""Onset of snapping, $t_0 = 2(1+\omega_1) K \ln M/\eta_Y$: from here the late forms hold.

    [tian2023, Lemma 9, Theorem 4], where the $o(1)$ is $\omega_1$ of Lemma 8. Domain: M >= 4.
    """
    scan = scan_time(n_vocab=n_vocab, n_classes=n_classes, lr_decoder=lr_decoder)
    return 2 * (1 + regime_exponents(n_vocab=n_vocab).omega_1) * scan


def early_speed(t: ArrayLike, *, n_classes: int, lr_decoder: float) -> NDArray[np.float64]:
    r"""Speed while scanning, $\gamma \approx \eta_Y t/K$, for $t \le t_0'$ (4 % high at $t_0'/2$,
    1.7 times at $t_0'$, M = 1000).

    [tian2023, Lemma 9, Theorem 1(b)].

    | ours       | theirs            |
    |------------|-------------------|
    | t          | t (batch-1 steps) |
    """
    return lr_decoder * np.asarray(t, float) / n_classes


def late_speed(
    t: ArrayLike, *, n_vocab: int, n_classes: int, lr_decoder: float, as_printed: bool = False
) -> NDArray[np.float64]:
    r"""Speed while snapping, $\gamma \approx K \ln(M\eta_Y t/K)/(\eta_Y t)$, for $t \ge t_0$.

    [tian2023, Lemma 9, eq. 57]. With `as_printed`, Theorem 1(b), which drops the M and has
    $\ln(\eta_Y t/K)$: the speed is then 5.6 times the formula at t_0 and still 1.9 times at 100 t_0
    (M = 1000), against 1.67 and 1.005 with the M.

    | ours       | theirs            |
    |------------|-------------------|
    | t          | t (batch-1 steps) |
    """
    drawn = lr_decoder * np.asarray(t, float) / n_classes
    return np.log(drawn if as_printed else n_vocab * drawn) / drawn
