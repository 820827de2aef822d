"""The figure of `depth`: how sparse each layer is and how fast it moves, a column for each depth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saccade.experiments.real_text.depth import FROZEN, SLOWED, SPARSE

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


def draw(record: xr.Dataset) -> Figure:
    from saccade.report.style import new_figure

    depths = record["n_layers"].values.tolist()
    drawing = new_figure(width=1.0 + 3.4 * len(depths), height=6.2)
    panels = drawing.subplots(2, len(depths), sharex=True, sharey="row", squeeze=False)
    speed = record["speed"] / record["speed"].max("time")
    for column, depth in enumerate(depths):
        spread, pace = panels[:, column]
        _layers(spread, record["relative_entropy"].sel(n_layers=depth), depth)
        _layers(pace, speed.sel(n_layers=depth), depth)
        _levels(spread, (SPARSE,))
        _levels(pace, (SLOWED, FROZEN))
        spread.set_title(f"{depth} layer{'s' if depth > 1 else ''}", loc="left")
        pace.set(xscale="log", xlabel="updates", ylim=(0, 1.02))
        spread.set_ylim(0, 1.02)
    panels[0, 0].set_ylabel("entropy / entropy of uniform")
    panels[1, 0].set_ylabel("speed per log step / its peak")
    panels[0, -1].legend(fontsize=8, loc="lower left")
    return drawing


def _layers(axes: Any, curves: xr.DataArray, depth: int) -> None:
    """Mean over seeds and their range, from the first update on."""
    from saccade.report.style import sequential

    later = curves.isel(time=slice(1, None))
    for layer in range(depth):
        of_layer, colour = later.sel(layer=layer), sequential(max(depth, 2) - 1 - layer, max(depth, 2))
        axes.plot(later["time"], of_layer.mean("seed"), color=colour, label=f"layer {layer}")
        axes.fill_between(later["time"], of_layer.min("seed"), of_layer.max("seed"), color=colour, alpha=0.2, lw=0)


def _levels(axes: Any, levels: tuple[float, ...]) -> None:
    for level in levels:
        axes.axhline(level, color="black", lw=1, ls=":")
