r"""Saturated attention: token 0 sees only itself, the rare tokens see only each other.

The limit of strong rank-one attention when $\gamma_1$ and $\gamma_l$ have opposite signs. The
strength $\kappa$ stays finite inside the block of rare tokens. Below a least stay the signs agree
and there is no such point. Rare tokens with one common $\gamma_l$ act as a group of mass $1-\pi_1$,
so a fit of two rows of logits, $\gamma_1\beta$ and $\gamma_l\beta$, is a critical point of the
whole rank-one flow, whatever the masses. Equal masses give the point of [chen2026, Proposition
3.8].

| ours          | theirs                                                    | axes  |
|---------------|-----------------------------------------------------------|-------|
| state         | gamma, beta (token), l_q, l_k                             |       |
| contrast      | g_low minus their mean                                    | token |
| asymmetry     | delta c: masses of rare tokens minus their mean            | token |
"""

import math

import numpy as np
import scipy  # its parts load when they are used
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax, softmax

from ...errors import InputError, checked_number
from .laws import chances, shares, two_level_law
from .rank_one import RankOneState
from .symmetric import asymmetry_size, averages_hessian, log_odds, two_level_targets

__all__ = [
    "has_two_groups",
    "least_saturated_stay",
    "opening_force",
    "saturated_attention",
    "saturated_descent",
    "saturated_opening_rate",
    "saturated_point",
    "two_group_decoder_gradient",
    "two_group_point",
    "two_group_rate",
]

_SEARCH = {"gtol": 1e-6, "maxiter": 1000}
_ANGLES = 48  # of the grid from which a best fit of two rows is searched


def least_saturated_stay(high: float, n_vocab: int) -> float:
    r"""The stay above which $\gamma_1\gamma_l < 0$: $(1-\lambda)\pi_1 < 1/d$, so $\lambda > 1 -
    1/(d\pi_1)$.

    [derived, saturated attention]: $\gamma_l\beta$ puts less than 1/d on token 0 if and only if
    $\gamma_l < 0 < \gamma_1$.
    """
    two_level_law(high=high, n_vocab=n_vocab)  # refuses what is no such law
    return 1 - 1 / (n_vocab * high)


def _check_domain(high: float, n_vocab: int, stay: float) -> None:
    least = least_saturated_stay(high, n_vocab)
    if not least < stay < 1:
        raise InputError(
            f"`stay` must be above 1 - 1/(d pi_1) = {least:.4g}, or attention cannot saturate, and below 1; got {stay:g}."
        )


def saturated_attention(state: RankOneState, *, stationary: ArrayLike) -> NDArray[np.float64]:
    r"""$A_1 = e_1$; $A_{ij} \propto \pi_je^{\kappa\gamma_i\gamma_j}$ over rare tokens j for a rare
    token i.

    [chen2026, Appendix D.1]. Axes: query, token.
    """
    pi, kappa = np.asarray(stationary, float), state.query_scale * state.key_scale
    attention = np.eye(len(pi))
    attention[1:, 1:] = softmax(
        kappa * np.outer(state.gamma[1:], state.gamma[1:]) + np.log(pi[1:]), axis=1
    )
    return attention


def saturated_point(
    *, high: float, n_vocab: int, stay: float, strength: float = 1.0, span: float | None = None
) -> RankOneState:
    r"""Equal rare tokens: $\gamma = (x_1, x_l, \dots)/\Delta\beta$, $\beta = \Delta\beta(e_1 -
    1/d)$ with log odds $x_1$, $x_l$.

    $\Delta\beta$, the `span`, is free; without it $\lVert\gamma\rVert = \lVert\beta\rVert$.
    [chen2026, Proposition 3.8], there for d = 3.
    """
    _check_domain(high, n_vocab, stay)
    x_1, x_l = log_odds(two_level_targets(high=high, n_vocab=n_vocab, stay=stay))
    x, e_1 = np.append(x_1, np.full(n_vocab - 1, x_l)), np.eye(n_vocab)[0]
    step = (n_vocab / (n_vocab - 1) * x @ x) ** 0.25 if span is None else span
    return RankOneState(x / step, step * (e_1 - 1 / n_vocab), *_scales(strength))


def two_group_point(
    *, stationary: ArrayLike, transition: ArrayLike, strength: float = 1.0
) -> RankOneState:
    r"""An exact critical point for any law: $\gamma_l$ equal, $w = (0, \pi_l)/(1-\pi_1)$, and
    $\gamma_1, \gamma_l, \beta$ minimise

    $\pi_1 H(P_1, \mathrm{softmax}(\gamma_1\beta)) + (1-\pi_1) H(w\cdot P,
    \mathrm{softmax}(\gamma_l\beta))$ (cross-entropies).

    $\lVert\gamma\rVert = \lVert\beta\rVert$. Either sign of $\gamma_1\gamma_l$ may have a local
    minimum; this is the lower one. Attention saturates there only if $\gamma_1\gamma_l < 0$
    (`has_two_groups`). [derived, saturated attention]: it is critical for the whole model, with
    $\partial L/\partial\Phi = 0$.

    >>> pi = np.array([0.6, 0.25, 0.15])
    >>> chain = {"stationary": pi, "transition": 0.6 * np.eye(3) + 0.4 * pi}
    >>> point = two_group_point(**chain)
    >>> bool(point.gamma[0] * point.gamma[1] < 0), round(two_group_rate(point, **chain), 4)
    (True, 0.0433)
    """
    pi, P = shares(stationary), chances(transition, np.size(stationary))
    if not 0 < pi[0] < 1:
        raise InputError("`stationary` must give token 0 and the others frequencies above 0.")
    mass, targets = np.array([pi[0], 1 - pi[0]]), np.stack([P[0], pi[1:] @ P[1:] / (1 - pi[0])])
    if not targets.min() > 0:
        raise InputError(
            "`transition` must leave no next token impossible, neither after token 0 nor after all rare tokens."
        )
    (high, low), beta = _two_rows(mass, targets)
    gamma = np.append(high, np.full(len(pi) - 1, low))
    size = np.sqrt(np.linalg.norm(beta) / np.linalg.norm(gamma))
    return RankOneState(gamma * size, beta / size, *_scales(strength))


def _scales(strength: float) -> tuple[float, float]:
    """Of queries and keys alike."""
    scale = math.sqrt(checked_number("strength", strength, low=0))
    return scale, scale


def _two_rows(
    mass: NDArray[np.float64], targets: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """u and b of the logits u bᵀ that fit two rows of probabilities best; u has norm 1 and a
    positive first entry, b sums to 0.

    Free: the angle of u, so that either entry may be tiny, and b but for its first entry. There may
    be a minimum on either side, u_1 u_2 < 0 and u_1 u_2 > 0: both are searched for from the best of
    a grid of angles, and the lower one is taken.
    """

    def parts(z: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        u, turned, b = (
            np.array([np.cos(z[0]), np.sin(z[0])]),
            np.array([-np.sin(z[0]), np.cos(z[0])]),
            np.append(0.0, z[1:]),
        )
        p = softmax(np.outer(u, b), axis=1)
        return u, turned, b, mass[:, None] * (p - targets), p

    def loss(z: NDArray[np.float64]) -> float:
        u, _, b, *_ = parts(z)
        return float(-np.sum(mass[:, None] * targets * log_softmax(np.outer(u, b), axis=1)))

    def slope(z: NDArray[np.float64]) -> NDArray[np.float64]:
        u, turned, b, G, _ = parts(z)
        return np.append(turned @ G @ b, (u @ G)[1:])

    def curvature(z: NDArray[np.float64]) -> NDArray[np.float64]:
        u, turned, b, G, p = parts(z)
        V = mass[:, None, None] * np.stack([np.diag(row) - np.outer(row, row) for row in p])
        bend = turned**2 @ (V @ b @ b) - u @ G @ b
        mixed = ((turned * u) @ (V @ b) + turned @ G)[1:]
        return np.block([[bend, mixed], [mixed[:, None], np.tensordot(u**2, V, 1)[1:, 1:]]])

    starts = _best_for_angles(mass, targets)
    sides = [
        min((start for start in starts if sign * start[0] > 0), key=loss) for sign in (-1, 1)
    ]  # signs differ, signs agree
    found = [
        scipy.optimize.minimize(
            loss, side, jac=slope, hess=curvature, method="trust-exact", options=_SEARCH
        )
        for side in sides
    ]
    z = min(found, key=lambda each: float(each.fun)).x
    for _ in range(3):  # Newton's method: from the search's 1e-6 to rounding
        z = z - np.linalg.solve(curvature(z), slope(z))
    u, _, b, *_ = parts(z)
    sign = -1.0 if u[0] < 0 else 1.0
    return sign * u, sign * (b - b.mean())


def _best_for_angles(
    mass: NDArray[np.float64], targets: NDArray[np.float64]
) -> NDArray[np.float64]:
    """A grid of angles of u, each with its best b (a convex problem, Newton's method with five
    lengths of step, from the b whose logits are nearest to the targets'): angle, then b less its
    first entry.
    """
    angles = (np.arange(_ANGLES) + 0.5) / _ANGLES * np.pi - np.pi / 2
    u, logs = np.stack([np.cos(angles), np.sin(angles)], axis=1), np.log(targets)
    b = (u * mass) @ (logs - logs.mean(axis=1, keepdims=True)) / (u**2 @ mass)[:, None]
    for _ in range(8):
        p = softmax(u[:, :, None] * b[:, None], axis=2)
        slope = np.einsum("ai,i,aij->aj", u, mass, p - targets)
        spread = (
            np.einsum("ai,aij->aj", u**2 * mass, p)[:, :, None] * np.eye(b.shape[1])
            + 1 / b.shape[1]
        )
        step = np.linalg.solve(
            spread - np.einsum("ai,aij,aik->ajk", u**2 * mass, p, p), slope[:, :, None]
        )[:, :, 0]
        tried = np.stack([b - length * step for length in (1.0, 0.3, 0.1, 0.03, 0.0)])
        losses = -np.einsum(
            "i,ij,laij->la", mass, targets, log_softmax(u[:, :, None] * tried[:, :, None], axis=3)
        )
        b = tried[losses.argmin(axis=0), np.arange(_ANGLES)]
    return np.column_stack([angles, (b - b[:, :1])[:, 1:]])


def has_two_groups(state: RankOneState) -> bool:
    r"""Whether strong attention keeps token 0 and the rare tokens apart: $\gamma_1\gamma_l < 0$.
    [derived, saturated attention].
    """
    return bool(state.gamma[0] * state.gamma[1] < 0)


def two_group_decoder_gradient(
    state: RankOneState, *, stationary: ArrayLike, transition: ArrayLike
) -> NDArray[np.float64]:
    r"""$\partial L/\partial M = \pi_1(e_1 - \frac{\gamma_1}{\gamma_l}w)(p_1-P_1)$ at the two-group
    point: of rank one.

    [derived, saturated attention]. Axes: token, next token.
    """
    pi, P, gamma = np.asarray(stationary, float), np.asarray(transition, float), state.gamma
    pattern = np.append(1.0, -gamma[0] / gamma[1] * pi[1:] / (1 - pi[0]))
    return pi[0] * np.outer(pattern, softmax(gamma[0] * state.beta) - P[0])


def two_group_rate(state: RankOneState, *, stationary: ArrayLike, transition: ArrayLike) -> float:
    r"""Growth rate of a second direction at the two-group point, exact at any asymmetry:

    $\pi_1\lVert p_1-P_1\rVert\sqrt{1 + (\gamma_1/\gamma_l)^2\lVert w\rVert^2}$. [derived, saturated
    attention].

    Refused where $\gamma_1\gamma_l \ge 0$: attention does not saturate there, and the model with
    all of its attention has no such point. (The saturated model alone has, with the norm of
    `two_group_decoder_gradient` as its rate.)
    """
    if not has_two_groups(state):
        product = float(state.gamma[0] * state.gamma[1])
        raise InputError(
            f"attention saturates only where gamma_1 gamma_l < 0; it is {product:.4g} here, so there is no such point."
        )
    return float(
        np.linalg.norm(
            two_group_decoder_gradient(state, stationary=stationary, transition=transition)
        )
    )


def saturated_opening_rate(
    *, high: float, n_vocab: int, stay: float, asymmetry: ArrayLike
) -> float:
    r"""The same to first order in the asymmetry, in closed form: with $a = \pi_1x_1^2P_{1l}$, $b =
    (1-\pi_1)x_l^2P_{ll}$, $\mu_1 = (1-\lambda)\pi_1$ and $\mu_l = \lambda+(1-\lambda)(1-\pi_1)$,

    $\frac{b\,|x_1/x_l|\,\mu_1 + a\,\mu_l}{a+b}\sqrt{\frac1{d-1} +
    \frac{x_l^2}{x_1^2}}\;\lVert\delta c\rVert$.

    That it is $\Theta(\delta)$ is [chen2026, Theorem 3.9], for d = 3; the factor is [derived,
    saturated attention].

    >>> round(saturated_opening_rate(high=0.6, n_vocab=3, stay=0.6, asymmetry=[1e-3, -1e-3]), 9)
    0.000840887
    """
    x_1, x_l = log_odds(two_level_targets(high=high, n_vocab=n_vocab, stay=stay))
    force = opening_force(high=high, n_vocab=n_vocab, stay=stay)
    return float(
        force * np.hypot((n_vocab - 1) ** -0.5, x_l / x_1) * asymmetry_size(asymmetry, n_vocab)
    )


def opening_force(*, high: float, n_vocab: int, stay: float) -> float:
    r"""The first factor of `saturated_opening_rate`, $\frac{b\,|x_1/x_l|\,\mu_1 + a\,\mu_l}{a+b} >
    0$: minus the left side of eq. 230. [derived, saturated attention].
    """
    _check_domain(high, n_vocab, stay)
    targets = two_level_targets(high=high, n_vocab=n_vocab, stay=stay)
    x_1, x_l = log_odds(targets)
    a, b = high * x_1**2 * targets.high_low, (1 - high) * x_l**2 * targets.low_low
    mu_1, mu_l = (1 - stay) * high, stay + (1 - stay) * (1 - high)
    return float((b * abs(x_1 / x_l) * mu_1 + a * mu_l) / (a + b))


def saturated_descent(
    state: RankOneState, *, high: float, stay: float, contrast: ArrayLike
) -> float:
    r"""How the loss at the saturated point of equal rare tokens changes when $\gamma_l$ spreads by
    x (of mean 0) and the rest, which is $\gamma_1$, the mean of $\gamma_l$ and $\beta$ but for its
    scale, follows to the minimum:

    $\frac{\kappa^2\lVert x\rVert^6}{2(d-1)^2}\,\frac{\det
    H}{S}\Bigl(1+2\kappa\gamma_l\frac{\sum_jx_j^3}{\lVert x\rVert^2}\Bigr) + O(\lVert x\rVert^8)$
    with H of `averages_hessian`, whose first entry is S.

    [derived, saturated attention]: attention shifts the averages of low queries by cumulants of x,
    $k_2 = \lVert x\rVert^2/(d-1)$ and $k_3 = \sum_jx_j^3/(d-1)$, so that they spread by $\kappa
    x(k_2+\kappa\gamma_lk_3)$. Negative above the critical stay, so that the point is no local
    minimum even there. (If $\beta$ alone follows, the loss rises as $\lVert x\rVert^4$.)
    """
    n_vocab, kappa = len(state.gamma), state.query_scale * state.key_scale
    H = averages_hessian(
        high=high, n_vocab=n_vocab, stay=stay, span=float(state.beta[0] - state.beta[1])
    )
    squares, cubes = (np.sum(np.asarray(contrast, float) ** power) for power in (2, 3))
    spread = (kappa / (n_vocab - 1)) ** 2 * (
        squares**3 + 2 * kappa * state.gamma[1] * squares**2 * cubes
    )
    return float(0.5 * spread * np.linalg.det(H) / H[0, 0])
