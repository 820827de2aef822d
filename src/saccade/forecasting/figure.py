"""The figure of a forecast: each query's attention over time, and attention on the most frequent token through the stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from saccade.forecasting.order_predictions import ranked
from saccade.forecasting.text_predictions import moving
from saccade.report.style import COMMON, categorical

if TYPE_CHECKING:
    import xarray as xr

_MOST_QUERIES, _NAMED, _MOST_WORDS = 6, 3, 6


def figure(record: xr.Dataset) -> Figure:
    """A panel a query (the most frequent first), then the stages; what a source does not give is left out."""
    panels: list[Any] = []
    if "gain_path" in record:
        order = np.argsort(-record.query_weight.values, kind="stable")[:_MOST_QUERIES]
        of_query = _attention if "told" in record else _gains
        panels += [lambda axes, row=row: of_query(axes, record.isel(query=int(row))) for row in order]
    if "on_frequent" in record:
        panels.append(lambda axes: _stages(axes, record))
    columns = min(3, max(1, len(panels)))
    rows = -(-max(1, len(panels)) // columns)
    drawn = Figure(figsize=(4.2 * columns, 3.0 * rows), layout="constrained")
    for place, draw in enumerate(panels, start=1):
        draw(drawn.add_subplot(rows, columns, place))
    return drawn


def _gains(axes: Any, query: xr.Dataset) -> None:
    """Distinct tokens in colour, named; the others grey."""
    time, path = query.time.values[1:], query.gain_path.values[1:]
    place = {str(name): i for i, name in enumerate(query.token.values)}
    losing = [place[name] for name in ranked(query, distinct=False)][:20]
    axes.plot(time, path[:, losing], color=COMMON, lw=0.8)
    for colour, name in enumerate(ranked(query, distinct=True)[:_NAMED]):
        axes.plot(time, path[:, place[name]], color=categorical(colour), label=_plain(name))
    axes.axvline(float(query.snap_time), color="black", lw=0.8, ls=":")
    axes.set(xscale="log", xlabel="step", ylabel="gain of attention logit", title=f"query {_plain(str(query['query'].values))}")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7, title="distinct, first to gain", title_fontsize=7)


def _attention(axes: Any, query: xr.Dataset) -> None:
    """How attention on the words that move most changes, in per cent of what it was; solid where sizes are told, dotted after."""
    time, path = query.time.values, query.attention_path.values
    sized = time <= float(query.size_until)
    rows = [*moving(query, up=True)[:_NAMED], *moving(query, up=False)[:_NAMED]]
    for colour, row in enumerate(rows):
        change = 100 * (path[:, row] / path[0, row] - 1)
        share = f"{100 * path[0, row]:.2g} %"
        axes.plot(
            time[sized], change[sized], color=categorical(colour), label=f"{_plain(str(query.token.values[row]))} (from {share})"
        )
        axes.plot(time[~sized], change[~sized], color=categorical(colour), ls=":")
    axes.axhline(0.0, color=COMMON, lw=0.8)
    axes.axvline(float(query.size_until), color="black", lw=0.8, ls=":")
    axes.set(xlabel="step (dotted line: sizes trusted to here)", ylabel="change of attention (%)")
    axes.set_title(f"query: {_plain(str(query['query'].values))}")
    if rows:
        axes.legend(fontsize=6, title="attention on", title_fontsize=7)


def _stages(axes: Any, record: xr.Dataset) -> None:
    time, frequent = record.stage_time.values[1:], int(record.frequency.values.argmax())
    moved = np.abs(record.on_frequent.values - record.frequency.values[frequent]).max(axis=0)
    for colour, i in enumerate(np.argsort(-moved, kind="stable")[:_MOST_WORDS]):
        axes.plot(time, record.on_frequent.values[1:, i], color=categorical(colour), label=_plain(str(record.word.values[i])))
    axes.axhline(record.frequency.values[frequent], color=COMMON, lw=0.8)
    for event, name in (("plateau_time", "unigram plateau"), ("focus_onset", "focus begins")):
        at = float(record[event].values[0])
        axes.axvline(at, color="black", lw=0.8, ls=":")
        axes.text(at, 0.98, name, rotation=90, fontsize=6, ha="right", va="top")
    axes.set(
        xscale="log", xlabel="step", ylabel=f"attention on {_plain(str(record.word.values[frequent]))}", title="stages", ylim=(0, 1)
    )
    axes.legend(fontsize=7, title="query", title_fontsize=7)


def _plain(name: str) -> str:
    """A token as it is: no mathematics between dollar signs, and something to see where it is blank."""
    return (name.replace("$", r"\$") or "(empty)") if name.strip() else repr(name)
