"""A forecast for people to read: a page of Markdown, and the table of its numbers.

Queries come first, the most frequent on top, then the stages in order of time; unmet assumptions
are listed once, at the end.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from saccade.forecasting.forecast import predictions
from saccade.forecasting.prediction import Prediction
from saccade.forecasting.text_order import HALVES
from saccade.numerals import numeral
from saccade.records.json_files import parsed_json
from saccade.theories.condition import tally

if TYPE_CHECKING:
    import xarray as xr

_COLUMNS = ("part", "name", "token", "rank", "value", "kind")
_NUMBERS = ("condensation_rate", "focus_rate", "focus_sign", "next_rate", "n_windows")
_UNTIL = ("order_until", "size_until", "clock")
_AGREEMENT = ("gain_agreement", "gaining_agreement", "losing_agreement")
_EVENTS = ("condensed_time", "half_time", "plateau_time", "focus_onset", "focus_growth")


def page(record: xr.Dataset) -> str:
    """What will happen, in Markdown."""
    said, config = predictions(record), parsed_json(record.attrs["config"])
    both = "gain" in record and "condensation_rate" in record
    rates = f"decoder rate {numeral(config['lr_decoder'])}, attention rate {numeral(config['lr_attention'])}"
    lines = [
        f"# What will happen: {config['source']}",
        "",
        f"Plain SGD, {rates}. Predicted from statistics; nothing was trained.",
        *(
            [
                "Queries are those of Scan and Snap's model, stages those of Focus and Dilution's, which is another model: their "
                "times differ, and attention may move in opposite directions in them."
            ]
            if both
            else []
        ),
        "",
    ]
    lines += [f"- **{about}**: {text}." for about, text in told(record).items()]
    opening, *unmet = tally(
        "These predictions", [condition for one in said for condition in one.assumptions]
    ) or ["All are met."]
    lines += ["", "## Assumptions", "", opening, "", *(f"- {sentence}" for sentence in unmet)]
    return "\n".join([*lines, "", *_adam(said), ""])


def told(record: xr.Dataset) -> dict[str, str]:
    """What is predicted of each query and stage."""
    said = predictions(record)
    return {
        about: "; ".join(one.text for one in said if one.about == about)
        for about in dict.fromkeys(one.about for one in said)
    }


def events(record: xr.Dataset) -> list[dict[str, Any]]:
    """Times with a name: of each query of a class model, and of the stages of a chain (first
    start).
    """
    names = {"scan_time": "scan (C) ends", "snap_time": "snap (C)"}
    rows: list[dict[str, Any]] = [
        {"event": name, "query": str(query), "time": float(time)}
        for event, name in names.items()
        if event in record
        for query, time in zip(record["query"].values, record[event].values, strict=True)
    ]
    stages = {"plateau_time": "unigram plateau", "focus_onset": "focus begins"}
    rows += [
        {"event": name, "query": "", "time": float(record[event].values[0])}
        for event, name in stages.items()
        if event in record
    ]
    return sorted((row for row in rows if math.isfinite(row["time"])), key=lambda row: row["time"])


def _adam(said: list[Prediction]) -> list[str]:
    """What carries over, each answer once."""
    answers: dict[str, list[str]] = {}
    for one in said:
        answers.setdefault(one.under_adam, []).append(one.topic)
    lines = [
        f"- {', '.join(dict.fromkeys(topics))}: {answer}" for answer, topics in answers.items()
    ]
    return ["## Under Adam", "", *lines]


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    """Every number behind the page: gains by query in order of rank, times and rates, the stages of
    every token.
    """
    return [*_gains(record), *_times(record)]


def _row(*values: Any) -> dict[str, Any]:
    return dict(zip(_COLUMNS, values, strict=True))


def _gains(record: xr.Dataset) -> list[dict[str, Any]]:
    rows = []
    for name in record["query"].values if "gain" in record else ():
        query = record.sel(query=name)
        if "told" in record:
            rows += _told(query)
            continue
        for rank, i in enumerate((-query.gain.values).argsort(kind="stable"), start=1):
            if query.attention_start.values[i] > 0:
                kind = "distinct" if query.distinct.values[i] else "not distinct"
                rows.append(
                    _row(
                        "gain",
                        str(name),
                        str(query.token.values[i]),
                        rank,
                        float(query.gain.values[i]),
                        kind,
                    )
                )
        rows += [
            _row("time", str(name), "", "", float(query[event]), event)
            for event in ("half_way_time", "scan_time", "snap_time")
        ]
    return rows


def _told(query: xr.Dataset) -> list[dict[str, Any]]:
    """Words of a text in the order of their gains: all that the query's windows show, and whether
    they can be told.

    Ranks are left out where halves of the text agree too little on them.
    """
    seen, gain = query.seen.values, query.gain.values
    order = [i for i in (-gain).argsort(kind="stable") if seen[i]]
    kinds = ["told" if told else "cannot be told" for told in query.told.values]
    name, has_ranks = str(query["query"].values), float(query.gain_agreement) >= HALVES
    ranks = range(1, len(order) + 1) if has_ranks else [""] * len(order)
    rows = [
        _row("gain", name, str(query.token.values[i]), rank, float(gain[i]), kinds[i])
        for rank, i in zip(ranks, order, strict=True)
    ]
    return [
        *rows,
        *(_row("agreement", name, "", "", float(query[kind]), kind) for kind in _AGREEMENT),
    ]


def _times(record: xr.Dataset) -> list[dict[str, Any]]:
    rates = [name for name in (*_NUMBERS, *_UNTIL) if name in record]
    rows = [_row("rate", name, "", "", float(record[name]), name) for name in rates]
    for name in _EVENTS:
        if name in record:
            rows += [
                _row("time", f"start {start}", "", "", float(value), name)
                for start, value in enumerate(record[name].values)
            ]
    for name in ("turn_time", "gone_time", "turn_height") if "turn_time" in record else ():
        for word, value in zip(record.word.values, record[name].values[0], strict=True):
            if not math.isnan(value):
                rows.append(_row("stage", "start 0", str(word), "", float(value), name))
    return rows
