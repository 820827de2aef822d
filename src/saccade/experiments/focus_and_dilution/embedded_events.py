"""What a record of the embedded model shows, seed by seed: its observables, and the events in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from saccade.observe.events import Event, find_events
from saccade.observe.measures import singular_values

if TYPE_CHECKING:
    import xarray as xr


def frequent_token(record: xr.Dataset) -> int:
    """The most frequent token, wherever it stands in the law; the first of several."""
    return int(record.stationary.values.argmax())


def optimal_loss(record: xr.Dataset) -> float:
    """The loss that no model can beat: the entropy rate of the record's chain."""
    return float(-record.stationary.values @ xlogy(record.transition.values, record.transition.values).sum(axis=1))


def attention_on_frequent(run: xr.Dataset) -> NDArray[np.float64]:
    """Attention of each query on the most frequent token (time, query)."""
    return run.attention.values[..., frequent_token(run)]


def embedding_values(run: xr.Dataset) -> NDArray[np.float64]:
    """Singular values of the embedding (time, rank)."""
    return singular_values(run.embedding.values)


def query_key_values(run: xr.Dataset) -> NDArray[np.float64]:
    """Singular values of query matrix times key matrix (time, rank)."""
    return singular_values(run.query_matrix.values @ np.swapaxes(run.key_matrix.values, -1, -2))


def query_norm(run: xr.Dataset) -> NDArray[np.float64]:
    return np.linalg.norm(run.query_matrix.values, axis=(-2, -1))


def events_of(record: xr.Dataset, seed: int = 0, prominence: float | None = None) -> list[Event]:
    """Events of the run at place `seed` of a record that keeps attention and weights."""
    run = record.isel(seed=seed)
    return find_events(
        run.time.values,
        attention_on_frequent=attention_on_frequent(run),
        embedding_singular_values=embedding_values(run),
        query_key_singular_values=query_key_values(run),
        query_norm=query_norm(run),
        loss=run.loss.values,
        prominence=prominence,
    )
