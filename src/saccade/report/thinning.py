"""Keeping figures small: long axes are cut to what can be seen, and the caption says so."""

from __future__ import annotations

from typing import Any

import numpy as np

Figure = dict[str, Any]

MOST_LABELS = 60  # bars or columns that are legible at the width of a page
MOST_VALUES = 1_500_000  # of one figure: 3 MB before they are deflated, a third of what a page may weigh


def largest_labels(figure: Figure) -> Figure:
    """Of more than `MOST_LABELS` along the last axis, those that are ever largest in the mean; the rest added up."""
    names, values = figure["names"], figure["values"]
    if len(names[1]) <= MOST_LABELS:
        return figure
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.nan_to_num(np.abs(values), nan=0.0, posinf=0.0).reshape(-1, values.shape[-1]).max(axis=0)
    kept = np.sort(np.argsort(-size, kind="stable")[:MOST_LABELS])
    others = np.setdiff1d(np.arange(values.shape[-1]), kept)
    note = f"The {MOST_LABELS} largest of {len(names[1])} along {figure['axes'][-1]}; the others are in the record."
    if _is_share(values):
        added = np.nansum(values[..., others], axis=-1, keepdims=True)
        note = f"The {MOST_LABELS} largest of {len(names[1])} along {figure['axes'][-1]}; the others are added up."
        cut, labels = np.concatenate([values[..., kept], added], axis=-1), [*(names[1][at] for at in kept), f"{len(others)} others"]
    else:
        cut, labels = values[..., kept], [names[1][at] for at in kept]
    return figure | {"values": cut, "names": [names[0], labels], "caption": _with(figure["caption"], note)}


def thinned_times(figure: Figure) -> Figure:
    """Fewer moments, the first and the last among them, where all would be more than `MOST_VALUES`."""
    values, axis = figure["values"], len(figure["choices"])
    n_times = values.shape[axis]
    most = max(2, MOST_VALUES * n_times // max(1, values.size))
    if n_times <= most:
        return figure
    kept = np.unique(np.linspace(0, n_times - 1, most).round().astype(int))
    note = f"{len(kept)} of {n_times} moments; all are in the record."
    times = np.take(figure["time"], kept, axis=-1)
    return figure | {"values": np.take(values, kept, axis), "time": times, "caption": _with(figure["caption"], note)}


def _is_share(values: np.ndarray) -> bool:
    """Whether values along the last axis are parts of one."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.nansum(values, axis=-1)
        return bool(np.nanmin(values) >= 0 and (np.abs(total - 1) < 1e-3).all())


def _with(caption: str, note: str) -> str:
    return f"{caption.rstrip('.')}. {note}" if caption else note
