"""Memory that is free but still held by the process, handed back to the system.

Blocks of weights of a few megabytes come and go between tensors that the model keeps, and the
allocator of glibc holds on to the holes: a hundred megabytes and more after some layers, beside the
model's own peak in its feed-forward layers. It gives them up when asked. Other systems' allocators
are left alone; memory of accelerators is PyTorch's own.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache


def give_back() -> None:
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    """`malloc_trim` of the C library, where it has one."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
