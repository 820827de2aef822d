"""What the pages of a Parquet file unpack to, from the head of each page: PyArrow believes these,
whatever the footer says.

A head is a struct of Thrift's compact protocol. Only its numbers of 32 bits are read and all else
is skipped; a list, which no head has, is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

_UNPACKED, _PACKED = 2, 3  # fields of a page's head: bytes of the page
_INT32, _NUMBERS, _BYTES, _STRUCT = (
    5,
    (4, 5, 6),
    8,
    12,
)  # types; PyArrow takes a size of the first only, and skips another
_SIZES = {1: 0, 2: 0, 3: 1, 7: 8}  # of other types, in bytes: true, false, a byte, a double


def unpacked_size(path: Path, chunk: Any) -> int:
    """Bytes of all pages of a column chunk, given by its metadata; a `ValueError` if they cannot be
    followed.
    """
    begins = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < (chunk.dictionary_page_offset or 0) < begins:
        begins = chunk.dictionary_page_offset
    total = 0
    with path.open("rb") as file:
        try:
            file.seek(begins)
            while file.tell() < begins + chunk.total_compressed_size:
                head = _numbers(file)
                if not all(0 <= head[size] < 2**31 for size in (_UNPACKED, _PACKED)):
                    raise OverflowError
                total += head[_UNPACKED]
                file.seek(head[_PACKED], 1)
        except (IndexError, KeyError, OSError, OverflowError, RecursionError):
            raise ValueError("its pages cannot be followed") from None
    return total


def _numbers(file: BinaryIO) -> dict[int, int]:
    """The numbers of a struct, by field."""
    found: dict[int, int] = {}
    field = 0
    while head := file.read(1)[0]:
        field = field + (head >> 4) if head >> 4 else _signed(file)
        if head & 15 == _INT32:
            found[field] = _signed(file)
        else:
            kind = head & 15
            if kind == _STRUCT:
                _numbers(file)
            elif kind in _NUMBERS:
                _number(file)
            else:
                file.seek(_number(file) if kind == _BYTES else _SIZES[kind], 1)
    return found


def _signed(file: BinaryIO) -> int:
    number = _number(file)
    return number >> 1 ^ -(number & 1)


def _number(file: BinaryIO) -> int:
    """Seven bits in each byte, the lowest first; the last has no eighth."""
    number = shift = 0
    while True:
        byte = file.read(1)[0]
        number |= (byte & 127) << shift
        if byte < 128:
            return number
        shift += 7
        if shift > 63:
            raise OverflowError
