"""Checksums: `checksums.json`, written last, lists the SHA-256 of every file of a folder. A folder without it is damaged.

A folder inside that has checksums of its own is covered by the one line for that file, so nothing is hashed twice. A file that is
replaced by itself carries its checksum within (`write_sealed` of `json_files.py`), and one that is added by itself in its name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from saccade.errors import InputError
from saccade.records.json_files import read_json, regular_file, write_json
from saccade.records.writing import CHECKSUMS


def seal(folder: Path, names: Iterable[str] | None = None) -> None:
    """Write the checksums of a folder: of all its files, or of those files and folders in it that are named."""
    parts = folder.iterdir() if names is None else (folder / name for name in names)
    files = sorted(file for part in parts if part != folder / CHECKSUMS for file in _covered(part))
    write_json(folder / CHECKSUMS, {file.relative_to(folder).as_posix(): file_hash(file) for file in files})


def damaged_files(folder: Path) -> dict[str, str]:
    """Files of a folder that are not what was written, by their names in it, with what is wrong."""
    if not (folder / CHECKSUMS).exists():
        return {CHECKSUMS: "is lost"}
    try:
        written = read_json(folder / CHECKSUMS, {str: str})
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
