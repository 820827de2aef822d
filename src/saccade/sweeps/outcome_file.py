"""Outcomes of runs in one file: a NumPy archive of plain arrays, with names, axes and reasons as JSON beside them.

One file holds the runs that were finished together, so that many short runs cost few files. Nothing in it can execute code.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from saccade.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    import xarray as xr

FINISHED, DIVERGED, FAILED, TIMED_OUT = "finished", "diverged", "failed", "out of time"
UNFINISHED = (FAILED, TIMED_OUT)
_HEADER = "outcomes.json"


@dataclass(frozen=True)
class Outcome:
    """What came of a run. A run that failed or ran out of time has a reason and no record."""

    identity: str
    status: str
    reason: str
    seconds: float
    company: tuple[str, ...]  # identities of all runs computed in the same call: their last bits may depend on it
    record: Any = None  # an xarray.Dataset, or what `packed` made of one

    def entry(self) -> dict[str, Any]:
        """Everything but the record, as the manifest lists it; a company by its first run."""
        about = {"run": self.identity, "status": self.status, "reason": self.reason, "seconds": round(self.seconds, 6)}
        return about if len(self.company) == 1 else about | {"with": self.company[0]}


def packed(record: xr.Dataset) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A record as its description and its arrays: quick to send and to write."""
    about = {
        "coords": [str(name) for name in record.coords],
        "variables": {str(name): [list(map(str, value.dims)), dict(value.attrs)] for name, value in record.variables.items()},
        "attrs": dict(record.attrs),
    }
    return about, {str(name): _without_objects(np.asarray(value.values)) for name, value in record.variables.items()}


def unpacked(about: dict[str, Any], arrays: dict[str, np.ndarray]) -> xr.Dataset:
    import xarray as xr

    variables = {name: (tuple(dims), arrays[name], attrs) for name, (dims, attrs) in about["variables"].items()}
    coords = {name: variables.pop(name) for name in about["coords"]}
    return xr.Dataset(variables, coords, about["attrs"])


def _without_objects(values: np.ndarray) -> np.ndarray:
    return values.astype(str) if values.dtype == object else values


def as_bytes(outcomes: Sequence[Outcome]) -> bytes:
    """The file's whole content; the same outcomes give the same bytes."""
    header: dict[str, Any] = {"runs": []}
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w") as archive:
        for number, outcome in enumerate(outcomes):
            about, arrays = (None, {}) if outcome.record is None else outcome.record
            header["runs"].append(outcome.entry() | {"record": about})
            for name, values in arrays.items():
                _write(archive, f"{number}/{name}.npy", values)
        archive.writestr(zipfile.ZipInfo(_HEADER), json.dumps(header))
    return stored.getvalue()


def _write(archive: zipfile.ZipFile, name: str, values: np.ndarray) -> None:
    content = _header(values.shape, values.dtype) + values.tobytes()
    archive.writestr(zipfile.ZipInfo(name), content)  # a ZipInfo without a date: equal content, equal bytes


@lru_cache(maxsize=1024)
def _header(shape: tuple[int, ...], dtype: np.dtype) -> bytes:
    """What stands before the values in NumPy's format; the same few come in every run."""
    if dtype.hasobject:
        raise ValueError("an array of objects cannot be kept")
    stored = io.BytesIO()
    about = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stored, about)
    return stored.getvalue()


def read_outcomes(path: Path, wanted: set[str] | None = None, *, as_packed: bool = False) -> Iterator[Outcome]:
    """The outcomes in a file, or those of the `wanted` runs, with their records as datasets, or as `packed` gives them."""
    try:
        with zipfile.ZipFile(path) as archive:
            header = json.loads(archive.read(_HEADER))
            together = companies(header["runs"])
            for number, entry in enumerate(header["runs"]):
                if wanted is None or entry["run"] in wanted:
                    outcome = _outcome(archive, number, entry, together)
                    yield outcome if as_packed or outcome.record is None else replace(outcome, record=unpacked(*outcome.record))
    except Exception as error:  # what the archive, JSON, NumPy and xarray raise on damage is of a dozen kinds
        raise InputError(f"{path} is damaged: {error}. `saccade verify --repair` runs what was in it again.") from None


def companies(entries: Sequence[dict[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Runs that were computed in one call, in its order, by the first of them."""
    found: dict[str, list[str]] = {}
    for entry in entries:
        found.setdefault(entry.get("with", entry["run"]), []).append(entry["run"])
    return {first: tuple(runs) for first, runs in found.items()}


def _outcome(archive: zipfile.ZipFile, number: int, entry: dict[str, Any], together: dict[str, tuple[str, ...]]) -> Outcome:
    about = entry["record"]
    record = None
    if about is not None:
        record = about, {name: _read(archive, f"{number}/{name}.npy") for name in about["variables"]}
    company = together[entry.get("with", entry["run"])]
    return Outcome(entry["run"], entry["status"], entry["reason"], entry["seconds"], company, record)


def _read(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    content = archive.read(name)
    size = int.from_bytes(content[8:10], "little") + 10
    if content[:8] != b"\x93NUMPY\x01\x00":  # another version of the format, for very long names of fields
        return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    shape, order, dtype = _layout(content[8:size])
    return np.frombuffer(content, dtype, math.prod(shape), size).reshape(shape, order=order).copy()


@lru_cache(maxsize=1024)
def _layout(header: bytes) -> tuple[tuple[int, ...], Literal["C", "F"], np.dtype]:
    """What the header of an array says. The same few come in every run, and reading them is most of the work."""
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(io.BytesIO(header))
    if dtype.hasobject:
        raise ValueError("an array of objects could execute code")
    return shape, "F" if is_fortran else "C", dtype
