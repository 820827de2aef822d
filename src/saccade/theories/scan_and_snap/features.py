"""What attention sees of each sequence class: attention, feature, distinct and common tokens,
overlaps between classes.

A long context is its law P(l|n), so attention over a class is a reweighted probability vector and
every later theorem is written in the angles between those vectors. Classes are rows throughout: our
`feature` is the transpose of the paper's F. Not here: what moves the logits (attention.py), what
the overlaps do to the gradient (backprop.py).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "class_coupling",
    "class_overlap",
    "common_tokens",
    "distinct_tokens",
    "limit_attention",
    "normalised_feature",
]


def limit_attention(token_prob: ArrayLike, logits: ArrayLike) -> NDArray[np.float64]:
    r"""Attention of each class in an infinitely long context, $c_{l|n} = P(l|n) e^{z_{ml}} / \sum_j
    P(j|n) e^{z_{mj}}$.

    [tian2023, Lemma 2]. Domain: every class has a token; logits finite. A token the class never
    shows has attention 0.

    | ours       | theirs                              | axes         |
    |------------|-------------------------------------|--------------|
    | logits     | z_m, m = psi(n): `Z[query]`         | class, token |
    | result     | c_n                                 | class, token |
    """
    prob, z = np.asarray(token_prob, float), np.asarray(logits, float)
    # Shift by the largest logit of the support, not of the row: a token the class lacks may have
    # any logit.
    top = np.max(np.where(prob > 0, z, -np.inf), axis=-1, keepdims=True)
    weight = np.where(prob > 0, prob * np.exp(np.minimum(z - top, 0.0)), 0.0)
    return weight / weight.sum(axis=-1, keepdims=True)


def normalised_feature(attention: ArrayLike) -> NDArray[np.float64]:
    r"""Attention scaled to unit length, $f_n = c_n / \lVert c_n \rVert_2$: what the decoder
    receives.

    [tian2023, Sec. 3]. Domain: no class with zero attention.

    | ours      | theirs | axes         |
    |-----------|--------|--------------|
    | result    | f_n    | class, token |
    """
    c = np.asarray(attention, float)
    return c / np.linalg.norm(c, axis=-1, keepdims=True)


def distinct_tokens(token_prob: ArrayLike) -> NDArray[np.bool_]:
    r"""Where token l belongs to class n alone, $l \in G_{DT}(n)$: $P(l|n) > 0$ and $|\Omega(l)| =
    1$.

    [tian2023, Sec. 3].

    | ours       | theirs        | axes         |
    |------------|---------------|--------------|
    | result     | l in G_DT(n)  | class, token |
    """
    present = np.asarray(token_prob) > 0
    return present & (present.sum(axis=0) == 1)


def common_tokens(token_prob: ArrayLike) -> NDArray[np.bool_]:
    r"""Which tokens several classes share, $l \in G_{CT}$: $|\Omega(l)| > 1$.

    [tian2023, Sec. 3].

    | ours       | theirs       | axes         |
    |------------|--------------|--------------|
    | result     | l in G_CT    | token        |
    """
    return (np.asarray(token_prob) > 0).sum(axis=0) > 1


def class_overlap(feature: ArrayLike) -> NDArray[np.float64]:
    r"""Overlaps between classes, $E = F^\top F - I$: symmetric, zero diagonal, entries $f_n \cdot
    f_{n'} \ge 0$.

    [tian2023, Assumption 2].

    | ours    | theirs         | axes         |
    |---------|----------------|--------------|
    | result  | E              | class, class |
    """
    f = np.asarray(feature, float)
    overlap = f @ f.T
    np.fill_diagonal(overlap, 0.0)
    return overlap


def class_coupling(overlap: ArrayLike, *, as_printed: bool = False) -> NDArray[np.float64]:
    r"""How learning one class pulls on another, $E' = I - (I + E)^{-1} = E (I + E)^{-1}$.

    [tian2023, Lemma 14, eq. 28]. Domain: the features are linearly independent, so that I + E is
    positive definite. With `as_printed`, the sign of the notation list (App. D.1), $(I+E)^{-1} -
    I$: the exact negative of what Lemma 14 and eqs. 28, 70 and 79 use; with it the drive of every
    class would be negative and distinct tokens would lose attention.

    | ours    | theirs | axes         |
    |---------|--------|--------------|
    | result  | E'     | class, class |
    """
    E = np.asarray(overlap, float)
    # E (I + E)^-1, not I - (I + E)^-1: small overlaps keep their digits.
    coupling = np.linalg.solve(np.eye(len(E)) + E, E)
    return -coupling if as_printed else coupling
