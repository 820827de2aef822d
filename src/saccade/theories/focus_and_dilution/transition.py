r"""From condensation to the unigram point, with equally frequent rare tokens: everything follows
from one number z.

Token 0 has mass $\pi_1$, the others share the rest. With attention off, only $a = W_0^\top\hat\pi$
and $b = W_1\hat u$ grow; once they agree, $z = a\cdot b$ moves by itself: $\dot z = 2c_\pi z\,G(z)$
with $G(z) = \pi_1 - p(z)$, the share of token 0 that is still missing. It stops at $\theta_c$, the
unigram point. The paper's times count from $T_p$, the end of its linear stage, and leave an O(1)
open; ours count from the start.

| ours       | theirs                                                       | axes |
|------------|--------------------------------------------------------------|------|
| overlap    | z                                                            |      |
| shortfall  | delta: how much of the share of token 0 is missing, G(z)     |      |
| order      | n, the integer > 1 that cuts the linear stage at eps^{1/n}   |      |
| first, last| z at both ends of a stretch                                  |      |
"""

from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts load when they are used
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit

from ...errors import InputError, checked_count, shortened
from .condensation import condensation_rate
from .laws import two_level_chain, two_level_law, unequal

__all__ = [
    "RayParts",
    "arrival_deadline",
    "arrival_overlap",
    "arrival_slope",
    "arrival_time",
    "linear_stage_end",
    "missing_share",
    "overlap_constant",
    "overlap_target",
    "ray_duration",
    "ray_parts",
    "relaxation_rate",
]


class RayParts(NamedTuple):
    """Embedding and projection split along the condensation ray and off it; axes (time) in front
    are kept.

    | field           | theirs                   | axes         |
    |-----------------|--------------------------|--------------|
    | embedding_along | a = q^T W_0              | width        |
    | projection_along| b = W_1 u                | width        |
    | embedding_off   | R_0 = (I - q q^T) W_0    | token, width |
    | projection_off  | R_1 = W_1 (I - u u^T)    | width, token |
    """

    embedding_along: NDArray[np.float64]
    projection_along: NDArray[np.float64]
    embedding_off: NDArray[np.float64]
    projection_off: NDArray[np.float64]


def ray_parts(embedding: ArrayLike, projection: ArrayLike, *, stationary: ArrayLike) -> RayParts:
    r"""$a = W_0^\top\hat\pi$, $b = W_1\hat u$, and what is left of both matrices. [chen2026, eqs.
    63 and 80], for any law.
    """
    W0, W1, pi = np.asarray(embedding, float), np.asarray(projection, float), unequal(stationary)
    if W0.ndim < 2 or W1.ndim < 2 or W0.shape[-2:] != W1.shape[:-3:-1] or W0.shape[-2] != len(pi):
        raise InputError(
            f"The embedding must have a row and the projection a column for each of the {len(pi)} tokens, of one width; got shapes "
            f"{W0.shape} and {W1.shape}."
        )
    q, u = pi / np.linalg.norm(pi), (pi - 1 / len(pi)) / np.linalg.norm(pi - 1 / len(pi))
    a, b = np.einsum("j,...jm->...m", q, W0), W1 @ u
    return RayParts(a, b, W0 - q[:, None] * a[..., None, :], W1 - b[..., None] * u)


def overlap_constant(*, high: float, n_vocab: int) -> float:
    r"""$c_\pi = \lVert\pi\rVert(\pi_1-\pi_l)/\lVert\pi-1/d\rVert = \lVert\pi\rVert\sqrt{d/(d-1)}$:
    logit of token 0 above the others for each unit of z. [chen2026, eq. 100]; the short form is
    [derived, transition].
    """
    return float(
        np.linalg.norm(two_level_law(high=high, n_vocab=n_vocab)) * np.sqrt(n_vocab / (n_vocab - 1))
    )


def missing_share(overlap: ArrayLike, *, high: float, n_vocab: int) -> NDArray[np.float64]:
    r"""$G(z) = \pi_1 - 1/(1+(d-1)e^{-c_\pi z})$, from $\pi_1-1/d$ at the origin to 0. [chen2026,
    eqs. 101 and 105].
    """
    logits = overlap_constant(high=high, n_vocab=n_vocab) * np.asarray(overlap, float) - np.log(
        n_vocab - 1
    )
    return high - expit(logits)


def arrival_overlap(*, high: float, n_vocab: int, shortfall: float) -> float:
    r"""The z at which token 0 lacks `shortfall` of its share,
    $z_\delta = \frac1{c_\pi}\log\frac{(d-1)(\pi_1-\delta)}{1-\pi_1+\delta}$.

    [chen2026, eq. 108].
    """
    two_level_law(high=high, n_vocab=n_vocab)  # refuses what is no such law
    if not 0 <= shortfall < high - 1 / n_vocab:
        raise InputError(
            f"`shortfall` must be at least 0 and below high - 1/n_vocab = {high - 1 / n_vocab:.4g}; got {shortfall:g}."
        )
    return float(
        (logit(high - shortfall) + np.log(n_vocab - 1))
        / overlap_constant(high=high, n_vocab=n_vocab)
    )


def overlap_target(*, high: float, n_vocab: int) -> float:
    r"""Where z stops, $\theta_c = \kappa_1^2 = \frac1{c_\pi}\log\frac{(d-1)\pi_1}{1-\pi_1}$.
    [chen2026, eq. 104].
    """
    return arrival_overlap(high=high, n_vocab=n_vocab, shortfall=0.0)


def ray_duration(first: float, last: float, *, high: float, n_vocab: int) -> float:
    r"""Time from one z to another, $\frac1{2c_\pi}\int\frac{dz}{zG(z)}$. [chen2026, eq. 111] bounds
    it from both sides by $A_\pm$, whose limit this is.
    """
    target = overlap_target(high=high, n_vocab=n_vocab)
    if not (0 < first < target and 0 < last < target):
        raise InputError(
            f"`first` and `last` must be above 0 and below the unigram point's {target:.4g}; got {first:g}, {last:g}."
        )
    found, _ = scipy.integrate.quad(
        lambda x: 1 / missing_share(np.exp(x), high=high, n_vocab=n_vocab),
        *np.log([first, last]),
        limit=500,
    )
    return float(found / (2 * overlap_constant(high=high, n_vocab=n_vocab)))


def arrival_time(
    embedding_0: ArrayLike,
    projection_0: ArrayLike,
    *,
    high: float,
    n_vocab: int,
    shortfall: ArrayLike,
    query_0: ArrayLike | None = None,
    key_0: ArrayLike | None = None,
    stay: float = 0.0,
) -> NDArray[np.float64]:
    r"""When token 0 lacks only `shortfall` of its share, from the start alone. With $s = (a+b)/2$,
    $r = (a-b)/2$ at t = 0,

    $T = \int_0^{\tau_\delta}\Bigl(\frac1g + \frac{h-\eta E}{g^2}\Bigr)d\tau$, $g = c_\pi G(z)$,
    $z(\tau) = |s|^2e^{2\tau} - |r|^2e^{-2\tau}$, $z(\tau_\delta) = z_\delta$,

    where $h = \frac12\lVert\pi\rVert^2p_l\,s^\top R_1R_1^\top(se^{-2\phi}+re^{-2\tau})/|s|^2$ is
    what the projection off the ray costs ($R_1$ without its row means) until the ray has used it
    up, $\phi' = \lVert\pi\rVert^2p_lz/g$. To leading order $2c_\pi T = \log(z_\delta/|s|^2)/G(0) +
    \int_0^{z_\delta}(1/G(z)-1/G(0))dz/z$.

    Attention helps by $E = zv[2(\lambda w+g) - \lVert\pi\rVert^2zV_p]$ for each unit of its
    strength, with $v = \hat\pi^\top\mathrm{Var}(\pi)\hat\pi$, $w =
    \hat\pi^\top\mathrm{Var}(\pi)\hat u$, $V_p = \hat u^\top\mathrm{Var}(p)\hat u$. Queries and keys
    along $s$, x and y, grow by $K' = z^2v(\lambda w+g)/g$: $\eta = \frac14(|x+y|^2e^{2K} -
    |x-y|^2e^{-2K})$. Without `query_0` and `key_0` it is left out.

    [derived, transition]. Exact to $O(\epsilon^2)$, where attention is left out but for its part of
    that order. Errors grow as the shortfall $\delta$ falls: the flow slows down, and an error of
    order $\epsilon^2$ in G costs a time of order $\epsilon^2/\delta$. $(h-\eta E)/g$ must stay
    small: else (many tokens, a start of 0.01) attention takes over before the unigram point is
    reached, and where its help of first order would turn the clock back the time is NaN. Nor may
    the law be nearly uniform: $\epsilon^2$ must be small beside $\pi_1-1/d$. Shaped as `shortfall`.

    >>> rng = np.random.default_rng(0)
    >>> W0, W1 = 1e-3 * rng.normal(size=(4, 6)), 1e-3 * rng.normal(size=(6, 4))
    >>> round(float(arrival_time(W0, W1, high=0.6, n_vocab=4, shortfall=0.035)), 3)
    29.667
    """
    if np.size(shortfall) == 0 or not np.min(shortfall) > 0:
        raise InputError(
            "`shortfall` must be above 0: the unigram point itself is only reached in the limit."
        )
    law: dict[str, Any] = {"high": high, "n_vocab": n_vocab}
    pi = two_level_chain(stay=stay, **law)
    a, b, _, R_1 = ray_parts(embedding_0, projection_0, stationary=pi)
    s, r, R_1 = (a + b) / 2, (a - b) / 2, R_1 - R_1.mean(axis=1, keepdims=True)
    if not 0 < s @ s < np.inf:
        raise InputError(
            "`embedding_0` and `projection_0` must be numbers, and have a part a + b that grows along the ray."
        )
    c_pi, size = overlap_constant(**law), pi @ pi
    z_end = np.atleast_1d(
        [arrival_overlap(shortfall=delta, **law) for delta in np.ravel(shortfall)]
    )
    along, across = s @ R_1 @ R_1.T @ np.stack([s, r], axis=1) / (s @ s)
    alike, opposite = _attention_sizes(s, query_0, key_0)
    q, u = pi / np.sqrt(size), (pi - 1 / n_vocab) / np.linalg.norm(pi - 1 / n_vocab)
    v, w = (q * pi) @ q - (pi @ q) ** 2, (q * pi) @ u - (pi @ q) * (pi @ u)

    def clock(tau: float, state: NDArray[np.float64]) -> list[float]:
        _, phi, grown = state
        z = (s @ s) * np.exp(2 * tau) - (r @ r) * np.exp(-2 * tau)
        G = missing_share(z, **law)
        g, p_high = c_pi * G, high - G
        p_low, V_p = (1 - p_high) / (n_vocab - 1), n_vocab / (n_vocab - 1) * p_high * (1 - p_high)
        h = size * p_low * (along * np.exp(-2 * phi) + across * np.exp(-2 * tau)) / 2
        eta = alike * np.exp(2 * grown) - opposite * np.exp(-2 * grown)
        help_ = eta * z * v * (2 * (stay * w + g) - size * z * V_p)
        return [
            1 / g + (h - help_) / g**2,
            size * p_low * max(z, 0.0) / g,
            z**2 * v * (stay * w + g) / g,
        ]

    end = np.log((z_end + np.sqrt(z_end**2 + 4 * (s @ s) * (r @ r))) / (2 * (s @ s))) / 2
    if not end.min() > 0:
        raise InputError(
            "`embedding_0` and `projection_0` are too large: they start beyond the point whose time is wanted."
        )

    def onwards(tau: float, state: NDArray[np.float64]) -> float:
        return clock(tau, state)[0]

    onwards.terminal = True  # type: ignore[attr-defined]
    order, times = np.argsort(end), np.full(end.shape, np.nan)
    asked = np.append(0.0, end[order])  # with a time that is always reached
    found = scipy.integrate.solve_ivp(
        clock,
        (0.0, end.max()),
        [0.0] * 3,
        t_eval=asked,
        events=onwards,
        method="DOP853",
        rtol=1e-10,
        atol=1e-12,
    ).y[0, 1:]
    times[order[: len(found)]] = found
    return times.reshape(np.shape(shortfall))


def _attention_sizes(
    along: NDArray[np.float64], query: ArrayLike | None, key: ArrayLike | None
) -> tuple[float, float]:
    """A quarter of |x + y|^2 and of |x - y|^2, x and y the queries and keys along a direction of
    the width; 0 without them.
    """
    if query is None and key is None:
        return 0.0, 0.0
    if query is None or key is None:
        raise InputError("`query_0` and `key_0` must be given together.")
    WQ, WK = np.asarray(query, float), np.asarray(key, float)
    if WQ.shape != WK.shape or WQ.ndim != 2 or len(WQ) != len(along):
        raise InputError(
            f"`query_0` and `key_0` must have {len(along)} rows and one shape; got {WQ.shape} and {WK.shape}."
        )
    x, y = along @ WQ / np.linalg.norm(along), along @ WK / np.linalg.norm(along)
    return float(np.sum((x + y) ** 2) / 4), float(np.sum((x - y) ** 2) / 4)


def relaxation_rate(*, high: float, n_vocab: int) -> float:
    r"""How fast the unigram point is reached in the end, $\rho = 2\kappa_1^2\lVert\pi\rVert^2\frac
    d{d-1}\pi_1(1-\pi_1)$.

    [chen2026, eqs. 113 and 120] has it as $2c_\pi\theta_cc_\pi\pi_1(1-\pi_1)$.
    """
    c_pi = overlap_constant(high=high, n_vocab=n_vocab)
    return float(2 * overlap_target(high=high, n_vocab=n_vocab) * c_pi**2 * high * (1 - high))


def linear_stage_end(
    init_scale: ArrayLike, *, high: float, n_vocab: int, order: int
) -> NDArray[np.float64]:
    r"""$T_p = \frac{1-1/n}{\mu_0}\log\frac1\epsilon$, until which the linear flow serves: weights
    have grown to about $\epsilon^{1/n}$. [chen2026, eq. 75].
    """
    mu_0, scale = (
        condensation_rate(stationary=two_level_law(high=high, n_vocab=n_vocab)),
        np.asarray(init_scale, float),
    )
    if not (scale.min() > 0 and scale.max() < 1):
        raise InputError(f"`init_scale` must be above 0 and below 1; got {shortened(init_scale)}.")
    return (1 - 1 / checked_count("order", order, low=2)) * np.log(1 / scale) / mu_0


def arrival_deadline(
    init_scale: ArrayLike, *, high: float, n_vocab: int, order: int
) -> NDArray[np.float64]:
    r"""$T_d = T_p + \frac2{n\mu_0}\log\frac1\epsilon$, since
    $\lVert\pi\rVert\sqrt{d/(d-1)}(\pi_1-1/d) = \mu_0$.

    [chen2026, eq. 90].
    """
    law: dict[str, Any] = {"high": high, "n_vocab": n_vocab}
    mu_0 = condensation_rate(stationary=two_level_law(**law))
    return linear_stage_end(init_scale, order=order, **law) + 2 * np.log(
        1 / np.asarray(init_scale, float)
    ) / (order * mu_0)


def arrival_slope(*, high: float, n_vocab: int, order: int) -> tuple[float, float]:
    r"""Leading terms of $T_2-T_p$: $\frac1{n\mu_0}$ for each e-fold of a smaller start,
    $\frac1\rho$ for each e-fold of a smaller shortfall. [chen2026, eqs. 113 and 114].
    """
    law: dict[str, Any] = {"high": high, "n_vocab": n_vocab}
    per_fold = checked_count("order", order, low=2) * condensation_rate(
        stationary=two_level_law(**law)
    )
    return 1 / per_fold, 1 / relaxation_rate(**law)
