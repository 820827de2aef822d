"""Scan, then snap: how far attention can move by time t, from ln t to ln ln t (Theorem 4).

One common token ties K classes together; as its attention falls so does the drive, and the growth
bound B_n becomes the logarithm of the distance the speed has covered. Before t_0' that distance
grows as t^2, after t_0 as ln^2 t: a smooth crossover. Two versions: as printed, and normalised to
B_n(0) = 0. Not here: the onset times (clock.py), and what the bound becomes when the common token
falls as fast as Theorem 2 says it does (self_consistent.py).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .clock import speed, speed_integral

__all__ = [
    "early_growth_bound",
    "growth_bound",
    "growth_exponent",
    "late_growth_bound",
    "late_growth_time",
    "overlap_constant",
    "very_late_growth_bound",
]


def overlap_constant(normaliser: float, *, n_classes: int) -> float:
    r"""The constant of Theorem 4, $C_0 = \rho_0^4/K$.

    [tian2023, Theorem 4]. $f_n\cdot f_{n'} = e^{2z_{ml}}/\rho_0^2$ with $P(l|n)$ absorbed, so on
    given data $\rho_0 = 1/f_{nl}(0)$, l the common token.

    | ours       | theirs |
    |------------|--------|
    | normaliser | rho_0  |
    """
    return normaliser**4 / n_classes


def _bound(
    distance: ArrayLike, *, overlap_constant: float, as_printed: bool
) -> NDArray[np.float64]:
    """A quarter of ln(C_0 + 4 Gamma), or of ln(1 + 4 Gamma / C_0)."""
    if as_printed:
        return 0.25 * np.log(overlap_constant + 4 * np.asarray(distance))
    return 0.25 * np.log1p(4 * np.asarray(distance) / overlap_constant)


def growth_bound(
    t: ArrayLike,
    *,
    n_vocab: int,
    n_classes: int,
    lr_decoder: float,
    lr_attention: float,
    overlap_constant: float,
    as_printed: bool = False,
) -> NDArray[np.float64]:
    r"""Bound on the log growth of a distinct token, $B_n = \eta_Z\int_0^t\xi_n =
    \tfrac14\ln(1+4\Gamma/C_0)$, $\Gamma = \frac{\eta_Z}{\eta_Y}\frac{K(M-1)^2h^2(t/K)}{2}$.

    [tian2023, Theorem 4, eqs. 14, 124, 129] prints $\tfrac14\ln(C_0+4\Gamma)$ (`as_printed`), which
    is $\tfrac14\ln C_0$ too large and not 0 at t = 0. Exact for the premise $\dot z = -\eta_Z\gamma
    e^{4z}/C_0$, $\xi_n = \gamma e^{4z}/C_0$, z(0) = 0.

    | ours             | theirs            |
    |------------------|-------------------|
    | t                | t (batch-1 steps) |
    | overlap_constant | C_0               |
    """
    distance = lr_attention * speed_integral(
        t, n_vocab=n_vocab, n_classes=n_classes, lr_decoder=lr_decoder
    )
    return _bound(distance, overlap_constant=overlap_constant, as_printed=as_printed)


def growth_exponent(
    t: ArrayLike,
    *,
    n_vocab: int,
    n_classes: int,
    lr_decoder: float,
    lr_attention: float,
    overlap_constant: float,
) -> NDArray[np.float64]:
    r"""Local exponent of growth, $dB_n/d\ln t = t\,\eta_Z\gamma/(C_0+4\Gamma)$: climbs towards 1/2,
    then falls as $1/(2\ln(M\eta_Yt/K))$.

    From [tian2023, Theorem 4]; the same for the printed and the normalised bound. Scanning is where
    it is flat, snapping where it dies.

    | ours             | theirs            |
    |------------------|-------------------|
    | t                | t (batch-1 steps) |
    | overlap_constant | C_0               |
    """
    t = np.asarray(t, float)
    gamma = speed(t, n_vocab=n_vocab, n_classes=n_classes, lr_decoder=lr_decoder)
    distance = lr_attention * speed_integral(
        t, n_vocab=n_vocab, n_classes=n_classes, lr_decoder=lr_decoder
    )
    return t * lr_attention * gamma / (overlap_constant + 4 * distance)


def early_growth_bound(
    t: ArrayLike,
    *,
    n_vocab: int,
    n_classes: int,
    lr_decoder: float,
    lr_attention: float,
    overlap_constant: float,
    as_printed: bool = False,
) -> NDArray[np.float64]:
    r"""Growth bound while scanning, $\tfrac14\ln(1+\frac{2(M-1)^2}{KM^2}\eta_Y\eta_Zt^2/C_0) =
    O(\ln t)$, for $t < t_0'$.

    [tian2023, Theorem 4], with $C_0$ for the 1 if `as_printed` (see `growth_bound`). Too large from
    $t_0'$ on.

    | ours             | theirs            |
    |------------------|-------------------|
    | t                | t (batch-1 steps) |
    | overlap_constant | C_0               |
    """
    M, K, eta_Y, eta_Z = n_vocab, n_classes, lr_decoder, lr_attention
    distance = (M - 1) ** 2 / (2 * K * M**2) * eta_Y * eta_Z * np.asarray(t, float) ** 2
    return _bound(distance, overlap_constant=overlap_constant, as_printed=as_printed)


def late_growth_bound(
    t: ArrayLike,
    *,
    n_vocab: int,
    n_classes: int,
    lr_decoder: float,
    lr_attention: float,
    overlap_constant: float,
    as_printed: bool = False,
) -> NDArray[np.float64]:
    r"""Growth bound while snapping,
    $\tfrac14\ln(1+\frac{2K(M-1)^2}{M^2}\frac{\eta_Z}{\eta_Y}\ln^2(M\eta_Yt/K)/C_0) = O(\ln\ln t)$,
    for $t \ge t_0$.

    [tian2023, Theorem 4], with $C_0$ for the 1 if `as_printed` (see `growth_bound`). The M in the
    logarithm is Lemma 9's.

    | ours             | theirs            |
    |------------------|-------------------|
    | t                | t (batch-1 steps) |
    | overlap_constant | C_0               |
    """
    M, K, eta_Y, eta_Z = n_vocab, n_classes, lr_decoder, lr_attention
    log_height = np.log(M * eta_Y * np.asarray(t, float) / K)
    distance = K * (M - 1) ** 2 / (2 * M**2) * eta_Z / eta_Y * log_height**2
    return _bound(distance, overlap_constant=overlap_constant, as_printed=as_printed)


def very_late_growth_bound(
    t: ArrayLike,
    *,
    n_vocab: int,
    n_classes: int,
    lr_decoder: float,
    lr_attention: float,
    overlap_constant: float,
) -> NDArray[np.float64]:
    r"""Growth bound for $t \to \infty$, $\tfrac12\ln\ln(M\eta_Yt/K) +
    \tfrac14\ln(2K(M-1)^2M^{-2}\nu^{-1}/C_0)$, $\nu = \eta_Y/\eta_Z$.

    [tian2023, App. F] without the $C_0$, which is `overlap_constant=1` here. Valid well after
    `late_growth_time`.

    | ours             | theirs            |
    |------------------|-------------------|
    | t                | t (batch-1 steps) |
    | overlap_constant | C_0               |
    """
    M, K, nu = n_vocab, n_classes, lr_decoder / lr_attention
    constant = 2 * K * (M - 1) ** 2 / (M**2 * nu * overlap_constant)
    return 0.5 * np.log(np.log(M * lr_decoder * np.asarray(t, float) / K)) + 0.25 * np.log(constant)


def late_growth_time(
    *,
    n_vocab: int,
    n_classes: int,
    lr_decoder: float,
    lr_attention: float,
    overlap_constant: float,
    as_printed: bool = False,
) -> float:
    r"""Time the very late form needs to be well past, $\frac{K}{M\eta_Y}\exp\sqrt{C_0\nu/(2K)}$,
    $\nu = \eta_Y/\eta_Z$.

    There the logarithm's term in `late_growth_bound` equals $C_0$ (for $M \gg 1$). [tian2023, App.
    F] prints, for C_0 = K = 1, $(M\eta_Y)^{-1}\exp(1/\sqrt{2\nu})$ (`as_printed`): right for the
    $\nu = \eta_Z/\eta_Y$ of Fig. 9's caption. With App. F's own $\nu$ it agrees at $\nu = 1$ only,
    and is 7.5 times too early at 10 and too late at 1/10.

    | ours             | theirs |
    |------------------|--------|
    | overlap_constant | C_0    |
    """
    M, K, nu = n_vocab, n_classes, lr_decoder / lr_attention
    exponent = 1 / np.sqrt(2 * nu) if as_printed else np.sqrt(overlap_constant * nu / (2 * K))
    return float(K / (M * lr_decoder) * np.exp(exponent))
