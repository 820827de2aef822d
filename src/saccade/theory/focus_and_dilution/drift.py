r"""Stage III, dilution: attention moves embedding mass from rare tokens to frequent ones, and so undoes its own focus.

Along $\pi$ the embedding is held by the loss; orthogonal to it nothing holds it at the unigram point, and there it drifts with
the strength of attention: $\dot\gamma_\perp = \kappa F_\perp$. A rare token's $\gamma_i$ shrinks, crosses zero, and its query turns
away from the frequent token. First order in $\kappa$, for a focus rate other than zero; the whole path is the rank-one flow
(rank_one.py).

| ours         | theirs                          | axes         |
|--------------|---------------------------------|--------------|
| rate_ratio   | r = lr_attention / lr_decoder   |              |
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .unigram import focus_rate, unigram_point

__all__ = [
    "crossing_strength",
    "drift_direction",
    "drift_displacement",
    "drift_exponent",
    "mass_redistribution",
    "off_stationary",
    "peak_strength",
    "two_level_combination",
]


def mass_redistribution(*, stationary: ArrayLike, transition: ArrayLike) -> NDArray[np.float64]:
    r"""Force of attention on the embedding at the unigram point, per unit of strength:
    $F_j = 2K_1\pi_j(\gamma_j-\langle\gamma\rangle) + \pi_j[(P_j-\pi)\cdot\beta]\,\mathrm{Var}_\pi\gamma$,
    $K_1 = \sum_i\pi_i\gamma_i(P_i-\pi)\cdot\beta$.

    [derived, stage III]. $\sum_jF_j = 0$, so it only redistributes; $\gamma\cdot F = 3c$.
    """
    pi, P = np.asarray(stationary, float), np.asarray(transition, float)
    gamma, beta = unigram_point(stationary=pi)
    gain, above = (P - pi) @ beta, gamma - pi @ gamma
    K_1, variance = np.sum(pi * gamma * gain), np.sum(pi * above**2)
    return pi * (2 * K_1 * above + gain * variance)


def off_stationary(gamma: ArrayLike, *, stationary: ArrayLike) -> NDArray[np.float64]:
    r"""The part of an embedding pattern orthogonal to the law, $\gamma_\perp = \gamma - \hat\pi(\hat\pi\cdot\gamma)$.

    Zero at the unigram point. Leading axes (seed, time) are kept.
    """
    gamma, pi = np.asarray(gamma, float), np.asarray(stationary, float)
    return gamma - (gamma @ pi)[..., None] * pi / (pi @ pi)


def drift_direction(*, stationary: ArrayLike, transition: ArrayLike) -> NDArray[np.float64]:
    r"""Where the embedding drifts, $F_\perp$, the part of the force that nothing opposes. [derived, stage III]."""
    force = mass_redistribution(stationary=stationary, transition=transition)
    return off_stationary(force, stationary=stationary)


def drift_exponent(*, stationary: ArrayLike, transition: ArrayLike, phi_scale: float = 1.0, lr_attention: float = 1.0) -> float:
    r"""Growth rate of $\lVert\gamma_\perp\rVert$, $2|c|$: that of the strength.

    [derived, stage III]. [chen2026, Theorem 3.7] writes $e^{ct}$, where c is twice the c of Proposition 3.4. Ours is that of
    Proposition 3.4, hence $e^{2ct}$.
    """
    rate = focus_rate(stationary=stationary, transition=transition, phi_scale=phi_scale, lr_attention=lr_attention)
    return 2 * abs(rate)


def drift_displacement(
    strength: ArrayLike, *, stationary: ArrayLike, transition: ArrayLike, phi_scale: float = 1.0, rate_ratio: float = 1.0
) -> NDArray[np.float64]:
    r"""How far the embedding has drifted when attention has a given strength, $\gamma_\perp = F_\perp\kappa/(2|c|sr)$.

    [derived, stage III]: the integral of $\dot\gamma_\perp = \kappa F_\perp$ with $\kappa \propto e^{2|c|srt}$, time in units of
    1 / lr_decoder. For c < 0 both the strength and the force change sign: frequent tokens gain all the same.
    """
    rate = focus_rate(stationary=stationary, transition=transition, phi_scale=phi_scale, lr_attention=rate_ratio)
    force = drift_direction(stationary=stationary, transition=transition)
    return np.asarray(strength, float)[..., None] * force / (2 * abs(rate))


def two_level_combination(gamma: ArrayLike, *, high: float) -> NDArray[np.float64]:
    r"""The paper's measure of drift, $(1-\pi_1)\gamma_1 - (d-1)\pi_1\gamma_i$ for each low token i.

    [chen2026, Proposition 3.6]. Zero for $\gamma \propto \pi$, if all low tokens share the rest $1-\pi_1$ equally. Leading
    axes are kept.
    """
    gamma = np.asarray(gamma, float)
    n_low = gamma.shape[-1] - 1
    return (1 - high) * gamma[..., :1] - n_low * high * gamma[..., 1:]


def crossing_strength(
    *, stationary: ArrayLike, transition: ArrayLike, phi_scale: float = 1.0, rate_ratio: float = 1.0
) -> NDArray[np.float64]:
    r"""Strength at which $\gamma_i$ crosses zero and query i looks at token 0 by its share again,
    $\kappa = -2|c|sr\,\gamma_i/F_{\perp i}$; infinite for a token that gains.

    [derived, turning rule], to first order: on the paper's law and on six Zipf tokens the rank-one flow crosses at .74 to 1.15
    times this, except for the second Zipf token, whose loss is caught before it crosses.
    """
    gamma = unigram_point(stationary=stationary).gamma
    per_strength = drift_displacement(1.0, stationary=stationary, transition=transition, phi_scale=phi_scale, rate_ratio=rate_ratio)
    sign = np.sign(focus_rate(stationary=stationary, transition=transition, phi_scale=phi_scale))
    loses = sign * per_strength < 0
    return np.where(loses, -gamma / np.where(loses, per_strength, 1.0), sign * np.inf)


def peak_strength(
    *, stationary: ArrayLike, transition: ArrayLike, phi_scale: float = 1.0, rate_ratio: float = 1.0
) -> NDArray[np.float64]:
    r"""Strength at which the focus of query i turns: $\Phi_{i0} \propto \kappa(\gamma_i + F_{\perp i}\kappa/2|c|sr)$ is largest
    half way to the crossing, where $\gamma_i$ has lost half its value.

    [derived, turning rule], to first order: on the same two laws attention on token 0 has its first maximum at .86 to 1.41 times
    this, with $\gamma_i$ at .44 to .51 of its value.
    """
    crossing = crossing_strength(stationary=stationary, transition=transition, phi_scale=phi_scale, rate_ratio=rate_ratio)
    return crossing / 2
