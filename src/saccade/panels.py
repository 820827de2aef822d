"""Panels: what a figure shows, described once. Matplotlib draws them for paper (`report/drawn.py`),
the page for the screen.

Three kinds: `Lines` (curves, points and bands over one horizontal axis), `Bars` (side by side or
stacked), `Heat` (a map). A figure is a list of panels, or a list of rows of them. Labels are plain
text with Unicode symbols, since a page has no LaTeX.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from saccade.errors import InputError, checked_choice, shortened
from saccade.numerals import numerals_in

Limits: TypeAlias = tuple[float | None, float | None]
LINE, DASHES, DOTS, POINTS, RINGS = "line", "dashes", "dots", "points", "rings"
_STYLES = (LINE, DASHES, DOTS, POINTS, RINGS)
OWN = -1  # a colour that no other line of that style in the legend has


class Line(NamedTuple):
    """One curve or cloud of points.

    | field         | meaning                                                                                           |
    |---------------|---------------------------------------------------------------------------------------------------|
    | `label`       | its name in the legend; empty: none                                                               |
    | `style`       | line, dashes, dots (dotted line), points, rings                                                   |
    | `tone`        | a whole number: one of the colours; a number from 0. to 1.: from light to dark; None: black; if   |
    |               | not given, a colour that no other line of its style in the legend has                             |
    | `low`, `high` | a shaded band around it                                                                           |
    """

    x: Any
    y: Any
    label: str = ""
    style: str = LINE
    tone: int | float | None = OWN
    low: Any = None
    high: Any = None


@dataclass(frozen=True)
class Lines:
    """Curves over one horizontal axis. `log` names the logarithmic axes: "", "x", "y" or "xy".

    `levels` are horizontal lines (value -> label), `marks` vertical ones, `ticks` names for places
    along x.
    """

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    log: str = ""
    xlim: Limits = (None, None)
    ylim: Limits = (None, None)
    levels: Mapping[float, str] = field(default_factory=dict)
    marks: Mapping[float, str] = field(default_factory=dict)
    ticks: Mapping[float, str] = field(default_factory=dict)

    def spec(self) -> dict[str, Any]:
        if self.log not in ("", "x", "y", "xy"):
            raise InputError(
                f'`log` names the logarithmic axes, "x", "y" or "xy"; got {shortened(self.log)}.'
            )
        for style in {line.style for line in self.lines} - set(_STYLES):
            checked_choice("style", style, _STYLES)
        return {
            "kind": "line",
            "title": self.title,
            "x": _axis(self.x, "x" in self.log, self.xlim)
            | {"places": _labelled(self.ticks, "at")},
            "y": _axis(self.y, "y" in self.log, self.ylim),
            "series": [_series(line) for line in _coloured(self.lines)],
            "levels": _labelled(self.levels, "y"),
            "marks": _labelled(self.marks, "x"),
        }


@dataclass(frozen=True)
class Bars:
    """Heights over named places, one group for each name; `tones` gives a group a colour as in
    `Line`.
    """

    title: str
    x: str
    y: str
    labels: Sequence[str]
    groups: Mapping[str, Any]
    stacked: bool = False
    ylim: Limits = (None, None)
    tones: Mapping[str, int | float | None] = field(default_factory=dict)
    levels: Mapping[float, str] = field(default_factory=dict)

    def spec(self) -> dict[str, Any]:
        for name, values in self.groups.items():
            _check_fit(f"bars {name!r}", "labels", len(self.labels), np.size(values))
        groups = [
            {"name": name, "values": _listed(values), **_tone(self.tones.get(name, place))}
            for place, (name, values) in enumerate(self.groups.items())
        ]
        return {
            "kind": "bars",
            "title": self.title,
            "x": {"label": self.x},
            "y": _axis(self.y, False, self.ylim),
            "labels": [str(label) for label in self.labels],
            "groups": groups,
            "stacked": self.stacked,
            "levels": _labelled(self.levels, "y"),
        }


@dataclass(frozen=True)
class Heat:
    """A map of values (row, column). `limits` are the ends of the colour scale; `diverging` puts
    white at their middle.
    """

    title: str
    x: str
    y: str
    values: Any
    columns: Sequence[str]
    rows: Sequence[str]
    limits: Limits = (None, None)
    unit: str = ""
    diverging: bool = False

    def spec(self) -> dict[str, Any]:
        cells = np.asarray(self.values, float)
        if cells.ndim != 2:
            raise InputError(
                f"a map has values (row, column); {self.title!r} has the shape {cells.shape}."
            )
        for axis, (word, names) in enumerate({"rows": self.rows, "columns": self.columns}.items()):
            _check_fit(
                f"map {self.title!r}", word, len(names) or cells.shape[axis], cells.shape[axis]
            )
        known = cells[np.isfinite(cells)]
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        return {
            "kind": "heat",
            "title": self.title,
            "x": {"label": self.x, "ticks": [str(name) for name in self.columns]},
            "y": {"label": self.y, "ticks": [str(name) for name in self.rows]},
            "rows": cells.shape[0],
            "columns": cells.shape[1],
            "values": _listed(cells.ravel()),
            "min": low if self.limits[0] is None else self.limits[0],
            "max": high if self.limits[1] is None else self.limits[1],
            "scale": "diverging" if self.diverging else "sequential",
            "unit": self.unit,
        }


def over_seeds(curves: Any, label: str = "", tone: int | float | None = OWN) -> Line:
    """The mean of curves over time, a DataArray (seed, time), with a band from the lowest to the
    highest seed.
    """
    return Line(
        curves.time,
        curves.mean("seed"),
        label,
        tone=tone,
        low=curves.min("seed"),
        high=curves.max("seed"),
    )


def with_intervals(
    x: Any, intervals: Any, label: str = "", tone: int | float | None = 0
) -> list[Line]:
    """Means as points at `x`, each with a vertical line from end to end of its interval."""
    means, lows, highs = np.array(intervals).T
    ends = np.column_stack([lows, highs, np.full(len(lows), np.nan)])  # NaN: the line breaks
    return [Line(np.repeat(x, 3), ends.ravel(), tone=tone), Line(x, means, label, POINTS, tone)]


def power_law(x: Any, y: Any, power: float, label: str) -> Line:
    """Dashes through the last of some points, with the slope of a power on logarithmic axes."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    return Line(x, y[-1] * (x / x[-1]) ** power, label, DASHES, None)


def family(x: Any, y: Any, labels: Sequence[str]) -> list[Line]:
    """A curve for each label, from light to dark; `x` and `y` have one along their first axis."""
    return [Line(x[i], y[i], label, tone=(i + 1) / len(labels)) for i, label in enumerate(labels)]


Panel: TypeAlias = Lines | Bars | Heat
Layout: TypeAlias = Sequence[Panel] | Sequence[Sequence[Panel]]


def specs(layout: Layout) -> list[list[dict[str, Any]]]:
    """Rows of panels as plain data, which is all that the drawers know."""
    listed: list[Any] = list(layout) if isinstance(layout, Iterable) else [layout]
    rows = [list(row) if isinstance(row, list | tuple) else [row] for row in listed]
    for panel in itertools.chain(*rows):
        if not isinstance(panel, Lines | Bars | Heat):
            raise InputError(
                f"`panels` must give a list of Lines, Bars and Heat, or rows of them; it gave {shortened(panel)}."
            )
    if not any(isinstance(row, list | tuple) for row in listed):
        rows = [listed]
    described = [[panel.spec() for panel in row] for row in rows]
    every = [spec for row in described for spec in row]
    for number, spec in enumerate(every if len(every) > 1 else (), 1):
        spec["title"] = (
            f"{number}. {spec['title']}"  # by which a caption can name it wherever the panel ends up
        )
    return _written(described)


def _written(part: Any) -> Any:
    """All words with numbers as people write them: a true minus, powers of ten."""
    if isinstance(part, str):
        return numerals_in(part)
    if isinstance(part, dict):
        return {name: _written(inner) for name, inner in part.items()}
    is_numbers = (
        not isinstance(part, list) or not part or not isinstance(part[0], str | dict | list)
    )
    return part if is_numbers else [_written(inner) for inner in part]


def table_rows(rows: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """The numbers that panels show, as described by `specs`, a row for each point, bar or cell;
    also lines across, by their label.

    Columns: panel, series, x, y, and `low` and `high` of a band or `value` of a map where there is
    one.
    """
    found = [
        {"panel": spec["title"], **row}
        for panels in rows
        for spec in panels
        for row in _ROWS[spec["kind"]](spec)
    ]
    columns = [
        name
        for name in ("panel", "series", "x", "y", "low", "high", "value")
        if any(name in row for row in found)
    ]
    return [{name: row.get(name) for name in columns} for row in found]


def _rows_of_lines(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for series in spec["series"]:
        columns = [name for name in ("x", "y", "low", "high") if name in series]
        for numbers in zip(*(series[name] for name in columns), strict=True):
            yield {"series": series["name"], **dict(zip(columns, numbers, strict=True))}
    for across in (*spec["levels"], *spec["marks"]):
        yield {"series": across["label"], **{name: across.get(name) for name in ("x", "y")}}


def _rows_of_bars(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for group in spec["groups"]:
        for label, value in zip(spec["labels"], group["values"], strict=True):
            yield {"series": group["name"], "x": label, "y": value}
    for level in spec["levels"]:
        yield {"series": level["label"], "y": level["y"]}


def _rows_of_heat(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    named = (
        spec["y"]["ticks"] or range(spec["rows"]),
        spec["x"]["ticks"] or range(spec["columns"]),
    )
    for (row, column), value in zip(itertools.product(*named), spec["values"], strict=True):
        yield {"x": column, "y": row, "value": value}


_ROWS = {"line": _rows_of_lines, "bars": _rows_of_bars, "heat": _rows_of_heat}


def _coloured(lines: Sequence[Line]) -> list[Line]:
    """Lines without a tone get the first that no other line of their style in the legend has."""
    taken = {(line.style, line.tone) for line in lines if line.label}
    found = []
    for line in lines:
        if line.tone == OWN:
            free = (
                tone
                for tone in itertools.count()
                if not line.label or (line.style, tone) not in taken
            )
            line = line._replace(tone=next(free))
            taken |= {(line.style, line.tone)} if line.label else set()
        found.append(line)
    return found


def _check_fit(whose: str, word: str, n_names: int, n_values: int) -> None:
    if n_names != n_values:
        raise InputError(f"{whose}: there are {n_names} {word} and {n_values} values.")


def _series(line: Line) -> dict[str, Any]:
    sizes = {
        name: np.size(getattr(line, name))
        for name in ("x", "y", "low", "high")
        if getattr(line, name) is not None
    }
    n = max(sizes["x"], sizes["y"])
    if any(size != n and (size > 1 or name in ("low", "high")) for name, size in sizes.items()):
        raise InputError(
            f"line {line.label!r} has {', '.join(f'{size} values of {name}' for name, size in sizes.items())}."
        )
    x, y = np.broadcast_arrays(np.asarray(line.x, float), np.asarray(line.y, float))
    band = {} if line.low is None else {"low": _listed(line.low), "high": _listed(line.high)}
    return {
        "name": line.label,
        "x": _listed(x),
        "y": _listed(y),
        "style": line.style,
        **_tone(line.tone),
        **band,
    }


def _tone(tone: int | float | None) -> dict[str, Any]:
    return {"shade": tone} if isinstance(tone, float) else {"tone": tone}


def _axis(label: str, log: bool, limits: Limits) -> dict[str, Any]:
    return {"label": label, "log": log, "min": limits[0], "max": limits[1]}


def _labelled(places: Mapping[float, str], key: str) -> list[dict[str, Any]]:
    return [{key: float(place), "label": label} for place, label in places.items()]


def _listed(values: Any) -> list[float | None]:
    """Numbers for JSON: a missing or infinite one is None."""
    array = np.ravel(np.asarray(values, float))
    return [value if np.isfinite(value) else None for value in array.tolist()]
