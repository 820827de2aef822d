"""Outcomes of runs in one file: an archive with the values of each run, one array after the other,
and all names as JSON.

One file holds the runs that were finished together, so that many short runs cost few files. Nothing
in it can execute code.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.errors import InputError
from saccade.records.expansion import check_archive
from saccade.records.json_files import parsed_json

if TYPE_CHECKING:
    from pathlib import Path

    import xarray as xr

FINISHED, DIVERGED, FAILED, TIMED_OUT = "finished", "diverged", "failed", "out of time"
UNFINISHED = (FAILED, TIMED_OUT)
_HEADER = "outcomes.json"
_ENTRY = {
    "run": str,
    "status": str,
    "reason": str,
    "seconds": (int, float),
    "layout": object,
    "attrs": dict,
}
_SHAPE = {"runs": [_ENTRY], "layouts": [dict]}


@dataclass(frozen=True)
class Outcome:
    """What came of a run. A run that failed or ran out of time has a reason and no record."""

    identity: str
    status: str
    reason: str
    seconds: float
    record: Any = None  # an xarray.Dataset, or what `packed` made of one

    def entry(self) -> dict[str, Any]:
        """Everything but the record, as the manifest lists it."""
        return {
            "run": self.identity,
            "status": self.status,
            "reason": self.reason,
            "seconds": round(self.seconds, 6),
        }


def packed(record: xr.Dataset) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A record as its description and its arrays: quick to send and to write."""
    about = {
        "coords": [str(name) for name in record.coords],
        "variables": {
            str(name): [list(map(str, value.dims)), dict(value.attrs)]
            for name, value in record.variables.items()
        },
        "attrs": dict(record.attrs),
    }
    return about, {
        str(name): value.values.astype(str) if value.dtype == object else np.asarray(value.values)
        for name, value in record.variables.items()
    }


def unpacked(about: dict[str, Any], arrays: dict[str, np.ndarray]) -> xr.Dataset:
    import xarray as xr

    variables = {
        name: (tuple(dims), arrays[name].copy(), attrs)
        for name, (dims, attrs) in about["variables"].items()
    }
    coords = {name: variables.pop(name) for name in about["coords"]}
    return xr.Dataset(variables, coords, about["attrs"])


def as_bytes(outcomes: Sequence[Outcome]) -> bytes:
    """The file's whole content; the same outcomes give the same bytes."""
    header: dict[str, Any] = {
        "runs": [],
        "layouts": [],
    }  # a layout for each stretch of runs that share it, as most do
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w") as archive:
        for number, outcome in enumerate(outcomes):
            about, arrays = ({}, {}) if outcome.record is None else outcome.record
            layout = {name: about[name] for name in about if name != "attrs"}
            layout["arrays"] = {
                name: [values.dtype.str, list(values.shape)] for name, values in arrays.items()
            }
            if header["layouts"][-1:] != [layout]:
                header["layouts"].append(layout)
            place = None if outcome.record is None else len(header["layouts"]) - 1
            header["runs"].append(
                outcome.entry() | {"layout": place, "attrs": about.get("attrs", {})}
            )
            # A ZipInfo without a date: equal content, equal bytes. One member for each run: opening
            # one costs more than its bytes.
            archive.writestr(
                zipfile.ZipInfo(f"{number}.values"),
                b"".join(values.tobytes() for values in arrays.values()),
            )
        archive.writestr(zipfile.ZipInfo(_HEADER), json.dumps(header))
    return stored.getvalue()


def read_outcomes(
    path: Path, wanted: set[str] | None = None, *, as_packed: bool = False
) -> Iterator[Outcome]:
    """The outcomes in a file, or those of the `wanted` runs, with their records as datasets, or as
    `packed` gives them.
    """
    try:
        check_archive(path, path)
        with zipfile.ZipFile(path) as archive:
            header = parsed_json(archive.read(_HEADER), _SHAPE)
            for number, entry in enumerate(header["runs"]):
                if wanted is None or entry["run"] in wanted:
                    layout = None if entry["layout"] is None else header["layouts"][entry["layout"]]
                    record = None
                    if layout is not None:
                        about = {name: layout[name] for name in ("coords", "variables")}
                        content, arrays, place = archive.read(f"{number}.values"), {}, 0
                        for name, (kind, shape) in layout["arrays"].items():
                            dtype, size = np.dtype(kind), math.prod(shape)
                            arrays[
                                name
                            ] = (  # one after the other; NumPy refuses to read objects from bytes
                                np.frombuffer(content, dtype, size, place).reshape(shape)
                                if size
                                else np.empty(shape, dtype)
                            )
                            place += size * dtype.itemsize
                        record = about | {"attrs": entry["attrs"]}, arrays
                    outcome = Outcome(
                        entry["run"], entry["status"], entry["reason"], entry["seconds"], record
                    )
                    yield (
                        outcome
                        if as_packed or outcome.record is None
                        else replace(outcome, record=unpacked(*outcome.record))
                    )
    except (
        Exception
    ) as error:  # what the archive, JSON, NumPy and xarray raise on damage is of a dozen kinds
        raise InputError(
            f"{path} is damaged: {error}. `saccade check {path.parent.parent} --repair` runs that again."
        ) from None
