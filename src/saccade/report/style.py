"""One style for all figures: colour-blind safe, headless, and without touching Matplotlib's global
state.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib import colormaps, rc_context
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter, ScalarFormatter

from saccade.numerals import numeral
from saccade.records.writing import whole_file

COMMON = "#b8b8b8"
# Okabe and Ito's palette, with olive and wine in place of its two oranges: orange is for failures.
# For colour-blind readers olive is as far from the others as their vermilion.
_CATEGORICAL = ("#0072b2", "#8c8000", "#009e73", "#cc79a7", "#882255", "#56b4e9", "#7f7f7f")


class Powers(LogFormatter):
    """Numbers along a logarithmic axis in the letters of `numeral`: Matplotlib's own are formulas,
    each of them parsed anew.
    """

    def __call__(self, value: float, place: int | None = None) -> str:
        if not super().__call__(value, place):
            return ""
        if value <= 0:  # of an axis that begins with 0
            return numeral(value, ".3g")
        is_power = math.isclose(round(math.log10(value)), math.log10(value), abs_tol=1e-9)
        return numeral(value, ".0e" if is_power else ".3g")


class Plain(ScalarFormatter):
    """Numbers along a plain axis, each whole: Matplotlib's own have a factor in common, `1e-5`,
    that stands apart from them.
    """

    axis: Any  # set by Matplotlib before it asks for a number

    def __call__(self, value: float, place: int | None = None) -> str:
        largest = max(map(abs, self.axis.get_view_interval()))
        return super().__call__(value, place) if 1e-3 <= largest < 1e5 else numeral(value, ".6g")

    def get_offset(self) -> str:
        return ""


def categorical(index: int) -> str:
    return _CATEGORICAL[index % len(_CATEGORICAL)]


def sequential(index: int, count: int) -> tuple[float, float, float, float]:
    """Colour `index` of `count` that darkens with order."""
    return colormaps["viridis"](0.92 - 0.86 * index / max(1, count - 1))


def colour_of(item: Mapping[str, Any], index: int, n: int) -> Any:
    """The colour of one of n lines or bars: a shade from light to dark, a tone of its own, or
    black; by its place where nothing is said.
    """
    if "shade" in item:
        return sequential(item["shade"], 2)
    if "tone" in item:
        return (
            "black"
            if item["tone"] is None
            else to_rgba(categorical(item["tone"]), item.get("opacity", 1.0))
        )
    return categorical(index) if n <= 6 else sequential(index, n)


def save_figure(figure: Figure, stem: Path) -> None:
    """As SVG (the same bytes for the same figure) and as PNG."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            _place_ticks_once(axis)
    engine = figure.get_layout_engine()
    if (
        figure.axes and engine
    ):  # once for both files: Matplotlib would find all places and draw unseen before each
        engine.execute(figure)
        figure.set_layout_engine(None)
    with rc_context({"svg.hashsalt": "saccade"}):  # its identifiers are random otherwise
        write_drawn(figure, stem.with_suffix(".svg"), metadata={"Date": None})
    write_drawn(figure, stem.with_suffix(".png"), dpi=150)


def write_drawn(figure: Figure, path: Path, **options: Any) -> None:
    """In the format that the name of the file tells."""
    drawn = io.BytesIO()  # first, since Matplotlib's writers hide the error of a full disk
    figure.savefig(drawn, format=path.suffix.lower().removeprefix("."), **options)
    with whole_file(path) as file:
        file.write(drawn.getbuffer())


def _place_ticks_once(axis: Any) -> None:
    """Matplotlib places and names all ticks anew some twenty times for each figure; only another
    size or other ends move them.
    """
    place = axis._update_ticks
    seen: dict[tuple[float, ...], Any] = {}

    def placed() -> Any:
        where = (*axis.axes.bbox.bounds, *axis.get_view_interval(), axis.get_figure(root=True).dpi)
        if where not in seen:
            seen.clear()
            seen[where] = place()
        return seen[where]

    axis._update_ticks = placed
