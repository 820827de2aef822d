"""The picture of a sweep: one axis as a line, two as a heat map, more as small heat maps; seeds are
averaged over.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any, cast

import numpy as np
import xarray as xr
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from saccade.errors import checked_choice
from saccade.numerals import numeral
from saccade.report.style import categorical

_SEEDS = ("seed", "seeds")
_MOST_PANELS = 12
_DECADES = 100  # largest over smallest value from which colours go by powers of ten
_NO_RUN = "0.85"  # grey
_MOST_NUMBERS = 8  # cells along an axis of a panel of four inches in which a number can be read


def shown_variable(dataset: xr.Dataset, asked: str | None) -> str | None:
    """The number that is drawn: the one asked for, or the first headline number that any run has;
    None if no run has any.
    """
    swept = _swept(dataset)
    numbers = [
        str(name)
        for name in dataset.data_vars
        if dataset[name].dims == tuple(swept) and dataset[name].dtype.kind == "f"
    ]
    known = [name for name in numbers if bool(dataset[name].notnull().any())]
    if asked is not None and numbers:
        return checked_choice("`show` variable", asked, numbers)
    return next(
        (name for name in known if dataset[name].attrs.get("is_headline")), next(iter(known), None)
    )


def sweep_figure(dataset: xr.Dataset, name: str) -> Figure:
    """Draw variable `name` over the swept axes."""
    values = dataset[name]
    seeds = [dim for dim in values.dims if dim in _SEEDS]
    axes = [str(dim) for dim in values.dims if dim not in _SEEDS]
    if not axes:  # seeds alone: every one as a point, in order of size
        drawing = Figure(figsize=(6, 4), layout="constrained")
        ordered, panel = np.sort(values.values.ravel()), drawing.add_subplot()
        panel.plot(np.arange(1, len(ordered) + 1), ordered, "o", ms=3, color=categorical(0))
        panel.set(xlabel="seeds, in order of the value", ylabel=_words(name))
        return drawing
    if len(axes) == 1:
        return _lines(values, axes[0], seeds, name)
    return _heat_maps(values, axes, seeds, name)


def caption(dataset: xr.Dataset, name: str | None) -> str:
    """What to see, and how many runs there are to see it in."""
    counts = {
        status: int((dataset.status == status).sum()) for status in np.unique(dataset.status.values)
    }
    axes = [axis for axis in _swept(dataset) if axis not in _SEEDS]
    has_mean = bool(axes) and len(axes) < len(_swept(dataset))
    mean = (
        "the line is the mean over seeds"
        if len(axes) == 1
        else "colour is the mean over seeds, ± their standard deviation"
    )
    seeds = f"; {mean}" if has_mean else ""
    runs = ", ".join(f"{n} {status}" for status, n in counts.items())
    if name is None:
        return f"No run has a number to draw. Runs: {runs}."
    n_maps = _product(dataset[name], axes[:-2])
    grey = "; grey: no finished run" if len(axes) > 1 and bool(dataset[name].isnull().any()) else ""
    most = f"; {_MOST_PANELS} of {n_maps} maps are drawn" if n_maps > _MOST_PANELS else ""
    return f"{_words(name)} over {', '.join(map(_words, _swept(dataset)))}{seeds}{grey}{most}. Runs: {runs}."


def _swept(dataset: xr.Dataset) -> list[str]:
    return [str(dim) for dim in dataset.status.dims]


def _product(values: xr.DataArray, dims: list[Any]) -> int:
    return int(np.prod([values.sizes[dim] for dim in dims])) if dims else 1


def _words(name: str) -> str:
    return name.replace("_", " ")


def _lines(values: xr.DataArray, axis: str, seeds: list[Any], name: str) -> Figure:
    drawing = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = drawing.add_subplot()
    labels = values[axis].values
    is_number = labels.dtype.kind in "fi"
    places = labels.astype(float) if is_number else np.arange(len(labels))
    mean = values.mean(seeds) if seeds else values
    if seeds:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", RuntimeWarning
            )  # a place where no seed has a value is drawn as a gap
            low, high = (values.quantile(q, seeds).values for q in (0.1, 0.9))
        if is_number:
            axes.fill_between(
                places, low, high, color=categorical(0), alpha=0.25, lw=0, label="8 of 10 seeds"
            )
        else:  # nothing lies between two words
            axes.vlines(
                places, low, high, color=categorical(0), alpha=0.25, lw=8, label="8 of 10 seeds"
            )
    axes.plot(
        places,
        mean.values,
        "o-" if is_number else "o",
        color=categorical(0),
        label="mean over seeds" if seeds else None,
    )
    if not is_number:
        axes.xaxis.set_ticks(range(len(labels)), [_short(label) for label in labels])
        axes.xaxis.axes.set_xlim(-0.5, len(labels) - 0.5)
    elif (
        len(labels) > 2
        and (labels > 0).all()
        and labels.max() / labels.min() >= 8
        and np.ptp(np.diff(np.log(np.sort(labels)))) < 0.7
    ):
        axes.xaxis.axes.set_xscale("log")
        shown = np.sort(labels)[:: -(-len(labels) // 8)]
        axes.xaxis.set_ticks(shown, [_short(label) for label in shown])
        axes.xaxis.set_ticks([], minor=True)
    axes.set(xlabel=_words(axis), ylabel=_words(name))
    if seeds:
        axes.legend()
    return drawing


def _heat_maps(every: xr.DataArray, axes: list[str], seeds: list[Any], name: str) -> Figure:
    """The last two axes in each panel, one panel for each place on the others; in each cell the
    mean over seeds, ± their spread.
    """
    values, spread = (
        (every.mean(seeds), every.std(seeds)) if seeds else (every, xr.zeros_like(every))
    )
    outer, (down, across) = axes[:-2], axes[-2:]
    places = list(itertools.product(*(range(values.sizes[axis]) for axis in outer)))
    if len(places) > _MOST_PANELS:
        places = [places[round(index)] for index in np.linspace(0, len(places) - 1, _MOST_PANELS)]
    columns = 2 if len(places) in (2, 4) else min(len(places), 3)
    rows = -(-len(places) // columns)
    drawing = Figure(figsize=(0.8 + 4.4 * columns, 0.6 + 3.6 * rows), layout="constrained")
    grid = drawing.subplots(rows, columns, squeeze=False)
    finite, norm = values.values[np.isfinite(values.values)], Normalize()
    if finite.size:  # by the power of ten where positive values span decades
        low, high = float(finite.min()), float(finite.max())
        norm = (LogNorm if low > 0 and high / low >= _DECADES else Normalize)(low, high)
    mesh = None
    for panel, place in itertools.zip_longest(grid.ravel(), places):
        if place is None:
            panel.set_axis_off()
            continue
        chosen = dict(zip(outer, place, strict=True))
        part, around = (one.isel(chosen).transpose(down, across) for one in (values, spread))
        mesh = _heat_map(panel, part, around.values, down, across, norm)
        panel.set_title(
            ", ".join(
                f"{_words(axis)} {_short(values[axis].values[index])}"
                for axis, index in chosen.items()
            ),
            loc="left",
        )
    n_seeds = _product(every, seeds)
    label = _words(name) + (f", mean ± spread of {n_seeds} seeds" if n_seeds > 1 else "")
    alike = (
        [norm.vmin] if norm.vmin == norm.vmax and norm.vmin is not None else None
    )  # no scale around one value
    drawing.colorbar(cast(Any, mesh), ax=grid, label=label, ticks=alike)
    if values.isnull().any():
        drawing.legend(
            handles=[Patch(color=_NO_RUN, label="grey: no finished run")],
            loc="outside lower right",
            fontsize=7,
        )
    return drawing


def _heat_map(
    panel: Any, part: xr.DataArray, spread: np.ndarray, down: str, across: str, norm: Normalize
) -> Any:
    """Each cell with its number, and the spread over seeds below it, where these can be read."""
    mesh = panel.pcolormesh(part.values, cmap="cividis", rasterized=True, norm=norm)
    panel.set_facecolor(_NO_RUN)
    shares = mesh.norm(part.values)
    readable = np.isfinite(part.values) & (max(part.shape) <= _MOST_NUMBERS)
    for cell in zip(*np.nonzero(readable), strict=True):  # dark on light cells, light on dark ones
        around = f"\n±{numeral(float(spread[cell]), '.1g')}" if spread[cell] > 0 else ""
        colour = "black" if shares[cell] > 0.5 else "white"
        panel.text(
            cell[1] + 0.5,
            cell[0] + 0.5,
            f"{_short(part.values[cell])}{around}",
            ha="center",
            va="center",
            color=colour,
            fontsize="small",
        )
    for axis, name in ((panel.xaxis, across), (panel.yaxis, down)):
        labels = part[name].values
        step = -(-len(labels) // 8)
        axis.set_ticks(
            np.arange(len(labels))[::step] + 0.5, [_short(label) for label in labels[::step]]
        )
        axis.set_label_text(_words(name))
    return mesh


def _short(label: Any) -> str:
    return numeral(float(label), ".3g") if isinstance(label, float | np.floating) else str(label)
