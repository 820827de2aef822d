"""Attention between groups of tokens that the user names: reactants and product of a reaction, say,
or question and answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from saccade.errors import InputError, shortened

if TYPE_CHECKING:
    import xarray as xr

_VISIBLE = 1e-30  # weight above which a key counts as visible, as in `attention_statistics.py`


def attention_between(record: xr.Dataset, groups: Mapping[str, Any]) -> xr.Dataset:
    """How much each group of tokens attends to each other group, by head and over time, from the
    maps of a watched record.

    `groups`: positions, or a mask (key) or (sequence, key), by name; they may overlap. Variables
    (time, layer, head, of, on): `attention`, 0 = none of it, 1 = all of it, mean over the group's
    queries whose rows were kept; `uniform`, what uniform attention over the visible keys would
    give. A head that maps one group to another has attention far above uniform.
    """
    import xarray as xr

    if not hasattr(record, "data_vars") or "attention_map" not in record:
        raise InputError(
            "`record` must hold attention maps: that of a watched run, which keeps those of the sequences in `maps=`."
        )
    maps = record.attention_map.transpose("time", "sequence", "layer", "head", "map_query", "key")
    n_sequences, n_keys = maps.sizes["sequence"], maps.sizes["key"]
    if not isinstance(groups, Mapping) or not groups:
        raise InputError(
            f"`groups` must give positions or a mask for each name; got {shortened(groups)}."
        )
    members = np.stack(
        [_members(str(name), group, n_sequences, n_keys) for name, group in groups.items()]
    )  # group, sequence, key
    rows = (
        record.map_query.values
        if "map_query" in record.coords
        else np.arange(maps.sizes["map_query"])
    )
    if maps.sizes["map_query"] > 1 and rows.max(initial=0) >= n_keys:
        raise InputError(
            "queries and keys of these maps are not the same tokens, so groups cannot be defined for both."
        )
    asking = members[:, :, rows]  # group, sequence, map_query
    for name, found in zip(groups, asking, strict=True):
        if not found.any():
            raise InputError(
                f"no row of the maps that were kept belongs to a token of `{name}`; texts up to 128 tokens keep all."
            )
    shape = (maps.sizes["time"], maps.sizes["layer"], maps.sizes["head"], len(groups), len(groups))
    attention, uniform = np.empty(shape), np.empty(shape)
    for time in range(shape[0]):  # one map after the other: all of them may be larger than memory
        now = maps[time].values.astype(np.float64)
        visible = now > _VISIBLE
        even = visible / np.maximum(visible.sum(axis=-1, keepdims=True), 1)
        for values, result in ((now, attention), (even, uniform)):
            values = np.where(
                visible.any(axis=-1, keepdims=True), np.nan_to_num(values), np.nan
            )  # rows of padding do not count
            on = np.einsum("slhqk,gsk->slhqg", values, members)
            result[time] = np.stack([_mean(on, of) for of in asking], axis=2)
    axes, names = ("time", "layer", "head", "of", "on"), [str(name) for name in groups]
    coords = {name: record.coords[name] for name in ("time", "layer") if name in record.coords} | {
        "of": names,
        "on": names,
    }
    return xr.Dataset({"attention": (axes, attention), "uniform": (axes, uniform)}, coords=coords)


def _mean(on: NDArray, of: NDArray[np.bool_]) -> NDArray:
    """Over queries of a group (sequence, map_query) that are no padding: (layer, head, group)."""
    counted = of[:, None, None, :, None] & np.isfinite(on)
    number = counted.sum(axis=(0, 3))
    return np.where(
        number > 0, np.where(counted, on, 0).sum(axis=(0, 3)) / np.maximum(number, 1), np.nan
    )


def _members(name: str, group: Any, n_sequences: int, n_keys: int) -> NDArray[np.bool_]:
    """(sequence, key)"""
    try:
        given = np.asarray(group)
        if given.dtype == bool and given.shape in ((n_keys,), (n_sequences, n_keys)):
            return np.broadcast_to(given, (n_sequences, n_keys))
        if (
            given.ndim == 1
            and given.dtype.kind in "iu"
            and given.size
            and given.min() >= 0
            and given.max() < n_keys
        ):
            return np.broadcast_to(np.isin(np.arange(n_keys), given), (n_sequences, n_keys))
    except (TypeError, ValueError):
        pass
    raise InputError(
        f"`groups[{name!r}]` must be positions from 0 to {n_keys - 1}, or a mask of {n_keys} keys, perhaps for each of "
        f"{n_sequences} sequences; got {shortened(group)}."
    )
