"""Theorem 4 made consistent with Theorem 2: the common token falls through all K classes at once.

Theorem 4 lets the common token feel one class (eq. 13) where Theorem 2 sums over them (eq. 100);
with the sum it falls K times as fast, and the growth bound is K times smaller. Two forms: the
paper's other approximations kept, and the coupling's floor of 1/M kept too, which the flow reaches
in finite time because its own overlaps shrink. Ours. Not here: the printed theorem (snapping.py).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .clock import speed_integral

__all__ = ["floored_growth_bound", "self_consistent_growth_bound"]


def self_consistent_growth_bound(
    t: ArrayLike,
    *,
    n_vocab: int,
    n_classes: int,
    lr_decoder: float,
    lr_attention: float,
    normaliser: float,
    distinct_concentration: float = 0.0,
    per_step: bool = True,
) -> NDArray[np.float64]:
    r"""Growth bound with $\dot z_l = -\eta_ZK\xi_n$: $B_n =
    \frac{1}{4\kappa}\ln(1+4\kappa(K-1)\Gamma/\rho_0^4)$, $\kappa = K + s$, $z_l = -KB_n$.

    Ours, for [tian2023, Theorem 4]. With s = 0 the normaliser of the features is constant, as the
    paper assumes; but distinct tokens grow it, $d\ln\lVert\tilde c_n\rVert = s\,dB_n$ with $s =
    \sum_l f_{nl}^4$ over them (1 for a single one). Against the theory's flow with one distinct
    token, overlap .01 and M = 10^6, s = 0 is 34 % high at K = 2 and 8 % at K = 10; s = 1 is within
    1 %. `per_step` takes $\eta_Z/K$ for $\eta_Z$, as batch-1 descent does. Domain: overlaps between
    1/M and 1/K.

    | ours                   | theirs                                  |
    |------------------------|-----------------------------------------|
    | t                      | t (batch-1 steps)                       |
    | normaliser             | rho_0 = 1 / f_nl(0), l the common token |
    | distinct_concentration | s                                       |
    """
    K, kappa = n_classes, n_classes + distinct_concentration
    distance = _distance(
        t,
        lr_attention / K if per_step else lr_attention,
        n_vocab=n_vocab,
        n_classes=K,
        lr_decoder=lr_decoder,
    )
    return np.log1p(4 * kappa * (K - 1) * distance / normaliser**4) / (4 * kappa)


def floored_growth_bound(
    t: ArrayLike,
    *,
    n_vocab: int,
    n_classes: int,
    lr_decoder: float,
    lr_attention: float,
    normaliser: float,
    distinct_concentration: float = 0.0,
    per_step: bool = True,
) -> NDArray[np.float64]:
    r"""The same with $\beta \approx \rho + 1/M$, $\rho = e^{-2\kappa B}/\rho_0^2$: $B_n =
    \frac{1}{2\kappa}\ln(v/v_0)$, $v = 1/(M\rho)$.

    Ours, for [tian2023, Theorem 4]. $\dot v \propto 1 + 1/v$ gives $v - \ln(1+v) = v_0 - \ln(1+v_0)
    + 2\kappa(K-1)\Gamma/M^2$, solved by Newton's method. While $\rho \gg 1/M$ it is
    `self_consistent_growth_bound`; beyond, the slope in $\ln\Gamma$ doubles from
    $\frac{1}{4\kappa}$ to $\frac{1}{2\kappa}$. Theorem 1 drops the 1/M, and Assumption 2 keeps
    overlaps away from it, but only at t = 0: Theorem 4's own flow shrinks them without end. Domain:
    overlaps below 1/K.

    | ours                   | theirs                                  |
    |------------------------|-----------------------------------------|
    | t                      | t (batch-1 steps)                       |
    | normaliser             | rho_0 = 1 / f_nl(0), l the common token |
    | distinct_concentration | s                                       |
    """
    M, K, kappa = n_vocab, n_classes, n_classes + distinct_concentration
    distance = _distance(
        t,
        lr_attention / K if per_step else lr_attention,
        n_vocab=M,
        n_classes=K,
        lr_decoder=lr_decoder,
    )
    v_0 = normaliser**2 / M
    target = v_0 - np.log1p(v_0) + 2 * kappa * (K - 1) * distance / M**2
    # Newton from the right: v - ln(1+v) is convex and at least v^2 / (2 + 2v), so this start
    # overshoots and every step descends to the root. Four steps reach rounding from any target.
    v = target + np.sqrt(target * (target + 2))
    for _ in range(4):
        v = v - (v - np.log1p(v) - target) * (1 + v) / v
    return np.log(v / v_0) / (2 * kappa)


def _distance(
    t: ArrayLike, rate: float, *, n_vocab: int, n_classes: int, lr_decoder: float
) -> NDArray[np.float64]:
    r"""The paper's $\Gamma$ at a given rate of attention."""
    return rate * speed_integral(t, n_vocab=n_vocab, n_classes=n_classes, lr_decoder=lr_decoder)
