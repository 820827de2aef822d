"""Corpora kept on disk: a folder each, named by a hash of the text and of how it was tokenised.

A folder appears whole; of two processes that make the same corpus at once the second replaces the first's by its own, the same.
Files are checked when read: sizes, and a checksum of up to 64 evenly spread megabytes (all of a file no larger). A damaged
folder is made anew.

The text is hashed once: where size, time of change and inode of all files are as before, its hash is taken from a note.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from saccade.errors import InputError, shortened
from saccade.places import cache_home, user_path
from saccade.records.json_files import read_json, write_json
from saccade.records.writing import whole_file, whole_folder

_CHECKED = 64  # megabytes of a file that its checksum covers
_YOUNG = 2e9  # nanoseconds: a file changed so recently may change again within one tick of its clock, so it is not noted
_temporary: tempfile.TemporaryDirectory[str] | None = None


def cache_folder(cache: str | os.PathLike[str] | None) -> Path:
    """Where corpora are kept: the folder given, else the user's own, else one that goes when the process ends."""
    global _temporary
    if cache is not None and not isinstance(cache, str | os.PathLike):
        raise InputError(f"`cache` must be a folder; got {shortened(cache)}.")
    home = cache_home()
    folder = user_path(cache) if cache is not None else home / "corpora" if home is not None else None
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
    except OSError as error:
        if cache is not None:
            raise InputError(f"`cache`: cannot write into {folder}: {error.strerror}.") from None
    _temporary = _temporary or tempfile.TemporaryDirectory(prefix="saccade-corpora-")
    return Path(_temporary.name)


def content_hash(files: Sequence[Path], folder: Path) -> str:
    """Of the bytes of all files, in order."""
    stats = _stats(files)
    note = folder / "seen" / _digest(stats)
    try:
        return str(read_json(note)["hash"])
    except (InputError, KeyError):
        pass
    total = hashlib.blake2b(digest_size=16)
    for path in files:
        total.update(_file_hash(path))
    if _stats(files) != stats:
        raise InputError(f"{files[0]} is being changed while it is read; try again when it is done.")
    if all(time.time_ns() - changed > _YOUNG for *_, changed in stats):
        with suppress(OSError, InputError):  # a folder that cannot be written goes without
            note.parent.mkdir(exist_ok=True)
            write_json(note, {"hash": total.hexdigest()})
    return total.hexdigest()


def corpus_key(content: str, settings: dict[str, Any]) -> str:
    return _digest([content, settings])


def kept_folder(folder: Path, make: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """What is known about the corpus in `folder`, which is made by `make` if it is not there or damaged."""
    about = _read_about(folder)
    if about is not None:
        return about
    try:
        with whole_folder(folder, any_folder=True) as draft:
            about = make(draft)
            about["files"] = {path.name: [path.stat().st_size, _checksum(path)] for path in sorted(draft.iterdir())}
            write_json(draft / "about.json", about)
        return about
    except InputError as error:
        raise InputError(f"{error} Name another folder with `cache`.") from None


def add_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """A file beside a corpus. A folder that cannot be written goes without: it is only a cache."""
    with suppress(InputError), whole_file(path) as file:
        write(file)


def _read_about(folder: Path) -> dict[str, Any] | None:
    """None if the folder is not there or not whole."""
    try:
        about = read_json(folder / "about.json")
        whole = all([(folder / name).stat().st_size, _checksum(folder / name)] == facts for name, facts in about["files"].items())
    except (OSError, InputError, KeyError, TypeError, AttributeError):
        return None
    return about if whole else None


def _checksum(path: Path) -> int:
    megabyte, total = 2**20, 0
    n_megabytes = -(-path.stat().st_size // megabyte)
    with path.open("rb") as file:
        for i in range(min(n_megabytes, _CHECKED)):
            file.seek(i * n_megabytes // min(n_megabytes, _CHECKED) * megabyte)
            total = zlib.crc32(file.read(megabyte), total)
    return total


def _file_hash(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).digest()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}.") from None


def _stats(files: Sequence[Path]) -> list[tuple[str, int, int, int]]:
    try:
        facts = [(path.absolute(), path.stat()) for path in files]
    except OSError as error:
        raise InputError(f"cannot read {error.filename}: {error.strerror}.") from None
    return [(str(path), stat.st_size, stat.st_ino, max(stat.st_mtime_ns, stat.st_ctime_ns)) for path, stat in facts]


def _digest(facts: Any) -> str:
    return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16).hexdigest()
