"""Read a record from Zarr: only files that match their checksums, and only if they do not unpack to too much.

Every listed file is read once, hashed, and handed to Zarr from memory. So a record whose folder is replaced while it is read never
mixes with the new one, a file that is lost never reads as missing values, and a file that is not listed is never read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.errors import InputError, shortened
from saccade.records.checksums import content, listed
from saccade.records.expansion import RATIO, check_expansion
from saccade.records.json_files import misfit, parsed_json

if TYPE_CHECKING:
    import xarray as xr

METADATA = ".zmetadata"
_ARRAY = {"shape": [int], "chunks": [int], "dtype": str, "compressor": object, "filters": object}
_BLOSC, _TEXTS = "blosc", [{"id": "vlen-utf8"}]  # how Saccade packs numbers, and texts of any length
_TEXT_COST = 12  # bytes of memory for each of a short text on disk
_POINTER = 8  # bytes
_ANY_CHUNKS = 2**14  # chunks that any record may have; more only if most of them are there


def read_zarr(folder: Path) -> xr.Dataset:
    """The record in a folder, whole and in memory; an `InputError` says which file is not what was written."""
    import xarray as xr
    from zarr.core.buffer import default_buffer_prototype
    from zarr.storage import MemoryStore

    files = _checked_files(folder)
    made = default_buffer_prototype().buffer.from_bytes
    store = MemoryStore({name: made(held) for name, held in files.items()}, read_only=True)
    return xr.open_zarr(store, consolidated=True, zarr_format=2, chunks=None).load()


def check_zarr(folder: Path) -> None:
    """An `InputError` if what lies in a folder would be refused for what it unpacks to."""
    sizes = {path.relative_to(folder).as_posix(): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    arrays = _arrays((folder / METADATA).read_bytes())
    _check_claimed(folder, arrays, sizes)
    _check_chunks(folder, arrays, sizes, {name: _start(folder / name) for name in sizes})


def _checked_files(folder: Path) -> dict[str, bytes]:
    written = listed(folder)
    if METADATA not in written:
        raise InputError(f"{METADATA} is not listed in its checksums.")
    arrays = _arrays(content(folder, METADATA, written))
    try:
        sizes = {name: (folder / name).stat().st_size for name in written}
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read: {error.strerror}.") from None
    _check_claimed(folder, arrays, sizes)
    files = {name: content(folder, name, written, sizes[name]) for name in written}
    _check_chunks(folder, arrays, sizes, files)
    return files


def _arrays(metadata: bytes) -> dict[str, dict[str, Any]]:
    """What the metadata say of each array, if it is packed as Saccade packs."""
    told = parsed_json(metadata, {"metadata": {str: dict}})["metadata"]
    arrays = {name.removesuffix("/.zarray"): about for name, about in told.items() if name.endswith("/.zarray")}
    for name, about in arrays.items():
        wrong = misfit(about, _ARRAY) or ("" if len(about["shape"]) == len(about["chunks"]) else "its chunks do not fit its shape")
        if wrong or min(about["shape"], default=0) < 0 or min(about["chunks"], default=1) < 1:
            raise InputError(f"{METADATA} does not describe {shortened(name)}{f': {wrong}' if wrong else ''}.")
        packed = about["compressor"] or {"id": _BLOSC}
        if not isinstance(packed, dict) or packed.get("id") != _BLOSC or about["filters"] not in (None, [], _TEXTS):
            raise InputError(f"{shortened(name)} is packed in a way that Saccade does not write.")
    return arrays


def _check_claimed(folder: Path, arrays: Mapping[str, dict[str, Any]], sizes: Mapping[str, int]) -> None:
    """Before any chunk is read: what the arrays say they take, and in how many chunks, against what is there."""
    n_stored = sum(sizes.values())
    claimed = sum(math.prod(about["shape"]) * _item_size(about) for about in arrays.values())
    check_expansion(folder, claimed, n_stored)
    check_expansion(folder, n_stored, claimed)  # and files that are larger than what they are to hold
    n_chunks = sum(_n_chunks(about) for about in arrays.values())
    if n_chunks > _ANY_CHUNKS + RATIO * len(sizes):
        raise InputError(f"{folder} was refused: it has {len(sizes):,} files, but would be read in {n_chunks:,} chunks.")


def _check_chunks(
    folder: Path, arrays: Mapping[str, dict[str, Any]], sizes: Mapping[str, int], starts: Mapping[str, bytes]
) -> None:
    """What the chunks themselves say they unpack to."""
    unpacked = 0
    for name, start in starts.items():
        about = arrays.get(name.rpartition("/")[0])
        if about is not None and not name.rpartition("/")[2].startswith("."):
            size = sizes[name] if about["compressor"] is None else _blosc_size(start)
            unpacked += size * (_TEXT_COST if about["filters"] else 1)
    check_expansion(folder, unpacked, sum(sizes.values()))


def _item_size(about: Mapping[str, Any]) -> int:
    try:
        return _POINTER if about["filters"] else np.dtype(about["dtype"]).itemsize
    except TypeError:
        raise InputError(f"{shortened(about['dtype'])} is not a type of numbers.") from None


def _n_chunks(about: Mapping[str, Any]) -> int:
    return math.prod(-(-size // chunk) for size, chunk in zip(about["shape"], about["chunks"], strict=True))


def _blosc_size(start: bytes) -> int:
    """The size of what is packed, from the head that Blosc writes: four bytes, then three sizes of four."""
    return int.from_bytes(start[4:8], "little")


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(16)
