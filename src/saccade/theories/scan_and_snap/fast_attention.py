r"""How attention grows under plain descent if it is so fast that it is always where it is pushed
nowhere.

K classes alike that share one token. A class's feature is then one angle: $f_c = \sin\theta$ on the
common token, and $\cos\theta$ along its distinct tokens, which rise together. With the strength A
of a class's own row as clock, the decoder is what it was taught, $\int\cos\theta\,e\,dA$ along
distinct tokens and $\int\sin\theta\,e\,dA$ on the common one, where $e = (1, -q, -r)$ are the
shares of the error on the own next token, on each of K - 1 others and on each of M - K unused ones.
Attention rests where $g = Y(e_n - \alpha_n)$ is parallel to f: $\tan\theta = g_c/g_d$. That is all,
from the end of the scan to beyond the snap; the closed forms are its limits, early and late. Ours.
Not here: slow attention and classes not alike (plain_growth.py).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy  # its parts load when they are used
from numpy.typing import ArrayLike, NDArray

from ...errors import InputError, checked_count, checked_number

__all__ = [
    "FastGrowth",
    "SlowestGrowth",
    "fast_plain_growth",
    "fast_plain_growth_rate",
    "late_plain_growth_rate",
    "slowest_plain_growth",
]


class FastGrowth(NamedTuple):
    """By time: the gap z_l - z_c of distinct tokens and the common one, and its growth per unit of
    ln t.
    """

    gap: NDArray[np.float64]
    rate: NDArray[np.float64]


class SlowestGrowth(NamedTuple):
    """The least growth per unit of ln t, and the height L = ln(M eta_Y t/K) at which it is met."""

    rate: float
    log_height: float


def fast_plain_growth(
    t: ArrayLike,
    *,
    overlap: float,
    n_vocab: int,
    n_classes: int,
    lr_decoder: float,
    lr_attention: float,
) -> FastGrowth:
    r"""Gap and growth of fast attention: $\tan\theta = \frac{(F-(K-1)G)(1-(K-1)q) +
    (M-K)KrR}{S+(K-1)qH+(M-K)rQ}$ with $(F, G, R) = \int\sin\theta\,(1, q, r)\,dA$, $(S, H, Q) =
    \int\cos\theta\,(1, q, r)\,dA$; $z_l - z_c = \ln(\tan\theta_0/\tan\theta)$.

    Ours. The logits of class n are $S\cos\theta + (F-(K-1)G)\sin\theta$ for its own token,
    $-H\cos\theta + (F-(K-1)G)\sin\theta$ for another class's, $-Q\cos\theta - KR\sin\theta$ for an
    unused one; q and r are their shares of the error, and $\dot A = \frac{\eta_Y}{K}(1-p_n)$.
    `fast_plain_growth_rate` is its limit for $q \ll 1/K$ and $\theta$ at rest: a fall of the common
    token lowers the overlap in $e^{\rho L}$, by a factor $e^{-2\rho L(z_l-z_c)}$ at first order,
    and so slows it. The attention rate matters only for where to start: by `linear_plain_logits`
    the gap is at first $\Delta(\ln s + .635)$, $s = L\sqrt{K\rho(1-\rho)\eta_Z/\eta_Y}$, and
    attention that is at rest from $L_0$ on has $\Delta(1 + \ln(L/L_0))$, so that $L_0 =
    e^{.365}L/s$. Domain: $L$ well above $L_0$, one common token, $2 \le K < M$.

    | ours    | theirs                  |
    |---------|-------------------------|
    | t       | t (batch-1 steps)       |
    | overlap | rho = E_nn' at t = 0    |
    """
    M, K = n_vocab, checked_count("n_classes", n_classes, low=2)
    rho, times = (
        checked_number("overlap", overlap, low=0.0, high=1.0, open_low=True),
        np.atleast_1d(np.asarray(t, float)),
    )
    if K >= M or rho == 1:
        raise InputError(
            f"There must be more tokens than classes, and an overlap below 1; got {M}, {K} and {rho:g}."
        )
    angle_0, unused = math.asin(math.sqrt(rho)), M - K
    A_0 = math.exp(0.365) / math.sqrt(K * rho * (1 - rho) * lr_attention / lr_decoder)
    start = math.log(K / lr_decoder * (A_0 + math.expm1(A_0) / M))  # Lemma 9
    if not (times.min() > math.exp(start) and times.max() < np.inf):
        raise InputError(
            f"`t` must be finite, and later than {math.exp(start):.3g}, from which on attention at this rate is fast."
        )
    log_t = np.log(times)

    def shares(angle: float, taught: Sequence[float]) -> tuple[float, float, float]:
        """q and r, and by how much the own logit is above that of an unused token."""
        (F, S, G, H, R, Q), sin, cos = taught, math.sin(angle), math.cos(angle)
        other = cos * (Q - H) + sin * (F - (K - 1) * G + K * R)
        r = 1 / (unused + (K - 1) * math.exp(other))
        return r * math.exp(other), r, cos * (S + Q) + sin * (F - (K - 1) * G + K * R)

    def resting(taught: Sequence[float]) -> float:
        F, S, G, H, R, Q = taught

        def pushed(angle: float) -> float:
            q, r, _ = shares(angle, taught)
            common = (F - (K - 1) * G) * (1 - (K - 1) * q) + unused * K * r * R
            return (
                math.sin(angle) * (S + (K - 1) * q * H + unused * r * Q) - math.cos(angle) * common
            )

        return float(scipy.optimize.brentq(pushed, 0.0, math.pi / 2, xtol=1e-14))

    def velocity(_A: float, state: NDArray[np.float64]) -> list[float]:
        *taught, now = state.tolist()
        angle = resting(taught)
        (q, r, margin), sin, cos = shares(angle, taught), math.sin(angle), math.cos(angle)
        t_dot = K / lr_decoder * (math.exp(-now) + r * math.exp(margin - now))  # of ln t
        return [sin, cos, sin * q, cos * q, sin * r, cos * r, t_dot]

    own, flat = A_0 * np.array([math.sin(angle_0), math.cos(angle_0)]), 1 / (M - 1)
    ended = lambda _A, state: state[-1] - log_t.max() - 1e-6  # noqa: E731
    ended.terminal = True  # type: ignore[attr-defined]
    path = scipy.integrate.solve_ivp(
        velocity,
        (A_0, np.inf),
        [*own, *(own * flat), *(own * flat), start],
        "LSODA",
        events=ended,
        rtol=1e-8,
        atol=1e-10,
    )
    gap = [
        math.log(math.tan(angle_0) / math.tan(resting(state[:-1]))) for state in path.y.T.tolist()
    ]
    curve = scipy.interpolate.CubicSpline(path.y[-1], gap)
    return FastGrowth(curve(log_t), curve(log_t, 1))


def fast_plain_growth_rate(
    log_height: ArrayLike, *, overlap: float, n_vocab: int, n_classes: int
) -> NDArray[np.float64]:
    r"""Growth per unit of $\ln t$ if attention is fast, $\frac{d(z_l-z_c)}{d\ln t} = \Delta' +
    \Delta/L$, $\Delta = (K-1)\beta$.

    Ours. Fast attention stays where it is pushed nowhere: distinct and common tokens feel the same
    $g/f$. With $g_l/f_l = \gamma\iota\langle f_l\rangle/f_l$ and $g_c/f_c = \gamma\iota(\langle
    f_c\rangle/f_c - \Delta)$ the gap $x = z_l - z_c$ must satisfy $x - \langle x\rangle = \Delta$,
    the mean taken over L; its derivative is the rate. The attention rate has dropped out, and so
    has the token's frequency: all distinct tokens rise alike. With `early_plain_coupling`,
    $\Delta'+\Delta/L = \frac{K-1}{M}[\frac1L + 3\rho + 2\rho^2L + \ldots]$: a $\ln\ln t$ that soon
    gives way to $\ln t$ and then to $t^\rho$. It keeps $\rho$ at its start, while
    `fast_plain_growth` lets it fall, and the coupling of first order: the error is 1.5 to 2 times
    $2\rho Lx + \frac LM(\frac{e^{\rho L}-1}{\rho L}-1)$. Domain: $\frac{\eta_Z}{\eta_Y}K\rho L^2
    \gg 1$, and that sum small (20 % off at .11).

    | ours       | theirs            |
    |------------|-------------------|
    | log_height | L, M h of Lemma 9 |
    | overlap    | rho = E_nn'       |
    """
    K, rho, L = n_classes, overlap, np.asarray(log_height, float)
    x = rho * L
    # beta M = e^x + (e^x - 1)/x - 1; x d/dx of it is x e^x + e^x - (e^x - 1)/x
    return (K - 1) / n_vocab / L * (x * np.exp(x) + 2 * np.exp(x) - 1)


def slowest_plain_growth(*, overlap: float, n_vocab: int, n_classes: int) -> SlowestGrowth:
    r"""Least growth before plain descent can snap, $6.22\,(K-1)\rho/M$ per unit of $\ln t$ in
    closed form, at $\rho L = 0.558$.

    Ours: the minimum of `fast_plain_growth_rate`, $\frac{K-1}{M}\frac1L(xe^x+2e^x-1)$ with $x =
    \rho L$, where $(x^2+2x-2)e^x+1 = 0$. It is what $\ln\ln t$ gives way to.

    | ours    | theirs      |
    |---------|-------------|
    | overlap | rho = E_nn' |
    """
    rho = checked_number("overlap", overlap, low=0.0, high=1.0, open_low=True)
    L = scipy.optimize.brentq(lambda x: (x**2 + 2 * x - 2) * np.exp(x) + 1, 0.1, 1.0) / rho
    return SlowestGrowth(
        float(fast_plain_growth_rate(L, overlap=overlap, n_vocab=n_vocab, n_classes=n_classes)), L
    )


def late_plain_growth_rate(overlap: ArrayLike, *, n_classes: int) -> NDArray[np.float64]:
    r"""Growth per unit of $\ln L$ after plain descent has snapped,
    $\frac{d(z_l-z_c)}{d\ln L} = \frac{\Delta}{1+2\rho(1-\rho)\Delta'}$,
    $\Delta = \ln\frac{1+s^2/(K-1)}{(1-s)^2} \approx 2(K-1)\rho$.

    Ours. Beyond `plain_snap_height` a constant share $s = \frac{(K-1)\rho}{1+(K-2)\rho}$ of the
    error lies on other classes: all wrong answers keep the same margin. Then $g_l/f_l \propto
    1+s^2/(K-1)$ and $g_c/f_c \propto (1-s)^2$, and as in `fast_plain_growth_rate` $Lx' = (L\Delta)'
    = \Delta + L\Delta'\rho'$, where the overlap falls with the common token, $\rho' =
    -2\rho(1-\rho)x'$. At constant $\rho$ this is $\ln\ln t$; as $\rho$ falls it is slower still.
    Domain: fast attention, one common token in all classes.

    | ours    | theirs                   |
    |---------|--------------------------|
    | overlap | rho = E_nn' at that time |
    """
    rho, others = np.asarray(overlap, float), n_classes - 1
    s = others * rho / (1 + (others - 1) * rho)
    ahead = np.log1p(s**2 / others) - 2 * np.log1p(-s)
    steepness = (2 * s / (others + s**2) + 2 / (1 - s)) * others / (1 + (others - 1) * rho) ** 2
    return ahead / (1 + 2 * rho * (1 - rho) * steepness)
