"""A sweep over your own model: `make(**cell)` is followed, or trained, for every cell of a grid;
all become one dataset.

Runs come one after the other in this process, and flows are recorded at the same times. With a
folder every finished run is kept there, under a name that changes with its settings and with its
system (`system_identity.py`); the same call again computes only what is missing. Then it holds the
dataset of all, a summary and a figure, as every sweep does.
"""

from __future__ import annotations

import inspect
import itertools
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import xarray as xr

from saccade.engines.flow import shared_times
from saccade.errors import InputError, is_list_like, shortened
from saccade.models.system import System
from saccade.records.checksums import check_unclaimed, content, listed
from saccade.records.json_files import parsed_json
from saccade.records.store import load_record, save_record
from saccade.records.writing import lock_of, make_folder
from saccade.runs import flow, train
from saccade.sweeps.asked import check_held
from saccade.sweeps.gathering import RESULTS, write_dataset
from saccade.sweeps.system_identity import system_identity

_RUNS = "runs"  # attribute of the dataset: the records that it was made of


def sweep_systems(
    make: Callable[..., System],
    over: Mapping[str, Sequence[Any]],
    *,
    seeds: int | Sequence[int] | None = None,
    keep: Sequence[str] | None = None,
    out: str | Path | None = None,
    show: str | None = None,
    replace: bool = False,
    on_progress: Callable[[float], None] = lambda fraction: None,
    **settings: Any,
) -> xr.Dataset:
    """`settings` are those of `saccade.flow`, or with `steps` among them of `saccade.train`."""
    if (
        not isinstance(over, Mapping)
        or not over
        or not all(is_list_like(values) and len(values) for values in over.values())
    ):
        raise InputError(
            f'`over` must list values for arguments of the system, {{"gain": [1, 2]}}; got {shortened(over)}.'
        )
    engine = train if "steps" in settings else flow
    _check_settings(engine, settings)
    settings |= {
        name: value for name, value in {"seeds": seeds, "keep": keep}.items() if value is not None
    }
    cells = [dict(zip(over, values, strict=True)) for values in itertools.product(*over.values())]
    systems = (
        _made(make, cell) for cell in cells
    )  # all once before the first run, so that a mistake costs none; never all held
    if (
        engine is flow and settings.get("times") is None
    ):  # each system has its own by default, from its largest rate
        settings["times"] = shared_times(
            systems, settings.pop("t1", None), settings.pop("n_times", None)
        )
    deque(systems, maxlen=0)
    names = [
        f"{system_identity(_made(make, cell), cell, engine.__name__, settings)[:20]}.zarr"
        for cell in (cells if out is not None else [])
    ]
    records = []
    with nullcontext() if out is None else _alone(Path(out), names):
        if out is not None and not replace:
            earlier: list[str] = []  # also where the dataset is damaged, and is to be written again
            with suppress(InputError):
                dataset = Path(out) / RESULTS[0]
                attributes = content(dataset, ".zattrs", listed(dataset))
                earlier = parsed_json(attributes, {_RUNS: str})[_RUNS].split()
            check_held(Path(out), earlier, names)
        for done, cell in enumerate(cells, 1):
            path = None if out is None else Path(out) / names[done - 1]
            if path is None:
                records.append(engine(_made(make, cell), **settings))
            else:
                if not path.exists():
                    save_record(engine(_made(make, cell), **settings), path)
                try:
                    records.append(load_record(path))
                except InputError as error:
                    raise InputError(
                        f"{str(error).removesuffix('.')}. Move it away, and the same call computes "
                        "it again."
                    ) from None
            on_progress(done / len(cells))
        for name, values in reversed(
            list(over.items())
        ):  # the last axis first: its cells stand side by side
            axis, n = xr.DataArray(list(values), dims=name, name=name), len(values)
            records = [
                xr.concat(
                    records[i : i + n],
                    dim=axis,
                    data_vars="all",
                    coords="different",
                    compat="equals",
                    join="outer",
                    combine_attrs="drop_conflicts",
                )
                for i in range(0, len(records), n)
            ]
        if out is not None:
            whole = _summarised(records[0]).assign_attrs({_RUNS: " ".join(names)})
            numbers = [
                name
                for name, values in whole.data_vars.items()
                if values.dims == whole.status.dims and name != "stop_reason"
            ]
            write_dataset(
                Path(out),
                whole,
                whole[numbers].to_dataframe().reset_index().to_dict("records"),
                show,
            )
    return records[0]


@contextmanager
def _alone(out: Path, names: Sequence[str]) -> Iterator[None]:
    """The right to write to a folder, for one process at a time. One that holds a run of these
    names is ours, also if the process that wrote there was killed before its results had their
    checksums.
    """
    if not any((out / name).is_dir() for name in names):
        check_unclaimed(out, RESULTS)
    try:
        make_folder(out)
    except OSError as error:
        raise InputError(f"cannot write to {out}: {error.strerror}.") from None
    if (lock := lock_of(out)) is None:
        raise InputError(f"another process is using {out}; wait for it, or use another folder.")
    try:
        yield
    finally:
        os.close(lock)


def _summarised(dataset: xr.Dataset) -> xr.Dataset:
    """With what came of each run, the last value of all that has only time, and labels that can be
    written for any value.
    """
    runs = dataset.stop_reason.dims
    curves = {
        str(name): values
        for name, values in dataset.data_vars.items()
        if values.dims == (*runs, "time")
    }
    last = {
        f"final_{name}": curves[name].isel(time=-1, drop=True)
        for name in sorted(curves, key=lambda name: name != "loss")
    }
    labels = {
        name: [shortened(one) for one in dataset[name].values]
        for name in runs
        if dataset[name].dtype == object
    }
    found = dataset.assign(last | {"status": dataset.stop_reason}).assign_coords(labels)
    for name in last:
        found[name].attrs["is_headline"] = 1
    return found


def _check_settings(engine: Callable[..., xr.Dataset], settings: Mapping[str, Any]) -> None:
    known = [
        name
        for name in inspect.signature(engine).parameters
        if name not in ("system", "on_progress")
    ]
    for name in settings:
        if name not in known:
            why = (
                "which `steps` asks for; it"
                if engine is train
                else "which a sweep of systems calls in this process; it"
            )
            raise InputError(
                f"`{name}` is not a setting of `{engine.__name__}`, {why} has {', '.join(known)}."
            )


def _made(make: Callable[..., System], cell: dict[str, Any]) -> System:
    try:
        inspect.signature(make).bind(**cell)
    except TypeError as error:
        raise InputError(
            f"`over` does not fit the arguments of {shortened(make)}: {error}."
        ) from None
    system = make(**cell)
    if not isinstance(system, System):
        raise InputError(f"`make` must give a saccade.System; it gave {shortened(system)}.")
    return system
