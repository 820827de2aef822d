"""A watched run as files beside its record: a picture of all heads over time, what it says, and a page.

The figures that move on the page are in `specs_watched.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from saccade.records.checksums import seal
from saccade.records.json_files import parsed_json, write_json
from saccade.records.when import is_watched, when
from saccade.report.page import write_page
from saccade.report.style import save_figure, sequential
from saccade.report.timeline import sentences_of, timeline_figure

if TYPE_CHECKING:
    import xarray as xr

_PARTS = ("record.zarr", "figure.svg", "figure.png", "about.json", "claims.json")  # what lies in such a folder, beside its page
_WEIGHTS = {"qk_effective_rank": "effective rank of QK", "ov_effective_rank": "effective rank of OV"}
_OF_WEIGHTS = "Every line is a head, dark for late layers: how many directions its circuits use."


def write_watched(folder: Path, record: xr.Dataset, command: str) -> Path:
    """Figure, what it says and an offline page, beside the record; returns the page."""
    write_shown(folder, record, command)
    seal(folder, _PARTS)
    return write_page(folder)


def write_shown(folder: Path, record: xr.Dataset, command: str) -> None:
    """Figure and what it says."""
    figure, caption = watched_figure(record)
    save_figure(figure, folder / "figure")
    config = parsed_json(record.attrs["config"])
    statement = f"{config['task']}, {record.sizes['time']} observations from step {int(record.time[0])} to {int(record.time[-1])}"
    if config.get("thinned"):
        statement += f"; {len(config['thinned'])} more were skipped to stay within the budget"
    shown = {name: value for name, value in record.attrs.items() if name != "config"} | config
    about = {"statement": statement, "caption": caption, "command": command, **shown}
    write_json(folder / "about.json", about)
    write_json(folder / "claims.json", [])


def watched_figure(record: xr.Dataset) -> tuple[Figure, str]:
    """Heads over time and what became of them; of weights alone, the ranks of their circuits."""
    if is_watched(record):
        timeline = when(record)
        return timeline_figure(timeline), sentences_of(timeline)
    names = [name for name in _WEIGHTS if name in record]
    figure = Figure(figsize=(11.0, 4.0), layout="constrained")
    for axes, name in zip(figure.subplots(1, max(1, len(names)), squeeze=False)[0], names, strict=False):
        _heads(axes, record, name)
        axes.set_xscale("symlog", linthresh=1)
        axes.set(ylim=(0, None), xlabel="step")
        axes.set_title(_WEIGHTS[name], loc="left")
    return figure, _OF_WEIGHTS if names else "No attention was recognised."


def _heads(axes: Any, record: xr.Dataset, name: str) -> None:
    layer, head = record[name].dims[1:3]
    n_layers = record.sizes[layer]
    for i in range(n_layers):
        for j in range(record.sizes[head]):
            series = record[name].isel({layer: i, head: j}).dropna("time")
            axes.plot(series.time, series, color=sequential(i, n_layers), lw=0.9, marker="." if series.size < 20 else None)
