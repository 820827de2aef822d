"""A watched run as files beside its record: what it says of itself, and a page.

What moves on the page is in `specs_watched.py`, what opens it in `timeline.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from saccade.measures.timeline import is_watched
from saccade.records.checksums import seal
from saccade.records.json_files import json_ready, parsed_json, write_json
from saccade.report.page import write_page
from saccade.report.sources import Result, heading_of
from saccade.report.timeline import shown_timelines

if TYPE_CHECKING:
    import xarray as xr

_PARTS = ("record.zarr", "about.json", "claims.json")  # what lies in such a folder, beside its page
_WEIGHTS = ("qk_effective_rank", "ov_effective_rank")
_OF_WEIGHTS = "Every line is a head, dark for late layers: how many directions its circuits use."


def write_watched(folder: Path, record: xr.Dataset) -> Path:
    """What the record says of itself and an offline page, beside it; returns the page."""
    result = write_shown(folder, record)
    seal(folder, _PARTS)
    return write_page(
        folder, results=[result]
    )  # of what is in memory: to read it again would take as long as all else


def write_shown(folder: Path, record: xr.Dataset, command: str = "") -> Result:
    """What the record says of itself."""
    if is_watched(record):
        panels, caption = shown_timelines(record)
    else:
        is_weights = any(name in record for name in _WEIGHTS)
        panels, caption = [], _OF_WEIGHTS if is_weights else "No attention was recognised."
    config = parsed_json(record.attrs["config"])
    statement = f"{config['task']}, {record.sizes['time']} observations from step {int(record.time[0])} to {int(record.time[-1])}"
    if config.get("thinned"):
        statement += f"; {len(config['thinned'])} more were skipped to stay within the budget"
    shown = {name: value for name, value in record.attrs.items() if name != "config"} | config
    about = json_ready({"statement": statement, "caption": caption, "command": command, **shown})
    write_json(folder / "about.json", about)
    write_json(folder / "claims.json", [])
    label, place = str(config.get("label") or ""), folder.resolve()
    return Result(
        label or place.name,
        about,
        [],
        record,
        panels,
        folder=place,
        heading=heading_of(label, place),
    )
