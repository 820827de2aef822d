"""How large a file may become when it is read: a small one that unpacks to gigabytes is refused
before it is unpacked.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

from saccade.errors import InputError

_ANY = 2**28  # bytes that any file may become: a quarter of a gigabyte
RATIO = 16  # and so many times its own size: numbers and text are seldom packed tighter


def check_expansion(name: object, n_bytes: int, n_stored: int) -> None:
    """Refuse what takes `n_stored` bytes on disk and claims to be `n_bytes`."""
    if n_bytes > _ANY + RATIO * n_stored:
        raise InputError(
            f"{name} was refused: it has {n_stored:,} bytes, but would take {n_bytes:,} in memory."
        )


def check_archive(name: object, path: Path) -> None:
    """Refuse a zip archive that claims to unpack to too much; no more of a member is read than it
    claims.

    One whose list of members cannot be read, for whatever reason, is a `BadZipFile`.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            n_bytes = sum(member.file_size for member in archive.infolist())
    except (
        NotImplementedError,
        ValueError,
    ) as error:  # a flipped bit may ask for other versions, or be no letter of a name
        raise zipfile.BadZipFile(str(error)) from None
    check_expansion(name, n_bytes, path.stat().st_size)
