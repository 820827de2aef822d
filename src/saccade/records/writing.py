"""Everything Saccade writes appears whole or not at all: made under a random name beside its place,
flushed to disk, then renamed.

What is replaced is a regular file, or a folder in which Saccade has listed every file; links,
devices and pipes are refused. A draft is locked by its writer for as long as that lives, so the
draft of a killed process can be told from one under way. It is removed by the next process that
writes there, or looks at all that is there.
"""

from __future__ import annotations

import contextlib
import csv
import ctypes
import errno
import fcntl
import io
import itertools
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from saccade.errors import InputError

CHECKSUMS = "checksums.json"
_DRAFT = re.compile(r"\.(.+)\.[0-9a-f]{16}\.(unfinished|replaced)", re.DOTALL)
_FLUSHERS = 8  # files flushed at once: the disk then needs one wait for many of them (300 small files: 0.04 s against 1 s)
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to; it takes the place of `path` when the block ends, and leaves nothing if
    the block fails.
    """
    with _in_a_sentence(f"cannot write {path}"):
        _check_file(path)
        _clear_drafts_once(path.parent)
        draft, descriptor = _new_draft(path, _new_file)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(descriptor)
                _check_file(path)  # again: it may have changed meanwhile
                os.replace(draft, path)
            flush(path.parent)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise


@contextmanager
def whole_folder(path: Path, strange: Callable[[Path], str] = lambda folder: "") -> Iterator[Path]:
    """A folder to write in; it takes the place of `path` when the block ends, and leaves nothing if
    the block fails.

    `strange` names a file for which a folder that is there must stay; nothing, if it may be
    replaced.
    """
    with _in_a_sentence(f"cannot write to {path}"):
        _check_folder(path, strange)
        make_folder(path.parent)
        clear_drafts(path.parent)
        draft, descriptor = _new_draft(path, _new_folder)
        replaced = None
        try:
            yield draft
            with ThreadPoolExecutor(_FLUSHERS) as pool:
                list(pool.map(flush, [*below(draft), draft]))
            _check_folder(path, strange)
            with _locked(path):  # so that nobody clears it away under the draft's name
                replaced = _move_into_place(draft, path)
                if replaced is not None and strange(
                    replaced
                ):  # it came after the check: back with it
                    replaced = _move_into_place(replaced, path)
                    _check_folder(path, strange)
            flush(path.parent)
        finally:
            for left in filter(None, (draft, replaced)):
                remove_folder(left)
            os.close(descriptor)


@contextmanager
def draft_file(draft: Path, name: str) -> Iterator[BinaryIO]:
    """A file to write to in a folder that is not yet in its place; both come there whole, or
    neither.
    """
    path = draft / name
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(
        path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666
    )
    with os.fdopen(descriptor, "wb") as file:
        yield file


def add_file(draft: Path, name: str, held: bytes | memoryview) -> None:
    with draft_file(draft, name) as file:
        file.write(held)


def write_text(path: Path, text: str) -> None:
    with whole_file(path) as file:
        file.write(as_bytes(text))


def write_named(path: Path, text: str, *endings: str) -> None:
    """A file that the user names; never over one of another kind, as its name tells."""
    if path.is_file() and path.suffix.lower() not in endings:
        raise InputError(
            f"{path} exists, and its name says that it is another kind of file; choose one that ends in {endings[0]}."
        )
    write_text(path, text)


def write_html(path: Path, text: str) -> None:
    write_named(path, text, ".html", ".htm")


def as_bytes(text: str) -> bytes:
    """UTF-8. What has no letter, such as a byte of a file's name that is not UTF-8, is written as
    JSON and Python write it.
    """
    return text.encode("utf-8", "backslashreplace")


def write_csv(
    path: Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None
) -> None:
    """A table with a header; its columns are those of the first row unless they are named."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(*rows[:1]) if columns is None else columns)
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


def set_aside(path: Path, name: str) -> None:
    """Give a file another name in its folder, one that nothing there has, so that it is out of the
    way but not lost.
    """
    names = (
        path.with_name(f"{name}{f'.{number}' if number else ''}") for number in itertools.count()
    )
    os.replace(path, next(free for free in names if not kind(free)))


def make_folder(path: Path) -> None:
    """A folder with those above it, each flushed into the one that holds it."""
    missing = list(itertools.takewhile(lambda folder: not folder.exists(), (path, *path.parents)))
    for folder in reversed(missing):  # not `parents=True`, which calls itself for each
        folder.mkdir(exist_ok=True)
        flush(folder.parent)
    path.mkdir(exist_ok=True)  # an error, if it is a file


def clear_drafts(folder: Path) -> None:
    """Remove what killed processes left in a folder; what they had only moved out of the way is put
    back.
    """
    for draft in list(folder.iterdir()):
        found = _DRAFT.fullmatch(draft.name)
        if found and (lock := lock_of(draft)) is not None:
            place = folder / found[1]
            with contextlib.suppress(OSError):  # what another user left in a folder that is shared
                if found[2] == "replaced" and not place.exists():
                    os.replace(draft, place)
                elif draft.is_dir():
                    remove_folder(draft)
                else:
                    draft.unlink(missing_ok=True)
            os.close(lock)


@cache
def _clear_drafts_once(folder: Path) -> None:
    """By each process, however many files it writes there."""
    with contextlib.suppress(OSError):  # a folder may be written to by those who may not list it
        clear_drafts(folder)


def below(folder: Path, unread: list[str] | None = None) -> Iterator[Path]:
    """All files and folders in a tree, links not followed; `rglob` ends in a RecursionError where
    folders lie deep.

    A folder that cannot be listed is an `OSError`; where there is a list `unread`, a sentence in
    it.
    """
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                found = [
                    (Path(entry.path), entry.is_dir(follow_symlinks=False)) for entry in entries
                ]
        except (FileNotFoundError, NotADirectoryError):  # it is gone, or was never there
            continue
        except OSError as error:
            if unread is None:
                raise
            unread.append(f"{here} cannot be read: {error.strerror or error}")
            continue
        yield from (path for path, _ in found)
        waiting += [path for path, is_folder in found if is_folder]


def remove_folder(folder: Path) -> None:
    """As far as that is allowed, and also where folders lie so deep that Python's own way ends in a
    RecursionError.
    """
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    for path in (*reversed([*below(folder, [])]), folder):
        with contextlib.suppress(OSError):
            path.rmdir() if kind(path) == "folder" else path.unlink()


def recover(folder: Path) -> list[str]:
    """The same anywhere below a folder, so that what a killed process had moved out of the way is
    there to be read.

    What is below it and cannot be listed, in sentences.
    """
    unread: list[str] = []
    for place in {draft.parent for draft in below(folder, unread) if _DRAFT.fullmatch(draft.name)}:
        with contextlib.suppress(OSError):  # those who may only read
            clear_drafts(place)
    return unread


@contextmanager
def _in_a_sentence(what: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # of what is printed meanwhile: nothing is wrong with the file
        raise
    except OSError as error:
        raise InputError(f"{what}: {error.strerror or error}.") from None


def _check_name(path: Path) -> None:
    """A name that can also be printed and written into a page: UTF-8, without a null."""
    if "\0" in str(path) or any("\ud800" <= letter <= "\udfff" for letter in str(path)):
        raise InputError(f"cannot write to {str(path)!r}: it is not the name of a file or folder.")


def _check_file(path: Path) -> None:
    _check_name(path)
    there = "folder" if not path.name else kind(path)
    if there == "folder":
        raise InputError(f"cannot write {path}: it is a folder; name a file in it.")
    if there not in ("", "file"):
        raise InputError(
            f"cannot write {path}: it is a {there}, and only regular files are replaced; name another file."
        )


def _check_folder(path: Path, strange: Callable[[Path], str]) -> None:
    _check_name(path)
    if not path.name:
        raise InputError(f"cannot write to {str(path)!r}: it is not the name of a new folder.")
    there = kind(path)
    if there not in ("", "folder"):
        raise InputError(f"cannot write to {path}: it is a {there}; name a new folder.")
    if there and (name := strange(path)):
        raise InputError(
            f"cannot write to {path}: it holds files that Saccade did not write or no longer knows ({name}); "
            "move them away, or name a new folder."
        )


_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "folder",
    stat.S_IFLNK: "symbolic link",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
}


def kind(path: Path) -> str:
    """What is there, not following a link; nothing if nothing is."""
    try:
        return _KINDS.get(stat.S_IFMT(path.lstat().st_mode), "device")
    except FileNotFoundError:
        return ""


def _new_draft(path: Path, make: Callable[[Path], int | None]) -> tuple[Path, int]:
    """A locked draft of `path`. One that another writer took for a leftover before it was locked is
    made again.
    """
    while True:
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.unfinished")
        if (descriptor := make(draft)) is None:
            continue
        with contextlib.suppress(
            OSError
        ):  # a file system without locks: nothing is then taken for a leftover either
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if draft.exists():
            return draft, descriptor
        os.close(descriptor)


def _new_file(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)


def _new_folder(path: Path) -> int | None:
    """None if another writer took the folder for a leftover and removed it before it could be
    opened.
    """
    path.mkdir()
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None


def lock_of(path: Path) -> int | None:
    """A descriptor that holds the lock of a draft, or of what is to be moved; None while its writer
    lives, or if it is gone.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor
    except OSError:
        os.close(descriptor)
        return None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = lock_of(path)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def flush(path: Path) -> None:
    """A file or folder to disk. Folders that may not be listed, and systems that flush no folders,
    must do without.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


def _move_into_place(draft: Path, path: Path) -> Path | None:
    """The draft under its proper name. Where the folder that was there is now: under the draft's
    name or as `replaced`.
    """
    try:
        os.replace(draft, path)
        return None
    except OSError:
        if not path.is_dir():
            raise
    if _exchanged(draft, path):
        return draft
    replaced = draft.with_suffix(".replaced")
    os.replace(path, replaced)
    try:
        os.replace(draft, path)
    except BaseException:
        os.replace(replaced, path)
        raise
    return replaced


def _exchanged(one: Path, other: Path) -> bool:
    """Whether both names changed places, in one step; not every system can."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    return (
        rename is not None
        and rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0
    )
