"""The data of a page: results and records as JSON, with every array packed into a blob that is
decoded when first shown.

Stages and events of a result are bands behind curves and moments to jump to. They come from
`events.csv`; from `stages.csv`, whose other columns say of which run; of a watched model, from when
its heads froze.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.measures.event import Event, stage_bands
from saccade.measures.timeline import freezing_steps, is_watched
from saccade.records.json_files import json_ready
from saccade.report.maps import text_map
from saccade.report.pace import pace
from saccade.report.packing import Packed, packed, packed_text, packed_times
from saccade.report.sources import Result
from saccade.report.specs import CLOCKS, Figure, figures, label, labels_of
from saccade.report.specs_watched import layer_names
from saccade.report.timeline import unseen

if TYPE_CHECKING:
    import xarray as xr


_LONG_NUMBER = re.compile(
    r"(?<![\w.])-?\d+\.\d{8,}(?:e[-+]?\d+)?(?![\w.])"
)  # in a table: seventeen digits do not deflate
_NEVER = 1e300  # when a last stage ends
_MOST_POINTS = 600  # of a line in a panel: one a pixel; the record has all


def page_data(
    results: list[Result], claims: list[dict[str, Any]], story: list[list[dict[str, Any]]]
) -> tuple[str, str]:
    """Results, their records and claims as JSON that may stand in a page, and the HTML of the blobs
    that they name. `story`: panels of all results.
    """
    blobs = _Blobs()
    data = {
        "story": blobs.json(_rounded(story)) if story else None,
        "claims": blobs.json(claims),
        "results": [
            {
                "name": result.name,
                "title": result.title or result.name,
                "statement": str(result.about.get("statement", "")),
                "film": blobs.json(result.film) if result.film else None,
                "picture": result.about.get("picture", 0),
                "panels": blobs.json(_rounded(result.panels)) if result.panels else None,
                "svg": blobs.text(result.svg) if result.svg and not result.panels else None,
                "tables": {
                    name: blobs.text(
                        _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.9g}", rows)
                    )
                    for name, rows in result.tables.items()
                },
                "table": next(
                    (name for name in ("summary.csv", "table.csv") if name in result.tables), None
                ),
                "isSweep": "summary.csv" in result.tables,
            }
            for result in results
        ],
        "records": [
            record
            for place, result in enumerate(results)
            for record in _records_data(place, result, blobs)
        ],
    }
    return json_text(data), blobs.html()


def json_text(value: Any) -> str:
    """JSON that cannot end the element it stands in; numbers that JSON has not are null."""
    return json.dumps(
        json_ready(value), ensure_ascii=True, allow_nan=False, separators=(",", ":")
    ).replace("<", "\\u003c")


class _Blobs:
    """Packed data beside the JSON, so that opening the page need not parse it. Equal packs, such as
    the times of all figures of a record, lie there once.
    """

    def __init__(self) -> None:
        self._data: list[str] = []
        self._places: dict[str, int] = {}

    def add(self, pack: Packed) -> dict[str, Any]:
        """What the JSON keeps of a pack: all but its data, and where that lies."""
        place = self._places.setdefault(json_text(pack), len(self._data))
        self._data += [pack["data"]] if place == len(self._data) else []
        return {key: value for key, value in pack.items() if key != "data"} | {"blob": place}

    def text(self, text: str) -> dict[str, Any]:
        return self.add(packed_text(text))

    def json(self, value: Any) -> dict[str, Any]:
        return self.text(json_text(value))

    def times(self, times: np.ndarray) -> dict[str, Any]:
        return self.add(packed_times(times))

    def html(self) -> str:
        return "".join(
            f'<script type="text/plain" id="blob-{place}">{data}</script>\n'
            for place, data in enumerate(self._data)
        )


def _rounded(value: Any) -> Any:
    """Numbers as a chart needs them: six digits halve the page, what is not finite is missing, and
    long lines have fewer points.
    """
    if isinstance(value, dict):
        lists = [item for item in value.values() if isinstance(item, list)]
        if (
            isinstance(value.get("x"), list)
            and value.get("style") not in ("points", "rings")
            and len(value["x"]) > _MOST_POINTS
            and all(len(item) == len(value["x"]) for item in lists)
            and not any(number is None for item in lists for number in item)
        ):
            step = math.ceil(len(value["x"]) / _MOST_POINTS)
            value = {
                key: [*item[:-1:step], item[-1]] if isinstance(item, list) else item
                for key, item in value.items()
            }
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return (
        (float(f"{value:.6g}") if math.isfinite(value) else None)
        if isinstance(value, float)
        else value
    )


def _records_data(place: int, result: Result, blobs: _Blobs) -> list[dict[str, Any]]:
    """Everything of a result's record that moves, once for each of its clocks, so that each run can
    be played to its own end.
    """
    if result.record is None:
        return []
    found = figures(result.record, each_class=True)
    text = text_map(result.record)
    if not found and text is None:
        return []
    groups = _by_clock(found) or [found]
    rows = [row for row in result.rows("events.csv") if _is_number(row.get("time"))]
    records = [
        _clocked(place, result, result.record, group, blobs, [] if index else rows)
        for index, group in enumerate(groups)
    ]
    stages = result.rows("stages.csv")
    for record in records:
        record["bands"] = record["bands"] or _bands_by_run(stages, record["figures"])
    if text is not None:
        names = {axis: labels_of(result.record, axis) for axis in ("sequence", "head")}
        records[0]["text"] = text | {
            "looks": [
                {"moment": look["moment"], "pack": blobs.add(look["pack"])}
                for look in text["looks"]
            ],
            "names": names | {"layer": layer_names(result.record, "layer")},
            "times": [float(time) for time in result.record.time.values],
        }
    return records


def _by_clock(found: list[Figure]) -> list[list[Figure]]:
    """Figures of one clock together, the plainest clock first."""
    groups: dict[str, list[Figure]] = {}
    for figure in sorted(found, key=lambda figure: CLOCKS.index(figure.get("clock", "time"))):
        groups.setdefault(figure["time_label"], []).append(figure)
    return list(groups.values())


def _clocked(
    place: int,
    result: Result,
    record: xr.Dataset,
    found: list[Figure],
    blobs: _Blobs,
    rows: list[dict[str, str]],
) -> dict[str, Any]:
    """What moves by one clock."""
    label = found[0]["time_label"] if found else "step"
    by_looks = any(
        figure.get("by_looks") for figure in found
    )  # not by the many steps whose losses alone are known
    if found and not by_looks:
        clock, axes = _main_clock(found)
    else:
        clock, axes = record.time.values.astype(np.float64), []
    events = []
    if "moved" in record and is_watched(record):
        when = np.sort(freezing_steps(record).ravel())  # missing ones last
        frozen = {
            "first head is frozen": 0,
            "half of the heads are frozen": (len(when) - 1) // 2,
            "all heads are frozen": len(when) - 1,
        }
        events = [
            {"time": float(when[place]), "name": name}
            for name, place in frozen.items()
            if np.isfinite(when[place])
        ]
    for row in rows:
        query = f", query {row['query']}" if row.get("query") else ""
        events.append(
            {
                "time": float(row["time"]),
                "name": str(row.get("event", "event")).replace("_", " ") + query,
            }
        )
    return {
        "result": place,
        "name": result.name,
        "title": result.title or result.name,
        "clock": blobs.times(clock),
        "clockAxes": axes,
        "clockLabel": label,
        "pace": blobs.times(_pace(found, clock, axes)),
        "events": sorted(events, key=lambda event: event["time"]),
        "unseen": unseen(clock) if by_looks else [],
        "bands": _bands_of(rows, float(np.nanmax(clock))),
        "figures": [_figure_data(figure, blobs) for figure in found],
        "text": None,
    }


def _pace(found: list[Figure], clock: np.ndarray, axes: list[str]) -> np.ndarray:
    """When each moment of each run's clock is played, from 0 to 1, by how far the first figure
    moves in that run.
    """
    shares = np.ones(clock.shape)
    for run in np.ndindex(clock.shape[:-1]):
        known = np.isfinite(clock[run])
        ticks = clock[run][known]
        if not found:
            shares[run][known] = pace(np.zeros(len(ticks)), ticks, ticks)
            continue
        figure, at = found[0], dict(zip(axes, run, strict=True))
        own = tuple(at.get(choice["axis"], 0) for choice in figure["choices"])
        times = figure["time"][own] if figure["time"].ndim > 1 else figure["time"]
        if len(ticks):
            shares[run][known] = pace(figure["values"][own], times, ticks)
    return shares


def _main_clock(found: list[Figure]) -> tuple[np.ndarray, list[str]]:
    """The times of the figure that goes on longest, and the axes before time if runs have clocks of
    their own.
    """
    figure = max(
        found, key=lambda figure: (np.nan_to_num(figure["time"]).max(), figure["time"].shape[-1])
    )
    return figure["time"], [choice["axis"] for choice in figure["choices"]] if figure[
        "time"
    ].ndim > 1 else []


def _figure_data(figure: Figure, blobs: _Blobs) -> dict[str, Any]:
    """A figure with its arrays packed."""
    plain = {
        key: value
        for key, value in figure.items()
        if key not in ("values", "time", "log", "by_looks")
    }
    times = blobs.times(figure["time"])
    return plain | {
        "values": blobs.add(
            packed(figure["values"], len(figure["choices"]), log=bool(figure["y"].get("log")))
        ),
        "time": times | {"log": figure.get("log", times["log"])},
    }


def _bands_of(rows: list[dict[str, str]], end: float) -> list[dict[str, Any]]:
    """Stages as bands of time up to `end`."""
    if not rows:
        return []
    events = [
        Event(row["event"], None, float(row["time"]), math.nan, math.nan, "")
        for row in rows
        if row.get("event")
    ]
    events.sort(key=lambda event: event.time)
    bands = [
        {"from": start, "to": stop, "label": name} for name, start, stop in stage_bands(events, end)
    ]
    return bands if len(bands) > 1 else []  # one stage is no division of time


def _bands_by_run(stages: list[dict[str, str]], found: list[Figure]) -> list[dict[str, Any]]:
    """Stages of `stages.csv`, with the choice that they belong to: axis -> place. Each ends where
    the next of its run begins.
    """
    choices = {choice["axis"]: choice["labels"] for figure in found for choice in figure["choices"]}
    runs: dict[tuple[tuple[str, int], ...], list[tuple[float, str]]] = {}
    for row in stages:
        said = {
            axis: label(float(row[axis])) if _is_number(row[axis]) else row[axis]
            for axis in row
            if axis in choices
        }
        if (
            _is_number(row.get("from"))
            and row.get("stage")
            and all(name in choices[axis] for axis, name in said.items())
        ):
            at = tuple((axis, choices[axis].index(name)) for axis, name in said.items())
            runs.setdefault(at, []).append((float(row["from"]), row["stage"]))
    return [
        {"from": start, "to": end, "label": stage, "at": dict(at)}
        for at, rows in runs.items()
        for (start, stage), (end, _) in zip(
            sorted(rows), [*sorted(rows)[1:], (_NEVER, "")], strict=True
        )
    ]


def _is_number(text: Any) -> bool:
    try:
        return math.isfinite(float(text))
    except (TypeError, ValueError):
        return False
