"""Who wins among the distinct tokens of a class: the relative gain and what it conserves (Theorem
3).

Each distinct token's logit moves in proportion to its squared feature, and that alone fixes how any
two of them stand for ever: knowing the growth of one gives the growth of all, whatever the speed
and the drive. Exact for the theory's own flow, in which the decoder is always that of the present
features; not for joint training, where it remembers older ones.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "GrowthFactorBounds",
    "conserved_gain",
    "follower_logit_gain",
    "growth_factor",
    "growth_factor_bounds",
    "relative_gain",
    "relative_gain_forecast",
]


class GrowthFactorBounds(NamedTuple):
    """Between what the growth factor of the dominant token must lie."""

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


def relative_gain(weight: ArrayLike, other_weight: ArrayLike) -> NDArray[np.float64]:
    r"""Lead of token l over token l', $r_{l/l'|n} = f_{nl}^2/f_{nl'}^2 - 1$: 0 for a tie, -1 when l
    is gone, unbounded above.

    [tian2023, Theorem 3]. Only the ratio matters: features, attentions and $P(l|n)e^{z_{ml}}$ give
    the same answer.

    | ours         | theirs                     |
    |--------------|----------------------------|
    | weight       | f_nl, c_nl, or c-tilde_nl  |
    | other_weight | the same for l'            |
    """
    return (np.asarray(weight, float) / np.asarray(other_weight, float)) ** 2 - 1


def growth_factor(logit_gain: ArrayLike) -> NDArray[np.float64]:
    r"""Growth factor, $\chi_l(t) = e^{2(z_{ml}(t)-z_{ml}(0))}$: 1 at the start.

    [tian2023, Theorem 3].

    | ours       | theirs              |
    |------------|---------------------|
    | logit_gain | z_ml(t) - z_ml(0)   |
    """
    return np.exp(2 * np.asarray(logit_gain, float))


def relative_gain_forecast(initial: ArrayLike, logit_gain: ArrayLike) -> NDArray[np.float64]:
    r"""Lead of l over l' from the growth of l alone, $r_{l/l'|n}(t) = r_{l/l'|n}(0)\,\chi_l(t)$.

    [tian2023, Theorem 3]. Domain: l and l' distinct tokens of the same class, theory's flow.

    | ours       | theirs              |
    |------------|---------------------|
    | initial    | r_{l/l'}(0)         |
    | logit_gain | z_ml(t) - z_ml(0)   |
    """
    return np.asarray(initial, float) * growth_factor(logit_gain)


def conserved_gain(logit_gain: ArrayLike, initial_weight: ArrayLike) -> NDArray[np.float64]:
    r"""What all distinct tokens of a class share at any time, $(1 - e^{-2\Delta z_{ml}})/\tilde
    c_{l|n}(0)^2$.

    Behind [tian2023, Theorem 3]: $\dot z_{ml} \propto f_{nl}^2 \propto \tilde c_l(0)^2e^{2\Delta
    z}$ with one factor per class, so each side of $e^{-2\Delta z_l}-1 = (r(0)+1)(e^{-2\Delta
    z_{l'}}-1)$ is the same integral.

    | ours           | theirs                                       |
    |----------------|----------------------------------------------|
    | logit_gain     | Delta z_ml = z_ml(t) - z_ml(0)               |
    | initial_weight | c-tilde(0) = P(l given n) e^{z_ml(0)}        |
    """
    return -np.expm1(-2 * np.asarray(logit_gain, float)) / np.asarray(initial_weight, float) ** 2


def follower_logit_gain(logit_gain: ArrayLike, initial: ArrayLike) -> NDArray[np.float64]:
    r"""Growth of l' from that of l, $\Delta z_{l'} = -\tfrac12\ln[1 + (e^{-2\Delta
    z_l}-1)/(1+r_{l/l'}(0))]$.

    [tian2023, Theorem 3], the conserved quantity solved. It stops at $\tfrac12\ln(1+1/r_{l/l'}(0))$
    even if l grows for ever: a follower's logit is bounded, only the leader's is not. Domain:
    $\Delta z_l \ge 0$, $r \ge 0$.

    | ours       | theirs                          |
    |------------|---------------------------------|
    | logit_gain | Delta z of the leader l         |
    | initial    | r_{l/l'}(0)                     |
    """
    return -0.5 * np.log1p(
        np.expm1(-2 * np.asarray(logit_gain, float)) / (1 + np.asarray(initial, float))
    )


def growth_factor_bounds(growth_bound: ArrayLike, *, initial_feature: float) -> GrowthFactorBounds:
    r"""Bounds for the dominant token, $e^{2f_{nl_0}(0)^2B_n(t)} \le \chi_{l_0}(t) \le e^{2B_n(t)}$.

    [tian2023, Theorem 3]. Domain: $r_{l_0/l}(0) > 0$ for every other distinct token of n, all
    common tokens of n falling. $B_n = \eta_Z\int\xi_n$ must be counted as the logits are: with the
    1/K of `per_step`, or without, in both.

    | ours            | theirs               |
    |-----------------|----------------------|
    | initial_feature | f_{n l_0}(0)         |
    """
    B = np.asarray(growth_bound, float)
    return GrowthFactorBounds(lower=np.exp(2 * initial_feature**2 * B), upper=np.exp(2 * B))
