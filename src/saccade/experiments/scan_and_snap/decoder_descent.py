r"""The decoder trained alone, one class a step, while attention stands still: the setting of Lemmas
3 to 12 and Theorem 1.

$$\dot Y = \eta_Y\, d_n (e_n - \alpha_n)^\top, \qquad \alpha_n = \mathrm{softmax}(Y^\top f_n),$$

with $d_n = f_n$ for plain descent [tian2023, eq. 7] and $d_n = F (F^\top F)^{-1} e_n$ for the
modified one [tian2023, eq. 26]. The whole softmax, the whole matrix and nothing of saccade.theories,
which it is there to test. Class n predicts token n. Not an experiment: the simulation that several
share.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray


def descend(
    feature: NDArray,
    draws: NDArray,
    *,
    n_vocab: int,
    lr_decoder: ArrayLike,
    modified: bool,
) -> Iterator[NDArray]:
    """Y(0) = 0 and Y after every step, as (run, token, next token): one array, changed in place.

    | argument     | axes         | meaning                                            |
    |--------------|--------------|----------------------------------------------------|
    | `feature`    | class, token | f_n, unit length; only tokens that some class has  |
    | `draws`      | step, run    | the class drawn                                    |
    | `lr_decoder` | run          | one rate a run, or one for all                     |
    """
    n_runs = draws.shape[1]
    direction = np.linalg.solve(feature @ feature.T, feature) if modified else feature
    rate = np.broadcast_to(np.asarray(lr_decoder, float), (n_runs,))[:, None]
    decoder = np.zeros((n_runs, feature.shape[1], n_vocab))
    yield decoder
    for drawn in draws:
        logits = np.einsum("rt,rtv->rv", feature[drawn], decoder)
        error = output_error(logits, drawn)
        decoder += direction[drawn][:, :, None] * (rate * error)[:, None, :]
        yield decoder


def output_error(logits: NDArray, label: NDArray) -> NDArray:
    """e_n - softmax(logits) of each row, exact also where the label's probability is 1 to the last
    digit.
    """
    odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
    rows = np.arange(len(label))
    own = odds[rows, label]
    odds[rows, label] = 0.0
    others = odds.sum(axis=-1)
    error = -odds / (own + others)[:, None]
    error[rows, label] = others / (own + others)
    return error


def sent_back(feature: NDArray, decoder: NDArray) -> NDArray:
    """How much of each class's feature one decoder (token, next token) sends back to attention for
    each class: g_n = Y (e_n - alpha_n) by least squares (class, class).
    """
    error = output_error(feature @ decoder, np.arange(len(feature)))
    g = error @ decoder.T
    return np.linalg.lstsq(feature.T, g.T, rcond=None)[0].T


def in_turn(n_rounds: int, n_classes: int) -> NDArray:
    """Draws of one run that give every class the same count (step, run)."""
    return np.tile(np.arange(n_classes), n_rounds)[:, None]


def paired_features(overlap: NDArray) -> NDArray:
    """Classes with a common token for every two of them and a distinct token each, so that f_n .
    f_n' is `overlap`.
    """
    n_classes = len(overlap)
    first, second = np.triu_indices(n_classes, 1)
    feature = np.zeros((n_classes, len(first) + n_classes))
    for pair, (n, m) in enumerate(zip(first, second, strict=True)):
        feature[[n, m], pair] = np.sqrt(overlap[n, m])
    feature[:, len(first) :] = np.diag(np.sqrt(1 - overlap.sum(axis=1)))
    return feature


def tied_features(overlap: float, n_classes: int) -> NDArray:
    """Classes of one common token and one distinct token each, every two with f_n . f_n' =
    `overlap` (class, token).
    """
    distinct = np.sqrt(1 - overlap) * np.eye(n_classes)
    return np.hstack([np.full((n_classes, 1), np.sqrt(overlap)), distinct])
