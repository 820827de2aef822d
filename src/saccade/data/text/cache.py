"""Corpora kept on disk: a folder each, named by a hash of the text and of how it was tokenised.

A folder is written under another name and renamed when it is whole, so a folder with its proper name is whole, and of two
processes that make the same corpus at once the first wins and both read the same. Files are checked when read: sizes, and a
checksum of up to 64 evenly spread megabytes (all of a file no larger). A damaged folder is made anew.

The text is hashed once: where size, time of change and inode of all files are as before, its hash is taken from a note.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from saccade.errors import InputError, shortened

_CHECKED = 64  # megabytes of a file that its checksum covers
_YOUNG = 2e9  # nanoseconds: a file changed so recently may change again within one tick of its clock, so it is not noted
_temporary: tempfile.TemporaryDirectory[str] | None = None


def cache_folder(cache: str | os.PathLike[str] | None) -> Path:
    """Where corpora are kept: the folder given, else the user's own, else one that goes when the process ends."""
    global _temporary
    if cache is not None and not isinstance(cache, str | os.PathLike):
        raise InputError(f"`cache` must be a folder; got {shortened(cache)}.")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "saccade" / "corpora"
    folder = home if cache is None else Path(cache).expanduser()
    try:
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
        known = json.loads(note.read_text())
        return str(known["hash"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    total = hashlib.blake2b(digest_size=16)
    for path in files:
        total.update(_file_hash(path))
    if _stats(files) != stats:
        raise InputError(f"{files[0]} is being changed while it is read; try again when it is done.")
    if all(time.time_ns() - changed > _YOUNG for *_, changed in stats):
        _note(note, {"hash": total.hexdigest()})
    return total.hexdigest()


def corpus_key(content: str, settings: dict[str, Any]) -> str:
    return _digest([content, settings])


def kept_folder(folder: Path, make: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """What is known about the corpus in `folder`, which is made by `make` if it is not there or damaged."""
    about = _read_about(folder)
    if about is not None:
        return about
    try:
        return _made(folder, make)
    except OSError as error:
        raise InputError(
            f"cannot keep the corpus in {folder.parent}: {error.strerror or error}. Name another folder with `cache`."
        ) from None


def add_file(path: Path, write: Callable[[Path], object]) -> None:
    """A file that is there as a whole or not at all. A folder that cannot be written goes without: it is only a cache."""
    draft = path.with_name(f".{path.stem}.{os.getpid()}.{time.monotonic_ns()}{path.suffix}")
    try:
        write(draft)
        os.replace(draft, path)
    except OSError:
        draft.unlink(missing_ok=True)


def _made(folder: Path, make: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        about = make(draft)
        about["files"] = {path.name: [path.stat().st_size, _checksum(path)] for path in sorted(draft.iterdir())}
        (draft / "about.json").write_text(json.dumps(about), encoding="utf-8")
        return _moved(draft, folder) or about
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _moved(draft: Path, folder: Path) -> dict[str, Any] | None:
    """The draft under its proper name; if another process was first, what it wrote."""
    for _ in range(3):
        try:
            os.rename(draft, folder)
            return None
        except OSError:
            if not folder.exists():
                raise
        theirs = _read_about(folder)
        if theirs is not None:
            return theirs
        _put_away(folder)
    raise OSError(f"{folder} is damaged and cannot be replaced")


def _put_away(folder: Path) -> None:
    aside = folder.with_name(f".{folder.name}.damaged.{os.getpid()}.{time.monotonic_ns()}")
    try:
        os.rename(folder, aside)
    except FileNotFoundError:  # another process was first
        return
    shutil.rmtree(aside, ignore_errors=True)


def _read_about(folder: Path) -> dict[str, Any] | None:
    """None if the folder is not there or not whole."""
    try:
        about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        whole = all([(folder / name).stat().st_size, _checksum(folder / name)] == facts for name, facts in about["files"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
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


def _note(path: Path, facts: dict[str, Any]) -> None:
    try:
        path.parent.mkdir(exist_ok=True)
    except OSError:
        return
    add_file(path, lambda draft: draft.write_text(json.dumps(facts)))


def _digest(facts: Any) -> str:
    return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16).hexdigest()
