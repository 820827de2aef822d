"""What is shown of the embedded model instead of its raw matrices: how many directions they use, how long embeddings are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

HIDDEN = frozenset({"embedding", "query_matrix", "key_matrix", "projection", "look_seconds", "stop_time"})

_MEANINGS = {
    "embedding_singular_values": "singular values of the embedding: one for each direction that it uses",
    "query_key_singular_values": "singular values of query matrix times key matrix: directions that attention uses",
    "embedding_norm": "length of each token's embedding",
}


def derived(record: xr.Dataset) -> dict[str, Any]:
    """Variables to show, from the matrices that the record has."""
    found: dict[str, Any] = {}
    if _has(record, "embedding", "token", "width"):
        before = record.embedding.dims[:-2]
        found["embedding_singular_values"] = ((*before, "rank"), _singular_values(record.embedding.values))
        found["embedding_norm"] = ((*before, "token"), np.linalg.norm(record.embedding.values, axis=-1))
    if _has(record, "query_matrix", "width", "key_width") and _has(record, "key_matrix", "width", "key_width"):
        product = record.query_matrix.values @ np.swapaxes(record.key_matrix.values, -1, -2)
        found["query_key_singular_values"] = (
            (*record.query_matrix.dims[:-2], "direction"),
            _singular_values(product),
        )
    return {name: (axes, values, {"definition": _MEANINGS[name], "units": "1"}) for name, (axes, values) in found.items()}


def _has(record: xr.Dataset, name: str, *axes: str) -> bool:
    return name in record and record[name].dims[-2:] == axes and "time" in record[name].dims


def _singular_values(matrices: np.ndarray) -> np.ndarray:
    """Over the last two axes; missing where a run has diverged."""
    whole = np.isfinite(matrices).all(axis=(-2, -1))[..., None]
    return np.where(whole, np.linalg.svd(np.where(whole[..., None], matrices, 0.0), compute_uv=False), np.nan)
