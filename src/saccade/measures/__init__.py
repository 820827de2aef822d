"""Measures of attention: plain functions of arrays, each with its range and what the extremes mean.

Axes: attention is (..., token) unless said otherwise and is not required to sum to one where that
is stated.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def class_attention(attention_logits: NDArray, token_prob: NDArray) -> NDArray:
    """Attention of an infinitely long context of each class: P(l|n) exp(z_l), normalised over
    tokens. In [0, 1].
    """
    present = token_prob > 0
    top = np.max(np.where(present, attention_logits, -np.inf), axis=-1, keepdims=True)
    weighted = token_prob * np.exp(np.where(present, attention_logits - top, -np.inf))
    return weighted / weighted.sum(axis=-1, keepdims=True)


def entropy(attention: NDArray) -> NDArray:
    """Entropy in nats over the last axis: 0 = all on one token, ln(n) = spread evenly over n.
    Rescaled to sum to one first.
    """
    share = attention / attention.sum(axis=-1, keepdims=True)
    return -(share * np.log(np.where(share == 0, 1.0, share))).sum(axis=-1)


def mass(attention: NDArray, members: NDArray[np.bool_]) -> NDArray:
    """Attention on the tokens that are `members`: 0 = none of it, 1 = all of it."""
    return np.where(members, attention, 0.0).sum(axis=-1)


def distinct_entropy(attention: NDArray, distinct: NDArray[np.bool_]) -> NDArray:
    """Entropy in nats of attention among each class's distinct tokens (axes: ..., class, token ->
    ..., class).

    Some take the entropy over all tokens (1), some over distinct tokens rescaled to one (2). We do
    (2), as the paper's stored numbers do: (1) mixes sparsity among distinct tokens with the loss of
    common ones.
    """
    return entropy(np.where(distinct, attention, 0.0))


def singular_values(matrix: NDArray) -> NDArray:
    """Singular values over the last two axes, largest first (axis: rank). NaN where the matrix is
    not finite.
    """
    whole = np.isfinite(matrix).all(axis=(-2, -1))
    values = np.linalg.svd(np.where(whole[..., None, None], matrix, 0.0), compute_uv=False)
    return np.where(whole[..., None], values, np.nan)


def top_share(values: NDArray) -> NDArray:
    """s_1^2 over the sum of s_k^2: 1 = rank one, 1/n = all n equal directions. From singular values
    (axis: rank).
    """
    power = values**2
    return power[..., 0] / power.sum(axis=-1)


def effective_rank(values: NDArray) -> NDArray:
    """exp of the entropy of s_k^2 / sum s^2: 1 = rank one, n = all n equal directions. From
    singular values (axis: rank).
    """
    return np.exp(entropy(values**2))


def cosine(one: NDArray, other: NDArray) -> NDArray:
    """Of the angle between vectors along the last axis."""
    return np.sum(one * other, axis=-1) / (
        np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
    )


def cosines(rows: NDArray) -> NDArray:
    """Of the angles between all rows of a matrix (..., row, row)."""
    unit = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return unit @ np.swapaxes(unit, -1, -2)


def window_attention(
    counts: Any, weight: NDArray[np.float64], logits: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Attention of one query on each token, mean over its windows by their weight (..., token).

    `counts`: a sparse array (window, token); `logits`: those of the query (..., token).
    """
    found = np.empty(logits.shape)
    for place in np.ndindex(logits.shape[:-1]):
        sought = np.exp(logits[place] - logits[place].max())
        found[place] = sought * (counts.T @ (weight / (counts @ sought)))
    return found / weight.sum()
