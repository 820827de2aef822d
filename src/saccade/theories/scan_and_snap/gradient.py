"""The exact gradient of the one-layer Transformer, token by token as the paper writes it and from
token counts.

One-hot rows make X^T diag(b) X diagonal, so the long product of Lemma 1 is elementwise and the
order of the context is irrelevant at any length. Both forms are kept: the first is the statement,
the second what an engine can afford. Not here: averages over classes or time, which belong to
engines/.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from .features import limit_attention, normalised_feature

__all__ = ["ExactGradient", "gradient_from_counts", "gradient_from_sequence"]


class ExactGradient(NamedTuple):
    """Velocities of both matrices; every row of either sums to zero, so row sums of Y and Z are
    conserved.
    """

    decoder_dot: NDArray[np.float64]
    attention_logits_dot: NDArray[np.float64]


def gradient_from_sequence(
    decoder: ArrayLike,
    attention_logits: ArrayLike,
    context: ArrayLike,
    *,
    query: int,
    label: int,
    lr_decoder: float,
    lr_attention: float,
) -> ExactGradient:
    r"""Lemma 1 as it stands, from the tokens of one sequence.

    $\dot Y = \eta_Y\,f\,(x_{T+1}-\alpha)^\top$ with $f = X^\top b/\lVert X^\top b\rVert$ and
    $\alpha = \mathrm{softmax}(Y^\top f)$; $\dot z_m = \eta_Z
    X^\top\mathrm{diag}(b)X\,\frac{P^\perp_{X^\top b}}{\lVert X^\top b\rVert}\,Y(x_{T+1}-\alpha)$, m
    = x_T, other rows 0.

    [tian2023, Lemma 1, eq. 4]. Domain: any length, batch 1, the query not among the keys. O(T M^2):
    for checks.

    | ours             | theirs            | axes         |
    |------------------|-------------------|--------------|
    | context          | x_1 ... x_{T-1}   | position     |
    | query, label     | x_T, x_{T+1}      |              |
    """
    Y, Z = np.asarray(decoder, float), np.asarray(attention_logits, float)
    one_hot = np.eye(len(Y))
    X = one_hot[np.asarray(context)]
    b = softmax(X @ Z[query])
    v = X.T @ b
    f = v / np.linalg.norm(v)
    error = one_hot[label] - softmax(Y.T @ f)
    projection = np.eye(len(Y)) - np.outer(v, v) / (v @ v)
    z_dot = X.T @ np.diag(b) @ X @ projection / np.linalg.norm(v) @ Y @ error
    return ExactGradient(
        lr_decoder * np.outer(f, error), lr_attention * np.outer(one_hot[query], z_dot)
    )


def gradient_from_counts(
    decoder: ArrayLike,
    attention_logits: ArrayLike,
    counts: ArrayLike,
    *,
    query: int,
    label: int,
    lr_decoder: float,
    lr_attention: float,
) -> ExactGradient:
    r"""Lemma 1 from token counts: $\dot z_m = \eta_Z\, f\circ(g - f\,(f\cdot g))$, $g =
    Y(x_{T+1}-\alpha)$, $f_l \propto N_l e^{z_{ml}}$.

    [tian2023, Lemma 1, eq. 4], simplified; the same numbers at any finite length. Only ratios of
    counts matter, so giving P(l|n) for the counts is the limit of a long context [tian2023, Lemma
    2].

    | ours             | theirs                 | axes         |
    |------------------|------------------------|--------------|
    | counts           | N_l, or P(l given n)   | token        |
    | query, label     | x_T, x_{T+1}           |              |
    """
    Y, Z = np.asarray(decoder, float), np.asarray(attention_logits, float)
    one_hot = np.eye(len(Y))
    f = normalised_feature(limit_attention(counts, Z[query]))
    error = one_hot[label] - softmax(Y.T @ f)
    g = Y @ error
    return ExactGradient(
        lr_decoder * np.outer(f, error),
        lr_attention * np.outer(one_hot[query], f * (g - f * (f @ g))),
    )
