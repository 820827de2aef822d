"""Figures of a record over time, as plain dictionaries: the page draws them (`web/charts.js`), and
so does Matplotlib (`drawn.py`).

A figure holds every moment and every run; `still` takes one of each and gives what a chart is drawn
from.

| key       | meaning                                                                                                      |
|-----------|--------------------------------------------------------------------------------------------------------------|
| `kind`    | line: (time, series); bars: (time, group, label); heat and heads: (time, row, column)                        |
| `choices` | axes that stand before time, such as seed: one of each is shown                                              |
| `names`   | labels of the axes after time                                                                                |
| `time`    | (time), or (choices..., time) where runs have clocks of their own                                            |
| `values`  | (choices..., time, ...)                                                                                      |
| `theory`  | names of predictions: their values follow the run's own along the first axis after time                      |
| `tones`   | colours of the labels by role (`roles.py`), where roles are known                                            |
| `log`     | whether the axis of time has powers of ten, where its moments do not tell                                    |

Which axes are which follows from their order: records have runs before time, and what is looked at
after it. Limits: of more than 60 labels the largest are kept and the others added up; of very long
records some moments are left out.

Bars and heat maps have one vertical axis for all runs and moments. Lines are fitted to the run that
is shown, by the same rule here and in `web/stills.js`: runs differ by orders, and one axis for all
of them would hide most. Probabilities always have [0, 1].
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.errors import InputError, checked_choice
from saccade.measures.timeline import is_watched
from saccade.numerals import numeral, numerals_in
from saccade.report.packing import time_scale
from saccade.report.roles import COMMON, KEY, by_class, law_of, token_names

if TYPE_CHECKING:
    import xarray as xr

Figure = dict[str, Any]

CLOCKS = (
    "time",
    "flow_time",
    "premise_time",
    "step",
    "look",
    "sample",
    "n_steps",
    "stage_time",
)  # axes that are time, the plainest first
_FIRST = (
    "attention",
    "singular",
    "loss",
    "entropy",
    "mass",
    "on_frequent",
)  # what is shown first, by words in names
_MOST_LINES = 10  # series that a line chart tells apart; of more, bars show one moment
_MOST_GROUPS = 6  # classes side by side in a bar chart; more are a heat map
_LONGEST_LABEL = 80
_LONGEST_TITLE = 90  # letters, two lines: a shorter definition is the title of its chart, a longer one stands below it
_MOST_LABELS = 60  # bars or columns that are legible at the width of a page
_MOST_VALUES = (
    1_500_000  # of one figure: 3 MB before they are deflated, a third of what a page may weigh
)
_HIDDEN = frozenset(
    {
        "embedding",
        "query_matrix",
        "key_matrix",
        "projection",
        "look_seconds",
        "stop_time",
        "gain_path",
    }
)
_TOKENS = (
    "Tokens: c1, c2, … are common to several classes; d1, d2, … are distinct for one, rarest first."
)
_UNBOUNDED = (
    "logit",
    "growth",
    "loss",
    "norm",
)  # words for sizes that are no share, even where they happen to stay below 1
_DECADE, _DECADES = (
    10.0,
    1e3,
)  # largest over smallest: of one run on an axis of powers of ten; of all runs, to choose such an axis
_FAINTEST = 0.3  # of the rarest distinct token: it must still be seen on the page
_NARROWEST = 0.1  # of an axis against its largest number: labels have three digits, and rounding must not look like movement
_MEANINGS = {  # what is shown of the embedded model instead of its raw matrices
    "embedding_singular_values": "singular values of the embedding: one for each direction that it uses",
    "query_key_singular_values": "singular values of query matrix times key matrix: directions that attention uses",
    "embedding_norm": "length of each token's embedding",
}


def figures(record: xr.Dataset, *, each_class: bool = False) -> list[Figure]:
    """Every numeric variable that has a time axis, the most telling first; on request a chart for
    each class.
    """
    from saccade.report.specs_watched import watched_figures
    from saccade.report.word_gains import word_gains

    if is_watched(record):
        return [figure | {"by_looks": True} for figure in watched_figures(record)]
    whole = record.assign(_derived(record))

    def is_hidden(name: str) -> bool:
        """Raw matrices, and logits where the record holds the attention that they make."""
        of, _, ending = name.rpartition("_")
        return name in _HIDDEN or (ending in ("logit", "logits") and f"{of}_attention" in whole)

    named = [str(name) for name in whole.data_vars if not is_hidden(str(name))]
    laws = (
        {law.dims for name, law in whole.data_vars.items() if str(name).endswith("_prob")}
        if each_class
        else set()
    )
    shown = {
        name: found
        for name in named
        if (found := _figures_of(whole, name, whole[name].dims[-2:] in laws))
    }
    drawn = {
        other
        for name, found in shown.items()
        for other in theories_of(whole, name)
        if found[0]["theory"]
    }
    kept = sorted(
        (one for name, found in shown.items() if name not in drawn for one in found),
        key=lambda one: (
            next((at for at, word in enumerate(_FIRST) if word in one["name"]), math.inf),
            one["name"],
        ),
    )
    return [
        *(word_gains(record) if "token_count" in record else ()),
        *kept,
    ]  # which words gain is what a text is asked first


def _figures_of(record: xr.Dataset, name: str, each_class: bool) -> list[Figure]:
    """A variable over time; attention of each class over the tokens that it shows."""
    seen = by_class(record, name, _MOST_GROUPS) if each_class and _is_attention(name) else []
    if not seen:
        found = figure_of(record, name)
        return [] if found is None else [found]
    found_ones = [(whose, figure_of(own, name)) for whose, own in seen]
    note = _TOKENS if _is_by_role(record) else ""
    return [
        figure
        | {
            "name": f"{name}-{n}",
            "title": f"{figure['title']}: class {whose}",
            "caption": _with(figure["caption"], note),
        }
        for n, (whose, figure) in enumerate(found_ones, 1)
        if figure is not None
    ]


def _is_attention(name: str) -> bool:
    return "attention" in name and not any(word in name for word in _UNBOUNDED)


def theories_of(record: xr.Dataset, name: str) -> list[str]:
    """Variables that predict a variable, on the same axes."""
    return [
        str(other)
        for other, variable in record.data_vars.items()
        if variable.attrs.get("theory_of") == name
        and variable.dims == record[name].dims
        and variable.dtype.kind in "fiu"
    ]


def figure_of(record: xr.Dataset, name: str) -> Figure | None:
    """One variable over time; None if it has no time axis, no numbers, or is a clock itself."""
    variable = record[name]
    clock = next((axis for axis in CLOCKS if axis in variable.dims), None)
    if (
        clock is None
        or not (  # samples without any clock are mere draws
            clock in record.coords
            or any(_is_clock(record, str(one), clock) for one in record.data_vars)
        )
        or variable.dtype.kind not in "fiu"
        or 0 in variable.shape
        or _is_clock(record, name, clock)
    ):
        return None
    place = variable.dims.index(clock)
    after = variable.dims[place + 1 :]
    runs, shown = [*variable.dims[:place], *after[:-2]], after[-2:]
    values, *theory = (
        record[one].transpose(*runs, clock, *shown).values.astype(np.float64)
        for one in (name, *theories_of(record, name))
    )
    told = str(variable.attrs.get("definition", ""))
    short = (
        "" if len(told) > _LONGEST_TITLE or told.startswith("the same") else told
    )  # as what, the chart before it need not say
    caption = (
        "" if short else f"{name.replace('_', ' ')} {told}" if told.startswith("of ") else told
    )
    if "token" in shown and _is_by_role(record):
        caption = _with(caption, _TOKENS)
    times, unit = times_of(record, clock, runs), str(variable.attrs.get("units", ""))
    time_unit = str(record[clock].attrs.get("units", "")) if clock in record.coords else ""
    time = "time" if clock == "sample" and times is not None else clock.replace("_", " ")
    figure = {
        "name": name,
        "clock": clock,
        "title": _capital(short or _without_curve(name, told).replace("_", " ")),
        "caption": caption,
        "unit": "" if unit == "1" else unit,
        "choices": [{"axis": str(axis), "labels": labels_of(record, axis)} for axis in runs],
        "time": np.arange(record.sizes[clock], dtype=np.float64) if times is None else times,
        "time_label": ", ".join(filter(None, [time, time_unit])),
        "axes": [str(axis) for axis in shown],
        "names": [labels_of(record, axis) for axis in shown],
        "theory": [
            str(record[one].attrs.get("called") or one.replace("_", " "))
            for one in theories_of(record, name)
        ],
        "tones": _tones(record, shown),
    }
    whole = _thinned_times(_shaped(figure, [values, *theory]))
    return whole | {"caption": sentence(whole["caption"])}


def still(figure: Figure, choice: Sequence[int] = (), moment: int = -1) -> Figure:
    """What a chart is drawn from: one run and one moment; a line keeps all moments."""
    at = tuple(choice) or (0,) * len(figure["choices"])
    values = figure["values"][at]
    times = figure["time"][at] if figure["time"].ndim > 1 else figure["time"]
    told = {key: figure[key] for key in ("kind", "title", "caption")}
    if figure["kind"] == "line":
        looks = _series_looks(figure["names"][0], figure.get("theory", []), figure.get("tones"))
        series = [look | {"x": times, "y": values[:, index]} for index, look in enumerate(looks)]
        y = figure["y"]
        if not y.get("fixed"):  # probabilities keep their axis
            decade = _DECADE if y.get("log") else math.inf
            y = {"label": y["label"]} | _limits(values[np.isfinite(values)], decade)
        return told | {
            "x": {"label": figure["time_label"], "log": figure.get("log", time_scale(times))},
            "y": y,
            "series": series,
        }
    if figure["kind"] == "bars":
        names, tones = figure["names"][0], figure.get("tones")
        ghosts: Figure = {"roles": figure["roles"]} if tones else {}
        coloured = {"tones": tones} if tones else {}
        groups = [
            {"name": name, "values": values[moment, index]} | coloured
            for index, name in enumerate(names)
        ]
        if figure.get("theory"):
            ghosts |= {"ghostName": figure["theory"][0]}
            groups = [
                group | {"ghost": values[moment, len(names) + index]}
                for index, group in enumerate(groups)
            ]
        return (
            told
            | ghosts
            | {
                "x": {"label": figure["axes"][1].replace("_", " ")},
                "y": figure["y"],
                "labels": figure["names"][1],
                "groups": groups,
            }
        )
    if figure["kind"] == "heads":  # each statistic is a heat map with a scale of its own
        told, figure = told | {"kind": "heat"}, figure | {"y": figure["statistics"][at[0]]}
    rows, columns = figure["names"]
    axes = {
        "x": {"label": figure["axes"][1], "ticks": columns},
        "y": {"label": figure["axes"][0], "ticks": rows},
    }
    size = {"rows": len(rows), "columns": len(columns), "unit": figure["unit"]}
    scale = {
        "min": figure["y"]["min"],
        "max": figure["y"]["max"],
        "scale": figure.get("scale", "sequential"),
    }
    told |= (
        {"outlineName": figure["theory"][0], "outline": values[moment, len(rows) :].ravel()}
        if figure.get("theory")
        else {}
    )
    return told | axes | size | scale | {"values": values[moment, : len(rows)].ravel()}


def _series_looks(
    names: Sequence[str], theories: Sequence[str], tones: Sequence[Figure] | None
) -> list[Figure]:
    """Names and styles of lines: a run's own, then those of each theory, dashed, in ink over one
    line and else in the colour of the line that they predict, where the first alone is named.
    """
    if theories and len(names) == 1:
        dashed = [
            {"name": name, "style": "dashes", "tone": order or None}
            for order, name in enumerate(theories)
        ]
        return [{"name": "run", "tone": 0}, *dashed]
    own = [{"name": name} | (tones[place] if tones else {}) for place, name in enumerate(names)]
    styles = ("dashes", "dots")
    return own + [
        {"name": "" if place else theory, "style": styles[order % 2], "quiet": place > 0}
        | (tones[place] if tones else {"tone": place})
        for order, theory in enumerate(theories)
        for place in range(len(names))
    ]


def choice_of(figure: Figure, **chosen: Any) -> list[int]:
    """Places along the axes of choice, from labels: `seed=3`."""
    axes = [choice["axis"] for choice in figure["choices"]]
    for axis in chosen:
        if axis not in axes:
            raise InputError(
                f"`{figure['name']}` has no axis `{axis}` to choose from; it has {', '.join(axes) or 'none'}."
            )

    def said(value: Any, labels: Sequence[str]) -> str:
        """A choice as its label has it: `10⁻⁵` is chosen by 1e-05."""
        return str(value) if str(value) in labels else numerals_in(label(value))

    return [
        choice["labels"].index(
            checked_choice(
                choice["axis"], said(chosen[choice["axis"]], choice["labels"]), choice["labels"]
            )
        )
        if choice["axis"] in chosen
        else 0
        for choice in figure["choices"]
    ]


def labels_of(record: xr.Dataset, axis: Any) -> list[str]:
    """Names along an axis: its own coordinate, else what else is known of it, else numbers."""
    if axis == "token" and _is_by_role(record):
        return token_names(np.asarray(law_of(record, "class", "token")))
    if axis in record.coords:
        return [label(value) for value in record[axis].values]
    told = [
        str(name)
        for name, other in record.coords.items()
        if other.dims == (axis,) and len(set(other.values.tolist())) > 1
    ]
    rows = [""] * record.sizes[axis]
    for name in told:
        if len(set(rows)) < len(rows):  # no more than tells them apart: a menu has little room
            rows = [
                f"{row}, {name} {label(value)}".removeprefix(", ")
                for row, value in zip(rows, record[name].values, strict=True)
            ]
    return rows if told else [str(place) for place in range(record.sizes[axis])]


def _is_by_role(record: xr.Dataset) -> bool:
    """Whether tokens are those of classes and have numbers only."""
    if law_of(record, "class", "token") is None:
        return False
    return "token" not in record.coords or [*map(str, record.token.values)] == [
        *map(str, range(record.sizes["token"]))
    ]


def _tones(record: xr.Dataset, axes: Sequence[Any]) -> list[Any] | None:
    """Colours along the last axis: of one class by role; of several, which have a colour each,
    common tokens are grey.
    """
    law = law_of(record, *axes) if len(axes) == 2 else None
    if law is not None:
        return [COMMON if one else None for one in (law > 0).sum(axis=0) > 1]
    roles = record.coords.get(f"{axes[0]}_role") if len(axes) == 1 else None
    if roles is None or roles.dims != (axes[0],):
        return None
    distinct = int((roles != "common").sum())
    fullness = iter(np.linspace(_FAINTEST, 1, distinct) if distinct > 1 else [1.0])
    return [
        COMMON if role == "common" else {"tone": 0, "opacity": round(float(next(fullness)), 3)}
        for role in roles.values
    ]


def label(value: Any) -> str:
    text = numeral(float(value), ".6g") if isinstance(value, float | np.floating) else str(value)
    return text if len(text) <= _LONGEST_LABEL else f"{text[: _LONGEST_LABEL - 1]}…"


def _capital(words: str) -> str:
    """With a capital, unless the first word is a letter of a formula."""
    return words[:1].upper() + words[1:] if re.match(r"a |[a-z]{2}", words) else words


def sentence(words: str) -> str:
    """A definition as it stands on a page."""
    return f"{_capital(words)}." if words and words[-1] not in ".!?" else _capital(words)


def _without_curve(name: str, definition: str) -> str:
    """A name without the words that say no more than that there is a line; of such a word alone,
    how its definition begins.
    """
    begins = definition.split(",")[0].split(":")[0].strip() or name
    return begins if name == "curve" else name.removeprefix("curve_").removesuffix("_path")


def times_of(record: xr.Dataset, clock: str, runs: Sequence[Any]) -> np.ndarray | None:
    """Times along a clock: its coordinate, or a variable of its own for each run; None where
    neither tells those of these runs.
    """
    if clock in record.coords:
        return record[clock].values.astype(np.float64)
    for name, variable in record.data_vars.items():
        if _is_clock(record, str(name), clock) and set(variable.dims) <= {*runs, clock}:
            missing = {axis: record.sizes[axis] for axis in runs if axis not in variable.dims}
            return variable.expand_dims(missing).transpose(*runs, clock).values.astype(np.float64)
    return None


def _shaped(figure: Figure, values: Sequence[np.ndarray]) -> Figure:
    """The kind of chart, with the axes it needs. `values`: of the run, then of each theory; a map
    has room for one theory.
    """
    n_choices, shape = len(figure["choices"]), values[0].shape
    n_shown = len(shape) - n_choices - 1
    if n_shown == 0:
        return _as(figure, "line", [""], [figure["title"]], np.stack(values, axis=-1))
    is_by_role = bool(figure.get("tones")) and _is_attention(figure["name"])
    if n_shown == 1 and shape[-1] <= _MOST_LINES and not is_by_role:
        names = [
            f"{figure['axes'][0].removesuffix('_0')} {name}" for name in figure["names"][0]
        ]  # the one axis of a parameter
        return _as(figure, "line", figure["axes"], names, np.concatenate(values, axis=-1))
    if n_shown == 1:
        grouped = figure | {
            "axes": ["", *figure["axes"]],
            "names": [[figure["title"]], *figure["names"]],
        }
        return _bars(grouped | {"values": np.stack(values, axis=-2)})
    is_map = (figure["axes"][0] == "query" and shape[-2] > 1) or shape[-2] > _MOST_GROUPS
    figure = figure | {"tones": None if is_map else figure["tones"]}
    if is_map:
        both = {"values": np.concatenate(values[:2], axis=-2), "theory": figure["theory"][:1]}
        cut = _largest_labels(figure | both)
        scale = scale_of(cut["values"], _without_curve(cut["name"], ""), cut["unit"])
        return cut | {"kind": "heat", "y": {key: scale[key] for key in scale if key != "log"}}
    if figure["axes"][0] == "query":  # the only one: the title says whose attention it is
        figure = figure | {
            "axes": ["", figure["axes"][1]],
            "names": [[figure["title"]], figure["names"][1]],
        }
    return _bars(figure | {"values": np.concatenate(values, axis=-2)})


def _as(figure: Figure, kind: str, axes: list[str], names: list[str], values: np.ndarray) -> Figure:
    scale = scale_of(
        values, _without_curve(figure["name"], figure["caption"] or figure["title"]), figure["unit"]
    )
    if not figure["caption"]:  # the title says what it is
        scale["label"] = figure["unit"]
    return figure | {"kind": kind, "axes": axes, "names": [names], "values": values, "y": scale}


def _bars(figure: Figure) -> Figure:
    groups = [
        f"{figure['axes'][0]} {name}" if figure["axes"][0] else name for name in figure["names"][0]
    ]
    roles = [] if not figure.get("tones") else KEY if len(groups) == 1 else KEY[:1]
    cut = _largest_labels(figure | {"names": [groups, figure["names"][1]], "roles": roles})
    scale = scale_of(
        np.append(cut["values"], 0.0), _without_curve(cut["name"], ""), cut["unit"]
    )  # bars stand on zero
    return cut | {"kind": "bars", "y": scale}


def _is_clock(record: xr.Dataset, name: str, clock: str) -> bool:
    """A variable that tells the time of samples that have no coordinate: `curve_time`, `steps`."""
    named = name in ("steps", "step") or name.endswith(("_time", "_step"))
    return named and clock not in record.coords and record[name].dims[-1:] == (clock,)


def _largest_labels(figure: Figure) -> Figure:
    """Of more than `_MOST_LABELS` along the last axis, those that are ever largest in the mean; the
    rest added up.
    """
    names, values = figure["names"], figure["values"]
    if len(names[1]) <= _MOST_LABELS:
        return figure
    with np.errstate(over="ignore", invalid="ignore"):
        size = (
            np.nan_to_num(np.abs(values), nan=0.0, posinf=0.0)
            .reshape(-1, values.shape[-1])
            .max(axis=0)
        )
    kept = np.sort(np.argsort(-size, kind="stable")[:_MOST_LABELS])
    others = np.setdiff1d(np.arange(values.shape[-1]), kept)
    note = f"The {_MOST_LABELS} largest of {len(names[1])} along {figure['axes'][-1]}; the others are in the record."
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.nansum(values, axis=-1)
        is_share = bool(np.nanmin(values) >= 0 and (np.abs(total - 1) < 1e-3).all())
    if is_share:
        added = np.nansum(values[..., others], axis=-1, keepdims=True)
        note = f"The {_MOST_LABELS} largest of {len(names[1])} along {figure['axes'][-1]}; the others are added up."
        cut, labels = (
            np.concatenate([values[..., kept], added], axis=-1),
            [*(names[1][at] for at in kept), f"{len(others)} others"],
        )
    else:
        cut, labels = values[..., kept], [names[1][at] for at in kept]
    tones = figure.get("tones")
    tones = tones and [*(tones[at] for at in kept), *[COMMON] * (len(labels) - len(kept))]
    return figure | {
        "values": cut,
        "names": [names[0], labels],
        "tones": tones,
        "caption": _with(figure["caption"], note),
    }


def _thinned_times(figure: Figure) -> Figure:
    """Fewer moments, the first and the last among them, where all would be more than
    `_MOST_VALUES`.
    """
    values, axis = figure["values"], len(figure["choices"])
    n_times = values.shape[axis]
    most = max(2, _MOST_VALUES * n_times // max(1, values.size))
    if n_times <= most:
        return figure
    kept = np.unique(np.linspace(0, n_times - 1, most).round().astype(int))
    note = f"{len(kept)} of {n_times} moments; all are in the record."
    times = np.take(figure["time"], kept, axis=-1)
    return figure | {
        "values": np.take(values, kept, axis),
        "time": times,
        "caption": _with(figure["caption"], note),
    }


def _with(caption: str, note: str) -> str:
    return f"{caption.rstrip('.')}. {note}" if caption and note else caption or note


def _derived(record: xr.Dataset) -> dict[str, Any]:
    """Variables to show, from the matrices that the record has."""
    found: dict[str, Any] = {}
    if _has(record, "embedding", "token", "width"):
        before = record.embedding.dims[:-2]
        found["embedding_singular_values"] = (
            (*before, "rank"),
            _singular_values(record.embedding.values),
        )
        found["embedding_norm"] = (
            (*before, "token"),
            np.linalg.norm(record.embedding.values, axis=-1),
        )
    if _has(record, "query_matrix", "width", "key_width") and _has(
        record, "key_matrix", "width", "key_width"
    ):
        product = record.query_matrix.values @ np.swapaxes(record.key_matrix.values, -1, -2)
        found["query_key_singular_values"] = (
            (*record.query_matrix.dims[:-2], "direction"),
            _singular_values(product),
        )
    return {
        name: (axes, values, {"definition": _MEANINGS[name], "units": "1"})
        for name, (axes, values) in found.items()
    }


def _has(record: xr.Dataset, name: str, *axes: str) -> bool:
    return name in record and record[name].dims[-2:] == axes and "time" in record[name].dims


def _singular_values(matrices: np.ndarray) -> np.ndarray:
    """Over the last two axes; missing where a run has diverged."""
    whole = np.isfinite(matrices).all(axis=(-2, -1))[..., None]
    return np.where(
        whole, np.linalg.svd(np.where(whole[..., None], matrices, 0.0), compute_uv=False), np.nan
    )


def scale_of(values: np.ndarray, name: str, unit: str) -> dict[str, Any]:
    """The vertical axis over all runs: probabilities on [0, 1], positive values of many orders in
    powers of ten.
    """
    known = values[np.isfinite(values)]
    axis: dict[str, Any] = {
        "label": name.replace("_", " ") + (f" [{unit}]" if unit not in ("", "1") else "")
    }
    is_share = "attention" in name or "mass" in name or "share" in name or bool((known > 0.2).any())
    if (
        is_share
        and unit in ("", "1")
        and ((known >= 0) & (known <= 1)).all()
        and not any(word in name for word in _UNBOUNDED)
    ):
        return axis | {"min": 0.0, "max": 1.0, "fixed": True}
    return axis | _limits(known, _DECADES)


def _limits(known: np.ndarray, decades: float) -> dict[str, Any]:
    """Ends of an axis: in powers of ten if the numbers spread so far, else with zero if that is
    near, and never very narrow.
    """
    if known.size == 0:
        return {"min": 0.0, "max": 1.0}
    low, high = float(known.min()), float(known.max())
    if low > 0 and high / low > decades:
        return {"min": low, "max": high, "log": True}
    start = 0.0 if 0 < low < 0.5 * high else low
    room = max(0.0, (_NARROWEST * max(abs(low), abs(high)) or 1.0) - (high - start)) / 2
    return {"min": start - room, "max": high + room}
