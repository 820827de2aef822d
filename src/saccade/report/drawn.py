"""Charts drawn by Matplotlib, without a browser or a window: the page's figures (`specs.still`) and
the panels of an experiment.

Both are plain dictionaries of kind line, bars, heat or timeline; `web/charts.js` draws the same
ones on a page.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib import rcParams
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import withStroke

from saccade.report.drawn_timeline import draw_timeline
from saccade.report.style import COMMON, Plain, Powers, categorical, colour_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAPS = {"sequential": "viridis", "diverging": "PRGn"}
_STYLES: dict[str, dict[str, Any]] = {
    "line": {"ls": "-"},
    "dashes": {"ls": "--"},
    "dots": {"ls": ":"},
    "points": {"ls": "", "marker": "o", "ms": 4, "mew": 0},
    "rings": {"ls": "", "marker": "o", "ms": 5, "mfc": "none"},
}
_RULE: dict[str, Any] = {"color": "0.35", "lw": 1, "ls": (0, (2, 2))}  # lines across
_WIDTH, _HEIGHT = 4.7, 4.2  # inches of a panel that may be as large as it likes
_READABLE_WIDTH, _READABLE_HEIGHT = 3.2, 2.6  # below these the letters shrink with the panel
_SMALLEST = 0.55  # of those sizes, and of the letters: smaller cannot be read, so that the figure grows instead
_PLOT = 0.75  # share of a panel's width and height that its axes leave to the plot
_LETTER = 0.55  # mean width of a letter over its height
_GAP = 0.012  # between words and their line or the edge, in shares of the panel
_POINT = 0.01  # about half the width of a point that is drawn
_PLACES = 9  # along a line, that are tried for its words
_STEPS = 30  # points along a piece of a curve: words between its two ends cover it too
_MOST_POINTS = 6000  # along a whole curve; the pieces of one that has many are short


class _Cell(NamedTuple):
    """Room for one panel: inches, and the height of its letters in points."""

    width: float
    height: float
    letters: float

    def fit(self, inches: float) -> int:
        """How many letters fit along a stretch."""
        return max(8, int(inches * 72 / (_LETTER * self.letters)))


def draw(spec: dict[str, Any], moment: float | None = None) -> Figure:
    """One chart; `moment` is marked in lines."""
    figure = draw_panels([[spec]], 6.4, 3.6)
    if moment is not None and spec["kind"] == "line":
        figure.axes[0].axvline(moment, color="black", lw=0.8)
    return figure


def draw_panels(
    rows: list[list[dict[str, Any]]], width: float | None = None, height: float | None = None
) -> Figure:
    """Rows of panels, in inches; as large as they need if no size is given.

    In a figure too narrow for a row, the row is broken into several. A figure so small that nothing
    could be read is made larger.
    """
    columns = _columns(rows, width, height)
    broken = [
        row[start : start + columns] for row in rows for start in range(0, len(row), columns)
    ] or [[]]
    width = max(width or _WIDTH * columns, _SMALLEST * _READABLE_WIDTH * columns)
    height = max(
        height or len(broken) * min(_HEIGHT, width / columns),
        _SMALLEST * _READABLE_HEIGHT * len(broken),
    )
    across, down = width / columns, height / len(broken)
    share = min(1.0, across / _READABLE_WIDTH, down / _READABLE_HEIGHT)
    cell = _Cell(across, down, 0.9 * rcParams["font.size"] * max(_SMALLEST, share))
    figure = Figure(figsize=(width, height), layout="constrained")
    grid = figure.add_gridspec(len(broken), columns)
    for place, row in enumerate(broken):
        for column, spec in enumerate(row):
            last = column == len(row) - 1
            _panel(
                figure.add_subplot(grid[place, column : None if last else column + 1]), spec, cell
            )
    return figure


def _columns(rows: list[list[dict[str, Any]]], width: float | None, height: float | None) -> int:
    """How many panels stand side by side: as many as can be read; in a figure of a given size, as
    makes them most readable.
    """
    most = max((len(row) for row in rows), default=1) or 1
    if width is None:
        return most
    if height is None:
        return min(most, max(1, int(width / _READABLE_WIDTH)))

    def readable(columns: int) -> float:
        n_rows = sum(math.ceil(len(row) / columns) for row in rows)
        return min(
            1.0, width / columns / _READABLE_WIDTH, height / max(1, n_rows) / _READABLE_HEIGHT
        )

    return max(range(most, 0, -1), key=readable)


def _panel(axes: Axes, spec: dict[str, Any], cell: _Cell) -> None:
    axes.tick_params(which="both", labelsize=0.85 * cell.letters)
    title, across, up = (
        textwrap.fill(str(words or ""), cell.fit(inches), max_lines=3, placeholder=" …")
        for words, inches in (
            (spec["title"], 0.7 * cell.width),  # it begins at the axis, in larger letters
            (spec["x"]["label"], cell.width),
            (spec["y"]["label"], cell.height),
        )
    )
    axes.set_title(
        title, loc="left", y=1.0, fontsize=1.1 * cell.letters, parse_math=False
    )  # no ticks on top to look out for
    axes.set_xlabel(across, fontsize=cell.letters, parse_math=False)
    axes.set_ylabel(up, fontsize=cell.letters, parse_math=False)
    if spec["kind"] == "timeline":
        draw_timeline(axes, spec, cell.letters)
    else:
        {"line": _line, "bars": _bars, "heat": _heat}[spec["kind"]](axes, spec, cell)


def _line(axes: Axes, spec: dict[str, Any], cell: _Cell) -> None:
    x, y = spec["x"], spec["y"]
    for axis, drawn, scale in ((x, axes.xaxis, axes.set_xscale), (y, axes.yaxis, axes.set_yscale)):
        drawn.set_major_formatter(Plain(useOffset=False))
        if axis.get("log"):
            scale("symlog", linthresh=1, linscale=0.3) if axis["log"] == "zero" else scale("log")
            drawn.set_major_formatter(Powers())
            drawn.set_minor_formatter(Powers())
    named = {}
    for index, series in enumerate(spec["series"]):
        colour = colour_of(series, index, len(spec["series"]))
        across = _shown(series["x"], x.get("log"))
        if series.get("low") is not None:
            axes.fill_between(
                across, _shown(series["low"]), _shown(series["high"]), color=colour, alpha=0.2, lw=0
            )
        style = _STYLES[series.get("style", "line")]
        (named[index],) = axes.plot(
            across, _shown(series["y"], y.get("log")), color=colour, lw=1.4, **style
        )
    for place, band in enumerate(spec.get("bands", ())):
        axes.axvspan(
            band["from"], band["to"], color=categorical(0), alpha=0.06 + 0.06 * (place % 2), lw=0
        )
    if x.get("places"):
        labels = [place["label"] for place in x["places"]]
        _names(axes, "x", [place["at"] for place in x["places"]], labels, cell)
    _rules(axes, spec, cell)
    _legend(
        axes,
        spec,
        [(named[index], series["name"]) for index, series in enumerate(spec["series"])],
        cell,
    )


def _bars(axes: Axes, spec: dict[str, Any], cell: _Cell) -> None:
    groups, places = spec["groups"], np.arange(len(spec["labels"]))
    is_stacked = bool(spec.get("stacked"))
    width = 0.8 if is_stacked else 0.8 / max(1, len(groups))
    up, down = (
        np.zeros(len(places)),
        np.zeros(len(places)),
    )  # how high the stacks are, above and below zero
    named: list[tuple[Any, str]] = []
    for index, group in enumerate(groups):
        heights = _shown(group["values"])
        shift = 0.0 if is_stacked else (index - (len(groups) - 1) / 2) * width
        bottom = np.where(heights < 0, down, up) if is_stacked else None
        colour = (
            COMMON if group.get("tone", 0) is None else colour_of(group, index, len(groups))
        )  # black would hide all others
        colours = (
            [colour if tone is None else colour_of(tone, 0, 1) for tone in group["tones"]]
            if group.get("tones")
            else colour
        )
        axes.bar(places + shift, heights, width, bottom=bottom, color=colours)
        up, down = up + np.fmax(heights, 0), down + np.fmin(heights, 0)
        named += (
            []
            if group.get("tones") and len(groups) == 1
            else [(Patch(color=colour), group["name"])]
        )
    named += [(Patch(color=colour_of(role, 0, 1)), role["name"]) for role in spec.get("roles", ())]
    for index, group in enumerate(groups):
        if group.get("ghost") is not None:
            shift = (index - (len(groups) - 1) / 2) * width
            outlines = axes.bar(
                places + shift, _shown(group["ghost"]), width, fill=False, ls="--", lw=0.8
            )
            named += [] if index else [(outlines, spec.get("ghostName", "theory"))]
    for level in spec.get(
        "levels", ()
    ):  # named in the legend: beside its line a name would lie on bars
        named.append((axes.axhline(level["y"], **_RULE), level["label"]))
    _names(axes, "x", places, spec["labels"], cell)
    _rules(axes, spec | {"levels": ()}, cell)
    shaded = [place for place, group in enumerate(groups) if "shade" in group]
    hidden = set(shaded[1:-1]) if len(shaded) > 4 else set()  # the first and the last are named
    _legend(axes, spec, [item for at, item in enumerate(named) if at not in hidden], cell)


def _heat(axes: Axes, spec: dict[str, Any], cell: _Cell) -> None:
    cells = _shown(spec["values"]).reshape(spec["rows"], spec["columns"])
    scale = _MAPS[spec["scale"]]
    told = (
        _shown(spec["outline"]).reshape(cells.shape)
        if "outline" in spec
        else np.full(cells.shape, np.nan)
    )
    under = np.where(np.isfinite(told), told, cells)
    image = axes.imshow(
        under,
        cmap=scale,
        vmin=spec["min"],
        vmax=spec["max"],
        aspect="auto",
        interpolation="nearest",
    )
    for row, column in np.argwhere(
        np.isfinite(told)
    ):  # the run inside a dashed line, theory outside
        colour = image.to_rgba(cells[row, column])
        ink = "black" if cells[row, column] > 0.45 * spec["min"] + 0.55 * spec["max"] else "white"
        axes.add_patch(
            Rectangle((column - 0.32, row - 0.32), 0.64, 0.64, fc=colour, ec=ink, ls="--", lw=0.6)
        )
    _names(axes, "x", np.arange(spec["columns"]), spec["x"]["ticks"], cell)
    _names(axes, "y", np.arange(spec["rows"]), spec["y"]["ticks"], cell)
    bar = axes.figure.colorbar(image, ax=axes, format=Plain(useOffset=False))
    bar.ax.tick_params(labelsize=0.85 * cell.letters)
    unit = spec.get("unit") or ""
    bar.ax.set_ylabel("" if unit == "1" else unit, fontsize=cell.letters, parse_math=False)


def _limits(axis: dict[str, Any], set_limits: Any) -> None:
    """Ends of an axis; one that cannot be drawn there is left to Matplotlib."""
    low, high = (
        end if end is not None and abs(end) < 1e300 and (end > 0 or not axis.get("log")) else None
        for end in (axis.get("min"), axis.get("max"))
    )
    if (low is not None or high is not None) and (low is None or high is None or low < high):
        set_limits(low, high)


def _rules(axes: Axes, spec: dict[str, Any], cell: _Cell) -> None:
    """Horizontal lines (levels) and vertical ones (marks), the ends of the axes, and then the words
    of the lines.
    """
    for level in spec.get("levels", ()):
        axes.axhline(level["y"], **_RULE)
    for mark in spec.get("marks", ()):
        axes.axvline(mark["x"], **_RULE)
    _limits(spec["x"], axes.set_xlim)
    _limits(spec["y"], axes.set_ylim)
    _add_notes(axes, spec, 0.75 * cell.letters, (_PLOT * cell.width, _PLOT * cell.height))


def _names(axes: Axes, along: str, places: Any, labels: list[str], cell: _Cell) -> None:
    """Names along an axis: as many as fit; too wide to stand side by side, they are broken between
    words, or else slanted.
    """
    letters, inches = 0.75 * cell.letters, _PLOT * (cell.width if along == "x" else cell.height)
    step = max(1, math.ceil(len(labels) * 1.4 * letters / 72 / inches))
    shown = [label if len(label) <= 28 else f"{label[:27]}…" for label in map(str, labels[::step])]
    room = (
        int(inches / max(1, len(shown)) * 72 / (_LETTER * letters)) - 1
    )  # letters below each place
    broken = [
        textwrap.fill(label, max(1, room), break_long_words=False, max_lines=3, placeholder="…")
        for label in shown
    ]
    wide = along == "x" and any(len(line) > room for label in broken for line in label.splitlines())
    shown = broken if along == "x" and not wide else shown
    slant: dict[str, Any] = (
        {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if wide else {}
    )
    axis = axes.xaxis if along == "x" else axes.yaxis
    axis.set_ticks(list(places)[::step], shown, fontsize=letters, parse_math=False, **slant)
    axis.set_ticks([], minor=True)


def _legend(axes: Axes, spec: dict[str, Any], drawn: list[tuple[Any, str]], cell: _Cell) -> None:
    """Names that the title does not say already."""
    # A leading underscore would hide a name from the legend.
    named = [
        (artist, str(name).lstrip("_"))
        for artist, name in drawn
        if str(name).lstrip("_") not in ("", spec["title"])
    ]
    if not named:
        return
    artists, names = zip(*named, strict=True)
    columns = 2 if len(named) > 6 and cell.width > _READABLE_WIDTH else 1
    legend = axes.legend(
        artists, names, fontsize=0.75 * cell.letters, ncols=columns, loc="best", framealpha=0.7
    )
    for words in legend.get_texts():
        words.set_parse_math(False)


def _shown(values: Any, log: Any = False) -> np.ndarray:
    """Numbers that can be drawn: what is not finite is missing, and so is what a logarithmic axis
    has no place for.
    """
    array = np.asarray(values, dtype=np.float64)
    return np.where(
        np.isfinite(array) & ((array > 0) | (not log) | ((array == 0) & (log == "zero"))),
        array,
        np.nan,
    )


def _add_notes(
    axes: Axes, spec: dict[str, Any], letters: float, inches: tuple[float, float]
) -> None:
    """Labels of levels (horizontal) and marks (vertical, turned), each by its line where it covers
    least of what is drawn.

    In letters of so many points; `inches`: size of the plot.
    """
    axes.get_ylim()  # Matplotlib settles the ends of the axes only when asked
    taken = _taken(axes)
    for key, along, across in (("levels", 0, 1), ("marks", 1, 0)):
        transform = (
            axes.get_yaxis_transform() if along == 0 else axes.get_xaxis_transform()
        ) - axes.transAxes
        for rule in spec.get(key, ()):
            place = rule["y" if along == 0 else "x"]
            line = transform.transform((place, place))[across]
            if not rule["label"] or not 0 <= line <= 1:
                continue
            size = np.empty(2)
            size[along] = len(rule["label"]) * _LETTER * letters / 72 / inches[along]
            size[across] = 1.2 * letters / 72 / inches[across]
            corner = _freest(line, size, along, taken)
            taken = np.vstack([taken, [*corner, *(corner + size)]])
            x, y = corner + size / 2
            how: dict[str, Any] = {
                "fontsize": letters,
                "color": "0.25",
                "ha": "center",
                "va": "center",
                "parse_math": False,
            }
            halo = [withStroke(linewidth=2, foreground="white")]
            axes.text(
                x,
                y,
                rule["label"],
                transform=axes.transAxes,
                rotation=90 * along,
                path_effects=halo,
                **how,
            )


def _taken(axes: Axes) -> np.ndarray:
    """What is drawn, as boxes (left, bottom, right, top) in shares of the panel: bars, and points
    close together along lines.
    """
    boxes = [np.empty((0, 4))]
    for line in axes.get_lines():
        ends = (line.get_transform() - axes.transAxes).transform(line.get_xydata())
        if line.get_linestyle() != "None":
            share = np.linspace(0, 1, max(2, min(_STEPS, _MOST_POINTS // max(1, len(ends)))))[
                :, None, None
            ]
            ends = ((1 - share) * ends[:-1] + share * ends[1:]).reshape(-1, 2)
        boxes.append(np.hstack([ends, ends]))
    bars = [
        bar.get_window_extent().transformed(axes.transAxes.inverted()).extents
        for bar in axes.patches
    ]
    found = np.vstack([*boxes, *bars])
    return found[np.isfinite(found).all(axis=1)]


def _freest(line: float, size: np.ndarray, along: int, taken: np.ndarray) -> np.ndarray:
    """Lower left corner of the words: by their line, on one side or the other, at its near end, its
    far end or in between.
    """

    def covered(corner: np.ndarray) -> float:
        if corner.min() < 0 or (corner + size).max() > 1:
            return np.inf
        return float(
            ((taken[:, :2] <= corner + size + _POINT) & (taken[:, 2:] >= corner - _POINT))
            .all(axis=1)
            .sum()
        )

    last = 1 - _GAP - size[along]
    starts = (
        _GAP,
        last,
        *np.linspace(_GAP, last, _PLACES)[1:-1],
    )  # legends are more often at the far end
    sides = (line + _GAP, line - _GAP - size[1 - along])
    corners = [
        np.array([start, side][:: 1 - 2 * along])
        for start, side in itertools.product(starts, sides[:: 1 - 2 * along])
    ]
    return min(corners, key=covered)
