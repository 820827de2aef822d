"""Figures of a watched model: every head at a glance, what heads look for, when they froze, how
many directions weights use.

A record is that of a watched model if it has relative entropies by layer and head. Everything here
is a figure as in `specs.py`; `heads` is a heat map of every statistic, each with a scale of its
own. Text is made in `maps.py`.
"""

from __future__ import annotations

import numpy as np

from saccade.later import xr
from saccade.measures.layer_names import short_names
from saccade.measures.timeline import FROZEN, freezing_steps
from saccade.records.step_losses import step_losses
from saccade.report.packing import time_scale
from saccade.report.specs import Figure, figure_of, labels_of, scale_of, sentence

_LEAST_FOCUS = 2.0**-6  # of a decile that is hardly ever attended to, so that it has a logarithm

_FIRST = (
    "relative_entropy",
    "sink_mass",
    "previous_mass",
    "self_mass",
    "top_mass",
    "distinct_mass",
    "common_mass",
    "moved",
)
_EMBEDDINGS = ("embedding_singular_values", "unembedding_singular_values")
_STRETCHES = 400  # of the axis of a loss: one or two pixels each
_RANKS = ("qk_effective_rank", "ov_effective_rank")


def watched_figures(record: xr.Dataset) -> list[Figure]:
    """Every figure that the record has the numbers for; none that would show nothing but zeros."""
    found = [
        heads(record),
        _entropy(record),
        _losses(record),
        _deciles(record),
        _masses(record),
        frozen(record),
    ]
    found += [_by_layer(record, name) for name in _RANKS]
    found += [_some_times(record, name) for name in ("sink_share", *_EMBEDDINGS)]
    shown = [
        figure
        for figure in found
        if figure is not None and (np.nan_to_num(figure["values"]) != 0).any()
    ]
    one, other = (
        next((figure for figure in shown if figure["name"] == name), None) for name in _EMBEDDINGS
    )
    if (
        one is None
        or other is None
        or not np.array_equal(one["values"], other["values"], equal_nan=True)
    ):
        return shown
    tied = one | {"title": f"{one['title']} (tied with the unembedding)"}
    return [tied if figure is one else figure for figure in shown if figure is not other]


def heads(record: xr.Dataset) -> Figure:
    """All statistics of all heads at all times, for small multiples."""
    kept = {
        str(name): variable
        for name, variable in record.data_vars.items()
        if variable.dims == ("time", "layer", "head")
    }
    names = [
        name for name, variable in kept.items() if (np.nan_to_num(variable.values) != 0).any()
    ] or list(kept)
    names.sort(key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))
    statistics = []
    for name in names:
        scale = scale_of(record[name].values.astype(np.float64), name, "")
        statistics.append(
            {
                "name": name,
                "title": name.replace("_", " "),
                "caption": sentence(str(record[name].attrs.get("definition", ""))),
                "min": scale["min"],
                "max": scale["max"],
            }
        )
    return _about(record, "heads", "Heads") | {
        "kind": "heads",
        "caption": "Each cell is a head, its curve the statistic over time, its colour the value at this step.",
        "statistics": statistics,
        "choices": [{"axis": "statistic", "labels": names}],
        "names": [layer_names(record, "layer"), labels_of(record, "head")],
        "axes": ["layer", "head"],
        "values": np.stack([record[name].values.astype(np.float64) for name in names]),
        "y": {"label": "", "min": 0.0, "max": 1.0},
    }


def frozen(record: xr.Dataset) -> Figure | None:
    """The step from which each head's maps moved less than `FROZEN`; missing where they still do;
    None if all do.
    """
    if "moved" not in record:
        return None
    when, times = freezing_steps(record), record.time.values.astype(np.float64)
    if not np.isfinite(when).any():
        return None
    caption = (
        f"{np.isfinite(when).sum()} of {when.size} heads are frozen at the end: from the step shown, as a power of ten, their maps "
        f"moved less than {FROZEN:g} while the step doubled. Open: still moving, or not yet begun."
    )
    power = np.log10(np.maximum(when, 1.0))
    scale = {"label": "power of ten", "min": 0.0, "max": float(np.log10(max(times.max(), 10.0)))}
    names = [layer_names(record, "layer"), labels_of(record, "head")]
    shown = {
        "kind": "heat",
        "caption": caption,
        "axes": ["layer", "head"],
        "names": names,
        "y": scale,
        "unit": "log10 step",
    }
    return (
        _about(record, "frozen", "When heads froze")
        | shown
        | {"values": power[None], "time": times[-1:]}
    )


def layer_names(record: xr.Dataset, axis: str) -> list[str]:
    """Names of modules without what all of them share: `transformer.h.3.attn` -> `layer 3`."""
    return short_names(labels_of(record, axis))


def _about(record: xr.Dataset, name: str, title: str) -> Figure:
    times = record.time.values.astype(np.float64)
    unit = str(record.time.attrs.get("units", ""))
    return {
        "name": name,
        "title": title,
        "choices": [],
        "unit": "1",
        "time": times,
        "time_label": f"step, {unit}" if unit else "step",
    }


def _losses(record: xr.Dataset) -> Figure | None:
    """The loss of every step; of a long run, real losses that show how far it goes up and down."""
    every = (
        step_losses(record)
        if {"step_loss", "later_loss"} & set(record.data_vars)
        else xr.DataArray([], dims="step")
    )
    if every.size == 0:
        return _some_times(record, "loss")
    log = time_scale(record.time.values.astype(np.float64))
    kept = _telling_steps(every, record.time.values, bool(log))
    told = {"definition": "loss of every step, as given to `recorder.step`"}
    shown = every[kept].rename(step="time").assign_attrs(told).to_dataset(name="loss")
    figure = figure_of(shown, "loss")
    if figure is None:
        return None
    note = f"{len(kept)} of {every.size} steps: of each short stretch the lowest and the highest; all are in the record."
    label = _about(record, "loss", "")["time_label"]
    return figure | {
        "time_label": label,
        "log": log,
        "caption": note if len(kept) < every.size else "",
    }


def _telling_steps(losses: xr.DataArray, looks: np.ndarray, log: bool) -> np.ndarray:
    """Places of the first and last step, of those looked at, and of the lowest and highest loss in
    each stretch of the axis. Some draw means and a band; we draw real losses, so that each point is
    one that was told.
    """
    steps, size = losses.step.values, losses.size
    if size <= 2 * _STRETCHES:
        return np.arange(size)
    along = np.log10(np.maximum(steps, 1)) if log else steps
    stretch = np.digitize(along, np.linspace(along[0], along[-1], _STRETCHES + 1))
    rising = np.lexsort((losses.values, stretch))  # within each stretch
    lowest = np.flatnonzero(np.diff(stretch[rising], prepend=-1))
    extremes = rising[np.concatenate([lowest, np.append(lowest[1:], size) - 1])]
    return np.unique(
        np.concatenate([[0, size - 1], np.flatnonzero(np.isin(steps, looks)), extremes])
    )


def _layers(record: xr.Dataset) -> list[str]:
    return ["all layers", *layer_names(record, "layer")]


def _each_layer(values: np.ndarray) -> np.ndarray:
    """Means over heads (layer first), with the mean over all layers before them; missing heads are
    left out.
    """
    with np.errstate(invalid="ignore"):
        known = np.isfinite(values)
        filled = np.where(known, values, 0.0)
        every = filled.sum(axis=(1, 2)) / known.sum(axis=(1, 2))
        each = filled.sum(axis=2) / known.sum(axis=2)
    return np.concatenate([every[None], np.moveaxis(each, 1, 0)])


def _entropy(record: xr.Dataset) -> Figure:
    """Mean entropy of every layer."""
    values = _each_layer(record.relative_entropy.values.astype(np.float64))
    told = {
        "kind": "line",
        "caption": "1 is uniform over what a query sees, 0 all on one key; mean over the heads of a layer.",
    }
    shown = {"axes": ["layer"], "names": [_layers(record)], "values": np.moveaxis(values, 0, -1)}
    return (
        _about(record, "relative_entropy", "Entropy over log of visible keys")
        | told
        | shown
        | {"y": {"label": "entropy / log keys", "min": 0.0, "max": 1.0, "fixed": True}}
    )


def _deciles(record: xr.Dataset) -> Figure | None:
    if "decile_focus" not in record:
        return None
    with np.errstate(divide="ignore"):
        focus = np.log2(
            np.maximum(_each_layer(record.decile_focus.values.astype(np.float64)), _LEAST_FOCUS)
        )
    caption = (
        "Attention on tokens of each frequency decile over what uniform attention would give them, as powers of two: 0 is no "
        "preference, 1 twice as much, −1 half. Mean over heads; decile 0 holds the rarest tokens."
    )
    names = [f"decile {number}" for number in range(focus.shape[-1])]
    shown = {
        "axes": ["decile"],
        "names": [names],
        "values": focus,
        "choices": [{"axis": "layer", "labels": _layers(record)}],
    }
    scale = scale_of(focus, "log2 of focus", "")
    return (
        _about(record, "decile_focus", "Focus by token frequency")
        | {"kind": "line", "caption": caption, "y": scale}
        | shown
    )


def _masses(record: xr.Dataset) -> Figure | None:
    names = [name for name in ("distinct_mass", "common_mass", "judged_mass") if name in record]
    if not names or any(
        not np.nan_to_num(record[name].values).any() for name in names if name != "judged_mass"
    ):
        return None  # without tokens of one kind there is nothing to compare
    values = np.stack(
        [_each_layer(record[name].values.astype(np.float64)) for name in names], axis=-1
    )
    caption = (
        "Attention on tokens that predict the next one well (distinct) or hardly (common), and on all that are frequent enough to "
        "judge; mean over heads."
    )
    shown = {
        "axes": ["kind"],
        "names": [[name.removesuffix("_mass") for name in names]],
        "values": values,
    }
    choices = [{"axis": "layer", "labels": _layers(record)}]
    scale = {"label": "attention", "min": 0.0, "max": 1.0, "fixed": True}
    about = _about(record, "masses", "Distinct against common tokens")
    return about | {"kind": "line", "caption": caption, "y": scale, "choices": choices} | shown


def _by_layer(record: xr.Dataset, name: str) -> Figure | None:
    """Means over the heads of each layer, at the looks that have them."""
    if name not in record:
        return None
    values = record[name].values.astype(np.float64)
    taken = np.isfinite(values).any(axis=(1, 2))
    means = np.moveaxis(_each_layer(values[taken]), 0, -1)
    names = ["all layers", *layer_names(record, "weight_layer")]
    shown = {"axes": ["layer"], "names": [names], "values": means}
    title = f"Directions in {name[:2].upper()} circuits"
    about = _about(record, name, title) | {
        "kind": "line",
        "caption": sentence(str(record[name].attrs.get("definition", ""))),
    }
    return (
        about
        | shown
        | {
            "time": record.time.values[taken].astype(np.float64),
            "y": scale_of(means, "effective rank", ""),
        }
    )


def _some_times(record: xr.Dataset, name: str) -> Figure | None:
    """A variable at the looks that have it."""
    if name not in record or not np.isfinite(record[name].values).any():
        return None
    values = record[name].values.reshape(record.sizes["time"], -1)
    figure = figure_of(record[[name]].isel(time=np.isfinite(values).any(axis=1)), name)
    if figure is None:
        return None
    if figure["kind"] == "bars":  # more directions than lines can tell apart
        figure["caption"] = f"{figure['caption']} The bars are those of the step chosen.".strip()
    return figure | {"time_label": _about(record, name, "")["time_label"]}
