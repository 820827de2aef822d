"""Which words gain attention: of a run on a text, each query's attention on a word over what it was
at the start.

Of a vocabulary a chart shows the few words whose share of attention changes most, the same ones for
all queries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from saccade.report.specs import Figure, figure_of, labels_of

if TYPE_CHECKING:
    import xarray as xr

_MOST_WORDS = 8  # lines that colours tell apart


def word_gains(record: xr.Dataset) -> list[Figure]:
    """A line for each word, a choice of query; nothing of a record without such attention, or of
    one moment.
    """
    if "attention" not in record or record.attention.dims[-3:] != ("time", "query", "token"):
        return []
    if record.sizes["token"] < 2 or record.sizes["time"] < 2:
        return []
    shown = record.attention.isel(token=_changing_most(record.attention))
    start = shown.isel(time=0, drop=True)
    gains = (shown / start.where(start > 0)).transpose(..., "query", "time", "token")
    figure = figure_of(record[[]].assign(word_gain=gains).rename(token="word"), "word_gain")
    if figure is None:
        return []
    told = {
        "title": "Which words gain attention",
        "caption": _caption(record.sizes["token"], shown.sizes["token"]),
    }
    scale = figure["y"] | {"label": "attention over that at the start"}
    return [
        figure | told | {"names": [labels_of(shown.to_dataset(name="shown"), "token")], "y": scale}
    ]


def _changing_most(attention: xr.DataArray) -> np.ndarray:
    """Places of the words whose attention changes most, in the mean over queries, in the order of
    the vocabulary.
    """
    change = abs(attention.isel(time=-1) - attention.isel(time=0))
    mean = change.mean([axis for axis in change.dims if axis != "token"]).fillna(0).values
    return np.sort(np.argsort(-mean, kind="stable")[:_MOST_WORDS])


def _caption(n_words: int, n_shown: int) -> str:
    means = "How much attention the query pays to each word, over what it paid at the start: above 1 it has gained, below 1 lost."
    which = f" Shown are the {n_shown} of {n_words} words whose share of attention changes most, in the mean over queries."
    return means + (which if n_shown < n_words else "")
