"""What tests have compiled is kept for all processes of pytest-xdist and for the next run:
compiling is a third of their time.

JAX knows compiled code by the program, its own version and the options, so a program that has
changed is compiled anew.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import jax
from jax._src.lru_cache import LRUCache  # JAX has no public way to say how a file is written

KEPT = Path(__file__).parents[1] / ".pytest_cache" / "compiled"
_DAYS = 14  # that nothing has asked for a file


def keep_compiled_code(otherwise: str) -> None:
    """In another folder where that of the project cannot be written to."""
    folder = otherwise
    with suppress(OSError):
        KEPT.mkdir(parents=True, exist_ok=True)
        folder = str(KEPT) if os.access(KEPT, os.W_OK) else otherwise
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.03)
    LRUCache.put = _put  # type: ignore[method-assign]


def forget_old_code() -> None:
    for file in KEPT.glob("*") if KEPT.exists() else ():
        if time.time() - file.stat().st_atime > _DAYS * 86_400:
            file.unlink()


def _put(self: LRUCache, key: str, value: bytes) -> None:
    """Whole, or not at all: others may be reading."""
    place = Path(str(self.path)) / f"{key}-cache"
    draft = place.with_name(f".{key}-{os.getpid()}-{threading.get_ident()}")
    draft.write_bytes(value)
    draft.replace(place)
