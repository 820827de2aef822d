"""All runs of a sweep as one dataset over the swept axes, and as a table with a row for each run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from saccade.errors import InputError
from saccade.records.checksums import seal, stranger
from saccade.records.json_files import json_ready
from saccade.records.provenance import provenance
from saccade.records.store import save_record
from saccade.records.writing import as_bytes, set_aside, whole_file, write_csv
from saccade.report.style import save_figure
from saccade.sweeps.axes import written
from saccade.sweeps.figure import caption, shown_variable, sweep_figure
from saccade.sweeps.folder import SweepFolder
from saccade.sweeps.grid import Grid

_MOST_BYTES = 2**31  # of all variables over all runs: what does not fit stays with the runs
_MISSING = "missing"
RESULTS = ("dataset.zarr", "summary.csv", "summary.parquet", "figure.svg", "figure.png")


class Gathered:
    """Arrays over the grid, filled run by run; a variable whose shape or axes differ between runs
    is left out, and named.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._axes = _axis_names(grid)
        self._values: dict[str, np.ndarray] = {}
        self._about: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {}
        self._coords: dict[str, np.ndarray] = {}
        self._left_out: set[str] = set()
        self._bytes = 0

    def put(
        self, place: tuple[int, ...], about: dict[str, Any], arrays: dict[str, np.ndarray]
    ) -> None:
        """A record as `packed` gives it: a dataset for each of many short runs would take longer
        than they do.
        """
        for name, (dims, attrs, values) in self.squeezed(about["variables"], arrays).items():
            if name not in about["coords"]:
                self._put(name, place, dims, attrs, values)
            elif (
                dims or not about["variables"][name][0]
            ):  # without one that named a single place on an inner axis
                known = self._coords.setdefault(name, values)  # if it differs between runs it goes
                if not np.array_equal(known, values, equal_nan=known.dtype.kind == "f"):
                    self._left_out.add(name)

    def squeezed(self, variables: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        """Dimensions, attributes and values, without inner axes of length one that a swept axis
        stands for now.
        """
        sizes = {
            dim: size
            for name, (dims, _) in variables.items()
            for dim, size in zip(dims, arrays[name].shape, strict=True)
        }
        gone = {
            dim
            for dim, size in sizes.items()
            if size == 1 and (dim in ("rate", "seed") or dim in self._axes)
        }
        found = {}
        for name in variables.keys() - set(self._axes):
            dims = tuple(dim for dim in variables[name][0] if dim not in gone)
            found[name] = (
                dims,
                variables[name][1],
                arrays[name].reshape([sizes[dim] for dim in dims]),
            )
        return {name: found[name] for name in variables if name in found}

    def _put(
        self,
        name: str,
        place: tuple[int, ...],
        dims: tuple[str, ...],
        attrs: dict[str, Any],
        values: np.ndarray,
    ) -> None:
        if name in self._left_out:
            return
        if name not in self._values:
            self._bytes += values.nbytes * self._grid.n_runs
            if self._bytes > _MOST_BYTES:
                self._bytes -= values.nbytes * self._grid.n_runs
                self._left_out.add(name)
                return
            empty, kind = ("", values.dtype) if values.dtype.kind == "U" else (np.nan, np.float64)
            kind = values.dtype if values.dtype.kind == "f" else kind  # integers can be missing too
            self._values[name] = np.full(self._grid.shape + values.shape, empty, dtype=kind)
            self._about[name] = dims, attrs
        whole = self._values[name]
        if whole.shape[len(place) :] != values.shape or self._about[name][0] != dims:
            self._leave_out(name)
            return
        if values.dtype.kind == "U" and values.dtype.itemsize > whole.dtype.itemsize:
            whole = self._values[name] = whole.astype(values.dtype)
        whole[place] = values

    def _leave_out(self, name: str) -> None:
        self._left_out.add(name)
        del self._values[name], self._about[name]

    def dataset(self) -> xr.Dataset:
        for name in [
            name for name, (dims, _) in self._about.items() if self._left_out.intersection(dims)
        ]:
            self._leave_out(name)
        variables = {
            name: ((*self._axes, *self._about[name][0]), values, self._about[name][1])
            for name, values in self._values.items()
        }
        used = {dim for dims, *_ in variables.values() for dim in dims}
        coords = {
            name: (name, values)
            for name, values in self._coords.items()
            if name in used and values.ndim == 1
        }
        dataset = xr.Dataset(variables, coords | swept_coordinates(self._grid))
        dataset.attrs = {"left_out": json.dumps(sorted(self._left_out))}
        return dataset


def numbers_of(grid: Grid, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> list[str]:
    """What a figure can show of a run, given as `packed` gives it: its single numbers."""
    found = Gathered(grid).squeezed(about["variables"], arrays)
    return [
        name
        for name, (dims, _, values) in found.items()
        if not dims and values.dtype.kind in "fiub" and name not in about["coords"]
    ]


def gathered(
    folder: SweepFolder, grid: Grid, on_progress: Callable[[float], None] = lambda fraction: None
) -> xr.Dataset:
    """The dataset of `grid`, with what came of every run: `status` (missing if not run) and
    `reason`.

    Not with the time that runs took, which is in the table: the same runs give the same dataset to
    the last bit.
    """
    place_of = {run.identity: run.place for run in grid.runs}
    whole = Gathered(grid)
    known = [run for run in place_of if run in folder.entries]
    on_progress(0.0)
    for number, outcome in enumerate(folder.outcomes(known, as_packed=True), 1):
        if outcome.record is not None:
            whole.put(place_of[outcome.identity], *outcome.record)
        on_progress(number / len(known))
    dataset = whole.dataset()
    axes = _axis_names(grid)
    for name, (missing, definition) in _OF_RUNS.items():
        told = [folder.entries.get(run.identity, {}).get(name, missing) for run in grid.runs]
        column = [
            as_bytes(text).decode() for text in told
        ]  # a reason may name a file whose name is not UTF-8
        dataset[name] = (
            axes,
            np.array(column).reshape(grid.shape),
            {"units": "", "definition": definition},
        )
    about = {
        "dynamics": f"sweep of {grid.title}",
        "command": grid.command,
        "config": json.dumps(json_ready(asdict(grid.config), str)),
        "computation": json.dumps(grid.computation | grid.contents),
    }
    dataset.attrs |= about | provenance()
    return dataset


_OF_RUNS = {
    "status": (
        _MISSING,
        "what came of the run: finished, diverged, failed, out of time; missing if it was not run",
    ),
    "reason": ("", "why a run is not finished"),
}


def swept_coordinates(grid: Grid) -> dict[str, Any]:
    """Labels of the swept axes; settings linked to an axis lie along it."""
    coords: dict[str, Any] = {}
    for name, axis in zip(_axis_names(grid), grid.axes, strict=True):
        coords[name] = (name, np.array(_without_lists([values[0] for values in axis.values])))
        for number, linked in enumerate(axis.settings[1:], 1):
            coords[linked] = (
                name,
                np.array(_without_lists([values[number] for values in axis.values])),
            )
    return coords


def summary_rows(dataset: xr.Dataset, grid: Grid, folder: SweepFolder) -> list[dict[str, Any]]:
    """A row for each run: its settings, what came of it and how fast, every scalar of it, the last
    value of what has only time.
    """
    axes = _axis_names(grid)
    columns = {name: dataset[name].values for name in swept_coordinates(grid)}
    scalars = {
        name: dataset[name].values
        for name in map(str, dataset.data_vars)
        if set(dataset[name].dims) == set(axes)
    }
    for name in map(str, dataset.data_vars):
        if dataset[name].dims == (*axes, "time") and f"final_{name}" not in dataset:
            scalars[f"final_{name}"] = dataset[name].values[..., -1]
    rows = []
    for run in grid.runs:
        row: dict[str, Any] = {"run": run.identity}
        for name, values in columns.items():
            along = dataset[name].dims[0]
            row[name] = values[run.place[axes.index(str(along))]].item()
        row |= {name: values[run.place].item() for name, values in scalars.items()}
        rows.append(row | {"seconds": folder.entries.get(run.identity, {}).get("seconds", np.nan)})
    return rows


def write_dataset(
    folder: Path, dataset: xr.Dataset, rows: list[dict[str, Any]], show: str | None
) -> None:
    """The results of a sweep, under checksums: `dataset.zarr`, `summary.csv` and `.parquet`,
    `figure.svg` and `.png`.
    """
    shown = shown_variable(dataset, show)
    dataset.attrs["caption"] = caption(dataset, shown)
    try:
        if (target := folder / "dataset.zarr").is_dir() and stranger(
            target
        ):  # its checksums are damaged: it is kept
            set_aside(target, f"{target.name}.damaged")
        save_record(dataset, target)
        write_summary(folder, rows)
        if shown is not None:
            save_figure(sweep_figure(dataset, shown), folder / "figure")
        seal(folder, [name for name in RESULTS if (folder / name).exists()])
    except InputError as error:
        raise InputError(f"{error} All finished runs are safe there.") from None


def write_summary(folder: Path, rows: list[dict[str, Any]]) -> None:
    """`summary.csv` and `summary.parquet`, the same columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    write_csv(folder / "summary.csv", rows)
    with whole_file(folder / "summary.parquet") as file:
        pq.write_table(pa.Table.from_pylist(rows), file)


def _axis_names(grid: Grid) -> list[str]:
    """Of the dataset: a setting that lists values is swept one at a time, so its axis is named by
    one: `ratios` -> `ratio`.
    """
    return [
        axis.name.removesuffix("s")
        if isinstance(axis.values[0][0], tuple) and len(axis.values[0][0]) == 1
        else axis.name
        for axis in grid.axes
    ]


def _without_lists(values: list[Any]) -> list[Any]:
    """Lists of one as what they list; longer ones as text, and all as text where one is none."""
    if all(isinstance(value, tuple) and len(value) == 1 for value in values):
        return [value[0] for value in values]
    return [
        written(value) if isinstance(value, tuple) or None in values else value for value in values
    ]
