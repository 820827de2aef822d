"""What was observed of a training run, sample by sample: arrays of matching lengths, cut where a
run that diverged ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from saccade.errors import InputError
from saccade.measures import singular_values

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]
_AXES = {
    "attention_on_frequent": ("time", "query"),
    "embedding_singular_values": ("time", "rank"),
    "query_key_singular_values": ("time", "rank"),
    "query_singular_values": ("time", "rank"),
    "query_norm": ("time",),
    "common_attention": ("time", "class"),
    "distinct_attention": ("time", "class", "token"),
    "loss": ("time",),
}


_OWN_NAMES = {
    "embedding": ("parameter_embedding", "parameter_value"),
    "query_matrix": ("parameter_query",),
    "key_matrix": ("parameter_key",),
}


class Observables(NamedTuple):
    """Samples that are whole; None for what was not observed. `events.find_events` says what each
    is.
    """

    time: Array
    attention_on_frequent: Array | None
    embedding_singular_values: Array | None
    query_key_singular_values: Array | None
    query_singular_values: Array | None
    query_norm: Array | None
    common_attention: Array | None
    distinct_attention: Array | None
    loss: Array | None


def checked_observables(time: ArrayLike, **given: ArrayLike | None) -> Observables:
    """Arrays of numbers over one rising time, up to the last whole sample, or an error that says
    what does not fit.
    """
    at = _checked_time(time)
    series = {
        name: _array(name, values, _AXES[name])
        for name, values in given.items()
        if values is not None
    }
    if not set(series) - {"loss"}:
        needed = ", ".join(name for name in _AXES if name != "loss")
        raise InputError(
            f"There is nothing to find events in; pass some of {needed}, any trajectory, or the record of a run."
        )
    for name, values in series.items():
        if len(values) != len(at):
            raise InputError(
                f"`{name}` must have one sample for each of the {len(at)} times; got {len(values)}."
            )
    # Samples before the first that is not finite. After it there must be no finite one: a gap is
    # not an end.
    whole = np.logical_and.reduce(
        [np.isfinite(values).all(axis=tuple(range(1, values.ndim))) for values in series.values()]
    )
    n_whole = int(np.logical_and.accumulate(whole).sum())
    if whole[n_whole:].any():
        raise InputError(
            f"Sample {n_whole} (from 0) is not finite, but later ones are; leave out samples with gaps."
        )
    return Observables(
        at[:n_whole], *(series[name][:n_whole] if name in series else None for name in _AXES)
    )


def checked_trajectory(time: ArrayLike, name: str, values: ArrayLike) -> tuple[Array, Array]:
    """One trajectory (time, curve) over its time, samples that are not finite left out."""
    at = _checked_time(time)
    axes = ("time", "curve") if np.ndim(values) > 1 else ("time",)
    series = _array(name, values, axes)
    if len(series) != len(at):
        raise InputError(
            f"`{name}` must have one sample for each of the {len(at)} times; got {len(series)}."
        )
    series = series.reshape(len(at), -1)
    whole = np.isfinite(series).all(axis=1)
    return at[whole], series[whole]


def _checked_time(time: ArrayLike) -> Array:
    at = _array("time", time, ("time",))
    if not np.isfinite(at).all() or (np.diff(at) <= 0).any():
        raise InputError("`time` must be finite and increase from each sample to the next.")
    return at


def whole_samples(time: Array, given: Mapping[str, Any]) -> tuple[Array, dict[str, Any]]:
    """Samples at which all that is given is known, without curves that never are: a spectrum is
    filled up to a fixed length.
    """
    series = {
        name: np.asarray(values, np.float64) for name, values in given.items() if values is not None
    }
    for name, values in series.items():
        if values.ndim == 2 and len(values) == len(time):
            series[name] = values[:, np.isfinite(values).any(axis=0)]
    rows = [
        np.isfinite(values).reshape(len(values), -1).all(axis=1)
        for values in series.values()
        if len(values) == len(time)
    ]
    whole = (
        np.logical_and.reduce(rows)
        if len(rows) == len(series) and rows
        else np.ones(len(time), bool)
    )
    return time[whole], {name: values[whole] for name, values in series.items()} if len(
        rows
    ) == len(series) else dict(given)


def observables_of(record: xr.Dataset) -> dict[str, Array]:
    """What `checked_observables` can be given of one run's record: kept under that name, or found
    from what is kept.
    """
    run = record.isel(seed=0) if record.sizes.get("seed") == 1 else record
    others = [str(axis) for axis in ("seed", "rate") if axis in run.dims]
    if "time" not in run.coords or others:
        take = ", ".join(f"{axis}=0" for axis in others) or "..."
        raise InputError(f"Events are those of one run over `time`: take record.isel({take}).")
    # With the matrices of a system of the user's under the names of the built-in models: what its
    # parameters are called tells.
    known = {
        name: next((own for own in owns if own in run and run[own].ndim == 3), None)
        for name, owns in _OWN_NAMES.items()
    }
    run = run.assign(
        {name: run[own] for name, own in known.items() if own is not None and name not in run}
    )
    series = {name: run[name].transpose("time", ...).values for name in _AXES if name in run}
    found = {name: find(run) for name, (needed, find) in _FOUND.items() if set(needed) <= set(run)}
    if "attention" in run and ("stationary" in run or {"class_weight", "token_prob"} <= set(run)):
        further = [
            str(axis)
            for axis in run.attention.dims
            if axis not in ("time", "query", "class", "token")
        ]
        if further and run.attention.ndim > 3:
            choice = ", ".join(f"{axis}=0" for axis in further)
            raise InputError(
                f"Events are those of one head: `attention` also has the axes {', '.join(further)}; take record.isel({choice})."
            )
        law = (
            run.stationary.values
            if "stationary" in run
            else run.class_weight.values @ run.token_prob.values
        )
        weights = run.attention.transpose("time", ..., "token").values
        found["attention_on_frequent"] = weights[..., int(law.argmax())].reshape(len(weights), -1)
    if "attention" in run and "token_prob" in run and {"class", "token"} <= set(run.attention.dims):
        present = run.token_prob.transpose("class", "token").values > 0
        distinct = present & (present.sum(axis=0) == 1)
        attention = run.attention.transpose("time", "class", "token").values
        found |= {
            "common_attention": np.where(distinct, 0.0, attention).sum(axis=-1),
            "distinct_attention": np.where(distinct, attention, 0.0),
        }
    return found | series


def lacking_in(record: xr.Dataset, found: Mapping[str, Any]) -> str:
    """What a record would need for stages to be looked for, if it shows none but those of its loss;
    or for its attention to count, where it has some that cannot be read. Empty if all is well.
    """
    frequencies = (
        "`stationary`, or `token_prob` and `class_weight`, which `data()` of a system can give"
    )
    if "attention" in record and not {"attention_on_frequent", "common_attention"} & set(found):
        return (
            "`find_events` does not know which tokens are frequent, so it does not look for stages of attention: "
            f"the record needs {frequencies}."
        )
    if set(found) - {"loss"}:
        return ""
    return (
        "`find_events` searches only the loss, since the record has nothing else that it knows: `attention` (..., token) with "
        f"{frequencies}; or matrices called `embedding`, `query_matrix` and `key_matrix`. Other curves can be given by name."
    )


def _matrix(run: xr.Dataset, name: str) -> Array:
    return run[name].transpose("time", ...).values


_FOUND: dict[str, tuple[tuple[str, ...], Callable[[xr.Dataset], Array]]] = {
    "embedding_singular_values": (
        ("embedding",),
        lambda run: singular_values(_matrix(run, "embedding")),
    ),
    "query_key_singular_values": (
        ("query_matrix", "key_matrix"),
        lambda run: singular_values(
            _matrix(run, "query_matrix") @ np.swapaxes(_matrix(run, "key_matrix"), -1, -2)
        ),
    ),
    "query_singular_values": (
        ("query_matrix",),
        lambda run: singular_values(_matrix(run, "query_matrix")),
    ),
    "query_norm": (
        ("query_matrix",),
        lambda run: np.linalg.norm(_matrix(run, "query_matrix"), axis=(-2, -1)),
    ),
}


def _array(name: str, values: Any, axes: tuple[str, ...]) -> Array:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"`{name}` must be an array of numbers with axes ({', '.join(axes)})."
        ) from None
    if array.ndim != len(axes) or 0 in array.shape[1:]:
        raise InputError(
            f"`{name}` must have axes ({', '.join(axes)}); its shape is {array.shape}."
        )
    return array
