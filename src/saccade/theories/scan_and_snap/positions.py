r"""Attention with a positional prior: what e^{z + b} renormalised does to Lemma 4, and with it to
fates and order.

A token at distance d from the query has the score $z_l + b_d$. In a long context attention on a
token is summed over its places, so the prior acts through one number for each token and class, its
mean weight $w_{l|n} = \sum_d P(d|l, n) e^{b_d}$: Lemma 4 and all that follows from it hold with
$P(l|n)\, w_{l|n}$ for P(l|n). Ours; [tian2023, section 7] says that a prior acts on tokens, no
more. Not here: absolute positions added to embeddings, which make scores depend on token and place
together.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...errors import InputError

__all__ = ["crossing_slope", "distance_dot", "effective_prob", "fate_ratio"]


def effective_prob(joint_prob: ArrayLike, prior: ArrayLike) -> NDArray[np.float64]:
    r"""What a prior makes of frequencies, $\tilde P(l|n) \propto \sum_d P(l, d|n) e^{b_d} =
    P(l|n)\, w_{l|n}$.

    Ours. Give it to whatever takes `token_prob`. A hard window is a prior of 0 and -inf.

    | ours       | letter        | axes                   |
    |------------|---------------|------------------------|
    | joint_prob | P(l, d given n) | class, distance, token |
    | prior      | b_d           | distance               |
    """
    joint, b = np.asarray(joint_prob, float), np.asarray(prior, float)
    if joint.ndim != 3 or b.shape != joint.shape[1:2] or not np.isfinite(b.max()):
        raise InputError(
            "`joint_prob` must have the axes class, distance, token, and `prior` a bias for each distance, not all of them -inf; "
            f"got shapes {joint.shape} and {b.shape}."
        )
    weight = np.einsum("ndl,d->nl", joint, np.exp(b - b.max()))
    return weight / weight.sum(axis=-1, keepdims=True)


def distance_dot(
    joint_prob: ArrayLike, prior: ArrayLike, token_dot: ArrayLike, class_weight: ArrayLike
) -> NDArray[np.float64]:
    r"""Velocity of a bias that learns at rate 1, $\dot b_d = \sum_n P(n) \sum_l P(d|l,
    n)\frac{e^{b_d}}{w_{l|n}} \dot z_{l|n}$.

    Ours. A distance moves as the tokens that stand there, each by the share of its attention that
    falls there. `token_dot` is each class's part of the velocity of the attention logits at rate 1,
    before P(n) (class, token).

    | ours              | letter               |
    |-------------------|----------------------|
    | joint_prob, prior | P(l, d given n), b_d |
    | token_dot         | z_l dot of class n   |
    | class_weight      | P(n)                 |
    """
    joint, b = np.asarray(joint_prob, float), np.asarray(prior, float)
    weight = joint * np.exp(b - b.max())[:, None]
    total = weight.sum(axis=1, keepdims=True)
    share = np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)
    return np.einsum(
        "n,ndl,nl->d", np.asarray(class_weight, float), share, np.asarray(token_dot, float)
    )


def fate_ratio(overlap: float, *, one_query: bool = True) -> float:
    r"""A common token of two classes gains attention once its feature in one class is below this
    share of that in the other: $x^* = (1 - \sqrt{1 - \rho^2})/\rho$ if the classes have one query,
    $\rho$ if each has its own.

    Ours, from Lemma 4 with two classes: $\dot z_l \propto \rho (f_{1l}^2 + f_{2l}^2) - 2 f_{1l}
    f_{2l}$ or $f_{1l} (\rho f_{1l} - f_{2l})$. The coupling is positive and drops out, so this
    holds for plain descent too.

    | ours      | letter          |
    |-----------|-----------------|
    | overlap   | rho             |
    | one_query | psi(1) = psi(2) |
    """
    rho = overlap
    return float((1 - np.sqrt(1 - rho**2)) / rho) if one_query else float(rho)


def crossing_slope(far_prob: float, near_prob: float, *, gap: float) -> float:
    r"""Slope of a prior linear in distance beyond which the nearer of two distinct tokens gains
    more, $s = \frac{1}{\Delta d} \ln \frac{P_{\text{far}}}{P_{\text{near}}}$.

    Ours.

    | ours                | letter        |
    |---------------------|---------------|
    | far_prob, near_prob | P_far, P_near |
    | gap                 | Delta d       |
    """
    return float(np.log(far_prob / near_prob) / gap)
