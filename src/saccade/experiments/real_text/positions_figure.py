"""The figure of `positions`: where attention goes, how fast it moves, and who gains on whom, a colour for each encoding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.observe.fits import interval

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


def draw(record: xr.Dataset) -> Figure:
    from saccade.experiments.real_text.positions import FROZEN
    from saccade.report.style import new_figure

    drawing = new_figure(width=14.0, height=4.8)
    scan, snap, shares = drawing.subplots(1, 3)
    over = record["mass_distinct"] / record["mass_common"]
    _curves(scan, over.copy(data=np.log((over / over.isel(time=0)).values)))
    scan.axhline(0, color="black", lw=0.8)
    scan.set_ylabel("log change, distinct less common")
    scan.set_title("scan: distinct tokens against common", loc="left")
    scan.legend(fontsize=8, loc="best")
    _curves(snap, record["moved"] / record["moved"].max("time"))
    snap.axhline(FROZEN, color="black", lw=1, ls=":")
    snap.set(ylim=(0, 1.02), ylabel="speed per log step / its peak")
    snap.set_title("snap: how fast attention moves (dotted: frozen)", loc="left")
    _shares(shares, record)
    return drawing


def _curves(axes: Any, values: xr.DataArray) -> None:
    """Mean over seeds and their range."""
    from saccade.report.style import categorical

    steps = values["time"].values[1:]
    for i, kind in enumerate(values["positions"].values):
        of_kind = values.sel(positions=kind).transpose("seed", "time").values[:, 1:]
        axes.plot(steps, of_kind.mean(axis=0), color=categorical(i), label=str(kind))
        axes.fill_between(steps, of_kind.min(axis=0), of_kind.max(axis=0), color=categorical(i), alpha=0.12, lw=0)
    axes.set(xscale="log", xlabel="updates")


def _shares(axes: Any, record: xr.Dataset) -> None:
    from saccade.experiments.real_text.positions import measured
    from saccade.report.style import categorical

    kinds = [str(kind) for kind in record["positions"].values]
    for i, kind in enumerate(kinds):
        found = measured(record, kind)
        for name, shift, marker in (("separation", -0.12, "o"), ("matched", 0.12, "s")):
            by_seed, chance = found[name]
            mean, low, high = interval(by_seed)
            label = {"separation": "on common tokens", "matched": "on equally frequent ones"}[name] if i == 0 else None
            axes.plot([i + shift] * 2, [low, high], color=categorical(i), lw=2)
            axes.plot([i + shift], [mean], marker, color=categorical(i), ms=6, label=label)
            axes.plot([i + shift], [chance], "_", color="black", ms=9)
    axes.axhline(0.5, color="black", lw=1)
    axes.set_xticks(range(len(kinds)), [kind.replace(" ", "\n") for kind in kinds], fontsize=8)
    axes.set(ylim=(0, 1), ylabel="share that a distinct token gains on")
    axes.set_title("who gains on whom (line: chance)", loc="left")
    axes.legend(fontsize=8, loc="lower center")
