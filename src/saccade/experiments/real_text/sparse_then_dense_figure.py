"""The figure of `sparse-then-dense`: entropy of every layer over the updates, with the minimum marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saccade.experiments.real_text.sparse_then_dense import REPLICATION, REPLICATION_RATE, bounces

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


def draw(record: xr.Dataset) -> Figure:
    from saccade.report.style import new_figure

    depths, rates = record.n_layers.values.tolist(), record.lr.values.tolist()
    drawing = new_figure(width=1.0 + 4.6 * len(rates), height=0.6 + 3.4 * len(depths))
    panels = drawing.subplots(len(depths), len(rates), sharex=True, sharey=True, squeeze=False)
    for row, depth in enumerate(depths):
        for column, lr in enumerate(rates):
            _layers(panels[row, column], record, depth, lr)
            panels[row, column].set_title(f"{depth} layer{'s' if depth > 1 else ''}, Adam at {lr:g}", loc="left")
        panels[row, 0].set_ylabel("entropy of attention (nats)")
    panels[0, 0].set_ylim(0, None)
    panels[0, 0].legend(fontsize=8, loc="lower left")
    for axes in panels[-1]:
        axes.set_xlabel("updates")
    return drawing


def _layers(axes: Any, record: xr.Dataset, depth: int, lr: float) -> None:
    from saccade.report.style import sequential

    for layer in range(depth):
        curves = record.entropy.sel(n_layers=depth, lr=lr, layer=layer)
        colour = sequential(depth - 1 - layer, depth) if depth > 1 else sequential(1, 2)
        axes.plot(record.time, curves.mean("seed"), color=colour, label=f"layer {layer}")
        axes.fill_between(record.time, curves.min("seed"), curves.max("seed"), color=colour, alpha=0.2, lw=0)
        found = bounces(record, n_layers=depth, lr=lr, layer=layer)
        axes.plot([one.minimum_at for one in found], [one.minimum for one in found], "o", ms=7, mfc="none", color=colour)
    if lr == REPLICATION_RATE and depth in REPLICATION:
        for name, style in (("minimum", ":"), ("end", "--")):
            level = getattr(REPLICATION[depth], name)
            axes.axhline(level, color="black", lw=1, ls=style, label=f"replication: {name}")
