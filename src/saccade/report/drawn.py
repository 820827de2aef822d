"""The page's figures with Matplotlib: the same dictionaries (`specs.still`), without a browser or a window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.report.style import categorical, new_figure, sequential

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_TICKS = 30  # labels along an axis of five inches
_MAPS = {"sequential": "viridis", "diverging": "PuOr_r"}


def draw(spec: dict[str, Any], moment: float | None = None) -> Figure:
    """A chart of kind line, bars or heat; `moment` is marked in lines."""
    figure = new_figure(width=6.4, height=3.6)
    axes = figure.subplots()
    {"line": _line, "bars": _bars, "heat": _heat}[spec["kind"]](axes, spec)
    axes.set_title(spec["title"], loc="left", parse_math=False)
    axes.set_xlabel(spec["x"]["label"], parse_math=False)
    if moment is not None and spec["kind"] == "line":
        axes.axvline(moment, color="black", lw=0.8)
    return figure


def _line(axes: Any, spec: dict[str, Any]) -> None:
    n = len(spec["series"])
    for index, series in enumerate(spec["series"]):
        colour = categorical(index) if n <= 6 else sequential(index, n)
        axes.plot(series["x"], _shown(series["y"]), color=colour, label=_plain(series["name"]), lw=1.4)
    for place, band in enumerate(spec.get("bands", ())):
        axes.axvspan(band["from"], band["to"], color=categorical(0), alpha=0.06 + 0.06 * (place % 2), lw=0)
    _up(axes, spec)
    if spec["x"].get("log"):
        axes.set_xscale("log")
    if n > 1:
        axes.legend(fontsize="x-small", ncols=2)


def _bars(axes: Any, spec: dict[str, Any]) -> None:
    n, places = len(spec["groups"]), np.arange(len(spec["labels"]))
    for index, group in enumerate(spec["groups"]):
        axes.bar(
            places + (index - (n - 1) / 2) * 0.8 / n,
            _shown(group["values"]),
            0.8 / n,
            color=categorical(index),
            label=_plain(group["name"]),
        )
    _ticks(axes.xaxis, spec["labels"])
    _up(axes, spec)
    if n > 1:
        axes.legend(fontsize="x-small", ncols=2)


def _heat(axes: Any, spec: dict[str, Any]) -> None:
    cells = _shown(spec["values"]).reshape(spec["rows"], spec["columns"])
    image = axes.imshow(
        cells, cmap=_MAPS[spec["scale"]], vmin=spec["min"], vmax=spec["max"], aspect="auto", interpolation="nearest"
    )
    _ticks(axes.xaxis, spec["x"]["ticks"])
    _ticks(axes.yaxis, spec["y"]["ticks"])
    axes.set_ylabel(spec["y"]["label"], parse_math=False)
    axes.figure.colorbar(image, ax=axes)


def _up(axes: Any, spec: dict[str, Any]) -> None:
    y = spec["y"]
    axes.set_ylabel(y["label"], parse_math=False)
    if y.get("log"):
        axes.set_yscale("log")
    low, high = y.get("min"), y.get("max")
    if low is not None and high is not None and high > low and high < 1e300:
        axes.set_ylim(low, high)


def _ticks(axis: Any, labels: list[str]) -> None:
    places = range(0, len(labels), max(1, len(labels) // _MOST_TICKS + 1))
    axis.set_ticks(list(places), [_plain(labels[place])[:20] for place in places], fontsize="x-small")


def _plain(name: str) -> str:
    """A name as text: dollars would be read as mathematics, and a leading underscore hides a name from a legend."""
    return name.replace("$", r"\$").lstrip("_") or " "


def _shown(values: Any) -> np.ndarray:
    """Numbers that can be drawn: what is not finite is missing."""
    array = np.asarray(values, dtype=np.float64)
    return np.where(np.isfinite(array), array, np.nan)
