"""What Fig. 2 shows of a run: group losses, cosines of rows, principal components, attention maps,
and the sizes of embeddings.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import xarray as xr

import saccade
from saccade.dynamics.embedded_descent import Distinct, contexts, distinct
from saccade.experiments.focus_and_dilution.published_events import EVENTS, Path
from saccade.lab.protocol import padded
from saccade.model.embedded import Weights, composite, context_log_prob, weights_of
from saccade.observe.fits import Array
from saccade.observe.measures import class_attention, cosines, singular_values

ROWS = 24  # of each matrix that the cosine maps show
RISE = 0.02  # above its share: attention has begun to rise


def seen(
    run: xr.Dataset, chain: saccade.MarkovChain, sequences: int, n_context: int
) -> dict[str, Any]:
    """One run of a chain over time, and its events."""
    weights = weights_of(run)
    embedding = weights.embedding
    towards = embedding[:, 0] / np.linalg.norm(embedding[:, 0], axis=-1, keepdims=True)
    values = singular_values(embedding)
    data = distinct(contexts(chain, int(run.seed), sequences, n_context))
    found: dict[str, Any] = {
        "attention": run.attention.values,
        "probe_attention": probe_attention(weights),
        "loss": run.loss.values,
        "group_loss": np.array(
            [
                group_loss(Weights(*(part[k] for part in weights)), data)
                for k in range(len(embedding))
            ]
        ),
        "row_norm": np.linalg.norm(embedding, axis=-1),
        "off_first": np.linalg.norm(
            embedding - np.einsum("tim,tm,tn->tin", embedding, towards, towards), axis=-1
        ),
        "second": values[:, 1] / values[:, 0],
        "row_cosine": np.array(
            [[mean_cosine(part[k]) for part in weights] for k in range(len(embedding))]
        ),
        "top_share": np.array([top_share(query) for query in weights.query]),
    }
    path = Path(
        run.time.values,
        chain.stationary[0],
        found["attention"][:, :, 0],
        found["probe_attention"][:, :, 0],
        *(found[name] for name in ("loss", "row_norm", "off_first", "second", "top_share")),
    )
    onset = path.when(path.joint > path.share + RISE)
    return found | {"event": [event.read(path) for event in EVENTS.values()], "onset": onset}


def probe_attention(weights: Weights) -> Array:
    """Attention in a context that holds every token once (time, query, token)."""
    n_vocab = weights.embedding.shape[-2]
    logits = (weights.embedding @ weights.query) @ np.swapaxes(
        weights.embedding @ weights.key, -1, -2
    )
    return class_attention(logits, np.full(n_vocab, 1 / n_vocab))


@jax.jit
def _log_prob(weights: Weights, counts: Array, last_token: Array) -> jax.Array:
    return context_log_prob(composite(weights, 1.0), counts, last_token)


def group_loss(weights: Weights, data: Distinct) -> Array:
    """By last token; NaN for one with which no sequence ends."""
    log_prob = np.asarray(_log_prob(weights, data.counts, data.last_token))
    n_vocab = len(log_prob)
    spent = -np.bincount(data.last_token, (data.next_share * log_prob).sum(axis=0), n_vocab)
    share = np.bincount(data.last_token, data.next_share.sum(axis=0), n_vocab)
    return np.divide(spent, share, out=np.full(n_vocab, np.nan), where=share > 0)


def mean_cosine(matrix: Array) -> float:
    """Of two different rows, without its sign."""
    found = np.abs(cosines(matrix))
    return float((found.sum() - np.trace(found)) / (found.size - len(found)))


def top_share(matrix: Array) -> float:
    """By power iteration: it is exact where one direction dominates, and too small by little where
    none does.
    """
    matrix, along = matrix.astype(np.float64), np.ones(matrix.shape[1])
    for _ in range(30):
        along = matrix.T @ (matrix @ along)
        along /= np.linalg.norm(along)
    return float(np.sum((matrix @ along) ** 2) / np.sum(matrix**2))


def components(embedding: Array) -> tuple[Array, float]:
    """Embeddings (time, token, width) in the plane of the first two principal components of all of
    them together, with an embedding of length zero at the origin; and the share of their variance
    that lies in that plane.
    """
    snapshots = embedding.reshape(-1, embedding.shape[-1]).astype(np.float64)
    _, values, directions = np.linalg.svd(snapshots - snapshots.mean(axis=0), full_matrices=False)
    plane = (snapshots @ directions[:2].T).reshape(*embedding.shape[:2], 2)
    return plane, float(np.sum(values[:2] ** 2) / np.sum(values**2))


def plane_length_and_angle(plane: Array) -> Array:
    """Of each token in a plane (..., token, component): how far it is from the origin, and degrees
    between it and token 0.
    """
    length = np.linalg.norm(plane, axis=-1)
    cosine = np.einsum("...ic,...c->...i", plane, plane[..., 0, :]) / (length * length[..., :1])
    return np.stack([length, np.degrees(np.arccos(np.clip(cosine, -1, 1)))], axis=-1)


def maps(weights: Weights, places: Any) -> Array:
    """Cosines of the first rows of each matrix; the embedding has fewer rows, the rest is NaN."""
    found = [padded([cosines(part[k])[:ROWS, :ROWS] for part in weights]) for k in places]
    return np.array(found) if found else np.empty((0, len(weights), ROWS, ROWS))
