"""Numbers that say what came of a run, each under a name: what a map over settings shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def by_cell(measured: Mapping[str, Any], axes: Mapping[str, Any]) -> dict[str, float]:
    """Means over seeds, the last axis, of every measure; runs that diverged, NaN, are left out.

    One number for each cell of the other axes (name -> labels). An axis of several labels is named beside the measure, as in
    "loss, ratio 10"; one with a single label goes without saying.
    """
    found = {}
    for name, values in measured.items():
        for place, mean in np.ndenumerate(_known_mean(np.asarray(values, float))):
            cell = [_said(axis, labels[i]) for (axis, labels), i in zip(axes.items(), place, strict=True) if len(labels) > 1]
            found[", ".join([name, *cell])] = float(mean)
    return found


def _known_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Over the last axis; NaN where nothing is known."""
    known = ~np.isnan(values)
    count = known.sum(axis=-1)
    return np.where(count > 0, np.where(known, values, 0.0).sum(axis=-1) / np.maximum(count, 1), np.nan)


def _said(axis: str, label: Any) -> str:
    return f"{axis} {label}" if isinstance(label, str) else f"{axis} {label:g}"
