"""The figure of `context-length`: four distances to infinite contexts against the length, text beside independent draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.experiments.real_text.context_length_measures import DISTANCES, SOURCES, curves, slopes
from saccade.experiments.real_text.spread import interval

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


def draw(record: xr.Dataset) -> Figure:
    from saccade.report.style import new_figure

    drawing = new_figure(width=15.0, height=4.4)
    for axes, (name, title) in zip(drawing.subplots(1, len(DISTANCES), sharex=True), DISTANCES.items(), strict=True):
        for colour, source in enumerate(SOURCES):
            _distance(axes, record, name, source, colour)
        _half(axes, record, name)
        axes.set_xscale("log", base=2)
        axes.set(yscale="log", xlabel="$T$ (tokens before the query)", xticks=record["length"].values)
        axes.set_xticklabels([str(length) for length in record["length"].values])
        axes.xaxis.minorticks_off()
        axes.set_title(title, loc="left")
        axes.legend(fontsize=8, loc="lower left")
    drawing.axes[0].set_ylabel("distance to infinite contexts (unitless)")
    return drawing


def _distance(axes: Any, record: xr.Dataset, name: str, source: str, colour: int) -> None:
    from saccade.report.style import categorical

    length, by_part, slope = record["length"].values, curves(record, name, source), interval(slopes(record, name, source))
    spread = f" ± {slope.half_width:.2f}" if np.isfinite(slope.half_width) else ""
    label = f"{source}: slope {slope.mean:.2f}{spread}"
    axes.plot(length, np.exp(np.log(by_part).mean(axis=0)), "o-", color=categorical(colour), label=label)
    axes.fill_between(length, by_part.min(axis=0), by_part.max(axis=0), color=categorical(colour), alpha=0.2, lw=0)


def _half(axes: Any, record: xr.Dataset, name: str) -> None:
    length, first = record["length"].values, np.exp(np.log(curves(record, name, SOURCES[0])[:, 0]).mean())
    axes.plot(length, first * np.sqrt(length[0] / length), "--", color="black", lw=1, label="slope -1/2")
