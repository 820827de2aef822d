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
    change = abs(record.attention.isel(time=-1) - record.attention.isel(time=0))
    mean = change.mean([axis for axis in change.dims if axis != "token"]).fillna(0).values
    most = np.sort(np.argsort(-mean, kind="stable")[:_MOST_WORDS])
    shown = record.attention.isel(token=most)
    caption = (
        "How much attention the query pays to each word, over what it paid at the start: "
        "above 1 it has gained, below 1 lost."
    )
    if len(most) < len(mean):
        caption += (
            f" Shown are the {len(most)} of {len(mean)} words whose share of attention changes "
            "most, in the mean over queries."
        )
    start = shown.isel(time=0, drop=True)
    gains = (shown / start.where(start > 0)).transpose(..., "query", "time", "token")
    figure = figure_of(record[[]].assign(word_gain=gains).rename(token="word"), "word_gain")
    if figure is None:
        return []
    told = {
        "title": "Which words gain attention",
        "caption": caption,
    }
    scale = figure["y"] | {"label": "attention over that at the start"}
    return [
        figure | told | {"names": [labels_of(shown.to_dataset(name="shown"), "token")], "y": scale}
    ]
