"""Stages and events of a result: bands behind curves, and moments to jump to.

They come from its `events.csv`; of a watched model, from when its heads froze.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from saccade.records.events import Event, stage_bands
from saccade.report.sources import Result
from saccade.report.specs_watched import freezing_times, is_watched


def events_of(result: Result) -> list[dict[str, Any]]:
    """Moments with a name, in order of time."""
    found = _freezing(result)
    for row in result.rows("events.csv"):
        try:
            time = float(row["time"])
        except (KeyError, TypeError, ValueError):
            continue
        if math.isfinite(time):
            query = f", query {row['query']}" if row.get("query") else ""
            found.append({"time": time, "name": str(row.get("event", "event")).replace("_", " ") + query})
    return sorted(found, key=lambda event: event["time"])


def _freezing(result: Result) -> list[dict[str, Any]]:
    """When the first head, half of the heads, and all of them were frozen."""
    if result.record is None or not is_watched(result.record) or "moved" not in result.record:
        return []
    when = np.sort(freezing_times(result.record).ravel())  # missing ones last
    named = {"first head is frozen": 0, "half of the heads are frozen": (len(when) - 1) // 2, "all heads are frozen": len(when) - 1}
    return [{"time": float(when[place]), "name": name} for name, place in named.items() if np.isfinite(when[place])]


def bands_of(result: Result, end: float) -> list[dict[str, Any]]:
    """Stages as bands of time up to `end`."""
    rows = [row for row in result.rows("events.csv") if row.get("event") and _is_number(row.get("time"))]
    events = [Event(row["event"], None, float(row["time"]), math.nan, math.nan, "") for row in rows]
    events.sort(key=lambda event: event.time)
    bands = [{"from": start, "to": stop, "label": name} for name, start, stop in stage_bands(events, end)]
    return bands if len(bands) > 1 else []  # one stage is no division of time


def _is_number(text: Any) -> bool:
    try:
        return math.isfinite(float(text))
    except (TypeError, ValueError):
        return False
