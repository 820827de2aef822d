"""Records on disk: Zarr, written beside their place and moved there whole, so that what is there is always complete."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade.errors import InputError, shortened
from saccade.records.json_files import parsed_json, read_json, write_json
from saccade.records.schema import settings_text
from saccade.records.writing import CHECKSUMS, whole_folder

if TYPE_CHECKING:
    import xarray as xr

    from saccade.lab.claim import Claim

CLAIMS = "claims.json"


def save_record(record: xr.Dataset, path: str | Path, claims: Iterable[Claim] = ()) -> None:
    """Write a record to the folder `path`, with checksums: whole, or not at all.

    `claims` about it are kept there too, and `saccade report` shows them.
    """
    with whole_folder(Path(path)) as folder:
        record.to_zarr(folder, mode="w", zarr_format=2, consolidated=True)
        if listed := [claim.as_dict() for claim in claims]:
            write_json(folder / CLAIMS, listed)
        write_json(folder / CHECKSUMS, _checksums(folder))


@contextmanager
def result_folder(path: Path, settings: Any, *, replace: bool = False) -> Iterator[Path]:
    """A folder for the result of an experiment, whole when the block ends, with checksums of all its files.

    An earlier result of the same settings gives way; one of other settings only if `replace` says so.
    """
    if path.exists() and not replace:
        _check_same_settings(path, settings)
    with whole_folder(path) as folder:
        yield folder
        write_json(folder / CHECKSUMS, _checksums(folder))


def _check_same_settings(folder: Path, settings: Any) -> None:
    other = "cannot be told"
    with suppress(InputError):
        then, now = (
            parsed_json(text) for text in (read_json(folder / "about.json").get("settings", "{}"), settings_text(settings))
        )
        changed = [
            f"`{name}` was {shortened(then.get(name))}, now {shortened(now[name])}" for name in now if then.get(name) != now[name]
        ]
        if not changed:
            return
        other = ", ".join(changed)
    raise InputError(
        f"{folder} holds a result of other settings ({other}); give --out another folder, or --replace to write over it."
    )


def load_record(path: str | Path) -> xr.Dataset:
    """The record, after all of its files were found to be what was written: a lost one would read as missing values."""
    import xarray as xr

    wrong = damage(Path(path))
    if wrong:
        raise InputError(f"{path} is not a record that can be read: {wrong}.")
    try:
        return xr.open_zarr(Path(path), consolidated=True).load()
    except (OSError, KeyError, ValueError, TypeError, RuntimeError) as error:  # what Zarr and its codecs raise on damage
        raise InputError(f"{path} is not a record that can be read: {error}") from None


def damage(record: Path) -> str:
    """What is wrong with the files of a record, in words; nothing if all is well, or if it was written without checksums."""
    if not (record / CHECKSUMS).exists():
        return ""
    try:
        written = read_json(record / CHECKSUMS)
        found = _checksums(record)
    except (OSError, InputError) as error:
        return f"its checksums cannot be read: {error}".removesuffix(".")
    wrong = [file for file in written if found.get(file) != written[file]]
    if not wrong:
        return ""
    more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    return f"{wrong[0]}{more} {'is lost' if wrong[0] not in found else 'is not what was written'}"


def damaged_records(folder: Path) -> tuple[dict[str, str], int]:
    """Records below a folder that are damaged, or miss what lay beside them, with what is wrong; and how many there are."""
    records = {path.parent for path in _below(folder, CHECKSUMS)}
    with_claims = (path for path in _below(folder, CLAIMS) if not (path.parent / ".zgroup").exists())  # those are of a bare record
    records |= {path.with_name("record.zarr") for path in with_claims}
    records -= {record.parent for record in records if record.name == "record.zarr"}  # they are looked at with their records
    found = {str(record): _lost(record) or damage(_sealed(record)) for record in sorted(records)}
    return {record: wrong for record, wrong in found.items() if wrong}, len(records)


def _below(folder: Path, name: str) -> Iterator[Path]:
    """Files of that name; not in hidden folders, which are drafts."""
    return (path for path in folder.rglob(name) if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def _sealed(record: Path) -> Path:
    """What the checksums that tell of a record are of: the whole result that it belongs to, or the record."""
    return record.parent if record.name == "record.zarr" and (record.parent / CHECKSUMS).exists() else record


def _lost(record: Path) -> str:
    """What is gone of a result that is more than a record: it has claims beside it, or what it is about."""
    beside = [record.parent / name for name in ("about.json", CLAIMS)]
    if not any(path.exists() for path in beside):
        return "" if record.exists() else "it is lost"
    gone = [path.name for path in (record, *beside) if not path.exists()]
    return f"{' and '.join(gone)} beside it {'is' if len(gone) == 1 else 'are'} lost" if gone else ""


def _checksums(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != CHECKSUMS)
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
