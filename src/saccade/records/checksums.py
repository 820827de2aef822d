"""Checksums: `checksums.json`, written last, lists the SHA-256 of every file of a folder. A folder without it is damaged.

A folder inside that has checksums of its own is covered by the one line for that file, so nothing is hashed twice. A file that is
replaced by itself carries its checksum within (`write_sealed` of `json_files.py`), and one that is added by itself in its name.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from saccade.errors import InputError, shortened
from saccade.records.json_files import MOST_BYTES, read_json, regular_file, write_json
from saccade.records.writing import CHECKSUMS, whole_folder


@contextmanager
def sealed_folder(path: Path, *, any_folder: bool = False) -> Iterator[Path]:
    """A folder to write in; it takes the place of `path` when the block ends, whole and with checksums of all its files.

    A folder that is there is replaced only if its checksums list every file of it, or if the name is Saccade's own (`any_folder`).
    """
    with whole_folder(path, (lambda folder: "") if any_folder else stranger) as folder:
        yield folder
        seal(folder)


def seal(folder: Path, names: Iterable[str] | None = None) -> None:
    """Write the checksums of a folder: of all its files, or of those files and folders in it that are named."""
    parts = folder.iterdir() if names is None else (folder / name for name in names)
    files = sorted(file for part in parts if part != folder / CHECKSUMS for file in _covered(part))
    write_json(folder / CHECKSUMS, {file.relative_to(folder).as_posix(): file_hash(file) for file in files})


def listed(folder: Path) -> dict[str, str]:
    """The checksums of a folder, by the names of its files, none of which leads out of it."""
    found = read_json(folder / CHECKSUMS, {str: str})
    if odd := [name for name in found if PurePosixPath(name).as_posix() != name or {"/", ".."} & {*PurePosixPath(name).parts}]:
        raise InputError(f"{shortened(odd[0])} is not the name of a file in {folder}.")
    return found


def content(folder: Path, name: str, written: Mapping[str, str], most: int = MOST_BYTES) -> bytes:
    """A listed file, read once: what was verified is what is used, whatever takes the folder's place meanwhile."""
    try:
        with regular_file(folder / name) as file:
            found = file.read(most + 1)
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror or error}.") from None
    if len(found) > most:
        raise InputError(f"{name} has more than the {most:,} bytes that are read.")
    if hashlib.sha256(found).hexdigest() != written[name]:
        raise InputError(f"{name} is not what was written.")
    return found


def stranger(folder: Path) -> str:
    """The name of a file in a folder that its checksums do not list; nothing if there is none, as in an empty folder."""
    if not os.listdir(folder):
        return ""
    try:
        known = _known(folder)
    except InputError:
        return CHECKSUMS if (folder / CHECKSUMS).exists() else os.listdir(folder)[0]
    names = (os.path.relpath(os.path.join(place, name), folder) for place, _, files in os.walk(folder) for name in files)
    return next((name for name in names if name not in known), "")


def check_unclaimed(folder: Path, names: Iterable[str]) -> None:
    """Before several files are written into a folder of the user's: none of these is there that its checksums do not list."""
    there = [name for name in names if os.path.lexists(folder / name)]
    try:
        strange = [name for name in there if name not in {part.split("/")[0] for part in listed(folder)}]
    except InputError:
        strange = there
    if strange:
        raise InputError(f"{folder} holds {strange[0]}, which Saccade did not write there; move it away, or name a new folder.")


def damaged_files(folder: Path) -> dict[str, str]:
    """Files of a folder that are not what was written, by their names in it, with what is wrong.

    A folder that another took the place of meanwhile is looked at again, for as long as that happens.
    """
    while True:
        before = _which(folder)
        found = _damaged_files(folder)
        if not found or _which(folder) == before:
            return found


def _damaged_files(folder: Path) -> dict[str, str]:
    if not (folder / CHECKSUMS).exists():
        return {CHECKSUMS: "is lost"}
    try:
        written = listed(folder)
    except InputError:
        return {CHECKSUMS: "is not what was written"}
    there = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}  # a name is never taken for a place
    wrong = {name: what for name in written if (what := _wrong(there.get(name), written[name]))}
    for name in written:
        if name.endswith(f"/{CHECKSUMS}") and name not in wrong:
            inner = name.removesuffix(CHECKSUMS)
            wrong |= {inner + file: what for file, what in damaged_files(there[name].parent).items()}
    return wrong


def damage(folder: Path) -> str:
    """What is wrong with the files of a folder, in words; nothing if all is well."""
    wrong = damaged_files(folder)
    more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    return next((f"{file}{more} {what}" for file, what in wrong.items()), "")


def file_hash(path: Path) -> str:
    with regular_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _which(folder: Path) -> tuple[int, int] | None:
    """What tells a folder from one that takes its place."""
    try:
        found = folder.stat()
        return found.st_dev, found.st_ino
    except OSError:
        return None


def _known(folder: Path) -> set[str]:
    """Every file that the checksums of a folder, or of folders in it that have their own, list; and these themselves."""
    names = {CHECKSUMS, *listed(folder)}
    inner = [name.removesuffix(CHECKSUMS) for name in names if name.endswith(f"/{CHECKSUMS}")]
    return names.union(*({f"{place}{name}" for name in _known(folder / place)} for place in inner))


def _covered(part: Path) -> Iterator[Path]:
    """The files of a part of a folder that are listed: all, or the checksums that it has of its own."""
    if (part / CHECKSUMS).is_file():
        yield part / CHECKSUMS
    elif part.is_dir():
        for inner in part.iterdir():
            yield from _covered(inner)
    else:
        yield part


def _wrong(path: Path | None, checksum: str) -> str:
    if path is None:
        return "is lost"
    try:
        return "" if file_hash(path) == checksum else "is not what was written"
    except (OSError, InputError):
        return "cannot be read"
