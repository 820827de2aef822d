"""Where a user's files are: paths with `~` in them, and the cache folder. Some users have no home,
as in `docker run -u`.
"""

from __future__ import annotations

import os
from pathlib import Path

from saccade.errors import InputError


def user_path(path: str | os.PathLike[str]) -> Path:
    """A path with `~` and `~name` as the shell has them."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise InputError(
            f"{os.fspath(path)!r} cannot be found: there is no such home folder; write the whole path."
        ) from None


def user_cache(name: str) -> Path | None:
    """`saccade/NAME` in `$XDG_CACHE_HOME`, by default `~/.cache`, for this user alone (mode 0700),
    since what lies there, compiled code say, is believed when it is read; None where that cannot be
    had.
    """
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "saccade" / name
        folder.parent.parent.mkdir(parents=True, exist_ok=True)
        for own in (folder.parent, folder):
            own.mkdir(mode=0o700, exist_ok=True)
            if {own.lstat().st_uid, own.stat().st_uid} != {
                os.getuid()
            }:  # who owns a folder, or a link to it, can exchange it
                return None
            own.chmod(0o700)
    except (
        OSError,
        RuntimeError,
        ValueError,
    ):  # RuntimeError: a user without a home; ValueError: no name of a folder
        return None
    return folder
