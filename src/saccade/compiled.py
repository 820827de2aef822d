"""C code that was built with the package, where there was a compiler (hatch_build.py)."""

from __future__ import annotations

import ctypes
import hashlib
import platform
from functools import cache
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


@cache
def compiled_code() -> str:
    """Which libraries are used here, and the instructions that they chose; both move last bits."""
    libraries = {}
    for source in sorted(Path(__file__).parent.rglob("*_kernel.c")):
        name = source.stem.removesuffix("_kernel")
        library = built_from(source, source.with_name(f"lib{name}.so"))
        if library is not None:
            libraries[name] = library
    instructions = platform.machine()
    if "flow" in libraries and instructions == "x86_64":  # all three choose by the same two flags
        instructions += " with AVX2" if libraries["flow"].saccade_flow_runs_here() else " basic"
    return f"{', '.join(libraries)} ({instructions})" if libraries else "not built"
