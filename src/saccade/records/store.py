"""Records on disk: Zarr, written beside their place and moved there whole, so that what is there is always complete."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade.errors import InputError, shortened
from saccade.records.checksums import content, damage, damaged_files, listed, seal
from saccade.records.folders import whole_folder
from saccade.records.json_files import parsed_json, read_json, write_json
from saccade.records.observation_log import OBSERVATIONS, unfinished, watched_damage
from saccade.records.schema import settings_text
from saccade.records.writing import CHECKSUMS, clear_drafts
from saccade.records.zarr_content import check_zarr, read_zarr

if TYPE_CHECKING:
    import xarray as xr

    from saccade.lab.claim import Claim

CLAIMS = "claims.json"
_TRIES = 3  # to read a record that another takes the place of meanwhile


def save_record(record: xr.Dataset, path: str | Path, claims: Iterable[Claim] = ()) -> None:
    """Write a record to the folder `path`, atomically and with checksums.

    `claims` about it are kept there too, and `saccade report` shows them.
    """
    with whole_folder(Path(path)) as folder:
        _write_zarr(record.drop_encoding(), folder)
        if listed := [claim.as_dict() for claim in claims]:
            write_json(folder / CLAIMS, listed)
        seal(folder)


def _write_zarr(record: xr.Dataset, folder: Path) -> None:
    """Packed; or, if that is so tight that it would be taken for a bomb when it is read, as it is."""
    options: Any = {"mode": "w-", "zarr_format": 2, "consolidated": True}  # mode "w" makes the folder anew, without its lock
    record.to_zarr(folder, **options)
    try:
        check_zarr(folder)
    except InputError:
        for part in folder.iterdir():
            shutil.rmtree(part) if part.is_dir() else part.unlink()
        as_they_are = {name: {"compressors": None} for name in record.variables}
        record.to_zarr(folder, **options, write_empty_chunks=True, encoding=as_they_are)


class OtherResultError(InputError):
    """A folder holds a result of other settings."""


@contextmanager
def result_folder(path: Path, settings: Any, *, file: str = "", replace: bool = False) -> Iterator[Path]:
    """A folder for the result of an experiment, whole when the block ends, with checksums of all its files.

    An earlier result of the same settings, and of the same `file` if it is a user's own experiment, gives way; another one only
    if `replace` says so.
    """
    if not replace:
        check_same_settings(path, settings, file)
    with whole_folder(path) as folder:
        yield folder
        if not replace:
            check_same_settings(path, settings, file)  # again: another process may have put a result there meanwhile
        seal(folder)


def check_same_settings(folder: Path, settings: Any, file: str = "") -> None:
    """An error that says what differs, if there is a result of other settings or of another file."""
    if not folder.exists():
        return
    other = "cannot be told"
    with suppress(InputError):
        about = read_json(folder / "about.json")
        then = parsed_json(about.get("settings", "{}")) | {"file of the experiment": about.get("file", "")}
        now = parsed_json(settings_text(settings)) | {"file of the experiment": file}
        changed = [
            f"`{name}` was {shortened(then.get(name))}, now {shortened(now[name])}" for name in now if then.get(name) != now[name]
        ]
        if not changed:
            return
        other = ", ".join(changed)
    raise OtherResultError(
        f"{folder} holds a result of other settings ({other}); give --out another folder, or --replace to write over it."
    )


def load_record(path: str | Path) -> xr.Dataset:
    """Read a record, after checking all its files: a lost one would otherwise read as missing values.

    `path` is that of the record, or of the folder of an experiment or a watched run that holds it as `record.zarr`.
    """
    folder = Path(path)
    if (folder / "record.zarr").is_dir():
        folder = folder / "record.zarr"
    if not folder.exists():
        with suppress(OSError):
            clear_drafts(folder.parent)  # its writer may have been killed just when it had moved it out of the way
    for _ in range(_TRIES):
        try:
            return read_zarr(folder)
        except (OSError, KeyError, ValueError, TypeError, RuntimeError) as error:  # what Zarr and its codecs raise on damage
            reason = str(error)
        if wrong := damage(folder):
            raise InputError(f"{path} is not a record that can be read: {wrong}.")
    raise InputError(f"{path} is not a record that can be read: {reason}")


def load_claims(folder: Path) -> list[dict[str, Any]]:
    """Claims of a result or a record, as they were written; none if none were."""
    wrong = damaged_files(folder)
    for file in (CHECKSUMS, CLAIMS):
        if file in wrong:
            raise InputError(f"the claims in {folder} cannot be read: {file} {wrong[file]}.")
    written = listed(folder)
    return parsed_json(content(folder, CLAIMS, written), [dict]) if CLAIMS in written else []


def damaged_records(folder: Path) -> tuple[dict[str, str], int]:
    """Results, records and watched runs below a folder that are damaged, with what is wrong; and how many there are.

    Not those in the folder of a sweep, which has a check of its own.
    """
    places = _places(folder)
    found = {str(place): watched_damage(place) if (place / OBSERVATIONS).is_dir() else damage(place) for place in places}
    return {place: wrong for place, wrong in found.items() if wrong}, len(places)


def unfinished_runs(folder: Path) -> dict[str, str]:
    """Watched runs below a folder that are whole as far as they go, but have not ended, with what there is of them."""
    runs = [place for place in _places(folder) if (place / OBSERVATIONS).is_dir() and not watched_damage(place)]
    return {str(run): words for run in runs if (words := unfinished(run))}


def _places(folder: Path) -> list[Path]:
    """What Saccade wrote below a folder: its checksums tell, and, if those are lost, what else it writes. A result is one
    place with all that is in it. Hidden folders are drafts.
    """
    marks = (CHECKSUMS, CLAIMS, ".zgroup", ".zmetadata", f"{OBSERVATIONS}/about.json")
    found = {path.parents[mark.count("/")] for mark in marks for path in folder.rglob(mark) if not _is_hidden(path.parent, folder)}
    found |= {path.parent for path in found if path.name == "record.zarr" and (path.parent / "about.json").exists()}
    return sorted(path for path in found if not any(above in found or (above / "sweep.json").exists() for above in path.parents))


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)
