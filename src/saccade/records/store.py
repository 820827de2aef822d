"""Records on disk: Zarr, written beside their place and moved there whole, so that what is there is
always complete.

When a record is read, every listed file is read once, hashed, and handed to Zarr from memory, and
only if it does not unpack to too much. So a record whose folder is replaced while it is read never
mixes with the new one, a file that is lost never reads as missing values, and a file that is not
listed is never read.
"""

from __future__ import annotations

import math
import re
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.errors import InputError, shortened
from saccade.records.checksums import content, damage, listed, sealed_folder
from saccade.records.expansion import RATIO, check_expansion
from saccade.records.json_files import misfit, parsed_json, read_json, write_json
from saccade.records.observation_log import (
    OBSERVATIONS,
    is_of_a_watched_run,
    unfinished,
    watched,
    watched_damage,
)
from saccade.records.schema import settings_text
from saccade.records.writing import CHECKSUMS, add_file, below, clear_drafts

if TYPE_CHECKING:
    import xarray as xr

    from saccade.lab.claim import Claim

CLAIMS = "claims.json"
_PARTS = ("record.zarr", "dataset.zarr")  # of a result, a watched run, a sweep
_METADATA = ".zmetadata"
_NAME = re.compile(r"[^./\\\0\ud800-\udfff][^/\\\0\ud800-\udfff]*")  # of a folder for a variable
_ARRAY = {"shape": [int], "chunks": [int], "dtype": str, "compressor": object, "filters": object}
_BLOSC, _TEXTS = (
    "blosc",
    [{"id": "vlen-utf8"}],
)  # how Saccade packs numbers, and texts of any length
_TEXT_COST = 12  # bytes of memory for each of a short text on disk
_POINTER = 8  # bytes
_ANY_CHUNKS = 2**14  # chunks that any record may have; more only if most of them are there
_TRIES = 3  # to read a record that another takes the place of meanwhile


def save_record(record: xr.Dataset, path: str | Path, claims: Iterable[Claim] = ()) -> None:
    """Write a record to the folder `path`, atomically and with checksums. An earlier record there
    gives way.

    `claims` about it are kept there too, and `saccade report` shows them.
    """
    told = claims if isinstance(claims, str) or not isinstance(claims, Iterable) else list(claims)
    if not isinstance(told, list) or not all(hasattr(claim, "as_dict") for claim in told):
        raise InputError(
            f"`claims` must list claims, such as those that a `saccade.lab.Case` makes; got {shortened(told)}."
        )
    _check_names(record)
    with sealed_folder(Path(path)) as folder:
        _write_zarr(record.drop_encoding(), folder)
        # Read back what the files say they hold: the variables of the record, each in its shape.
        arrays = _arrays((folder / _METADATA).read_bytes())
        # A reader finds the arrays of the group itself, and none of the groups within.
        found = {name: about["shape"] for name, about in arrays.items() if "/" not in name}
        wanted = {str(name): [*variable.shape] for name, variable in record.variables.items()}
        if wrong := [name for name in found | wanted if found.get(name) != wanted.get(name)]:
            raise InputError(
                f"cannot save the record: {wrong[0]!r} is not in its files as it was given."
            )
        if told:
            write_json(folder / CLAIMS, [claim.as_dict() for claim in told])


def _check_names(record: xr.Dataset) -> None:
    """Each variable becomes a folder of its name; Zarr takes a slash in it for a folder within."""
    for name in record.variables:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InputError(
                f"cannot save the variable {shortened(name)}: its name becomes that of a folder, so "
                "it must be a text without slashes that does not begin with a dot. Rename it."
            )


def _write_zarr(record: xr.Dataset, folder: Path) -> None:
    """Packed; or, if that is so tight that it would be taken for a bomb when it is read, as it is."""
    try:
        _check_files(folder, _written(record, folder))
    except InputError:
        for part in folder.iterdir():
            shutil.rmtree(part) if part.is_dir() else part.unlink()
        as_they_are = {name: {"compressors": None} for name in record.variables}
        _written(record, folder, write_empty_chunks=True, encoding=as_they_are)


def _written(record: xr.Dataset, folder: Path, **options: Any) -> _Files:
    from zarr.storage import MemoryStore

    files = _Files(folder)
    record.to_zarr(MemoryStore(files), mode="w-", zarr_format=2, consolidated=True, **options)
    return files


class _Files(dict[str, Any]):
    """The files of a record as Zarr makes them: on disk at once, and in memory only the small ones
    that it reads again.

    After one that could not be written there are no more: Zarr's tasks go on for a while, while the
    folder is being removed.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder, self._is_over = folder, False
        self.sizes: dict[str, int] = {}
        self.starts: dict[
            str, bytes
        ] = {}  # of each file the first bytes, which say what it unpacks to

    def __setitem__(self, name: str, file: Any) -> None:
        if self._is_over:
            raise OSError(f"{name} is not written, since another file could not be")
        held = file.as_numpy_array().data
        self._is_over = True
        add_file(self._folder, name, held)
        self._is_over = False
        self.sizes[name], self.starts[name] = len(held), bytes(held[:16])
        if name.rpartition("/")[2].startswith("."):
            super().__setitem__(name, file)

    def setdefault(self, name: str, file: Any = None) -> Any:
        if name not in self:
            self[name] = file
        return file


_NO_FILES: Mapping[str, str] = MappingProxyType({})


class OtherResultError(InputError):
    """A folder holds a result of other settings."""


@contextmanager
def result_folder(
    path: Path,
    settings: Any,
    *,
    file: str = "",
    files: Mapping[str, str] = _NO_FILES,
    replace: bool = False,
) -> Iterator[Path]:
    """A folder for the result of an experiment, whole when the block ends, with checksums of all
    its files.

    An earlier result of the same settings, of the same `file` if it is a user's own experiment, and
    of the same user's files (name -> hash) gives way; another one only if `replace` says so.
    """
    if not replace:
        check_same_settings(path, settings, file, files)
    with sealed_folder(path) as folder:
        yield folder
        if not replace:
            check_same_settings(
                path, settings, file, files
            )  # again: another process may have put a result there meanwhile


def check_same_settings(
    folder: Path, settings: Any, file: str = "", files: Mapping[str, str] = _NO_FILES
) -> None:
    """An error that says what differs, if there is a result of other settings, of another file, or
    of files that have changed.
    """
    if not folder.exists():
        return
    other = "cannot be told"
    with suppress(InputError):
        about = read_json(folder / "about.json")
        then = parsed_json(about.get("settings", "{}")) | {
            "file of the experiment": about.get("file", "")
        }
        now = parsed_json(settings_text(settings)) | {"file of the experiment": file}
        changed = [
            f"`{name}` was {shortened(then.get(name))}, now {shortened(now[name])}"
            for name in now
            if then.get(name) != now[name]
        ]
        held = parsed_json(about.get("computation", "{}"))
        changed += [
            f"{name} has changed"
            for name, content in files.items()
            if held.get(name, content) != content
        ]
        if not changed:
            return
        other = ", ".join(changed)
    raise OtherResultError(
        f"{folder} holds a result of other settings ({other}); give --out another folder, or --replace to write over it."
    )


def load_record(path: str | Path, *, whole: bool = True) -> xr.Dataset:
    """Read a record, after checking all its files: a lost file would otherwise read as missing
    values.

    `path` is that of the record, or of the folder of an experiment or a watched run that holds it
    as `record.zarr`; of a watched run that has not ended, or was resumed, the record is what was
    observed so far. `whole=False` reads the observations of a watched run that is damaged and leaves
    out what is lost; the record's config lists it as `left_out`.
    """
    folder = Path(path)
    if (folder / OBSERVATIONS).is_dir() and (not whole or _is_unfinished(folder)):
        return watched(folder, whole=whole)
    if (folder / "record.zarr").is_dir():
        folder = folder / "record.zarr"
    if not folder.exists():
        with suppress(OSError):
            clear_drafts(
                folder.parent
            )  # its writer may have been killed just when it had moved it out of the way
    for _ in range(_TRIES):
        try:
            return _read_zarr(folder)
        except (
            Exception
        ) as error:  # whatever Zarr, xarray and the codecs raise on damaged or forged files
            reason = str(error)
        if not folder.exists():
            raise InputError(f"{path} is not a record that can be read: there is no such folder.")
        if wrong := damage(folder):
            raise InputError(f"{path} is not a record that can be read: {wrong}.")
    raise InputError(f"{path} is not a record that can be read: {reason}")


def _is_unfinished(folder: Path) -> bool:
    with suppress(InputError):
        return bool(unfinished(folder))
    return False


def load_claims(folder: Path) -> list[dict[str, Any]]:
    """Claims of a result or a record, as they were written; none if none were."""
    try:
        written = listed(folder)
        return parsed_json(content(folder, CLAIMS, written), [dict]) if CLAIMS in written else []
    except InputError as error:
        raise InputError(f"the claims in {folder} cannot be read: {error}") from None


def damaged_records(folder: Path, sweeps: Collection[Path] = ()) -> tuple[dict[str, str], int]:
    """Results, records and watched runs below a folder that are damaged, with what is wrong; and
    how many there are.

    `sweeps`: folders there that have a check of their own.
    """
    places = _places(folder, sweeps)
    found = {
        str(place): watched_damage(place) if (place / OBSERVATIONS).is_dir() else damage(place)
        for place in places
    }
    return {place: wrong for place, wrong in found.items() if wrong}, len(places)


def unfinished_runs(folder: Path, sweeps: Collection[Path] = ()) -> dict[str, str]:
    """Watched runs below a folder that are whole as far as they go, but have not ended, with what
    there is of them.
    """
    runs = [
        place
        for place in _places(folder, sweeps)
        if (place / OBSERVATIONS).is_dir() and not watched_damage(place)
    ]
    return {str(run): words for run in runs if (words := unfinished(run))}


def _places(folder: Path, sweeps: Collection[Path]) -> list[Path]:
    """What Saccade wrote below a folder: its checksums tell, or, if those are lost, what else it
    writes. Hidden ones are drafts.
    """
    names = [
        path
        for path in below(folder, [])
        if not any(part.startswith(".") for part in path.parent.relative_to(folder).parts)
    ]
    found = {
        path.parent for path in names if path.name in (CHECKSUMS, CLAIMS, ".zgroup", ".zmetadata")
    }
    found |= {path.parents[1] for path in names if is_of_a_watched_run(path)}
    found |= {
        path.parent
        for path in found
        if path.name == "record.zarr" and (path.parent / "about.json").exists()
    }
    found |= {*sweeps}
    # Folders that belong to one above them, as the checksums above say, or by their names.
    parts, unlisted = set(), set()
    for place in found:
        try:
            parts |= {
                (place / name).parent for name in listed(place) if name.endswith(f"/{CHECKSUMS}")
            }
        except InputError:  # they are lost, which is told already, or not written yet
            unlisted.add(place)
    named = (path for path in found if path.name in _PARTS)
    parts |= {
        path for path in named if path.parent in found or not unlisted.isdisjoint(path.parents)
    }
    return sorted(found - parts - {*sweeps})


def _read_zarr(folder: Path) -> xr.Dataset:
    """The record in a folder, whole and in memory; an `InputError` says which file is not what was
    written.
    """
    import xarray as xr
    from zarr.core.buffer import default_buffer_prototype
    from zarr.storage import MemoryStore

    written = listed(folder)
    if _METADATA not in written:
        raise InputError(f"{_METADATA} is not listed in its checksums.")
    arrays = _arrays(content(folder, _METADATA, written))
    try:
        sizes = {name: (folder / name).stat().st_size for name in written}
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read: {error.strerror}.") from None
    _check_claimed(folder, arrays, sizes)
    files = {name: content(folder, name, written, sizes[name]) for name in written}
    _check_chunks(folder, arrays, sizes, files)
    made = default_buffer_prototype().buffer.from_bytes
    store = MemoryStore({name: made(held) for name, held in files.items()}, read_only=True)
    record = xr.open_zarr(store, consolidated=True, zarr_format=2, chunks=None).load()
    for name, variable in record.variables.items():
        values = variable.values  # an error, if it is an index and pandas finds a text that is none
        if (
            values.dtype.kind == "U"
            and np.ascontiguousarray(values).view(np.uint32).max(initial=0) > sys.maxunicode
        ):
            raise InputError(f"{shortened(name)} contains invalid characters.")
    return record


def _check_files(folder: Path, files: _Files) -> None:
    """An `InputError` if these files in a folder would be refused for what they unpack to."""
    arrays = _arrays(files[_METADATA].to_bytes())
    _check_claimed(folder, arrays, files.sizes)
    _check_chunks(folder, arrays, files.sizes, files.starts)


def _arrays(metadata: bytes) -> dict[str, dict[str, Any]]:
    """What the metadata say of each array, if it is packed as Saccade packs."""
    told = parsed_json(metadata, {"metadata": {str: dict}})["metadata"]
    arrays = {
        name.removesuffix("/.zarray"): about
        for name, about in told.items()
        if name.endswith("/.zarray")
    }
    for name, about in arrays.items():
        wrong = misfit(about, _ARRAY) or (
            "" if len(about["shape"]) == len(about["chunks"]) else "its chunks do not fit its shape"
        )
        if wrong or min(about["shape"], default=0) < 0 or min(about["chunks"], default=1) < 1:
            raise InputError(
                f"{_METADATA} does not describe {shortened(name)}{f': {wrong}' if wrong else ''}."
            )
        packed = about["compressor"] or {"id": _BLOSC}
        if (
            not isinstance(packed, dict)
            or packed.get("id") != _BLOSC
            or about["filters"] not in (None, [], _TEXTS)
        ):
            raise InputError(f"{shortened(name)} is packed in a way that Saccade does not write.")
    return arrays


def _check_claimed(
    folder: Path, arrays: Mapping[str, dict[str, Any]], sizes: Mapping[str, int]
) -> None:
    """Before any chunk is read: what the arrays say they take, and in how many chunks, against what
    is there.
    """
    n_stored = sum(sizes.values())
    claimed = sum(math.prod(about["shape"]) * _item_size(about) for about in arrays.values())
    check_expansion(folder, claimed, n_stored)
    check_expansion(
        folder, n_stored, claimed
    )  # and files that are larger than what they are to hold
    n_chunks = sum(
        math.prod(
            (-(-size // chunk) for size, chunk in zip(about["shape"], about["chunks"], strict=True))
        )
        for about in arrays.values()
    )
    if n_chunks > _ANY_CHUNKS + RATIO * len(sizes):
        raise InputError(
            f"{folder} was refused: it has {len(sizes):,} files, but would be read in {n_chunks:,} chunks."
        )


def _check_chunks(
    folder: Path,
    arrays: Mapping[str, dict[str, Any]],
    sizes: Mapping[str, int],
    starts: Mapping[str, bytes],
) -> None:
    """What the chunks themselves say they unpack to."""
    unpacked = 0
    for name, start in starts.items():
        about = arrays.get(name.rpartition("/")[0])
        if about is not None and not name.rpartition("/")[2].startswith("."):
            # The head that Blosc writes has four bytes, then three sizes of four.
            size = (
                sizes[name] if about["compressor"] is None else int.from_bytes(start[4:8], "little")
            )
            unpacked += size * (_TEXT_COST if about["filters"] else 1)
    check_expansion(folder, unpacked, sum(sizes.values()))


def _item_size(about: Mapping[str, Any]) -> int:
    try:
        return _POINTER if about["filters"] else np.dtype(about["dtype"]).itemsize
    except TypeError:
        raise InputError(f"{shortened(about['dtype'])} is not a type of numbers.") from None
