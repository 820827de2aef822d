"""Corpora kept on disk: a folder each, named by a hash of the text and of how it was tokenised.

A folder appears whole. If two processes build the same corpus at once, the second overwrites the
first with identical files. The text is hashed whole, about a second for a gigabyte, once in a
process as long as size and times of its files stay the same, and every file of a kept corpus each
time. So a single changed letter is found: another text is another corpus, and a damaged folder is
made anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from saccade.errors import InputError, shortened
from saccade.places import user_cache, user_path
from saccade.records.checksums import damage, sealed_folder
from saccade.records.json_files import read_json, write_json
from saccade.records.writing import make_folder, whole_file

_ABOUT = {"vocabulary": [str], "tokenizer": str, "saved": str}
_temporary: tempfile.TemporaryDirectory[str] | None = None


def cache_folder(cache: str | os.PathLike[str] | None) -> Path:
    """Where corpora are kept: the folder given, else the user's own, else one that goes when the
    process ends.
    """
    global _temporary
    if cache is not None and not isinstance(cache, str | os.PathLike):
        raise InputError(f"`cache` must be a folder; got {shortened(cache)}.")
    folder = user_cache("corpora") if cache is None else user_path(cache)
    try:
        if folder is not None:
            make_folder(folder)
            with tempfile.TemporaryFile(dir=folder):
                return folder
    except OSError as error:
        if cache is not None:
            raise InputError(f"`cache`: cannot write into {folder}: {error.strerror}.") from None
    _temporary = _temporary or tempfile.TemporaryDirectory(prefix="saccade-corpora-")
    return Path(_temporary.name)


_SETTLED = 2_000_000_000  # nanoseconds: a file changed less than this ago may change again without a new time or size
_known_hashes: dict[
    tuple[tuple[str, int, int, int, int], ...], str
] = {}  # by what the system says of the files


def content_hash(files: Sequence[Path]) -> str:
    """Of the bytes of all files, in order; read once by a process as long as they stay as they are."""
    before = _stats(files)
    if before in _known_hashes:
        return _known_hashes[before]
    is_settled = max((changed for *_, changed in before), default=0) < time.time_ns() - _SETTLED
    total = hashlib.blake2b(digest_size=16)
    for path in files:
        total.update(_file_hash(path))
    if _stats(files) != before:
        raise InputError(
            f"{files[0]} is being changed while it is read; try again when it is done."
        )
    if is_settled:
        _known_hashes[before] = total.hexdigest()
    return total.hexdigest()


def corpus_key(content: str, settings: dict[str, Any]) -> str:
    return hashlib.blake2b(
        json.dumps([content, settings], sort_keys=True).encode(), digest_size=16
    ).hexdigest()


def kept_folder(folder: Path, make: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """What is known about the corpus in `folder`, which is made by `make` if it is not there or
    damaged.
    """
    try:
        about = None if damage(folder) else read_json(folder / "about.json", _ABOUT)
    except (OSError, InputError):
        about = None
    if about is not None:
        return about
    unusable: list[InputError] = []  # what is wrong with the text: no other folder would help

    def made(draft: Path) -> dict[str, Any]:
        try:
            return make(draft)
        except InputError as error:
            unusable.append(error)
            raise

    try:
        with sealed_folder(folder, any_folder=True) as draft:
            about = made(draft)
            write_json(draft / "about.json", about)
        return about
    except InputError as error:
        if error in unusable:
            raise
        raise InputError(f"{error} Name another folder with `cache`.") from None


def add_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """A file beside a corpus. A folder that cannot be written goes without: it is only a cache."""
    with suppress(InputError), whole_file(path) as file:
        write(file)


def _file_hash(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).digest()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}.") from None


def _stats(files: Sequence[Path]) -> tuple[tuple[str, int, int, int, int], ...]:
    try:
        facts = [(path.absolute(), path.stat()) for path in files]
    except OSError as error:
        raise InputError(f"cannot read {error.filename}: {error.strerror}.") from None
    return tuple(
        (str(path), stat.st_size, stat.st_dev, stat.st_ino, max(stat.st_mtime_ns, stat.st_ctime_ns))
        for path, stat in facts
    )
