"""Folders that appear whole or not at all. They take the place only of a folder in which Saccade has listed every file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from saccade.errors import InputError
from saccade.records.checksums import stranger
from saccade.records.writing import (
    check_name,
    clear_drafts,
    flush,
    flush_all,
    in_a_sentence,
    kind,
    lock_of,
    make_folder,
    move_into_place,
    new_draft,
    new_folder,
)


@contextmanager
def whole_folder(path: Path, *, any_folder: bool = False) -> Iterator[Path]:
    """A folder to write in; it takes the place of `path` when the block ends, and leaves nothing if the block fails.

    `any_folder`: the name is Saccade's own, so that a folder there may be replaced whatever it holds.
    """
    with in_a_sentence(f"cannot write to {path}"):
        _check_folder(path, any_folder)
        make_folder(path.parent)
        clear_drafts(path.parent)
        draft, descriptor = new_draft(path, new_folder)
        replaced = None
        try:
            yield draft
            flush_all(draft)
            _check_folder(path, any_folder)
            with _locked(path):  # so that nobody clears it away under the draft's name
                replaced = move_into_place(draft, path)
                if replaced is not None and not any_folder and stranger(replaced):  # it came after the check: back with it
                    replaced = move_into_place(replaced, path)
                    _check_folder(path, any_folder)
            flush(path.parent)
        finally:
            for left in filter(None, (draft, replaced)):
                shutil.rmtree(left, ignore_errors=True)
            os.close(descriptor)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = lock_of(path)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _check_folder(path: Path, any_folder: bool) -> None:
    check_name(path)
    if not path.name:
        raise InputError(f"cannot write to {str(path)!r}: it is not the name of a new folder.")
    there = kind(path)
    if there not in ("", "folder"):
        raise InputError(f"cannot write to {path}: it is a {there}; name a new folder.")
    if there and not any_folder and (strange := stranger(path)):
        raise InputError(
            f"cannot write to {path}: it holds files that Saccade did not write or no longer knows ({strange}); "
            "move them away, or name a new folder."
        )
