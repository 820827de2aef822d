"""One look for all figures: colour-blind safe, headless, and nothing of Matplotlib's global state is touched."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from matplotlib import colormaps, rc_context
from matplotlib.figure import Figure

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


def save_figure(figure: Figure, stem: Path) -> None:
    """As SVG (the same bytes for the same figure) and as PNG."""
    with rc_context({"svg.hashsalt": "saccade"}):  # identifiers inside the SVG are random without it
        _save(figure, stem.with_suffix(".svg"), metadata={"Date": None})
    _save(figure, stem.with_suffix(".png"), dpi=150)


def _save(figure: Figure, path: Path, **options: Any) -> None:
    """The whole file or the one that was there."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        figure.savefig(unfinished, format=path.suffix[1:], **options)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
