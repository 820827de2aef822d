"""C code that was built with the package, where there was a compiler (hatch_build.py)."""

from __future__ import annotations

import ctypes
import hashlib
from pathlib import Path


def built_from(source: Path, library: Path) -> ctypes.CDLL | None:
    """The library, from the package's own folder and nowhere else; None if it was not built, or
    from another source.
    """
    try:
        found = ctypes.CDLL(str(library))
        found.saccade_source.restype = ctypes.c_char_p
        made_from = found.saccade_source().decode()
    except (OSError, AttributeError):
        return None
    return found if made_from == hashlib.sha256(source.read_bytes()).hexdigest() else None
