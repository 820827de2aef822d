"""How attention moves under the theory's own flow: distinct tokens gain, common tokens lose
(Theorem 2).

Every class pushes the logits of its query; a token that only this class shows feels nothing but its
drive, a token that classes share feels them all. Velocities are per row of `feature`: row n is the
velocity of z_m for m = psi(n), the same for classes that share a query. Not here: which distinct
token wins (gain.py) and when it stops (snapping.py).

The paper sums over classes without P(n) = 1/K although its clock, the speed, counts single steps.
`per_step=True` restores the 1/K, which batch-1 descent needs; `per_step=False` is the printed form,
K times too fast.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "attention_logits_dot",
    "common_token_dot",
    "distinct_token_dot",
    "symmetric_common_token_dot",
]


def _rate(lr_attention: float, n_classes: int, per_step: bool) -> float:
    return lr_attention / n_classes if per_step else lr_attention


def _sum_over_query(by_class: NDArray[np.float64], query: ArrayLike) -> NDArray[np.float64]:
    query = np.asarray(query)
    return (query[:, None] == query).astype(float) @ by_class


def attention_logits_dot(
    feature: ArrayLike,
    other: ArrayLike,
    query: ArrayLike,
    *,
    speed: float,
    lr_attention: float,
    per_step: bool = True,
) -> NDArray[np.float64]:
    r"""Velocity of the attention logits, $\dot z_{ml} = \eta_Z\gamma\sum_n f_{nl}\sum_{n'\ne
    n}\beta_{nn'}[(f_n\cdot f_{n'})f_{nl} - f_{n'l}]$ over the classes n of query m.

    [tian2023, Lemma 4, eq. 10], times 1/K if `per_step`. Domain: infinite context, a decoder of
    Theorem 1's form.

    | ours         | theirs            | axes         |
    |--------------|-------------------|--------------|
    | other        | beta              | class, class |
    | result       | z_m dot, m=psi(n) | class, token |
    """
    f, beta = np.asarray(feature, float), np.asarray(other, float)
    drive = np.sum(beta * (f @ f.T), axis=1, keepdims=True)
    by_class = speed * f * (drive * f - beta @ f)
    return _rate(lr_attention, len(f), per_step) * _sum_over_query(by_class, query)


def distinct_token_dot(
    feature: ArrayLike, drive: ArrayLike, *, lr_attention: float, per_step: bool = True
) -> NDArray[np.float64]:
    r"""Velocity of a distinct token's logit, $\dot z_{ml} = \eta_Z f_{nl}^2\,\xi_n > 0$: the
    frequent ones are the fast ones.

    [tian2023, Theorem 2(a), eq. 98], times 1/K if `per_step`. Read it only where `distinct_tokens`
    is true.

    | ours         | theirs         | axes         |
    |--------------|----------------|--------------|
    | drive        | xi_n           | class        |
    """
    f, xi = np.asarray(feature, float), np.asarray(drive, float)
    return _rate(lr_attention, len(f), per_step) * f**2 * xi[:, None]


def common_token_dot(
    common_feature: ArrayLike,
    drive: ArrayLike,
    query: ArrayLike,
    *,
    lr_attention: float,
    per_step: bool = True,
) -> NDArray[np.float64]:
    r"""Velocity of the logit of the only common token,
    $\dot z_{ml} = -\eta_Z\sum_{n\in\psi^{-1}(m)}(1-f_{nl}^2)\,\xi_n < 0$.

    [tian2023, Theorem 2(b), eq. 100], times 1/K if `per_step`. Domain: exactly one common token,
    and some class of the query has a distinct one. Theorem 4 (eq. 13) keeps one term of this sum, K
    times too little.

    | ours           | theirs                          | axes  |
    |----------------|---------------------------------|-------|
    | common_feature | f_nl, l the common token        | class |
    | drive          | xi_n                            | class |
    """
    f, xi = np.asarray(common_feature, float), np.asarray(drive, float)
    return -_rate(lr_attention, len(f), per_step) * _sum_over_query((1 - f**2) * xi, query)


def symmetric_common_token_dot(
    common_feature: ArrayLike,
    *,
    other: float,
    n_classes: int,
    speed: float,
    lr_attention: float,
    per_step: bool = True,
) -> NDArray[np.float64]:
    r"""Velocities of several common tokens under symmetry,
    $\dot z_l = -\eta_Z\gamma\beta K(K-1)\,f_l^2\,(1-\sum_{l'}f_{l'}^2) < 0$.

    [tian2023, Corollary 2], times 1/K if `per_step`. Domain: one query; a bijection between the
    distinct tokens of any two classes that keeps P; every common token in every class with the same
    P; Z(0) = 0. The most probable falls fastest.

    | ours           | theirs                                    | axes  |
    |----------------|-------------------------------------------|-------|
    | common_feature | f_l over all common tokens (any class)    | token |
    | other          | beta (the same for every pair)            |       |
    """
    f, K = np.asarray(common_feature, float), n_classes
    pairs = K * (K - 1) * other * (1 - np.sum(f**2))
    return -_rate(lr_attention, K, per_step) * speed * pairs * f**2
