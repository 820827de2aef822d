"""The figure of a forecast: each query's attention over time, and attention on the most frequent
token through the stages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from saccade.data.class_tables import SHARED_QUERY
from saccade.forecasting.order_predictions import ranked
from saccade.forecasting.text_predictions import moving
from saccade.report.style import COMMON, categorical

if TYPE_CHECKING:
    import xarray as xr

_MOST_QUERIES, _NAMED, _MOST_WORDS, _MOST_GREY = 6, 3, 6, 20
_DASHES = ("-", "--", "-.")  # lines of classes that are alike lie on each other


def figure(record: xr.Dataset) -> Figure:
    """A panel a query (the most frequent first), then the stages; what a source does not give is
    left out.
    """
    panels: list[Any] = []
    if "gain_path" in record:
        order = np.argsort(-record.query_weight.values, kind="stable")[:_MOST_QUERIES]
        of_query = _attention if "told" in record else _scanned
        panels += [
            lambda axes, row=row: of_query(axes, record.isel(query=int(row))) for row in order
        ]
    if "on_frequent" in record:
        panels.append(lambda axes: _stages(axes, record))
    columns = min(3, max(1, len(panels)))
    rows = -(-max(1, len(panels)) // columns)
    drawn = Figure(figsize=(4.2 * columns, 3.0 * rows), layout="constrained")
    for place, draw in enumerate(panels, start=1):
        draw(drawn.add_subplot(rows, columns, place))
    return drawn


def _scanned(axes: Any, query: xr.Dataset) -> None:
    """Attention on distinct tokens in colour, named; on the others grey; the end of scanning and
    the snap where flow (C) has them.
    """
    time, path = query.time.values[1:], query.attention_path.values[1:]
    place = {str(name): i for i, name in enumerate(query.token.values)}
    others = [place[name] for name in ranked(query, distinct=False)][:_MOST_GREY]
    axes.plot(time, path[:, others], color=COMMON, lw=0.8)
    for colour, name in enumerate(ranked(query, distinct=True)[:_NAMED]):
        axes.plot(
            time,
            path[:, place[name]],
            color=categorical(colour),
            ls=_DASHES[colour],
            label=_plain(name),
        )
    axes.set(xscale="log", xlabel="step", ylabel="attention", title=_titled(query))
    axes.set_ylim(0, 1.6 * axes.get_ylim()[1])  # room for the names of times
    for event, name in (("scan_time", "scan (C) ends"), ("snap_time", "snap (C)")):
        _mark(axes, float(query[event]), name)
    if others:
        axes.plot([], [], color=COMMON, lw=0.8, label="others")
    axes.legend(fontsize=7, title="attention on", title_fontsize=7)


def _mark(axes: Any, at: float, name: str) -> None:
    """A time with its name, along its line."""
    axes.axvline(at, color="black", lw=0.8, ls=":")
    along: dict[str, Any] = {"rotation": 90, "fontsize": 8, "ha": "right", "va": "top"}
    axes.annotate(name, (at, 0.98), (-2, 0), ("data", "axes fraction"), "offset points", **along)


def _titled(query: xr.Dataset) -> str:
    name = str(query["query"].values)
    return "attention of the query" if name == SHARED_QUERY else f"query: {_plain(name)}"


def _attention(axes: Any, query: xr.Dataset) -> None:
    """How attention on the words that move most changes, in per cent of what it was; solid where
    sizes are told, dotted after.
    """
    time, path = query.time.values, query.attention_path.values
    sized = time <= float(query.size_until)
    rows = [*moving(query, up=True)[:_NAMED], *moving(query, up=False)[:_NAMED]]
    for colour, row in enumerate(rows):
        change = 100 * (path[:, row] / path[0, row] - 1)
        share = f"{100 * path[0, row]:.2g} %"
        axes.plot(
            time[sized],
            change[sized],
            color=categorical(colour),
            label=f"{_plain(str(query.token.values[row]))} (from {share})",
        )
        axes.plot(time[~sized], change[~sized], color=categorical(colour), ls=":")
    axes.axhline(0.0, color=COMMON, lw=0.8)
    axes.axvline(float(query.size_until), color="black", lw=0.8, ls=":")
    axes.set(xlabel="step (dotted line: sizes trusted to here)", ylabel="change of attention (%)")
    axes.set_title(_titled(query))
    if rows:
        axes.legend(fontsize=6, title="attention on", title_fontsize=7)


def _stages(axes: Any, record: xr.Dataset) -> None:
    time, frequent = record.stage_time.values[1:], int(record.frequency.values.argmax())
    moved = np.abs(record.on_frequent.values - record.frequency.values[frequent]).max(axis=0)
    for colour, i in enumerate(np.argsort(-moved, kind="stable")[:_MOST_WORDS]):
        axes.plot(
            time,
            record.on_frequent.values[1:, i],
            color=categorical(colour),
            label=_plain(str(record.word.values[i])),
        )
    axes.axhline(record.frequency.values[frequent], color=COMMON, lw=0.8)
    for event, name in (("plateau_time", "unigram plateau"), ("focus_onset", "focus begins")):
        _mark(axes, float(record[event].values[0]), name)
    axes.set(
        xscale="log",
        xlabel="step",
        ylabel=f"attention on {_plain(str(record.word.values[frequent]))}",
        title="stages",
        ylim=(0, 1),
    )
    axes.legend(fontsize=7, title="query", title_fontsize=7)


def _plain(name: str) -> str:
    """A token as it is: no mathematics between dollar signs, and something to see where it is
    blank.
    """
    return (name.replace("$", r"\$") or "(empty)") if name.strip() else repr(name)
