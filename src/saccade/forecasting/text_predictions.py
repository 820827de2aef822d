"""Sentences of a forecast on a text's attention: one on how far it can be trusted, and one for each
query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from saccade.forecasting.prediction import DECODER_FIRST, Prediction, listed
from saccade.forecasting.text_order import HALVES, ORDER, SIZE
from saccade.measures.fits import enlargement
from saccade.theories.condition import Condition, at_least, at_most

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]
NAMED = 5  # words of a query that a sentence names on either side; the table has all
_SOURCE = "[saccade, decoder first]"
_ADAM = "not predicted: the theory is for plain descent, and Adam's steps do not scale with the gradient"
_ENOUGH = 1000  # windows; with fewer, halves of a text agree on little (`saccade reproduce text-forecast` shows it for more)


def text_predictions(record: xr.Dataset, context: float) -> list[Prediction]:
    frequent = np.argsort(-record.query_weight.values, kind="stable")
    conditions = _conditions(record, context)
    return [
        Prediction(
            about="how far this can be trusted",
            topic="trust",
            text=_reach(record),
            method=DECODER_FIRST,
            source=_SOURCE,
            under_adam=_ADAM,
            assumptions=conditions,
        ),
        *(_of_query(record.isel(query=int(row)), conditions) for row in frequent),
    ]


def moving(query: xr.Dataset, *, up: bool) -> list[int]:
    """Words that gain (or lose) attention first, most first, among those that can be told: by the
    last step whose sizes are told.

    Later the direction may turn, and sizes are not told.
    """
    change = first_change(query)
    wanted = query.told.values & (change > 0 if up else change < 0)
    return [int(i) for i in np.argsort(-change if up else change, kind="stable") if wanted[i]]


def first_change(query: xr.Dataset) -> Array:
    """Change of attention (token) by the last step whose sizes are told."""
    return (
        query.sel(time=float(query.size_until)).attention_path.values
        - query.attention_path.values[0]
    )


def _conditions(record: xr.Dataset, context: float) -> tuple[Condition, ...]:
    window = float(record.attrs["window"])
    return (
        at_least(
            "windows counted",
            float(record.n_windows),
            _ENOUGH,
            why="with fewer, words cannot be distinguished",
        ),
        at_least(
            "order of both paths",
            float(record.order_agreement.values[-1]),
            ORDER,
            "rank correlation at the last step",
        ),
        at_most(
            "context of training over the window",
            context / window,
            2.0,
            why="the forecast is for contexts of the window's length",
        ),
    )


def _reach(record: xr.Dataset) -> str:
    """Until which step, and for how many words."""
    last, sized, clock = float(record.order_until), float(record.size_until), float(record.clock)
    told, seen = int((record.told & record.seen).sum()), int(record.seen.sum())
    if not told:
        return (
            f"nothing can be told of single words: each of the {seen} pairs of query and word is too rare, or its change is within "
            "the noise of the text"
        )
    return (
        f"the forecast says who gains and who loses until step {last:.3g}, and by how much until step {sized:.3g} (to {SIZE:.0%}); "
        "after that attention changes what the decoder learns. By the decoder's own clock, the closed form of the first force, "
        f"which takes the decoder's logits for small, is off by as much at step {clock:.2g}; the forecast follows the decoder "
        f"further. It covers {told} of {seen} pairs of query and word; the others are too rare, or their change is within the "
        f"noise of the text{_ranks(record)}"
    )


def _ranks(record: xr.Dataset) -> str:
    """How far halves of the text agree on the ranks of the table."""
    known = record.gain_agreement.values[np.isfinite(record.gain_agreement.values)]
    if not len(known):
        return ""
    low, high = (f"{found:.2f}" for found in (known.min(), known.max()))
    agreed = low if low == high else f"{low} to {high}"
    lost = int((known < HALVES).sum())
    left = (
        f"; below {HALVES:g} ranks are left out, for {lost} of {len(known)} queries" if lost else ""
    )
    return f". Two halves of the text agree on the ranks of gains in the table at {agreed} (rank correlation){left}"


def _of_query(query: xr.Dataset, conditions: tuple[Condition, ...]) -> Prediction:
    sides = [_Side(query, up=up) for up in (True, False)]
    told = [side for side in sides if side.rows]
    moves = " and ".join(f"{side.way} {side.named}" for side in told)
    shown = " and ".join(side.size for side in told if side.has_order)
    parts = [
        f"attention first moves {moves}"
        if told
        else "no single word can be told to gain or to lose attention",
        f"by step {float(query.size_until):.3g} this is {shown}" if shown else "",
        *(
            f"no single word can be told to {side.verb} attention"
            for side in sides
            if told and not side.rows
        ),
        _pool(query),
        _turned(query, [row for side in told for row in side.rows]),
    ]
    return Prediction(
        about=f'query "{query["query"].values}"',
        topic="first movement of attention",
        text="; ".join(filter(None, parts)),
        method=DECODER_FIRST,
        source=_SOURCE,
        under_adam=_ADAM,
        assumptions=conditions,
    )


class _Side:
    """The words of a query that gain, or those that lose, as a sentence names them."""

    def __init__(self, query: xr.Dataset, *, up: bool) -> None:
        self.query, self.rows = query, moving(query, up=up)
        self.way, self.verb = ("to", "gain") if up else ("away from", "lose")
        self.agreement = float(query.gaining_agreement if up else query.losing_agreement)

    @property
    def has_order(self) -> bool:
        """Whether it can be told who moves most. A single word needs no order."""
        return len(self.rows) == 1 or self.agreement >= HALVES

    @property
    def named(self) -> str:
        """The words, most first, or how many they are; and how far halves of the text agree on
        their order.
        """
        if len(self.rows) == 1:
            return listed(_names(self.query, self.rows))
        agreed = f"halves of the text agree on the order at {self.agreement:.2f}"
        if self.has_order:
            return f"{listed(_names(self.query, self.rows), NAMED)} ({agreed})"
        return f"{len(self.rows)} words whose order cannot be told at this size ({agreed}, needed {HALVES:g}; {self._enough})"

    @property
    def size(self) -> str:
        i, before = self.rows[0], self.query.attention_path.values[0]
        change = 100 * first_change(self.query)[i] / before[i]
        # Two digits, or whole numbers: never powers of ten.
        signed = f"{change:+.2g}" if abs(change) < 99.5 else f"{change:+.0f}"
        return f'{signed} % on "{self.query.token.values[i]}" (which had {100 * before[i]:.2g} % of attention)'

    @property
    def _enough(self) -> str:
        """The size that would do, as a ceiling tells it; the agreement is that of halves."""
        factor = enlargement(self.agreement, HALVES)
        if not np.isfinite(factor):
            return "they do not agree at all, so no size can be named"
        return f"about {float(f'{factor * int(self.query.n_windows):.2g}'):,.0f} windows would do"


def _pool(query: xr.Dataset) -> str:
    """What words too rare to be counted one by one gain together, where it is more than any word
    gains or loses.
    """
    change, start = first_change(query), query.attention_path.values[0]
    pool = query.pooled.values
    gain, before = change[pool].sum(), start[pool].sum()
    if abs(gain) <= np.abs(change[query.told.values]).max(initial=0.0):
        return ""
    verb = "gain" if gain > 0 else "lose"
    return f"all rarer words together {verb} {100 * abs(gain):.2g} % of all attention (they had {100 * before:.2g} %)"


def _turned(query: xr.Dataset, rows: list[int]) -> str:
    """Which of the words have turned by the end of the forecast."""
    end = query.attention_path.values[-1] - query.attention_path.values[0]
    turned = [i for i in rows if end[i] * first_change(query)[i] < 0]
    if not turned:
        return ""
    return f"by step {float(query.order_until):.3g} this has turned for {listed(_names(query, turned), NAMED)}"


def _names(query: xr.Dataset, rows: list[int]) -> list[str]:
    return [str(query.token.values[i]) for i in rows]
