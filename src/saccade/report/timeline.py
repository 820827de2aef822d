"""Every head of a watched model over time in one picture: a row each, coloured by what it does, pale once it is frozen.

What it shows, and from which numbers, is in `records/when.py`.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from saccade.records.when import NAMED, PLACE_NAMES, STATES, HeadEvent, Timeline, when

if TYPE_CHECKING:
    import xarray as xr

COLOURS = dict(zip(STATES, ("#e4e4e4", "#b5b5b5", "#56b4e9", "#000000", "#8c8000", "#0072b2", "#cc79a7", "#882255"), strict=True))
LEGEND = (
    f"Every row is a head, coloured by where its attention goes (a place needs at least {NAMED:g} of it, beyond what uniform "
    "attention would give), pale once it is frozen; a bar marks when it took its place. The axis is logarithmic, step 0 first."
)
_MOST_SENTENCES = 12  # on the page; `saccade.when(record)` has all
_TALLEST, _ROW = 14.0, 0.19  # inches
_MOST_LABELS = 48  # rows that can have a label each; of more, layers have
_MOST_SHAPES = 2000  # that are drawn as shapes; more, as pixels: a page of 30,000 shapes takes a second longer to open
_DPI = 150  # of those pixels


def sentences_of(*timelines: Timeline, names: Sequence[str] = ("",)) -> str:
    """The sentences, a line each, and what the colours mean; of many the first, and the last. Of several runs, each by its name."""
    lines: list[str] = []
    most = _MOST_SENTENCES // len(timelines)
    for name, timeline in zip(names, timelines, strict=True):
        told = timeline.sentences
        if len(told) > most + 3:
            left = len(told) - most - 2
            told = [*told[:most], f"… and {left} more sentences: print(saccade.when(record)).", *told[-2:]]
        lines += [f"{name}: {sentence}" if name else sentence for sentence in told]
    return "\n".join([*lines, "", LEGEND])


def shown_timeline(*records: xr.Dataset, names: Sequence[str] = ("",)) -> tuple[str, str]:
    """As an SVG, and in words; of several runs with one axis for all."""
    timelines = [when(record) for record in records]
    content = io.StringIO()
    with rc_context({"svg.hashsalt": "saccade"}):
        timeline_figure(*timelines, names=names).savefig(content, format="svg", dpi=_DPI, metadata={"Date": None})
    text = content.getvalue()
    return text[text.index("<svg") :], sentences_of(*timelines, names=names)


def timeline_figure(*timelines: Timeline, names: Sequence[str] = ("",)) -> Figure:
    """A picture for each run, one below the other, with one axis for all."""
    rows = [_rows(timeline) for timeline in timelines]
    heights = [1.5 + _ROW * len(own) for own in rows]
    figure = Figure(figsize=(11.0, min(_TALLEST, sum(heights))), layout="constrained")
    panels = figure.subplots(len(rows), 1, squeeze=False, height_ratios=heights)[:, 0]
    span = min(timeline.steps[0] for timeline in timelines), max(_end(timeline.steps) for timeline in timelines)
    for axes, timeline, own, name in zip(panels, timelines, rows, names, strict=True):
        _draw(axes, timeline, own, f"{name}: what heads do, and since when" if name else "What heads do, and since when")
        axes.set_xlim(span)
    return figure


def _rows(timeline: Timeline) -> list[tuple[int, ...]]:
    """Heads that were seen."""
    return [of for of in np.ndindex(timeline.states.shape[1:]) if (timeline.states[(slice(None), *of)] >= 0).any()]


def _draw(axes: Any, timeline: Timeline, rows: list[tuple[int, ...]], title: str) -> None:
    states = np.stack([timeline.states[:, layer, head] for layer, head in rows])
    end = _end(timeline.steps)
    edges = np.append(timeline.steps, end)
    norm = BoundaryNorm(np.arange(-0.5, len(STATES)), len(STATES))
    shown = np.ma.masked_less(states, 0)
    colours = ListedColormap(list(COLOURS.values()))
    mesh = axes.pcolormesh(edges, np.arange(len(rows) + 1), shown, cmap=colours, norm=norm, edgecolors="face", linewidth=0.4)
    mesh.set_rasterized(states.size > _MOST_SHAPES)
    _mark(axes, timeline, rows, end)
    axes.set_xscale("symlog", linthresh=1, linscale=0.3)
    axes.set(ylim=(len(rows), 0), xlabel="step")
    _label(axes, timeline, rows)
    axes.spines[["top", "right"]].set_visible(False)
    _legend(axes, timeline, states)
    axes.set_title(title, loc="left", pad=26, parse_math=False)


def _end(steps: np.ndarray) -> float:
    """A little beyond the last observation, so that it is seen."""
    return max(float(steps[-1]) * 1.15, float(steps[-1]) + 0.5)


def _takings(timeline: Timeline) -> list[HeadEvent]:
    """A head takes a place, changes it, or collapses."""
    return [event for event in timeline.events if event.name in (*PLACE_NAMES, "collapsed") and np.isfinite(event.before)]


def _mark(axes: Any, timeline: Timeline, rows: list[tuple[int, ...]], end: float) -> None:
    """Frozen heads pale, and a bar at each taking."""
    places = {of: place for place, of in enumerate(rows)}
    for of, place in places.items():
        since = timeline.frozen[of]
        if np.isfinite(since):
            axes.barh(place + 0.5, end - since, left=since, height=1.0, color="white", alpha=0.6, lw=0)
    marked = [(event.step, places[event.layer, event.head]) for event in _takings(timeline)]
    steps, at = np.array(marked).T if marked else np.empty((2, 0))
    axes.vlines(steps, at + 0.08, at + 0.92, color="black", lw=1.6, rasterized=len(marked) > _MOST_SHAPES)
    for place, (_, head) in enumerate(rows):
        axes.axhline(place, color="white", lw=1.6 if head == 0 else 0.4 if len(rows) <= 4 * _MOST_LABELS else 0)


def _label(axes: Any, timeline: Timeline, rows: list[tuple[int, ...]]) -> None:
    if len(rows) <= _MOST_LABELS:
        axes.set_yticks(np.arange(len(rows)) + 0.5, [f"{timeline.layers[layer]} head {head}" for layer, head in rows], fontsize=8)
    else:
        first = [(place, layer) for place, (layer, head) in enumerate(rows) if head == 0]
        kept = first[:: max(1, len(first) // _MOST_LABELS + 1)]
        axes.set_yticks([place for place, _ in kept], [timeline.layers[layer] for _, layer in kept], fontsize=8)
    axes.tick_params(axis="y", length=0)


def _legend(axes: Any, timeline: Timeline, states: np.ndarray) -> None:
    known = [name for number, name in enumerate(STATES) if (states == number).any()]
    handles: list[Any] = [Patch(color=COLOURS[name], label=name) for name in known]
    if np.isfinite(timeline.frozen).any():
        handles.append(Patch(facecolor="#dbe7ef", edgecolor="#0072b2", label="pale: frozen", lw=0.5))
    if _takings(timeline):
        handles.append(Line2D([], [], color="black", lw=1.6, marker="|", ls="", markersize=9, label="takes its place"))
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=len(handles), fontsize=8, frameon=False)
