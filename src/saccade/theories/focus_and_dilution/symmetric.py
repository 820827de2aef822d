r"""Equal rare tokens: the degenerate points where the rank-one flow gets stuck, and what sets it
free.

Token 0 has mass $\pi_1$, the other m = d - 1 tokens share the rest equally, and the chain is lazy.
On the rank-one manifold low tokens cannot be told apart: the flow reaches the right prediction
after token 0 and the class mean after the others. There both composite gradients vanish, so no new
direction grows. Two things end the stall: an asymmetry of the rare tokens, which opens a new
direction at a rate of its own size, or a stay above a critical value, where the symmetry breaks
inside the manifold.

These points form a curve, here labelled by the attention of token 0 on itself. Which of them the
flow reaches depends on its path; `critical_stay` does not. Domain: equal rates, phi_scale = 1, stay
> 0, token 0 more frequent than the others.

| ours           | theirs            | axes      |
|----------------|-------------------|-----------|
| high_attention | A_11              |           |
| low_attention  | A_l1              |           |
| span           | beta_1 - beta_l   |           |
| targets        | P_11, P_1l, p, P_ll |         |
| point          | a degenerate point|           |
"""

from typing import NamedTuple

import numpy as np
import scipy  # its parts load when they are used
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit

from ...errors import InputError
from .laws import two_level_chain, two_level_law
from .rank_one import RankOneState

__all__ = [
    "DegeneratePoint",
    "TwoLevelTargets",
    "averages_hessian",
    "critical_stay",
    "degenerate_point",
    "log_odds",
    "symmetry_hessian",
    "transverse_pattern",
    "transverse_rate",
    "two_level_targets",
]


_LEAST_GAIN = (
    1e-9  # in log odds of attention: nearer to its share, rounding of the mass itself shows
)


class TwoLevelTargets(NamedTuple):
    """Next-token probabilities at a degenerate point: after token 0, and after any rare token (the
    class mean).

    `high_low` is that of one rare token after token 0. Theirs: P_11, P_1l, p, P_ll.
    """

    high_high: float
    high_low: float
    low_high: float
    low_low: float


class DegeneratePoint(NamedTuple):
    """One degenerate point: its law, its state, and the attention on token 0 of token 0 and of a
    rare token.
    """

    high: float
    stay: float
    state: RankOneState
    high_attention: float
    low_attention: float


def two_level_targets(*, high: float, n_vocab: int, stay: float) -> TwoLevelTargets:
    r"""$P_{11} = \lambda+(1-\lambda)\pi_1$, $P_{1l} = (1-\lambda)\pi_l$, $p = (1-\lambda)\pi_1$,
    and the class mean $P_{ll} = (1-p)/m$.

    [chen2026, Proposition 3.8] states the class mean; the numbers follow from the lazy chain.
    """
    two_level_chain(high=high, n_vocab=n_vocab, stay=stay)  # refuses what is no such chain
    if stay == 1:
        raise InputError(
            "`stay` must be below 1: a chain that never moves leaves nothing to predict."
        )
    n_low, low_high = n_vocab - 1, (1 - stay) * high
    return TwoLevelTargets(
        stay + low_high, (1 - stay) * (1 - high) / n_low, low_high, (1 - low_high) / n_low
    )


def log_odds(targets: TwoLevelTargets) -> tuple[float, float]:
    r"""$x_1 = \log(P_{11}/P_{1l})$ and $x_l = \log(p/P_{ll})$: logit of token 0 above that of a
    rare token, after token 0 and after a rare token. [derived, degenerate point].
    """
    return float(np.log(targets.high_high / targets.high_low)), float(
        np.log(targets.low_high / targets.low_low)
    )


def averages_hessian(
    *, high: float, n_vocab: int, stay: float, span: float = 1.0
) -> NDArray[np.float64]:
    r"""On the rank-one manifold the loss depends on $\gamma$ and $\kappa$ through the averages $h_i
    = A_i\cdot\gamma$ alone. Its Hessian for moves of $(\beta_l, h_l)$ that sum to zero over rare
    tokens, at every degenerate point alike:

    $\begin{pmatrix}S & -\lambda\pi_l\\ -\lambda\pi_l & \pi_lp(1-p)\,\Delta\beta^2\end{pmatrix}$
    with $S = [\pi_1x_1^2P_{1l} + (1-\pi_1)x_l^2P_{ll}]/\Delta\beta^2$ and $\Delta\beta =
    \beta_1-\beta_l$, the `span`.

    [derived, degenerate point]. The determinant does not depend on the span.
    """
    targets, pi_l = (
        two_level_targets(high=high, n_vocab=n_vocab, stay=stay),
        (1 - high) / (n_vocab - 1),
    )
    (x_1, x_l), p = log_odds(targets), targets.low_high
    S = (high * x_1**2 * targets.high_low + (1 - high) * x_l**2 * targets.low_low) / span**2
    return np.array([[S, -stay * pi_l], [-stay * pi_l, pi_l * p * (1 - p) * span**2]])


def critical_stay(high: float, n_vocab: int) -> float:
    r"""The stay above which exact symmetry breaks by itself: the $\lambda_c$ at which
    $\lambda^2\pi_l = [\pi_1x_1^2P_{1l} + (1-\pi_1)x_l^2P_{ll}]\,p(1-p)$, $x_1 =
    \log(P_{11}/P_{1l})$, $x_l = \log(p/P_{ll})$.

    [derived, degenerate point]: where the determinant of `averages_hessian` changes sign, at every
    degenerate point alike. Both sides depend on $\lambda$; the left is smaller at 0 and larger at
    1.

    >>> round(critical_stay(0.75, 4), 4)
    0.7077
    """
    two_level_law(high=high, n_vocab=n_vocab)  # refuses what is no such law
    if n_vocab < 3:
        raise InputError(
            f"`n_vocab` must be at least 3, for two rare tokens that can separate; got {n_vocab}."
        )

    def held(stay: float) -> float:
        return float(np.linalg.det(averages_hessian(high=high, n_vocab=n_vocab, stay=stay)))

    return float(scipy.optimize.brentq(held, 0.0, np.nextafter(1.0, 0.0), xtol=1e-14))


def degenerate_point(
    *, high: float, n_vocab: int, stay: float, high_attention: float
) -> DegeneratePoint:
    r"""The degenerate point at which token 0 attends to itself with weight $A_{11} > \pi_1$.

    With $D = \gamma_1-\gamma_l$, $x = \beta_1-\beta_l$ and log odds $a_i$ of attention on token 0
    ($a$ for its share): $\kappa D^2 = a_1-a_l$, $\gamma_l/D = (a_l-a)/(a_1-a_l)$, $xD =
    (x_1-x_l)/(A_{11}-A_{l1})$, and the balance $\lVert\gamma\rVert^2 = \lVert\beta\rVert^2 +
    2\kappa$ gives D. What remains is one equation for $a_l$.

    [derived, degenerate point].
    """
    if not high < high_attention < 1:
        raise InputError(f"A degenerate point needs `high_attention` between {high:g} and 1.")
    return point_at_gain(
        float(logit(high_attention) - logit(high)), high=high, n_vocab=n_vocab, stay=stay
    )


def point_at_gain(gain: float, *, high: float, n_vocab: int, stay: float) -> DegeneratePoint:
    """The same by how far attention has moved, $a_1 - a$: it has digits left where $A_{11}$ rounds
    to 1.
    """
    targets = two_level_targets(high=high, n_vocab=n_vocab, stay=stay)
    if not stay > 0:
        raise InputError("A degenerate point needs `stay` above 0.")
    if gain < _LEAST_GAIN:
        raise InputError(
            f"`high_attention` is too close to {high:g} to compute its degenerate point."
        )
    (x_1, x_l), m, a = log_odds(targets), n_vocab - 1, float(logit(high))
    share = _low_share(x_1, x_l, a=a, gain=gain)
    apart, a_l = gain * (1 - share), a + gain * share  # a_1 - a_l, a_l
    difference = np.sinh(apart / 2) / (
        2 * np.cosh((a + gain) / 2) * np.cosh(a_l / 2)
    )  # A_11 - A_l1, without cancellation
    low, span = share / (1 - share), (x_1 - x_l) / difference
    D = ((span**2 * m / n_vocab + 2 * apart) / ((1 + low) ** 2 + m * low**2)) ** 0.25
    gamma, beta = (
        D * np.append(1 + low, np.full(m, low)),
        span / D * (np.eye(n_vocab)[0] - 1 / n_vocab),
    )
    scale = float(np.sqrt(apart) / D)
    return DegeneratePoint(
        high,
        stay,
        RankOneState(gamma, beta, scale, scale),
        float(expit(a + gain)),
        float(expit(a_l)),
    )


def _low_share(x_1: float, x_l: float, *, a: float, gain: float) -> float:
    """y = (a_l - a) / (a_1 - a) for which h_1 / h_l = x_1 / x_l; it lies below 1, where the
    mismatch is negative.
    """

    def mismatch(y: float) -> float:
        return float(
            x_l * (y + expit(a + gain) * (1 - y)) - x_1 * (y + expit(a + gain * y) * (1 - y))
        )

    step = 1.0
    while mismatch(1 - step) <= 0:  # it grows without bound below
        step *= 2
    return float(scipy.optimize.brentq(mismatch, 1 - step, 1.0, xtol=1e-15))


def _levels(point: DegeneratePoint) -> tuple[float, float, float, float]:
    """Averages h_1 and h_l of gamma as the two kinds of query see them, strength, and variance of
    gamma for a low query.
    """
    (high_gamma, low_gamma), state = point.state.gamma[:2], point.state
    step = high_gamma - low_gamma
    variance = point.low_attention * (1 - point.low_attention) * step**2
    averages = low_gamma + step * np.array([point.high_attention, point.low_attention])
    return averages[0], averages[1], state.query_scale * state.key_scale, variance


def symmetry_hessian(point: DegeneratePoint) -> NDArray[np.float64]:
    r"""Hessian of the loss for moves of $(\beta, \gamma)$ that sum to zero over rare tokens, the
    same block for each such move:

    $\begin{pmatrix}\sum_i\pi_ih_i^2p_{il} & -\lambda\pi_l\kappa V\\ -\lambda\pi_l\kappa V &
    \pi_l\kappa^2V^2p(1-p)x^2\end{pmatrix}$ with $V = \mathrm{Var}_{A_l}\gamma$ and $x =
    \beta_1-\beta_l$.

    [derived, degenerate point]: `averages_hessian` with $dh_l = \kappa V\,d\gamma_l$. A negative
    determinant means that the symmetry breaks by itself (`critical_stay`).
    """
    *_, kappa, V = _levels(point)
    span, scale = float(point.state.beta[0] - point.state.beta[1]), np.array([1.0, kappa * V])
    H = averages_hessian(
        high=point.high, n_vocab=len(point.state.gamma), stay=point.stay, span=span
    )
    return H * np.outer(scale, scale)


def transverse_pattern(point: DegeneratePoint) -> NDArray[np.float64]:
    r"""Embedding pattern a of the direction that an asymmetry opens, $\partial L/\partial M =
    a(\delta c)^\top + O(\delta^2)$.

    The rank-one state first follows the asymmetry, $(\Delta\beta_l, \Delta\gamma_l) = (Y,
    X)\,\delta c$ with H of `symmetry_hessian`, $H(Y, X)^\top = (\lambda h_l +
    (1-\lambda)\sum_i\pi_ih_i, 0)^\top$; then $a_j = Y\sum_i\pi_iA_{ij}h_ip_{il} -
    (1-\lambda)\sum_i\pi_iA_{ij} - \lambda A_{lj}[1 + \pi_l\kappa X(\gamma_j-h_l)]$.

    [derived, degenerate point]. $a\perp\gamma$, and $\partial L/\partial\Phi = O(\delta^2)$. Axis:
    token.
    """
    n_vocab, pi_1, stay, gamma = len(point.state.gamma), point.high, point.stay, point.state.gamma
    h_1, h_l, kappa, _ = _levels(point)
    targets, pi_l = (
        two_level_targets(high=pi_1, n_vocab=n_vocab, stay=stay),
        (1 - pi_1) / (n_vocab - 1),
    )
    force = stay * h_l + (1 - stay) * (pi_1 * h_1 + (1 - pi_1) * h_l)
    Y, X = np.linalg.solve(symmetry_hessian(point), [force, 0.0])
    A_1, A_l = (
        np.append(A, np.full(n_vocab - 1, (1 - A) / (n_vocab - 1)))
        for A in (point.high_attention, point.low_attention)
    )
    fitted = Y * (pi_1 * A_1 * h_1 * targets.high_low + (1 - pi_1) * A_l * h_l * targets.low_low)
    resampled = (1 - stay) * (pi_1 * A_1 + (1 - pi_1) * A_l)
    return fitted - resampled - stay * A_l * (1 + pi_l * kappa * X * (gamma - h_l))


def transverse_rate(point: DegeneratePoint, *, asymmetry: ArrayLike) -> float:
    r"""Growth rate of the new direction, $\lVert a\rVert\,\lVert\delta c\rVert$, to first order:
    the rank-one state moves along.

    That it is $\Theta(\delta)$ is [chen2026, Theorem 3.9]; the factor is [derived, degenerate
    point].
    """
    return float(
        np.linalg.norm(transverse_pattern(point))
        * asymmetry_size(asymmetry, len(point.state.gamma))
    )


def asymmetry_size(asymmetry: ArrayLike, n_vocab: int) -> float:
    r"""$\lVert\delta c\rVert$, if it lists each rare token's mass less their mean."""
    c = np.asarray(asymmetry, float)
    if c.shape != (n_vocab - 1,) or not abs(c.sum()) <= 1e-6 * np.abs(c).max():
        raise InputError(
            f"`asymmetry` must have a number for each of the {n_vocab - 1} rare tokens, its frequency minus their mean, with sum 0."
        )
    return float(np.linalg.norm(c))
