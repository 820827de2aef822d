"""Sentences of a forecast on a text's attention: one on how far it can be trusted, and one for each query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from saccade.forecasting.prediction import DECODER_FIRST, Prediction, listed
from saccade.forecasting.text_order import ORDER, SIZE
from saccade.theory.condition import Condition, at_least, at_most

if TYPE_CHECKING:
    import xarray as xr

NAMED = 5  # words of a query that a sentence names on either side; the table has all
_SOURCE = "[saccade, decoder first]"
_ADAM = "not predicted: the theory is for plain descent, and Adam's steps do not scale with the gradient"
_ENOUGH = 1000  # windows; with fewer, halves of a text agree on little (`saccade reproduce first-force-text` shows it for more)


def text_predictions(record: xr.Dataset, context: float) -> list[Prediction]:
    frequent = np.argsort(-record.query_weight.values, kind="stable")
    conditions = _conditions(record, context)
    return [_trust(record, conditions), *(_of_query(record.isel(query=int(row)), conditions) for row in frequent)]


def moving(query: xr.Dataset, *, up: bool) -> list[int]:
    """Words that gain (or lose) attention by the end of the forecast, most first, among those that can be told."""
    change = query.attention_path.values[-1] - query.attention_path.values[0]
    wanted = query.told.values & (change > 0 if up else change < 0)
    return [int(i) for i in np.argsort(-change if up else change, kind="stable") if wanted[i]]


def _conditions(record: xr.Dataset, context: float) -> tuple[Condition, ...]:
    window = float(record.attrs["window"])
    return (
        at_least("windows counted", float(record.n_windows), _ENOUGH, why="with fewer, words cannot be distinguished"),
        at_least("order of both paths", float(record.order_agreement.values[-1]), ORDER, "rank correlation at the last step"),
        at_most(
            "context of training over the window", context / window, 2.0, why="the forecast is for contexts of the window's length"
        ),
    )


def _trust(record: xr.Dataset, conditions: tuple[Condition, ...]) -> Prediction:
    last, sized = float(record.order_until), float(record.size_until)
    told, seen = int((record.told & record.seen).sum()), int(record.seen.sum())
    return Prediction(
        about="how far this can be trusted",
        topic="trust",
        text=f"the forecast says who gains and who loses until step {last:.3g}, and by how much until step {sized:.3g} (to "
        f"{SIZE:.0%}); after that attention changes what the decoder learns. It covers {told} of {seen} pairs of query and word; "
        "the others are too rare, or their change is within the noise of the text",
        method=DECODER_FIRST,
        source=_SOURCE,
        under_adam=_ADAM,
        assumptions=conditions,
    )


def _of_query(query: xr.Dataset, conditions: tuple[Condition, ...]) -> Prediction:
    gaining, losing = (moving(query, up=up) for up in (True, False))
    up, down = (listed([str(query.token.values[i]) for i in rows], NAMED) for rows in (gaining, losing))
    parts = [f"attention first moves to {up}" if gaining else "no word is predicted to gain attention"]
    parts += [f"away from {down}" if losing else "none loses it"]
    before, after = query.attention_path.values[0], query.sel(time=float(query.size_until)).attention_path.values
    first = [rows[0] for rows in (gaining, losing) if rows]
    shown = [
        f'{100 * (after[i] / before[i] - 1):+.2g} % on "{query.token.values[i]}" (which had {100 * before[i]:.2g} % of attention)'
        for i in first
    ]
    sizes = (
        f"; by step {float(query.size_until):.3g} this is {' and '.join(shown)}" if first and float(query.size_until) > 0 else ""
    )
    return Prediction(
        about=f'query "{query["query"].values}"',
        topic="first movement of attention",
        text=" and ".join(parts) + sizes,
        method=DECODER_FIRST,
        source=_SOURCE,
        under_adam=_ADAM,
        assumptions=conditions,
    )
