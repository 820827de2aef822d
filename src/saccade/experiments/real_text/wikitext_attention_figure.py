"""The figure of `wikitext-attention`: a row of maps for each depth, and beside it how sparse attention is over the iterations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

_CURVES = {
    "relative_entropy": "relative entropy",
    "top_mass": "largest weight",
    "self_mass": "own position",
}


def draw(record: xr.Dataset, iterations: Sequence[int]) -> Figure:
    from saccade.report.style import new_figure

    depths, n_maps = record.n_layers.values, len(iterations)
    drawing = new_figure(width=2.4 * n_maps + 4.8, height=2.8 * len(depths) + 0.3)
    grid = drawing.add_gridspec(len(depths), n_maps + 1, width_ratios=[1.0] * n_maps + [1.7])
    for row, depth in enumerate(depths):
        at = record.sel(n_layers=depth)
        for column, step in enumerate(iterations):
            axes = drawing.add_subplot(grid[row, column])
            image = _map(axes, at.lowest_map.isel(seed=0).sel(time=step))
            if row == 0:
                axes.set_title(f"iteration {step}")
            axes.set_ylabel(f"{depth} layer{'s' if depth > 1 else ''}: query" if column == 0 else "")
            axes.set_xlabel("key" if row == len(depths) - 1 else "")
        drawing.colorbar(image, ax=drawing.axes[-1], fraction=0.05, pad=0.03).set_label("attention")
        _curves(drawing.add_subplot(grid[row, n_maps]), at, iterations, is_first=row == 0, is_last=row == len(depths) - 1)
    return drawing


def _map(axes: Any, attention: xr.DataArray) -> Any:
    axes.set_xticks([0, attention.sizes["key_position"] - 1])
    axes.set_yticks([0, attention.sizes["position"] - 1])
    return axes.imshow(attention, cmap="Greys", vmin=0, vmax=1, interpolation="nearest")


def _curves(axes: Any, record: xr.Dataset, iterations: Sequence[int], *, is_first: bool, is_last: bool) -> None:
    from saccade.report.style import COMMON, categorical

    for i, (name, label) in enumerate(_CURVES.items()):
        axes.plot(record.time, record[name].mean("seed"), color=categorical(i), label=label)
        axes.fill_between(record.time, record[name].min("seed"), record[name].max("seed"), color=categorical(i), alpha=0.2, lw=0)
    for step in iterations:
        axes.axvline(step, color=COMMON, lw=0.8, zorder=0)
    axes.set(ylim=(0, 1), xlabel="iteration" if is_last else "")
    if is_first:
        axes.set_title("over the validation windows")
        axes.legend(fontsize=8, loc="center right")
