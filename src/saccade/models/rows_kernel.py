"""Sums of rows of a table by compiled C, in float32: for windows of a text, and for attention that
averages embeddings.

`rows_kernel.c` is built with the package where there is a C compiler. Without it NumPy and PyTorch
do the same in more time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from saccade.compiled import built_from

SOURCE, LIBRARY = (Path(__file__).with_name(name) for name in ("rows_kernel.c", "librows.so"))
_COUNTS = {
    "product": 2,
    "pairs": 2,
    "attend": 3,
    "attend_back": 3,
}  # whole numbers that come before the arrays
_ARRAYS = {"product": 5, "pairs": 9, "attend": 5, "attend_back": 8}


@cache
def compiled(name: str) -> Callable[..., None] | None:
    """A function of the library, which takes counts and then the places of arrays; None if it was
    not built.
    """
    library = built_from(SOURCE, LIBRARY)
    if library is None:
        return None
    function: Any = getattr(library, f"saccade_{name}")
    function.argtypes, function.restype = (
        [ctypes.c_int64] * _COUNTS[name] + [ctypes.c_void_p] * _ARRAYS[name],
        None,
    )
    return function
