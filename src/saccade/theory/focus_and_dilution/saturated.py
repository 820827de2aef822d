r"""Saturated attention: token 0 sees only itself, the low tokens see only each other.

The limit of strong rank-one attention when $\gamma_1$ and $\gamma_l$ have opposite signs. The strength $\kappa$ stays finite inside
the block of low tokens. Below a least stay the signs agree and there is no such point. Low tokens with one common $\gamma_l$ act as
a group of mass $1-\pi_1$, so a fit of two rows of logits, $\gamma_1\beta$ and $\gamma_l\beta$, is a critical point of the whole
rank-one flow, whatever the masses. Equal masses give the point of [chen2026, Proposition 3.8].

| ours          | theirs                                                    | axes  |
|---------------|-----------------------------------------------------------|-------|
| state         | gamma, beta (token), l_q, l_k                             |       |
| contrast      | g_low minus their mean                                    | token |
| asymmetry     | delta c: masses of low tokens minus their mean            | token |
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from ...errors import InputError
from .rank_one import RankOneState
from .symmetric import averages_hessian, log_odds, two_level_targets

__all__ = [
    "least_saturated_stay",
    "saturated_attention",
    "saturated_descent",
    "saturated_opening_rate",
    "saturated_point",
    "two_group_decoder_gradient",
    "two_group_point",
    "two_group_rate",
]


def least_saturated_stay(high: float, n_vocab: int) -> float:
    r"""The stay above which $\gamma_1\gamma_l < 0$: $(1-\lambda)\pi_1 < 1/d$, so $\lambda > 1 - 1/(d\pi_1)$.

    [derived, saturated attention]: $\gamma_l\beta$ puts less than 1/d on token 0 if and only if $\gamma_l < 0 < \gamma_1$.
    """
    return 1 - 1 / (n_vocab * high)


def saturated_attention(state: RankOneState, *, stationary: ArrayLike) -> NDArray[np.float64]:
    r"""$A_1 = e_1$; $A_{ij} \propto \pi_je^{\kappa\gamma_i\gamma_j}$ over low tokens j for a low token i.

    [chen2026, Appendix D.1]. Axes: query, token.
    """
    pi, kappa = np.asarray(stationary, float), state.query_scale * state.key_scale
    attention = np.eye(len(pi))
    attention[1:, 1:] = softmax(kappa * np.outer(state.gamma[1:], state.gamma[1:]) + np.log(pi[1:]), axis=1)
    return attention


def saturated_point(*, high: float, n_vocab: int, stay: float, strength: float = 1.0, span: float | None = None) -> RankOneState:
    r"""Equal low tokens: $\gamma = (x_1, x_l, \dots)/\Delta\beta$, $\beta = \Delta\beta(e_1 - 1/d)$ with the log odds $x_1$, $x_l$.

    $\Delta\beta$, the `span`, is free; without it $\lVert\gamma\rVert = \lVert\beta\rVert$. [chen2026, Proposition 3.8], there for
    d = 3.
    """
    if stay <= (least := least_saturated_stay(high, n_vocab)):
        raise InputError(f"`stay` must be above 1 - 1/(d pi_1) = {least:.4g}, or attention cannot saturate; got {stay:g}.")
    x_1, x_l = log_odds(two_level_targets(high=high, n_vocab=n_vocab, stay=stay))
    x, e_1 = np.append(x_1, np.full(n_vocab - 1, x_l)), np.eye(n_vocab)[0]
    step = (n_vocab / (n_vocab - 1) * x @ x) ** 0.25 if span is None else span
    return RankOneState(x / step, step * (e_1 - 1 / n_vocab), np.sqrt(strength), np.sqrt(strength))


def two_group_point(*, stationary: ArrayLike, transition: ArrayLike, strength: float = 1.0) -> RankOneState:
    r"""The exact critical point for any law: $\gamma_l$ equal, $w = (0, \pi_l)/(1-\pi_1)$, and $\gamma_1, \gamma_l, \beta$ minimise

    $\pi_1 H(P_1, \mathrm{softmax}(\gamma_1\beta)) + (1-\pi_1) H(w\cdot P, \mathrm{softmax}(\gamma_l\beta))$ (cross-entropies).

    $\lVert\gamma\rVert = \lVert\beta\rVert$. Attention saturates there only if $\gamma_1\gamma_l < 0$, which the caller checks.
    [derived, saturated attention]: it is critical for the whole model, with $\partial L/\partial\Phi = 0$.
    """
    pi, P = np.asarray(stationary, float), np.asarray(transition, float)
    mass, targets = np.array([pi[0], 1 - pi[0]]), np.stack([P[0], pi[1:] @ P[1:] / (1 - pi[0])])
    ratio, beta = _two_rows(mass, targets)
    gamma = np.append(1.0, np.full(len(pi) - 1, ratio))
    size = np.sqrt(np.linalg.norm(beta) / np.linalg.norm(gamma))
    return RankOneState(gamma * size, beta / size, np.sqrt(strength), np.sqrt(strength))


def _two_rows(mass: NDArray[np.float64], targets: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """r and b of the logits (b, r b) that fit two rows of probabilities best; b sums to zero."""
    n_vocab = targets.shape[1]

    def parts(z: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        u, b = np.array([1.0, z[0]]), np.append(0.0, z[1:])
        return u, b, softmax(np.outer(u, b), axis=1)

    def loss(z: NDArray[np.float64]) -> float:
        u, b, _ = parts(z)
        return float(-np.sum(mass[:, None] * targets * log_softmax(np.outer(u, b), axis=1)))

    def slope(z: NDArray[np.float64]) -> NDArray[np.float64]:
        u, b, p = parts(z)
        G = mass[:, None] * (p - targets)
        return np.append(G[1] @ b, (u @ G)[1:])

    def curvature(z: NDArray[np.float64]) -> NDArray[np.float64]:
        u, b, p = parts(z)
        V = [m * (np.diag(row) - np.outer(row, row)) for m, row in zip(mass, p, strict=True)]
        mixed = (mass[1] * (p - targets)[1] + u[1] * V[1] @ b)[1:]
        return np.block([[b @ V[1] @ b, mixed], [mixed[:, None], (V[0] + u[1] ** 2 * V[1])[1:, 1:]]])

    x = np.log(targets[:, 0] / ((1 - targets[:, 0]) / (n_vocab - 1)))  # exact if the other tokens are equally likely
    z = minimize(loss, np.append(x[1] / x[0], np.full(n_vocab - 1, -x[0])), jac=slope, hess=curvature, method="trust-exact").x
    for _ in range(3):  # Newton's method: from the search's 1e-4 to rounding
        z = z - np.linalg.solve(curvature(z), slope(z))
    b = np.append(0.0, z[1:])
    return float(z[0]), b - b.mean()


def two_group_decoder_gradient(state: RankOneState, *, stationary: ArrayLike, transition: ArrayLike) -> NDArray[np.float64]:
    r"""$\partial L/\partial M = \pi_1(e_1 - \frac{\gamma_1}{\gamma_l}w)(p_1-P_1)$ at the two-group point: of rank one.

    [derived, saturated attention]. Axes: token, next token.
    """
    pi, P, gamma = np.asarray(stationary, float), np.asarray(transition, float), state.gamma
    pattern = np.append(1.0, -gamma[0] / gamma[1] * pi[1:] / (1 - pi[0]))
    return pi[0] * np.outer(pattern, softmax(gamma[0] * state.beta) - P[0])


def two_group_rate(state: RankOneState, *, stationary: ArrayLike, transition: ArrayLike) -> float:
    r"""Growth rate of a second direction at the two-group point, exact at any asymmetry:

    $\pi_1\lVert p_1-P_1\rVert\sqrt{1 + (\gamma_1/\gamma_l)^2\lVert w\rVert^2}$. [derived, saturated attention].
    """
    return float(np.linalg.norm(two_group_decoder_gradient(state, stationary=stationary, transition=transition)))


def saturated_opening_rate(*, high: float, n_vocab: int, stay: float, asymmetry: ArrayLike) -> float:
    r"""The same to first order in the asymmetry, in closed form: with $a = \pi_1x_1^2P_{1l}$, $b = (1-\pi_1)x_l^2P_{ll}$,
    $\mu_1 = (1-\lambda)\pi_1$ and $\mu_l = \lambda+(1-\lambda)(1-\pi_1)$,

    $\frac{b\,|x_1/x_l|\,\mu_1 + a\,\mu_l}{a+b}\sqrt{\frac1{d-1} + \frac{x_l^2}{x_1^2}}\;\lVert\delta c\rVert$.

    That it is $\Theta(\delta)$ is [chen2026, Theorem 3.9], for d = 3; the factor is [derived, saturated attention].
    """
    targets = two_level_targets(high=high, n_vocab=n_vocab, stay=stay)
    x_1, x_l = log_odds(targets)
    a, b = high * x_1**2 * targets.high_low, (1 - high) * x_l**2 * targets.low_low
    mu_1, mu_l = (1 - stay) * high, stay + (1 - stay) * (1 - high)
    force = (b * abs(x_1 / x_l) * mu_1 + a * mu_l) / (a + b)
    return float(force * np.hypot((n_vocab - 1) ** -0.5, x_l / x_1) * np.linalg.norm(asymmetry))


def saturated_descent(state: RankOneState, *, high: float, stay: float, contrast: ArrayLike) -> float:
    r"""How the loss at the saturated point of equal low tokens changes when $\gamma_l$ spreads by x and the rest follows:

    $\frac{\kappa^2\lVert x\rVert^6}{2(d-1)^2}\,\frac{\det H}{S}$ with H of `averages_hessian`, whose first entry is S.

    [derived, saturated attention]: the averages $h_l$ of low queries spread by $\kappa x\lVert x\rVert^2/(d-1)$. Negative above the
    critical stay, so that the point is no local minimum even there.
    """
    n_vocab, kappa = len(state.gamma), state.query_scale * state.key_scale
    H = averages_hessian(high=high, n_vocab=n_vocab, stay=stay, span=float(state.beta[0] - state.beta[1]))
    size = kappa * np.linalg.norm(contrast) ** 3 / (n_vocab - 1)
    return float(0.5 * size**2 * np.linalg.det(H) / H[0, 0])
