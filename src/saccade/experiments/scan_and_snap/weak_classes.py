"""Classes that meet Assumption 2, and what the theory says along a path of their attention logits.

Three classes with five distinct tokens each, made from prescribed features: every two classes
overlap by the same amount, which must lie between 6/sqrt(M) and 1/(K(K-1)), and M must exceed 36
K^2 (K-1)^2 = 1296. No published task comes near.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import make_interp_spline

import saccade
from saccade.errors import checked_number
from saccade.theory import scan_and_snap as theory
from saccade.theory.condition import Condition

_RISING = np.arange(1.0, 6.0)
N_DISTINCT = len(_RISING)


def one_common_token(*, overlap: float, n_vocab: int) -> saccade.SequenceClasses:
    """Two classes that share a query, one with its own; the rarer a class's rare tokens, the later
    in the list it stands.
    """
    return _classes(
        np.stack([_RISING**0.5, _RISING, _RISING**1.5]), [1.0], [0, 0, 1], overlap, n_vocab
    )


def several_common_tokens(*, overlap: float, n_vocab: int) -> saccade.SequenceClasses:
    """Corollary 2: one query, three common tokens alike in all classes, distinct tokens alike up to
    their order.
    """
    return _classes(
        np.stack([np.roll(_RISING, n) for n in range(3)]),
        [1.0, 2.0, 3.0],
        [0, 0, 0],
        overlap,
        n_vocab,
    )


def isolated_class(*, overlap: float, n_vocab: int) -> saccade.SequenceClasses:
    """The classes of `one_common_token`, the last without the common token, so that it overlaps no
    other.
    """
    task = one_common_token(overlap=overlap, n_vocab=n_vocab)
    prob = task.token_prob.copy()
    prob[-1, 0] = 0.0
    return saccade.SequenceClasses(
        prob,
        query=task.query,
        next_token=task.next_token,
        n_vocab=n_vocab,
        normalise=True,
        name="isolated-class",
    )


def _classes(
    distinct: NDArray[np.float64],
    common: Sequence[float],
    query: Sequence[int],
    overlap: float,
    n_vocab: int,
) -> saccade.SequenceClasses:
    overlap = checked_number("overlap", overlap, low=0.0, high=1.0, open_low=True)
    n_classes, n_common = len(distinct), len(common)
    feature = np.zeros((n_classes, n_common + distinct.size))
    feature[:, :n_common] = np.sqrt(overlap) * np.array(common) / np.linalg.norm(common)
    for n, weight in enumerate(distinct):
        feature[n, n_common + n * N_DISTINCT :][:N_DISTINCT] = (
            np.sqrt(1 - overlap) * weight / np.linalg.norm(weight)
        )
    tokens = np.array(query) + feature.shape[1]
    return saccade.SequenceClasses(
        feature, query=tokens, n_vocab=n_vocab, normalise=True, name="weak-overlap"
    )


def conditions(
    task: saccade.SequenceClasses,
    kinds: tuple[str, ...],
    *,
    lr_decoder: float,
    lr_attention: float,
    n_steps: float,
) -> list[Condition]:
    """The theory's conditions on the task, those whose name starts with one of `kinds`; the context
    is infinite.
    """
    found = theory.check_assumptions(
        task.token_prob,
        task.query,
        task.class_weight,
        n_vocab=task.n_vocab,
        lr_decoder=lr_decoder,
        lr_attention=lr_attention,
        n_context=math.inf,
        n_steps=n_steps,
    )
    return [condition for condition in found if condition.name.startswith(kinds)]


def feature_and_drive(
    times: NDArray[np.float64],
    logits: NDArray[np.float64],
    token_prob: NDArray[np.float64],
    *,
    n_vocab: int,
    lr_decoder: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """f (time, class, token) and xi (time, class) of Theorem 1 at logits (time, class, token) of
    each class's query.
    """
    features, drives = [], []
    gamma = theory.speed(times, n_vocab=n_vocab, n_classes=len(token_prob), lr_decoder=lr_decoder)
    for speed, z in zip(gamma, logits, strict=True):
        feature = theory.normalised_feature(theory.limit_attention(token_prob, z))
        overlap = theory.class_overlap(feature)
        other = theory.backprop_coefficients(theory.class_coupling(overlap), n_vocab=n_vocab).other
        features.append(feature)
        drives.append(theory.class_drive(overlap, other, speed=float(speed)))
    return np.stack(features), np.stack(drives)


def context_prob(task: saccade.SequenceClasses) -> NDArray[np.float64]:
    """P(l|n) of the tokens that some context shows (class, token)."""
    return task.token_prob[:, task.token_prob.any(axis=0)]


def class_logits(
    logits: NDArray[np.float64], queries: NDArray[np.int64], task: saccade.SequenceClasses
) -> NDArray[np.float64]:
    """Logits (..., query, token) -> (..., class, token of some context): the row of each class's
    query.
    """
    row = {int(query): i for i, query in enumerate(queries)}
    return logits[..., [row[int(query)] for query in task.query], :][
        ..., task.token_prob.any(axis=0)
    ]


def travelled(times: NDArray[np.float64], velocity: NDArray[np.float64]) -> NDArray[np.float64]:
    """Integral of a velocity (time, ...) from 0 to each time; before the first it grows in
    proportion to t, as the speed does.
    """
    along = times.reshape(-1, *[1] * (velocity.ndim - 1)) * velocity
    return along[0] / 2 + make_interp_spline(np.log(times), along, k=5).antiderivative()(
        np.log(times)
    )
