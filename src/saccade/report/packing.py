"""Arrays as short text for a page: quantised, differenced over time, deflated, in base64.

| mode     | holds                                             | error                                  |
|----------|---------------------------------------------------|----------------------------------------|
| root8    | attention maps, in 254 steps of the square root   | 0.4 % of 1 at most, far less near 0    |
| linear16 | values of one order                               | 1/131,000 of the range                 |
| log16    | positive values of many orders                    | relative, 1/2,000 at most              |
| float32  | what fits neither, as single precision            | relative, 6e-8                         |
| float64  | what does not fit single precision                | none                                   |

Missing values have a code of their own. Bytes of equal weight stand together, since they deflate
better so. The page reads this back in `web/packed.js`.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Packed = dict[str, Any]

_CODES = 65534  # of sixteen bits, one being kept for what is missing
_MISSING = 65535
_LARGEST_SINGLE = 3e38
_SHADES = 254  # of eight bits, likewise
_MOST_DECADES = 14.0  # that sixteen bits can hold to a relative 1/2,000: ln(1e14) / 65,534
_OUTLIER = (
    1e4  # largest over median size above which sixteen bits of the range say nothing of the median
)


def packed(values: Any, time_axis: int | None = None, *, log: bool = False) -> Packed:
    """An array of numbers; differences are taken along `time_axis`. `log`: small values matter as
    much as large ones.
    """
    array = np.asarray(values, dtype=np.float64)
    mode = _mode(array, log)
    if mode.startswith("float"):
        return _wrapped(array.astype(mode), mode, None, {})
    scaled = np.log(array) if mode == "log16" else array
    lowest, highest = float(np.nanmin(scaled)), float(np.nanmax(scaled))
    highest = highest if highest > lowest else lowest + max(1.0, abs(lowest))
    share = np.nan_to_num((scaled - lowest) / (highest - lowest), nan=0.0)
    codes = np.where(np.isnan(scaled), _MISSING, np.round(share * _CODES)).astype(np.uint16)
    return _wrapped(codes, mode, time_axis, {"low": lowest, "high": highest})


def packed_times(times: Any) -> Packed:
    """Times exactly: what is saved beside a number must be the moment it was taken at. With whether
    they are spread over decades; of runs with clocks of their own, whether the first run is.
    """
    array = np.asarray(times, dtype=np.float64)
    return _wrapped(
        array, "float64", None, {"log": time_scale(array.reshape(-1, array.shape[-1])[0])}
    )


def time_scale(times: np.ndarray) -> bool | str:
    """Whether an axis for these times has powers of ten: if they are spread over decades, a quarter
    of them in the first tenth of the range, where even steps have a tenth. "zero" if step 0 comes
    before them, which then has a place of its own.
    """
    known = times[np.isfinite(times) & (times > 0)]
    if (
        known.size <= 3
        or known.max() / known.min() < 100
        or np.quantile(known, 0.25) >= 0.1 * known.max()
    ):
        return False
    return "zero" if known.min() >= 1 and bool((times == 0).any()) else True


def packed_map(weights: Any) -> Packed:
    """Weights in [0, 1] in a byte each: even steps of the square root, so that small weights are
    told from none.
    """
    array = np.asarray(weights, dtype=np.float32)
    shades = np.round(np.sqrt(np.clip(np.nan_to_num(array, nan=0.0), 0, 1)) * _SHADES).astype(
        np.uint8
    )
    shades[np.isnan(array)] = 255
    return _wrapped(shades, "root8", None, {})


def packed_text(text: str) -> Packed:
    return {"mode": "text", "data": _deflated(text.encode("utf-8"))}


def _mode(array: NDArray[np.float64], log: bool) -> str:
    known = array[np.isfinite(array)]
    if known.size == 0:
        return "float32"
    lowest, largest = float(known.min()), float(np.abs(known).max())
    if largest > _LARGEST_SINGLE:
        return "float64"
    if np.isinf(array).any():
        return "float32"
    if log and lowest > 0:
        return "log16" if np.log10(largest / lowest) <= _MOST_DECADES else "float32"
    sizes = np.abs(known[known != 0])
    median = float(np.median(sizes)) if sizes.size else 0.0
    is_even = (lowest >= 0 and largest <= 1) or largest <= _OUTLIER * median
    return "linear16" if is_even else "float32"


def _wrapped(codes: NDArray[Any], mode: str, axis: int | None, more: dict[str, Any]) -> Packed:
    if axis is not None:
        first = np.zeros_like(np.take(codes, [0], axis))
        codes = np.diff(
            codes, axis=axis, prepend=first
        )  # wraps around, as does the sum that undoes it
    planes = (
        np.ascontiguousarray(codes).reshape(-1).view(np.uint8).reshape(-1, codes.dtype.itemsize).T
    )
    return {
        "mode": mode,
        "shape": list(codes.shape),
        "axis": axis,
        "data": _deflated(planes.tobytes()),
        **more,
    }


def _deflated(raw: bytes) -> str:
    return base64.b64encode(zlib.compress(raw, 6)).decode("ascii")
