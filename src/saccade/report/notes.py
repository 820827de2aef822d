"""Labels of the lines across a panel, each placed where it covers least."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.patheffects import withStroke

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LETTER = 0.55  # mean width of a letter over its height
_GAP = 0.012  # between words and their line or the edge, in shares of the panel
_POINT = 0.01  # about half the width of a point that is drawn
_STEPS = 30  # points along a piece of a curve: words between its two ends cover it too


def add_notes(axes: Axes, spec: dict[str, Any], letters: float, inches: tuple[float, float]) -> None:
    """Labels of levels (horizontal) and marks (vertical, turned), in letters of so many points; `inches`: size of the plot."""
    axes.get_ylim()  # Matplotlib settles the ends of the axes only when asked
    taken = _taken(axes)
    for key, along, across in (("levels", 0, 1), ("marks", 1, 0)):
        transform = (axes.get_yaxis_transform() if along == 0 else axes.get_xaxis_transform()) - axes.transAxes
        for rule in spec.get(key, ()):
            place = rule["y" if along == 0 else "x"]
            line = transform.transform((place, place))[across]
            if not rule["label"] or not 0 <= line <= 1:
                continue
            size = np.empty(2)
            size[along] = len(rule["label"]) * LETTER * letters / 72 / inches[along]
            size[across] = 1.2 * letters / 72 / inches[across]
            corner = _freest(line, size, along, taken)
            taken = np.vstack([taken, [*corner, *(corner + size)]])
            x, y = corner + size / 2
            how: dict[str, Any] = {"fontsize": letters, "color": "0.25", "ha": "center", "va": "center", "parse_math": False}
            halo = [withStroke(linewidth=2, foreground="white")]
            axes.text(x, y, rule["label"], transform=axes.transAxes, rotation=90 * along, path_effects=halo, **how)


def _taken(axes: Axes) -> np.ndarray:
    """What is drawn, as boxes (left, bottom, right, top) in shares of the panel: bars, and points close together along lines."""
    boxes = [np.empty((0, 4))]
    for line in axes.get_lines():
        ends = (line.get_transform() - axes.transAxes).transform(line.get_xydata())
        if line.get_linestyle() != "None":
            share = np.linspace(0, 1, _STEPS)[:, None, None]
            ends = ((1 - share) * ends[:-1] + share * ends[1:]).reshape(-1, 2)
        boxes.append(np.hstack([ends, ends]))
    bars = [bar.get_window_extent().transformed(axes.transAxes.inverted()).extents for bar in axes.patches]
    found = np.vstack([*boxes, *bars])
    return found[np.isfinite(found).all(axis=1)]


def _freest(line: float, size: np.ndarray, along: int, taken: np.ndarray) -> np.ndarray:
    """Lower left corner of the words: by their line, on one side or the other, at its near end, its far end or in the middle."""

    def covered(corner: np.ndarray) -> float:
        if corner.min() < 0 or (corner + size).max() > 1:
            return np.inf
        return float(((taken[:, :2] <= corner + size + _POINT) & (taken[:, 2:] >= corner - _POINT)).all(axis=1).sum())

    starts = (_GAP, 1 - _GAP - size[along], (1 - size[along]) / 2)  # legends are more often at the far end
    sides = (line + _GAP, line - _GAP - size[1 - along])
    corners = [np.array([start, side][:: 1 - 2 * along]) for start, side in itertools.product(starts, sides[:: 1 - 2 * along])]
    return min(corners, key=covered)
