"""The vertical axis of a figure: where it ends, and whether it is in powers of ten.

Bars and heat maps have one axis for all runs and moments. Lines are fitted to the run that is shown, by the same rule here and in
`web/stills.js`: runs differ by orders, and one axis for all of them would hide most. Probabilities always have [0, 1].
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_UNBOUNDED = ("logit", "growth", "loss", "norm")  # words for sizes that are no share, even where they happen to stay below 1
_DECADE, _DECADES = 10.0, 1e3  # largest over smallest: of one run on an axis of powers of ten; of all runs, to choose such an axis
_NARROWEST = 0.1  # of an axis against its largest number: labels have three digits, and rounding must not look like movement


def scale_of(values: np.ndarray, name: str, unit: str) -> dict[str, Any]:
    """The vertical axis over all runs: probabilities on [0, 1], positive values of many orders in powers of ten."""
    known = values[np.isfinite(values)]
    axis: dict[str, Any] = {"label": name.replace("_", " ") + (f" [{unit}]" if unit not in ("", "1") else "")}
    is_share = "attention" in name or "mass" in name or "share" in name or bool((known > 0.2).any())
    if is_share and ((known >= 0) & (known <= 1)).all() and not any(word in name for word in _UNBOUNDED):
        return axis | {"min": 0.0, "max": 1.0, "fixed": True}
    return axis | _limits(known, _DECADES)


def fitted(axis: dict[str, Any], values: np.ndarray) -> dict[str, Any]:
    """The axis of one run's lines; probabilities keep theirs."""
    if axis.get("fixed"):
        return axis
    return {"label": axis["label"]} | _limits(values[np.isfinite(values)], _DECADE if axis.get("log") else math.inf)


def _limits(known: np.ndarray, decades: float) -> dict[str, Any]:
    """Ends of an axis: in powers of ten if the numbers spread so far, else with zero if that is near, and never very narrow."""
    if known.size == 0:
        return {"min": 0.0, "max": 1.0}
    low, high = float(known.min()), float(known.max())
    if low > 0 and high / low > decades:
        return {"min": low, "max": high, "log": True}
    start = 0.0 if 0 < low < 0.5 * high else low
    room = max(0.0, (_NARROWEST * max(abs(low), abs(high)) or 1.0) - (high - start)) / 2
    return {"min": start - room, "max": high + room}
