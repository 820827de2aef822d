r"""All growth rates at the origin and at the unigram point, with their multiplicities, in closed
form.

At both points the growing direction comes once for each dimension of the space it lives in (width
or key width), together with a decaying twin: there is no single unstable direction, and the
attention block is indefinite. Rates 1 for all weights.

| ours       | theirs                    | axes |
|------------|---------------------------|------|
| d_model    | m (width)                 |      |
| d_key      | m (queries and keys)      |      |
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...errors import checked_count
from .condensation import condensation_rate
from .laws import two_level_chain, two_level_law
from .transition import overlap_target, relaxation_rate
from .unigram import focus_rate, unigram_point

__all__ = [
    "attention_spectrum",
    "origin_spectrum",
    "outer_spectrum",
    "two_level_focus_rate",
    "two_level_outer_spectrum",
    "unigram_logit_gradient",
]


def origin_spectrum(*, stationary: ArrayLike, d_model: int, d_key: int) -> NDArray[np.float64]:
    r"""$\mu_0$ and $-\mu_0$, each m times, and zeros, largest first. [derived, spectra] from
    [chen2026, eq. 10]; any law.

    >>> origin_spectrum(stationary=[0.6, 0.3, 0.1], d_model=2, d_key=1)[:3].round(4)
    array([0.2414, 0.2414, 0.    ])
    """
    mu_0, n_vocab, d_model = (
        condensation_rate(stationary=stationary),
        np.size(stationary),
        checked_count("d_model", d_model),
    )
    return _with_zeros([mu_0] * d_model + [-mu_0] * d_model, 2 * d_model * (n_vocab + d_key))


def attention_spectrum(
    *, stationary: ArrayLike, transition: ArrayLike, d_model: int, d_key: int
) -> NDArray[np.float64]:
    r"""Of $J_{att}$ at the unigram point: c and -c, each as often as there are key dimensions, and
    zeros, largest first.

    The block is [chen2026, eq. 14]; its spectrum, and any law, are [derived, spectra].

    >>> pi = np.array([0.6, 0.3, 0.1])
    >>> attention_spectrum(stationary=pi, transition=0.5 * np.eye(3) + 0.5 * pi, d_model=2, d_key=1).round(4)
    array([ 0.0141,  0.    ,  0.    , -0.0141])
    """
    c = focus_rate(stationary=stationary, transition=transition)
    d_model, d_key = checked_count("d_model", d_model), checked_count("d_key", d_key)
    return _with_zeros([c] * d_key + [-c] * d_key, 2 * d_model * d_key)


def outer_spectrum(*, stationary: ArrayLike, d_model: int) -> NDArray[np.float64]:
    r"""Of $J_{out}$ at the unigram point, largest first: the d - 1 nonzero rates are eigenvalues of
    $-\lVert\pi\rVert^2(g^2I+\beta\beta^\top)\mathrm{Var}(\pi)$, all others are 0.

    [derived, spectra] for any law; it is [chen2026, eqs. 144 and 145] with $\dot x \parallel \pi$
    used.

    >>> outer_spectrum(stationary=[0.6, 0.3, 0.1], d_model=1).round(4)
    array([ 0.    ,  0.    ,  0.    ,  0.    , -0.1769, -0.4584])
    """
    pi = np.asarray(stationary, float)
    gamma, beta = unigram_point(stationary=pi)
    root = np.linalg.cholesky((gamma @ gamma) * np.eye(len(pi)) + np.outer(beta, beta))
    rates = -(pi @ pi) * np.linalg.eigvalsh(root.T @ (np.diag(pi) - np.outer(pi, pi)) @ root)
    return _with_zeros(sorted(rates)[:-1], 2 * d_model * len(pi))


def two_level_outer_spectrum(*, high: float, n_vocab: int, d_model: int) -> NDArray[np.float64]:
    r"""The same for equal rare tokens: $-\rho$ once, $-\kappa_1^2\lVert\pi\rVert^2\pi_l$ d - 2
    times. [derived, spectra].
    """
    pi = two_level_law(high=high, n_vocab=n_vocab)
    slow = -overlap_target(high=high, n_vocab=n_vocab) * (pi @ pi) * pi[-1]
    return _with_zeros(
        [-relaxation_rate(high=high, n_vocab=n_vocab)] + [slow] * (n_vocab - 2),
        2 * d_model * n_vocab,
    )


def two_level_focus_rate(*, high: float, n_vocab: int, stay: float) -> float:
    r"""$c =
    \lambda\kappa_1^4\lVert\pi\rVert_{\mathrm{Var}(\pi)}^4/(\lVert\pi-1/d\rVert\,\lVert\pi\rVert^3)$
    with $\lVert x\rVert_C^2 = x^\top Cx$. [chen2026, Proposition 3.4].
    """
    pi = two_level_chain(high=high, n_vocab=n_vocab, stay=stay)
    spread = pi @ (np.diag(pi) - np.outer(pi, pi)) @ pi
    kappa_4 = overlap_target(high=high, n_vocab=n_vocab) ** 2
    return float(
        stay * kappa_4 * spread**2 / (np.linalg.norm(pi - 1 / n_vocab) * np.linalg.norm(pi) ** 3)
    )


def unigram_logit_gradient(*, high: float, n_vocab: int, stay: float) -> NDArray[np.float64]:
    r"""$\partial L/\partial\Phi = -\lambda\kappa_1^2\mathrm{Var}(\pi)\,\hat
    u\hat\pi^\top\mathrm{Var}(\pi)$ at the unigram point.

    [chen2026, eq. 129]. Axes: query, token.
    """
    pi = two_level_chain(high=high, n_vocab=n_vocab, stay=stay)
    C, u = np.diag(pi) - np.outer(pi, pi), (pi - 1 / n_vocab) / np.linalg.norm(pi - 1 / n_vocab)
    return (
        -stay
        * overlap_target(high=high, n_vocab=n_vocab)
        * np.outer(C @ u, pi @ C)
        / np.linalg.norm(pi)
    )


def _with_zeros(rates: list[float], count: int) -> NDArray[np.float64]:
    """Rates and as many zeros as are missing, largest first."""
    return np.sort(np.append(rates, np.zeros(count - len(rates))))[::-1]
