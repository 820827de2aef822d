"""Every new direction of the embedding in one run: when it opens, how fast it grows, what it looks like, and what B says of it.

A direction is looked at when its singular value reaches a given fraction of the largest (the first direction: of the embedding's
norm at the unigram point), small enough not to act back on the rest, large enough to stand above the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.theory import focus_and_dilution as theory

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]


class Opening(NamedTuple):
    """A direction as it opens, or several (first axis). Fields are defined in `DEFINITIONS`."""

    time: Any
    rate: Any
    predicted_rate: Any
    measured: Any
    predicted: Any
    embedding_cosine: Any
    other_cosine: Any
    drift: Any


DEFINITIONS = {
    "time": ("steps of gradient descent at rate 1", "when the direction reaches the fraction at which it is looked at"),
    "rate": ("1/time", "slope of the logarithm of its singular value then"),
    "predicted_rate": ("1/time", "s1(B) of the state then"),
    "measured": ("1", "components of embedding, projection, query and key along the direction, joined, of norm one"),
    "predicted": ("1", "the same from B"),
    "embedding_cosine": ("1", "cosine of its pattern in the embedding with u1(B)"),
    "other_cosine": ("1", "cosine of its pattern in projection, query and key with -v1(B), signs as those of the embedding"),
    "drift": ("1", "|dB/dt| / s1(B)^2: how much B changes during an e-fold; 0 at a critical point"),
}


class Path(NamedTuple):
    """One seed of a record, as arrays with time first."""

    time: Array
    weights: tuple[Array, Array, Array, Array]  # embedding, query, key, projection
    singular_values: Array
    directions: Array  # of the width: time, rank, width
    stationary: Array
    transition: Array


def path_of(run: xr.Dataset) -> Path:
    from saccade.dynamics.embedded_flow import weights_of

    embedding, query, key, projection = weights_of(run)
    _, values, directions = np.linalg.svd(embedding, full_matrices=False)
    weights = embedding, query, key, projection
    return Path(run.time.values, weights, values, directions, run.stationary.values, run.transition.values)


def relative_size(path: Path, rank: int) -> Array:
    """s_k over s_1; of the first direction, over the norm of the embedding at the unigram point."""
    s = path.singular_values
    return s[:, rank] / (s[:, 0] if rank else theory.embedding_norm(stationary=path.stationary))


def opening_index(path: Path, rank: int, fraction: float) -> int | None:
    """The first sample at which a direction has risen to `fraction`, after it was below. None: it did not open."""
    size = relative_size(path, rank)
    been_below = np.logical_or.accumulate(size < fraction)
    risen = np.flatnonzero(been_below & (size >= fraction))
    return int(risen[0]) if len(risen) and risen[0] + 1 < len(size) else None


def openings(path: Path, fraction: float) -> Opening:
    """All directions that a chain of d tokens can open, d - 1 of them (first axis); NaN for those that did not."""
    n_vocab, d_key = path.weights[0].shape[1], path.weights[1].shape[2]
    nothing = Opening(*[np.nan] * 3, *[np.full(2 * (n_vocab + d_key), np.nan)] * 2, *[np.nan] * 3)
    indices = [opening_index(path, rank, fraction) for rank in range(n_vocab - 1)]
    found = [nothing if i is None else _opening(path, rank, i) for rank, i in enumerate(indices)]
    return Opening(*(np.array(values) for values in zip(*found, strict=True)))


def _opening(path: Path, rank: int, i: int) -> Opening:
    direction = path.directions[i, rank]
    W0, WQ, WK, W1 = (matrix[i] for matrix in path.weights)
    following = theory.next_direction(W0, WQ, WK, W1, stationary=path.stationary, transition=path.transition)
    x, w = W0 @ direction, direction @ np.concatenate([W1, WQ, WK], axis=1)
    u, v = following.embedding, np.concatenate([following.projection, following.query, following.key])
    sign = np.sign(u @ x)
    return Opening(
        time=float(path.time[i]),
        rate=float(np.gradient(np.log(path.singular_values[i - 1 : i + 2, rank]), path.time[i - 1 : i + 2])[1]),
        predicted_rate=following.rate,
        measured=_unit(np.concatenate([x, w])),
        predicted=sign * _unit(np.concatenate([u, v])),
        embedding_cosine=float(sign * _unit(u) @ _unit(x)),
        other_cosine=float(sign * _unit(v) @ _unit(w)),
        drift=_drift(path, i) / following.rate**2,
    )


def _drift(path: Path, i: int) -> float:
    W0, WQ, WK, W1 = (matrix[[i - 1, i + 1]] for matrix in path.weights)
    before, after = theory.opening_matrix(W0, WQ, WK, W1, stationary=path.stationary, transition=path.transition)
    return float(np.linalg.norm(after - before, 2) / (path.time[i + 1] - path.time[i - 1]))


def _unit(vector: Array) -> Array:
    return vector / np.linalg.norm(vector)
