"""One style for all figures: colour-blind safe, headless, and without touching Matplotlib's global state."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib import colormaps, rc_context
from matplotlib.figure import Figure

from saccade.records.writing import whole_file

COMMON = "#b8b8b8"
_CATEGORICAL = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # Okabe and Ito's palette


def new_figure(width: float, height: float) -> Figure:
    """A figure in inches that belongs to no window and no pyplot."""
    return Figure(figsize=(width, height), layout="constrained")


def categorical(index: int) -> str:
    return _CATEGORICAL[index % len(_CATEGORICAL)]


def sequential(index: int, count: int) -> tuple[float, float, float, float]:
    """Colour `index` of `count` that darkens with order."""
    return colormaps["viridis"](0.92 - 0.86 * index / max(1, count - 1))


def colour_of(item: Mapping[str, Any], index: int, n: int) -> Any:
    """The colour of one of n lines or bars: a shade from light to dark, a tone of its own, or black; by its place where nothing is
    said.
    """
    if "shade" in item:
        return sequential(item["shade"], 2)
    if "tone" in item:
        return "black" if item["tone"] is None else categorical(item["tone"])
    return categorical(index) if n <= 6 else sequential(index, n)


def save_figure(figure: Figure, stem: Path) -> None:
    """As SVG (the same bytes for the same figure) and as PNG."""
    with (
        rc_context({"svg.hashsalt": "saccade"}),
        whole_file(stem.with_suffix(".svg")) as file,
    ):  # its identifiers are random otherwise
        figure.savefig(file, format="svg", metadata={"Date": None})
    figure.set_layout_engine("none")  # it has its places: finding them again takes as long as drawing
    with whole_file(stem.with_suffix(".png")) as file:
        figure.savefig(file, format="png", dpi=150)
