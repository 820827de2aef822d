"""What is read off a record of `context-length`: distances by part and length, their slopes, and what text is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]
SOURCES = ("independent", "text")
DISTANCES = {
    "shares": "shares of tokens",
    "attention": "attention early in training",
    "gradient": "gradient of Z early in training",
    "learned": "what is learned from windows",
}


def curves(record: xr.Dataset, name: str, source: str) -> Array:
    """A distance by part and length, geometric mean over classes."""
    return np.exp(np.log(record[name].sel(source=source).transpose("class", "part", "length").values).mean(axis=0))


def slopes(record: xr.Dataset, name: str, source: str) -> Array:
    """Of ln distance against ln length, by part."""
    return np.asarray(np.polyfit(np.log(record["length"].values), np.log(curves(record, name, source)).T, 1)[0])


def worth(record: xr.Dataset) -> Array:
    """How many independent draws are as near to the law as one token of text, by part and length."""
    return (curves(record, "shares", "independent") / curves(record, "shares", "text")) ** 2


def contrast(record: xr.Dataset) -> Array:
    r"""How much the next tokens of one query differ in what stands before them, by length: 0 = not at all.

    Mean over pairs (n, n') of a query and over pairs of different parts a, b of $(q_{an} - q_{an'}) \cdot (q_{bn} - q_{bn'})$, over
    the mean of $q_{an} \cdot q_{bn}$, and its root. Parts that share nothing by chance make it free of the noise of counts. A mean
    below zero has the root of its size, with the sign.
    """
    share, query = record["mean_share"].transpose("length", "part", "class", "token").values, record["class_query"].values
    differences = [share[:, :, n] - share[:, :, k] for n in range(len(query)) for k in range(n) if query[n] == query[k]]
    if not differences:
        return np.full(len(share), np.nan)
    ratio = _across(np.stack(differences, axis=2)) / _across(share)
    return np.sign(ratio) * np.sqrt(np.abs(ratio))


def _across(values: Array) -> Array:
    """Mean product of different parts (length, part, case, token) -> (length)."""
    n_parts = values.shape[1]
    whole, own = (values.sum(axis=1) ** 2).sum(axis=-1), (values**2).sum(axis=(1, -1))
    return ((whole - own) / (n_parts * (n_parts - 1))).mean(axis=-1) if n_parts > 1 else np.full(len(values), np.nan)
