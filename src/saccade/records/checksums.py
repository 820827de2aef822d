"""Checksums: `checksums.json`, written last, lists the SHA-256 of every file of a folder. A folder
without it is damaged.

A folder inside that has checksums of its own is covered by the one line for that file, so nothing
is hashed twice. A file that is replaced by itself carries its checksum within (`write_sealed` of
`json_files.py`), and one that is added by itself in its name.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath

from saccade.errors import InputError
from saccade.records.json_files import MOST_BYTES, read_json, regular_file, write_json
from saccade.records.writing import CHECKSUMS, below, whole_folder


@contextmanager
def sealed_folder(
    path: Path, *, any_folder: bool = False, is_drawn: Callable[[Path], bool] = lambda file: False
) -> Iterator[Path]:
    """A folder to write in; it takes the place of `path` when the block ends, whole and with
    checksums of all its files.

    A folder that is there is replaced only if its checksums list every file of it but those that
    can be drawn again (`is_drawn`), or if the name is Saccade's own (`any_folder`).
    """
    with whole_folder(
        path, (lambda folder: "") if any_folder else partial(stranger, is_drawn=is_drawn)
    ) as folder:
        yield folder
        seal(folder)


def seal(folder: Path, names: Iterable[str] | None = None) -> None:
    """Write the checksums of a folder: of all its files, or of those files and folders in it that
    are named.
    """
    parts = folder.iterdir() if names is None else (folder / name for name in names)
    files = sorted(file for part in parts if part != folder / CHECKSUMS for file in _covered(part))
    write_json(
        folder / CHECKSUMS, {file.relative_to(folder).as_posix(): file_hash(file) for file in files}
    )


def listed(folder: Path) -> dict[str, str]:
    """The checksums of a folder, by the names of its files, none of which leads out of it."""
    if not (folder / CHECKSUMS).exists():
        raise InputError(f"{CHECKSUMS} is lost.")
    try:
        found = read_json(folder / CHECKSUMS, {str: str})
    except InputError:
        raise InputError(f"{CHECKSUMS} is not what was written.") from None
    if any(
        PurePosixPath(name).as_posix() != name or {"/", ".."} & {*PurePosixPath(name).parts}
        for name in found
    ):
        raise InputError(f"{CHECKSUMS} is not what was written.")
    return found


def content(folder: Path, name: str, written: Mapping[str, str], most: int = MOST_BYTES) -> bytes:
    """A listed file, read once: what was verified is what is used, whatever takes the folder's
    place meanwhile.
    """
    try:
        with regular_file(folder / name) as file:
            found = file.read(most + 1)
    except FileNotFoundError:
        raise InputError(f"{name} is lost.") from None
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror or error}.") from None
    if len(found) > most:
        raise InputError(f"{name} has more than the {most:,} bytes that are read.")
    if hashlib.sha256(found).hexdigest() != written[name]:
        raise InputError(f"{name} is not what was written.")
    return found


def stranger(folder: Path, is_drawn: Callable[[Path], bool] = lambda file: False) -> str:
    """The name of a file in a folder that its checksums do not list; nothing if there is none, as
    in an empty folder.
    """
    if not os.listdir(folder):
        return ""
    try:
        known, waiting, seen = {CHECKSUMS}, [""], {""}
        while waiting:
            inner = waiting.pop()
            here = {f"{inner}{name}" for name in listed(folder / inner)}
            known |= here
            waiting += _deeper(here, seen)
    except InputError:
        return CHECKSUMS if (folder / CHECKSUMS).exists() else os.listdir(folder)[0]
    try:
        files = [path for path in below(folder) if path.is_symlink() or not path.is_dir()]
    except OSError as error:  # a folder that we may not list may hold anything
        return os.path.relpath(error.filename, folder)
    names = ((str(path.relative_to(folder)), path) for path in files)
    return next((name for name, path in names if name not in known and not is_drawn(path)), "")


_OF_ONE_RUN = ("record.zarr", "claims.json", "observations")  # files of a result, of a watched run


def check_unclaimed(folder: Path, names: Iterable[str]) -> None:
    """Before several files are written into a folder of the user's: none of these is there that its
    checksums do not list, and the folder is not that of a result or of a watched run, whose
    checksums would be replaced.
    """
    other = next((name for name in _OF_ONE_RUN if os.path.lexists(folder / name)), None)
    if other is not None:
        raise InputError(f"{folder} holds {other}, another result of Saccade; name a new folder.")
    there = [name for name in names if os.path.lexists(folder / name)]
    try:
        strange = [
            name for name in there if name not in {part.split("/")[0] for part in listed(folder)}
        ]
    except InputError:
        strange = there
    if strange:
        raise InputError(
            f"{folder} holds {strange[0]}, which Saccade did not write there; move it away, or name a new folder."
        )


def damaged_files(folder: Path) -> dict[str, str]:
    """Files of a folder that are not what was written, by their names in it, with what is wrong;
    and of folders in it that have checksums of their own.
    """
    found: dict[str, str] = {}
    waiting, seen = [""], {""}
    while waiting:
        inner = waiting.pop()
        wrong, whole = _looked_at(folder / inner)
        found |= {inner + name: what for name, what in wrong.items()}
        waiting += _deeper((inner + name for name in whole), seen)
    return found


def _deeper(names: Iterable[str], seen: set[str]) -> list[str]:
    """Folders with checksums of their own among these files, each once: a folder may be listed by
    many above it.
    """
    found = {
        name.removesuffix(CHECKSUMS) for name in names if name.endswith(f"/{CHECKSUMS}")
    } - seen
    seen |= found
    return [*found]


def _looked_at(folder: Path) -> tuple[dict[str, str], list[str]]:
    """What is wrong with the files that the checksums of a folder list, and those with which
    nothing is.

    A folder that another took the place of meanwhile is looked at again, for as long as that
    happens.
    """
    while True:
        before = _which(folder)
        try:
            written = listed(folder)
            wrong = {
                name: what for name in written if (what := _wrong(folder, name, written[name]))
            }
        except InputError as error:
            written, wrong = (
                {},
                {CHECKSUMS: str(error).removeprefix(f"{CHECKSUMS} ").removesuffix(".")},
            )
        if not wrong or _which(folder) == before:
            return wrong, [name for name in written if name not in wrong]


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


def _covered(part: Path) -> Iterator[Path]:
    """The files of a part of a folder that are listed: all, or the checksums that it has of its
    own.
    """
    waiting = [part]
    while waiting:
        path = waiting.pop()
        if (path / CHECKSUMS).is_file():
            yield path / CHECKSUMS
        elif path.is_dir():
            waiting += path.iterdir()
        else:
            yield path


def _wrong(folder: Path, name: str, checksum: str) -> str:
    try:
        if any(
            (folder / above).is_symlink() for above in [*PurePosixPath(name).parents][:-1]
        ):  # it may lead out of the folder
            return "is lost"
        return "" if file_hash(folder / name) == checksum else "is not what was written"
    except FileNotFoundError:
        return "is lost"
    except (OSError, ValueError):  # the latter: what no file can be called, or no regular file
        return "cannot be read"
