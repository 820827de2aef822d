"""Where a user's files lie: paths with `~` in them, and the folder for caches. Some users have no home, as in `docker run -u`."""

from __future__ import annotations

import os
from pathlib import Path

from saccade.errors import InputError


def user_path(path: str | os.PathLike[str]) -> Path:
    """A path with `~` and `~name` as the shell has them."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise InputError(f"{os.fspath(path)!r} cannot be found: there is no such home folder; write the whole path.") from None


def cache_home() -> Path | None:
    """The user's folder for caches of Saccade; None if the user has no home."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "saccade"
    except RuntimeError:
        return None
