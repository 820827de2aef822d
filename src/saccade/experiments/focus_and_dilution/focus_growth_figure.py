"""The figure of `focus_growth`: growth beside the predicted one, what attention grows into, length of the stage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.experiments.focus_and_dilution import stage_fits as fits

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


def draw(record: xr.Dataset) -> Figure:
    from saccade.report.style import new_figure

    drawing = new_figure(width=14.0, height=4.6)
    growth, shape, lengths = drawing.subplots(1, 3)
    laws = fits.chains(json.loads(record.attrs["settings"])["stays"])
    rates = {law: fits.focus_rate(chain) for law, chain in laws.items()}
    _growth(growth, record, rates)
    _shape(shape, record, rates)
    _lengths(lengths, record, rates)
    return drawing


def _growth(axes: Any, record: xr.Dataset, rates: dict[str, float]) -> None:
    from saccade.report.style import categorical

    for i, (law, c) in enumerate(rates.items()):
        for start, style in ((0, "-"), (-1, "--")):
            at = record.sel(law=law).isel(start=start)
            label = f"{law}, {'unigram point' if start == 0 else 'random start'}"
            axes.plot(at.curve_time, at.curve_query, style, color=categorical(i), label=label)
        at = record.sel(law=law).isel(start=0)
        middle = len(at.sample) * 9 // 10
        anchor = float(at.curve_query[middle]) * np.exp(abs(c) * (at.curve_time - float(at.curve_time[middle])))
        axes.plot(at.curve_time, 2 * anchor, ":", color="black", lw=1.5, label="predicted slope $c$" if i == 0 else None)
    axes.set(yscale="log", xlabel="time", ylabel=r"queries along the direction, $|\alpha^\top W_Q|$", ylim=(3e-6, 3))
    axes.set_title("growth of attention", loc="left")
    axes.legend(fontsize=8, loc="lower right")


def _shape(axes: Any, record: xr.Dataset, rates: dict[str, float]) -> None:
    from saccade.report.style import categorical

    ranks = axes.twinx()
    for i, law in enumerate(rates):
        at = record.sel(law=law).isel(start=1, init_scale=0, seed=0)
        axes.plot(at.curve_time, np.abs(at.curve_misfit), color=categorical(i), label=f"{law}: 1 - cos")
        ranks.plot(at.curve_time, at.curve_rank, "--", color=categorical(i), label=f"{law}: rank")
    axes.axhline(1e-4, color="black", lw=1)
    axes.set(yscale="log", xlabel="time", ylabel=r"$1 - \cos(\Phi, \pi\pi^\top)$")
    ranks.set(ylabel=r"effective rank of $W_Q W_K^\top$", ylim=(0.9, None))
    axes.set_title(f"what it grows into, random start {record.init_scale.values[0]:g}", loc="left")
    lines = [*axes.get_lines()[: len(rates)], *ranks.get_lines()]
    axes.legend(lines, [line.get_label() for line in lines], fontsize=8, loc="lower right", bbox_to_anchor=(1.0, 0.08))


def _lengths(axes: Any, record: xr.Dataset, rates: dict[str, float]) -> None:
    from saccade.report.style import categorical

    folds = np.log(1 / record.init_scale.values)
    for i, (law, c) in enumerate(rates.items()):
        lengths = record.length.sel(law=law).values
        found = np.mean([fits.slope(folds, lengths[:, seed]) for seed in range(lengths.shape[1])])
        axes.plot(np.repeat(folds, lengths.shape[1]), lengths.ravel(), "o", ms=4, color=categorical(i))
        predicted = lengths.mean() + (folds - folds.mean()) / abs(c)
        axes.plot(folds, predicted, color=categorical(i), label=f"{law}: $1/c$ = {1 / abs(c):.4g}, measured {found:.4g}")
    axes.set(xlabel="ln(1 / size of the start)", ylabel="length of stage II", ylim=(0, None))
    axes.set_title("length of the stage", loc="left")
    axes.legend(fontsize=8, loc="lower right")
