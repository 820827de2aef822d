"""Classes that meet Assumption 2.

Three classes with five distinct tokens each, made from prescribed features: every two classes
overlap by the same amount, which must lie between 6/sqrt(M) and 1/(K(K-1)), and M must exceed
36 K^2 (K-1)^2 = 1296. No published task comes near.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import xarray as xr

import saccade
from saccade.errors import checked_number
from saccade.measures.fits import Array

N_DISTINCT = 5
RISING = np.arange(1.0, N_DISTINCT + 1)


def one_common_token(overlap: float, n_vocab: int) -> saccade.SequenceClasses:
    """Two classes that share a query and one with its own; distinct tokens rise in frequency."""
    distinct = np.stack([RISING**0.5, RISING, RISING**1.5])
    return _classes(distinct, [1.0], [0, 0, 1], overlap, n_vocab)


def several_common_tokens(overlap: float, n_vocab: int) -> saccade.SequenceClasses:
    """Corollary 2: one query, three common tokens that are equally frequent in all classes, and
    distinct tokens that differ between classes only in their order.
    """
    distinct = np.stack([np.roll(RISING, n) for n in range(3)])
    return _classes(distinct, [1.0, 2.0, 3.0], [0, 0, 0], overlap, n_vocab)


def isolated_class(overlap: float, n_vocab: int) -> saccade.SequenceClasses:
    """`one_common_token`, but the last class lacks the common token and overlaps no other."""
    task = one_common_token(overlap, n_vocab)
    prob = task.token_prob.copy()
    prob[-1, 0] = 0.0
    return replace(
        task,
        token_prob=prob / prob.sum(axis=1, keepdims=True),
        name="isolated-class",
    )


def _classes(
    distinct: Array, common: Sequence[float], query: Sequence[int], overlap: float, n_vocab: int
) -> saccade.SequenceClasses:
    overlap = checked_number(
        "overlap",
        overlap,
        low=0.0,
        high=1.0,
        open_low=True,
    )
    n_common = len(common)
    feature = np.zeros((len(distinct), n_common + distinct.size))
    feature[:, :n_common] = np.sqrt(overlap) * np.array(common) / np.linalg.norm(common)
    for n, weight in enumerate(distinct):
        own = feature[n, n_common + n * N_DISTINCT :][:N_DISTINCT]
        own[:] = np.sqrt(1 - overlap) * weight / np.linalg.norm(weight)
    return saccade.SequenceClasses(
        feature,
        query=(np.array(query) + feature.shape[1]),
        n_vocab=n_vocab,
        normalise=True,
        name="weak-overlap",
    )


def context_prob(task: saccade.SequenceClasses) -> Array:
    """P(l|n) of the tokens that some context shows (class, token)."""
    return task.token_prob[:, task.token_prob.any(axis=0)]


def class_logits(run: xr.Dataset, task: saccade.SequenceClasses) -> Array:
    """Logits (..., class, token of some context): for each class the row of its query."""
    rows = [run["query"].values.tolist().index(query) for query in task.query]
    return run.attention_logits.values[..., rows, :][..., task.token_prob.any(axis=0)]
