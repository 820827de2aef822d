r"""Appendix D of [chen2026]: the flow around the saturated point of three tokens, to second order
in the state and the asymmetry.

With $\theta = (\Delta\gamma, \Delta\beta)$, masses $(\pi_1, \frac{1-\pi_1}2+\delta,
\frac{1-\pi_1}2-\delta)$, $s = (0, 1, -1)$ and $l = (0, \frac12, \frac12)$: $-\nabla L = J_0\theta +
\delta f_1 + \frac12B(\theta,\theta) + \delta J_1\theta + \dots$ (eq. 163). Formulas are those the
paper goes on with; the kernel block of eq. 173 is wrong and is here as printed. For any law and
number of tokens: saturated.py. Domain: $(1-\lambda)\pi_1 < 1/3$.

| ours | theirs                                                     | axes |
|------|------------------------------------------------------------|------|
| at   | a saturated point: pi_1, lambda, gamma, beta, PP_1, PP_low |      |
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .saturated import saturated_point
from .symmetric import two_level_targets

__all__ = [
    "SaturatedTriple",
    "asymmetry_force",
    "curvature_force",
    "decoder_gradient_slope",
    "force_and_stiffness",
    "hessian_slope",
    "kernel_basis",
    "mild_condition",
    "mixed_jacobian",
    "printed_kernel_block",
    "range_basis",
    "range_response",
    "resampling_gradient",
    "rest_jacobian",
    "saturated_triple",
    "second_differential",
]

_CONTRAST = np.array([0.0, 1.0, -1.0])  # s
_LOW = np.array([0.0, 0.5, 0.5])


class SaturatedTriple(NamedTuple):
    """The saturated point of three tokens, and what it predicts after either kind of token."""

    high: float
    stay: float
    gamma: NDArray[np.float64]
    beta: NDArray[np.float64]
    after_high: NDArray[np.float64]
    after_low: NDArray[np.float64]


def saturated_triple(high: float, stay: float, *, span: float | None = None) -> SaturatedTriple:
    r"""$\gamma$, $\beta$, $p_1 = P_1$ and $p_l = (P_2+P_3)/2$. [chen2026, Proposition 3.8]."""
    state, t = (
        saturated_point(high=high, n_vocab=3, stay=stay, span=span),
        two_level_targets(high=high, n_vocab=3, stay=stay),
    )
    after_high, after_low = (
        np.array([t.high_high, t.high_low, t.high_low]),
        np.array([t.low_high, t.low_low, t.low_low]),
    )
    return SaturatedTriple(high, stay, state.gamma, state.beta, after_high, after_low)


def kernel_basis(at: SaturatedTriple) -> NDArray[np.float64]:
    r"""$k_1 = (s; 0)$, $k_2 = (0; 1)$, $k_3 = (-\gamma; \beta)$, normalised, as columns. [chen2026,
    Proposition D.1], eq. 164.
    """
    g, b, none = at.gamma, at.beta, np.zeros(3)
    return _columns([_CONTRAST, none], [none, np.ones(3)], [-g, b])


def range_basis(at: SaturatedTriple) -> NDArray[np.float64]:
    r"""$q_1 = (-2\gamma_l, \gamma_1, \gamma_1; 0)$, $q_2 = (0; s)$, $q_3 =
    (\gamma/\lVert\gamma\rVert^2; \beta/\lVert\beta\rVert^2)$, normalised, as columns. [chen2026,
    Proposition D.1], eq. 165.

    The paper assumes $\lVert\gamma\rVert = \lVert\beta\rVert$ and prints $q_3 \propto (\gamma;
    \beta)$; this $q_3$ needs no such assumption.
    """
    g, b, none = at.gamma, at.beta, np.zeros(3)
    return _columns(
        [np.array([-2 * g[1], g[0], g[0]]), none], [none, _CONTRAST], [g / (g @ g), b / (b @ b)]
    )


def _columns(*vectors: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    flat = np.array([np.concatenate(vector) for vector in vectors])
    return (flat / np.linalg.norm(flat, axis=1, keepdims=True)).T


def _var(p: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.diag(p) - np.outer(p, p)


def rest_jacobian(at: SaturatedTriple) -> NDArray[np.float64]:
    r"""$J_0 =
    -\begin{pmatrix}c_1&0&0&v_1\\0&c_2&c_2&v_2\\0&c_2&c_2&v_2\\v_1^\top&v_2^\top&v_2^\top&C\end{pmatrix}$.

    [chen2026, Lemma D.6], eq. 178.
    """
    pi_1, _, (g_1, g_l, _), b, p_1, p_l = at
    V_1, V_l = pi_1 * _var(p_1), (1 - pi_1) * _var(p_l)
    v_1, v_2, C = g_1 * b @ V_1, g_l * b @ V_l / 2, g_1**2 * V_1 + g_l**2 * V_l
    gamma = np.diag([b @ V_1 @ b, 0.0, 0.0])
    gamma[1:, 1:] = b @ V_l @ b / 4
    across = np.stack([v_1, v_2, v_2])
    return -np.block([[gamma, across], [across.T, C]])


def force_and_stiffness(at: SaturatedTriple) -> tuple[float, float]:
    r"""$N = \lambda\gamma_l + (1-\lambda)(\pi_1\gamma_1 + (1-\pi_1)\gamma_l)$ and
    $c_1 = \pi_1\gamma_1^2p_{12} + (1-\pi_1)\gamma_l^2p_{l2}$. [chen2026, Proposition D.2], eq. 167.
    """
    pi_1, stay, (g_1, g_l, _), _, p_1, p_l = at
    force = stay * g_l + (1 - stay) * (pi_1 * g_1 + (1 - pi_1) * g_l)
    return force, pi_1 * g_1**2 * p_1[1] + (1 - pi_1) * g_l**2 * p_l[1]


def asymmetry_force(at: SaturatedTriple) -> NDArray[np.float64]:
    r"""$f_1 = N(0; s)$. [chen2026, Lemma D.7], eq. 184."""
    return force_and_stiffness(at)[0] * np.append(np.zeros(3), _CONTRAST)


def range_response(at: SaturatedTriple) -> NDArray[np.float64]:
    r"""$\theta/\delta$ at which the range part of the gradient vanishes to first order, $(0;
    s)N/c_1$.

    [chen2026, Proposition D.2], eq. 167: $\zeta = \delta(0, \sqrt2N/c_1, 0)$ in the range basis.
    """
    force, stiffness = force_and_stiffness(at)
    return force / stiffness * np.append(np.zeros(3), _CONTRAST)


def mixed_jacobian(at: SaturatedTriple) -> NDArray[np.float64]:
    r"""$J_1 = \partial_\delta J_0$. [chen2026, Lemma D.9], eqs. 188 to 190."""
    _, _, (_, g_l, _), b, _, p_l = at
    V = _var(p_l)
    across = -np.outer(_CONTRAST, g_l * b @ V) - resampling_gradient(at)
    return np.block([[-np.diag(_CONTRAST) * (b @ V @ b), across], [across.T, np.zeros((3, 3))]])


def second_differential(at: SaturatedTriple, *, strength: float) -> NDArray[np.float64]:
    r"""B of eq. 163, minus the third derivatives of the loss. With the differentials $Z', Z''$ of
    the logits $h\beta$ of one kind of query, the variance V and the third cumulant $k_3$ of its
    predictions, $B = -\sum_im_i[k_3(Z', Z', Z') + V(Z', Z'')]$, the last summed over the three
    places of $Z'$.

    [chen2026, Lemma D.11], blocks in eqs. 199 to 223. Low queries see $h = \gamma_l +
    \frac{d\gamma_2+d\gamma_3}2 + \frac{\kappa\gamma_l}4(d\gamma_2-d\gamma_3)^2$. Axes: gamma then
    beta, three times.
    """
    pi_1, _, (g_1, g_l, _), b, p_1, p_l = at
    s, beta_part = np.append(_CONTRAST, np.zeros(3)), np.eye(6)[3:]
    T = np.zeros((6, 6, 6))
    for mass, h, p, seen, bend in (
        (pi_1, g_1, p_1, np.eye(3)[0], 0.0),
        (1 - pi_1, g_l, p_l, _LOW, strength * g_l / 2),
    ):
        along = np.append(seen, np.zeros(3))
        first = np.outer(b, along) + h * beta_part
        mixed = np.einsum("i,aj->aij", along, beta_part)
        second = mixed + mixed.mT + bend * np.einsum("a,i,j->aij", b, s, s)
        once = np.einsum("ab,ai,bjk->ijk", _var(p), first, second)
        cubic = np.einsum("abc,ai,bj,ck->ijk", _third_cumulant(p), first, first, first)
        T += mass * (cubic + once + once.transpose(1, 0, 2) + once.transpose(2, 1, 0))
    return -T


def _third_cumulant(p: NDArray[np.float64]) -> NDArray[np.float64]:
    e = np.eye(len(p))
    pair = np.einsum("ab,a,c->abc", e, p, p)
    return (
        np.einsum("ab,ac,a->abc", e, e, p)
        - pair
        - pair.transpose(0, 2, 1)
        - pair.transpose(2, 1, 0)
        + 2 * np.einsum("a,b,c->abc", p, p, p)
    )


def curvature_force(at: SaturatedTriple) -> NDArray[np.float64]:
    r"""$Q_K^\top\frac12B(q_2, q_2) = (0, 0, c_1)/\sqrt{\lVert\gamma\rVert^2+\lVert\beta\rVert^2}$.
    [chen2026, Lemma D.13].
    """
    return np.array([0.0, 0.0, force_and_stiffness(at)[1]]) / np.hypot(
        np.linalg.norm(at.gamma), np.linalg.norm(at.beta)
    )


def hessian_slope(at: SaturatedTriple) -> NDArray[np.float64]:
    r"""$H_1/\delta$: how the Jacobian changes from the symmetric point to the solution of first
    order. With $c = N/c_1$, $H_1/\delta = -c\begin{pmatrix}0&B\\B^\top&C\end{pmatrix} + J_1$.
    [chen2026, Lemma D.15], eq. 229.
    """
    pi_1, _, (g_1, g_l, _), b, p_1, p_l = at
    force, stiffness = force_and_stiffness(at)
    r_1 = 2 * pi_1 * g_1 * p_1[1] + pi_1 * g_1**2 * p_1[1] * (b[1] - p_1 @ b)
    r_2 = (1 - pi_1) * g_l * p_l[1] + (1 - pi_1) * g_l**2 * p_l[1] * (b[1] - p_l @ b) / 2
    B = np.outer([r_1, r_2, r_2], _CONTRAST)
    C = pi_1 * g_1**3 * _skew(p_1) + (1 - pi_1) * g_l**3 * _skew(p_l)
    return -force / stiffness * np.block([[np.zeros((3, 3)), B], [B.T, C]]) + mixed_jacobian(at)


def _skew(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """K(p): how Var(p) changes along s, for p with equal low entries."""
    corner = p[0] * p[1] * _CONTRAST
    K = np.diag((p[1] - 2 * p[1] ** 2) * _CONTRAST)
    K[0], K[:, 0] = -corner, -corner
    return K


def printed_kernel_block(at: SaturatedTriple) -> NDArray[np.float64]:
    r"""$-E(Q_R^\top J_0Q_R)^{-1}E^\top$ with $E = Q_K^\top(H_1/\delta)Q_R$: the kernel's growth
    rates over $\delta^2$.

    [chen2026, Theorem D.3], eq. 173, as printed. It forgets $Q_K^\top H_2Q_K$, of the same order,
    which cancels it.
    """
    K, R = kernel_basis(at), range_basis(at)
    E = K.T @ hessian_slope(at) @ R
    return -E @ np.linalg.solve(R.T @ rest_jacobian(at) @ R, E.T)


def resampling_gradient(at: SaturatedTriple) -> NDArray[np.float64]:
    r"""How the asymmetry changes $\partial L/\partial M$ at rest: $-[\lambda l +
    (1-\lambda)(\pi_1e_1 + (1-\pi_1)l)]s^\top$.

    [chen2026, Lemma D.7], eq. 186.
    """
    pi_1, stay, *_ = at
    return -np.outer(
        stay * _LOW + (1 - stay) * (pi_1 * np.eye(3)[0] + (1 - pi_1) * _LOW), _CONTRAST
    )


def decoder_gradient_slope(at: SaturatedTriple) -> NDArray[np.float64]:
    r"""$\partial L/\partial M$ over $\delta$: $\frac N{c_1}[\pi_1\gamma_1p_{12}e_1 +
    (1-\pi_1)\gamma_lp_{l2}\,l]s^\top$ + eq. 186.

    [chen2026, Lemma D.17].
    """
    pi_1, _, (g_1, g_l, _), _, p_1, p_l = at
    force, stiffness = force_and_stiffness(at)
    fitted = pi_1 * g_1 * p_1[1] * np.eye(3)[0] + (1 - pi_1) * g_l * p_l[1] * _LOW
    return force / stiffness * np.outer(fitted, _CONTRAST) + resampling_gradient(at)


def mild_condition(at: SaturatedTriple) -> float:
    r"""$c(1-\pi_1)\gamma_lp_{l2} - (\lambda + (1-\pi_1)(1-\lambda))$, not to be zero. [chen2026,
    Lemma D.17], eq. 230.
    """
    pi_1, stay, (_, g_l, _), _, _, p_l = at
    force, stiffness = force_and_stiffness(at)
    return float(force / stiffness * (1 - pi_1) * g_l * p_l[1] - (stay + (1 - pi_1) * (1 - stay)))
