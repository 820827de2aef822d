"""A sweep over your own model: `make(**cell)` is followed, or trained, for every cell of a grid; all become one dataset.

Runs come one after the other in this process. With a folder every finished run is kept there, under a name that changes with its
settings and with its system (`system_identity.py`); the same call again computes only what is missing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import xarray as xr

from saccade.errors import InputError, is_list_like, shortened
from saccade.laboratory import flow, train
from saccade.model.system import System
from saccade.records.store import load_record, save_record
from saccade.sweeps.system_identity import system_identity


def sweep_systems(
    make: Callable[..., System],
    over: Mapping[str, Sequence[Any]],
    *,
    seeds: int | Sequence[int] | None = None,
    out: str | Path | None = None,
    on_progress: Callable[[float], None] = lambda fraction: None,
    **settings: Any,
) -> xr.Dataset:
    """`settings` are those of `saccade.flow`, or with `steps` among them of `saccade.train`."""
    if not isinstance(over, Mapping) or not over or not all(is_list_like(values) and len(values) for values in over.values()):
        raise InputError(f'`over` must list values for arguments of the system, {{"gain": [1, 2]}}; got {shortened(over)}.')
    engine = train if "steps" in settings else flow
    settings |= {} if seeds is None else {"seeds": seeds}
    cells = [dict(zip(over, values, strict=True)) for values in itertools.product(*over.values())]
    records = []
    for done, cell in enumerate(cells, 1):
        records.append(_kept(make, cell, engine, settings, out))
        on_progress(done / len(cells))
    for name, values in reversed(list(over.items())):  # the last axis first: its cells stand side by side
        records = [_joined(records[i : i + len(values)], name, values) for i in range(0, len(records), len(values))]
    return records[0]


def _joined(records: list[xr.Dataset], name: str, values: Sequence[Any]) -> xr.Dataset:
    axis = xr.DataArray(list(values), dims=name, name=name)
    return xr.concat(
        records, dim=axis, data_vars="all", coords="minimal", compat="override", join="outer", combine_attrs="drop_conflicts"
    )


def _kept(
    make: Callable[..., System],
    cell: dict[str, Any],
    engine: Callable[..., xr.Dataset],
    settings: dict[str, Any],
    out: str | Path | None,
) -> xr.Dataset:
    """The record of one cell, computed or as it was kept."""
    system = make(**cell)
    if not isinstance(system, System):
        raise InputError(f"`make` must give a saccade.System; it gave {shortened(system)}.")
    if out is None:
        return engine(system, **settings)
    path = Path(out) / f"{system_identity(system, cell, engine.__name__, settings)[:20]}.zarr"
    if not path.exists():
        save_record(engine(system, **settings), path)
    return load_record(path)
