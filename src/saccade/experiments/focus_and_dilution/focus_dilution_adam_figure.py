"""The figure of `focus_dilution_adam`: the flow, Adam with and without noise, and what decides when attention moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

CAPTION = (
    "Top left: attention on the frequent token in the population gradient flow, a line a query: the first focus is small. "
    "Top right: Adam with mini-batches, median over seeds and the range of all: every query goes to the one token, then "
    "they part. Bottom left: Adam without noise, the least attention of any query, a line a seed: many stay frozen at the "
    "token's share (dotted) for thousands of steps. Bottom right: when attention first moves, against the gradient that "
    "theory gives for the queries while the embedding condenses; filled: to the frequent token, empty: away from it. "
    "Without noise that gradient is below Adam's epsilon and the wait is long; a smaller epsilon, a larger start or the "
    "noise of mini-batches ends it."
)


def figure(record: xr.Dataset) -> Figure:
    from saccade.report.style import new_figure

    drawing = new_figure(width=12.5, height=8.0)
    flow, noisy, quiet, waits = drawing.subplots(2, 2).ravel()
    _queries(flow, record.flow_time.values[1:], record.flow_on_frequent.values[1:, None, :], record)
    flow.set(xscale="log", xlim=(10, None), xlabel="time of the flow")
    flow.set_title("population gradient flow", loc="left")
    _queries(
        noisy, record.time.values, record.on_frequent.sel(regime="mini-batch").transpose("time", "seed", "query").values, record
    )
    noisy.set(xlabel="updates")
    noisy.set_title("Adam, mini-batches", loc="left")
    _seeds(quiet, record)
    _waits(waits, record)
    return drawing


def _queries(axes: Any, time: Any, attention: Any, record: xr.Dataset) -> None:
    """Attention (time, seed, query)."""
    from saccade.report.style import sequential

    n = attention.shape[-1]
    for query in range(n):
        colour = sequential(query, n)
        axes.plot(time, np.median(attention[..., query], axis=1), color=colour, label=f"query {query}")
        axes.fill_between(
            time, attention[..., query].min(axis=1), attention[..., query].max(axis=1), color=colour, alpha=0.15, lw=0
        )
    axes.axhline(float(record.share), ls=":", color="black", lw=1)
    axes.set(ylim=(0, 1.02), ylabel="attention on the frequent token")
    axes.legend(fontsize=8, loc="lower left")


def _seeds(axes: Any, record: xr.Dataset) -> None:
    from saccade.report.style import sequential

    level = record.on_frequent.sel(regime="noise-free").min("query")
    n = record.sizes["seed"]
    for index in range(n):
        axes.plot(record.time, level[index], color=sequential(index, n), lw=1.2)
    axes.axhline(float(record.share), ls=":", color="black", lw=1)
    axes.set(ylim=(0, 1.02), xlabel="updates", ylabel="least attention of any query")
    axes.set_title("Adam, no noise: a line a seed", loc="left")


def _waits(axes: Any, record: xr.Dataset) -> None:
    from saccade.experiments.focus_and_dilution.focus_dilution_adam import ADAM_EPSILON, first_side, moved_at
    from saccade.report.style import categorical

    end = float(record.time[-1])
    for index, (regime, marker) in enumerate(zip(record.regime.values, "os^D", strict=True)):
        runs = record.sel(regime=regime)
        colour, when = categorical(index), moved_at(runs).fillna(end * 1.3)
        faces = [colour if side > 0 else "white" for side in first_side(runs).values]
        axes.scatter(runs.pull, when, marker=marker, s=40, edgecolor=colour, facecolor=faces, label=regime, zorder=3)
    axes.axhline(end, ls=":", color="black", lw=1)
    axes.text(0.99, end * 1.05, "not moved by the end", ha="right", va="bottom", fontsize=8, transform=axes.get_yaxis_transform())
    axes.axvline(ADAM_EPSILON, color="black", lw=1, ls="--", label=r"Adam's $\epsilon$, 1e-8")
    axes.set(xscale="log", yscale="log", ylim=(None, end * 2.2), ylabel="attention first moved (updates)")
    axes.set_xlabel("gradient on queries by theory, embedding half grown")
    axes.set_title("what decides when attention moves", loc="left")
    axes.legend(fontsize=8, loc="center right")
