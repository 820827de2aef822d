"""What a page reads from packed numbers: `report/web/packed.js`, in Python."""

from __future__ import annotations

import base64
import zlib

import numpy as np

from saccade.report.packing import _CODES, _MISSING, _SHADES


def unpacked(pack):
    """The array that a page would show."""
    raw = zlib.decompress(base64.b64decode(pack["data"]))
    shape, mode = tuple(pack["shape"]), pack["mode"]
    kinds = {
        "root8": np.uint8,
        "linear16": np.uint16,
        "log16": np.uint16,
        "float32": np.float32,
        "float64": np.float64,
    }
    size = np.dtype(kinds[mode]).itemsize
    codes = np.frombuffer(raw, np.uint8).reshape(size, -1).T.copy().view(kinds[mode]).reshape(shape)
    if mode.startswith("float"):
        return codes.astype(np.float64)
    if mode == "root8":
        return np.where(codes == 255, np.nan, (codes / _SHADES) ** 2)
    if pack["axis"] is not None:
        codes = np.cumsum(codes, axis=pack["axis"], dtype=np.uint16)
    values = pack["low"] + (pack["high"] - pack["low"]) * (codes / _CODES)
    return np.where(codes == _MISSING, np.nan, np.exp(values) if mode == "log16" else values)
