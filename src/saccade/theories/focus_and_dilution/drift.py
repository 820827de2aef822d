r"""Stage III, dilution: attention moves embedding mass from rare tokens to frequent ones, and so
undoes its own focus.

Along $\pi$ the embedding is held by the loss; orthogonal to it nothing holds it at the unigram
point, and there it drifts with the strength of attention: $\dot\gamma_\perp = \kappa F_\perp$. A
rare token's $\gamma_i$ shrinks, crosses zero, and its query turns away from the frequent token.
First order in $\kappa$, for a focus rate other than zero; the whole path is the rank-one flow
(rank_one.py).

| ours         | theirs                          | axes         |
|--------------|---------------------------------|--------------|
| rate_ratio   | r = lr_attention / lr_decoder   |              |
| span         | Delta beta = beta_1 - beta_l    |              |
| strength     | eta = lambda_Q lambda_K         |              |
| strength_0   | eta at t = 0                    |              |
| t            | t since the unigram point       |              |
| gamma_high, gamma_low | gamma_1, gamma_l       |              |
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from .laws import chances, two_level_chain, two_level_law, unequal
from .spectra import two_level_focus_rate
from .transition import overlap_target
from .unigram import focus_rate, unigram_point

__all__ = [
    "DriftResponse",
    "contrast_force",
    "contrast_of_strength",
    "contrast_path",
    "crossing_strength",
    "drift_direction",
    "drift_displacement",
    "drift_exponent",
    "drift_response",
    "mass_redistribution",
    "off_stationary",
    "peak_strength",
    "two_level_combination",
    "two_level_drift",
]


class DriftResponse(NamedTuple):
    """How far embedding and projection pattern have moved from the unigram point, for each unit of
    strength. Axis: token.
    """

    gamma: NDArray[np.float64]
    beta: NDArray[np.float64]


def mass_redistribution(*, stationary: ArrayLike, transition: ArrayLike) -> NDArray[np.float64]:
    r"""Force of attention on the embedding at the unigram point, per unit of strength: $F_j =
    2K_1\pi_j(\gamma_j-\langle\gamma\rangle) + \pi_j[(P_j-\pi)\cdot\beta]\,\mathrm{Var}_\pi\gamma$,
    $K_1 = \sum_i\pi_i\gamma_i(P_i-\pi)\cdot\beta$.

    [derived, stage III]. $\sum_jF_j = 0$, so it only redistributes; $\gamma\cdot F = 3c$.
    """
    pi, P = unequal(stationary), chances(transition, np.size(stationary))
    gamma, beta = unigram_point(stationary=pi)
    gain, above = (P - pi) @ beta, gamma - pi @ gamma
    K_1, variance = np.sum(pi * gamma * gain), np.sum(pi * above**2)
    return pi * (2 * K_1 * above + gain * variance)


def off_stationary(gamma: ArrayLike, *, stationary: ArrayLike) -> NDArray[np.float64]:
    r"""The part of an embedding pattern orthogonal to the law, $\gamma_\perp = \gamma -
    \hat\pi(\hat\pi\cdot\gamma)$.

    Zero at the unigram point. Leading axes (seed, time) are kept.
    """
    gamma, pi = np.asarray(gamma, float), np.asarray(stationary, float)
    return gamma - (gamma @ pi)[..., None] * pi / (pi @ pi)


def drift_direction(*, stationary: ArrayLike, transition: ArrayLike) -> NDArray[np.float64]:
    r"""Where the embedding drifts, $F_\perp$, the part of the force that nothing opposes. [derived,
    stage III].
    """
    force = mass_redistribution(stationary=stationary, transition=transition)
    return off_stationary(force, stationary=stationary)


def drift_exponent(
    *,
    stationary: ArrayLike,
    transition: ArrayLike,
    phi_scale: float = 1.0,
    lr_attention: float = 1.0,
) -> float:
    r"""Growth rate of $\lVert\gamma_\perp\rVert$, $2|c|$: that of the strength.

    [derived, stage III]. [chen2026, Theorem 3.7] writes $e^{ct}$, where c is twice the c of
    Proposition 3.4. Ours is that of Proposition 3.4, hence $e^{2ct}$.
    """
    rate = focus_rate(
        stationary=stationary, transition=transition, phi_scale=phi_scale, lr_attention=lr_attention
    )
    return 2 * abs(rate)


def drift_displacement(
    strength: ArrayLike,
    *,
    stationary: ArrayLike,
    transition: ArrayLike,
    phi_scale: float = 1.0,
    rate_ratio: float = 1.0,
) -> NDArray[np.float64]:
    r"""How far the embedding has drifted when attention has a given strength, $\gamma_\perp =
    F_\perp\kappa/(2|c|sr)$.

    [derived, stage III]: the integral of $\dot\gamma_\perp = \kappa F_\perp$ with $\kappa \propto
    e^{2|c|srt}$, time in units of 1 / lr_decoder. For c < 0 both the strength and the force change
    sign: frequent tokens gain all the same.
    """
    rate = focus_rate(
        stationary=stationary, transition=transition, phi_scale=phi_scale, lr_attention=rate_ratio
    )
    force = drift_direction(stationary=stationary, transition=transition)
    return np.asarray(strength, float)[..., None] * force / (2 * abs(rate))


def drift_response(*, stationary: ArrayLike, transition: ArrayLike) -> DriftResponse:
    r"""The whole linear displacement $(\delta\gamma, \delta\beta) = \kappa\,(2|c| - J)^{-1}F$ while
    $\kappa \propto e^{2|c|t}$, along the law as well as off it.

    J is the block of [chen2026, eq. 145] for any law, and F the force of attention on both
    patterns. With $V = \mathrm{Var}_\pi\gamma$ and $C = \mathrm{Var}(\pi)$: $F_\gamma$ =
    `mass_redistribution` $-\pi\langle\gamma\rangle V\beta^\top C\beta$ and $F_\beta =
    V[\sum_i\pi_i\gamma_i(P_i-\pi) - \langle\gamma\rangle^2C\beta]$. [derived, stage III]. Rates 1,
    phi_scale 1.
    """
    pi, P = unequal(stationary), chances(transition, np.size(stationary))
    gamma, beta = unigram_point(stationary=pi)
    C, mean, d = np.diag(pi) - np.outer(pi, pi), pi @ gamma, len(pi)
    V, shown = pi @ (gamma - mean) ** 2, C @ beta
    force = [
        mass_redistribution(stationary=pi, transition=P) - pi * mean * V * (beta @ shown),
        V * ((pi * gamma) @ (P - pi) - mean**2 * shown),
    ]
    mixed = mean * np.outer(pi, shown)
    J = -np.block([[(beta @ shown) * np.outer(pi, pi), mixed], [mixed.T, mean**2 * C]])
    rate = drift_exponent(stationary=pi, transition=P)
    moved = np.linalg.solve(rate * np.eye(2 * d) - J, np.concatenate(force))
    return DriftResponse(moved[:d], moved[d:])


def two_level_drift(
    gamma_high: float,
    gamma_low: float,
    span: float,
    strength: float,
    *,
    high: float,
    n_vocab: int,
    stay: float,
) -> tuple[float, float]:
    r"""Velocities of $\gamma_1$ and $\gamma_l$ on the rank-one manifold with equal rare tokens: the
    part through M and the part through $\Phi$ together. [chen2026, eqs. 149 to 156].
    """
    two_level_chain(high=high, n_vocab=n_vocab, stay=stay)  # refuses what is no such chain
    pi_1, g, Db, eta = high, np.array([gamma_high, gamma_low]), span, strength
    Dg = g[0] - g[1]
    xi = expit(np.log(pi_1 / (1 - pi_1)) + eta * g * Dg)
    r = (
        stay * np.array([1.0, 0.0])
        + (1 - stay) * pi_1
        - expit((g[1] + xi * Dg) * Db - np.log(n_vocab - 1))
    )
    drawn, spread = np.array([pi_1, 1 - pi_1]) * r, xi * (1 - xi) * Dg
    through_M = Db * (drawn @ xi), Db * (drawn @ (1 - xi))
    through_phi = (
        eta * Db * (drawn[0] * spread[0] * (Dg + g[0]) + drawn[1] * spread[1] * g[1]),
        eta * Db * (-drawn[0] * spread[0] * g[0] + drawn[1] * spread[1] * (Dg - g[1])),
    )
    return float(through_M[0] + through_phi[0]), float(
        (through_M[1] + through_phi[1]) / (n_vocab - 1)
    )


def contrast_force(*, high: float, n_vocab: int, stay: float) -> float:
    r"""Velocity of $(1-\pi_1)\gamma_1-(d-1)\pi_1\gamma_l$ at the unigram point for each unit of
    strength, $3\lambda\pi_1^2(1-\pi_1)^2\,\Delta\beta\,(\Delta\gamma)^2$. [chen2026, eq. 157].
    """
    gamma, beta = unigram_point(stationary=two_level_chain(high=high, n_vocab=n_vocab, stay=stay))
    return float(
        3 * stay * (high * (1 - high)) ** 2 * (beta[0] - beta[1]) * (gamma[0] - gamma[1]) ** 2
    )


def contrast_path(
    t: ArrayLike, *, strength_0: float, high: float, n_vocab: int, stay: float
) -> NDArray[np.float64]:
    r"""$(1-\pi_1)\gamma_1-(d-1)\pi_1\gamma_l = c'(e^{2ct}-1)$ with the c of Proposition 3.4 and $c'
    = $ `contrast_force` $\eta(0)/2c$. [chen2026, eq. 159], whose letter c is twice ours. Queries
    and keys of one size; opposite ones, $\eta(0) < 0$, grow where $c < 0$.
    """
    rate = 2 * np.sign(strength_0) * two_level_focus_rate(high=high, n_vocab=n_vocab, stay=stay)
    if rate == 0:  # a chain without persistence, or no attention to begin with
        return np.zeros(np.shape(t))
    scale = strength_0 * contrast_force(high=high, n_vocab=n_vocab, stay=stay) / rate
    return scale * np.expm1(rate * np.asarray(t, float))


def contrast_of_strength(strength: ArrayLike, *, high: float, n_vocab: int) -> NDArray[np.float64]:
    r"""The same without a clock: $3\lVert\pi\rVert\,\Delta\eta/(2\kappa_1(\pi_1-\pi_l))$, whatever
    $\lambda$, for a strength that has grown by $\Delta\eta$ since the unigram point. [derived,
    stage III]. Where queries and keys differ in size or sign, $(\lambda_Q^2+\lambda_K^2)/2$ takes
    the place of $\eta$.

    >>> round(float(contrast_of_strength(1e-3, high=0.6, n_vocab=4)), 6)
    0.001452
    """
    pi, kappa_1 = (
        two_level_law(high=high, n_vocab=n_vocab),
        np.sqrt(overlap_target(high=high, n_vocab=n_vocab)),
    )
    return 1.5 * np.linalg.norm(pi) * np.asarray(strength, float) / (kappa_1 * (pi[0] - pi[-1]))


def two_level_combination(gamma: ArrayLike, *, high: float) -> NDArray[np.float64]:
    r"""The paper's measure of drift, $(1-\pi_1)\gamma_1 - (d-1)\pi_1\gamma_i$ for each rare token
    i.

    [chen2026, Theorem 3.7]. Zero for $\gamma \propto \pi$, if all rare tokens share the rest
    $1-\pi_1$ equally. Leading axes are kept.
    """
    gamma = np.asarray(gamma, float)
    n_low = gamma.shape[-1] - 1
    return (1 - high) * gamma[..., :1] - n_low * high * gamma[..., 1:]


def crossing_strength(
    *, stationary: ArrayLike, transition: ArrayLike, phi_scale: float = 1.0, rate_ratio: float = 1.0
) -> NDArray[np.float64]:
    r"""Strength at which $\gamma_i$ crosses zero and query i looks at token 0 by its share again,
    $\kappa = -2|c|sr\,\gamma_i/F_{\perp i}$; infinite for a token that gains.

    [derived, turning rule], to first order. Measured, on the paper's law and on six Zipf tokens:
    the rank-one flow crosses at .74 to 1.15 times this, except for the second Zipf token, whose
    loss is caught before it crosses.
    """
    gamma = unigram_point(stationary=stationary).gamma
    per_strength = drift_displacement(
        1.0,
        stationary=stationary,
        transition=transition,
        phi_scale=phi_scale,
        rate_ratio=rate_ratio,
    )
    sign = np.sign(focus_rate(stationary=stationary, transition=transition, phi_scale=phi_scale))
    loses = sign * per_strength < 0
    return np.where(loses, -gamma / np.where(loses, per_strength, 1.0), sign * np.inf)


def peak_strength(
    *, stationary: ArrayLike, transition: ArrayLike, phi_scale: float = 1.0, rate_ratio: float = 1.0
) -> NDArray[np.float64]:
    r"""Strength at which the focus of query i turns: $\Phi_{i0} \propto \kappa(\gamma_i + F_{\perp
    i}\kappa/2|c|sr)$ is largest half way to the crossing, where $\gamma_i$ has lost half its value.

    [derived, turning rule], to first order. Measured, on the same two laws: attention on token 0
    has its first maximum at .86 to 1.41 times this, with $\gamma_i$ at .44 to .51 of its value.
    """
    crossing = crossing_strength(
        stationary=stationary, transition=transition, phi_scale=phi_scale, rate_ratio=rate_ratio
    )
    return crossing / 2
