"""A watched run in one picture, drawn by Matplotlib, and the files beside its record: picture, what it says, page.

The figures that move on the page are in `specs_watched.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.records.checksums import seal
from saccade.records.json_files import parsed_json, write_json
from saccade.report.page import write_page
from saccade.report.style import new_figure, save_figure, sequential

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

CAPTION = (
    "Every line is a head, dark for late layers. Entropy, over the log of the keys a query sees: 1 is uniform, 0 all on one key. "
    "Movement: how far kept maps moved per unit of log step, 0 is frozen. Rank: how many directions each head's QK circuit uses. "
    "Focus, mean over heads: orange deciles of tokens are sought, purple ones avoided; decile 0 holds the rarest."
)
PARTS = ("record.zarr", "figure.svg", "figure.png", "about.json", "claims.json")  # what lies in such a folder, beside its page
_PANELS = (
    ("relative_entropy", "entropy of attention", (0, 1)),
    ("sink_mass", "attention on the first token", (0, 1)),
    ("previous_mass", "attention on the token before", (0, 1)),
    ("moved", "movement of attention", (0, None)),
    ("qk_effective_rank", "effective rank of QK", (0, None)),
)


def write_watched(folder: Path, record: xr.Dataset, command: str) -> Path:
    """Figure, what it says and an offline page, beside the record; returns the page."""
    save_figure(watched_figure(record), folder / "figure")
    config = parsed_json(record.attrs["config"])
    statement = f"{config['task']}, {record.sizes['time']} looks from step {int(record.time[0])} to {int(record.time[-1])}"
    if config.get("thinned"):
        statement += f"; {len(config['thinned'])} more were left out to keep within the budget"
    shown = {name: value for name, value in record.attrs.items() if name != "config"} | config
    about = {"statement": statement, "caption": CAPTION, "command": command, **shown}
    write_json(folder / "about.json", about)
    write_json(folder / "claims.json", [])
    seal(folder, PARTS)
    return write_page(folder)


def watched_figure(record: xr.Dataset) -> Figure:
    figure = new_figure(width=13.0, height=7.0)
    panels = figure.subplots(2, 3).ravel()
    for axes, (name, title, limits) in zip(panels, _PANELS, strict=False):
        _heads(axes, record, name)
        axes.set(ylim=limits, xlabel="step")
        axes.set_title(title, loc="left")
    _legend(panels[0], record.sizes.get("layer", 1))  # of weights alone there is none
    _deciles(figure, panels[-1], record)
    for axes in panels:
        axes.set_xscale("symlog", linthresh=1)
        axes.set_xlim(0, max(1, int(record.time[-1])))
    return figure


def _legend(axes: Any, n_layers: int) -> None:
    """The first and the last layer: those between are shades between."""
    for layer in sorted({0, n_layers - 1}):
        axes.plot([], [], color=sequential(layer, n_layers), label=("first" if layer == 0 else "last") + " layer")
    if n_layers > 1:
        axes.legend(loc="lower left", fontsize="small")


def _heads(axes: Any, record: xr.Dataset, name: str) -> None:
    if name not in record:
        axes.text(0.5, 0.5, "not measured", ha="center", transform=axes.transAxes)
        return
    layer, head = record[name].dims[1:3]
    n_layers = record.sizes[layer]
    for i in range(n_layers):
        for j in range(record.sizes[head]):
            series = record[name].isel({layer: i, head: j}).dropna("time")
            axes.plot(series.time, series, color=sequential(i, n_layers), lw=0.9, marker="." if series.size < 20 else None)


def _deciles(figure: Figure, axes: Any, record: xr.Dataset) -> None:
    axes.set_title("focus by token frequency", loc="left")
    axes.set(xlabel="step", ylabel="decile, rare to frequent")
    if "decile_focus" not in record:
        return
    focus = np.log2(np.maximum(record.decile_focus.mean(("layer", "head")).values.T, 2.0**-6))
    n = record.sizes["time"]
    edges = np.append(record.time.values[:n], record.time.values[-1] + 1)
    mesh = axes.pcolormesh(edges, np.arange(-0.5, 10), focus, cmap="PuOr_r", vmin=-2, vmax=2, rasterized=True)
    bar = figure.colorbar(mesh, ax=axes, label="focus: 1 = no preference", ticks=[-2, -1, 0, 1, 2])
    bar.ax.set_yticklabels(["1/4", "1/2", "1", "2", "4"])
