"""The event table of an independent replication of the flow on six tokens of a Zipf law, and the claims that compare with it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from saccade.data.markov_presets import zipf_law
from saccade.experiments.focus_and_dilution.embedded_events import optimal_loss
from saccade.observe.events import Event
from saccade.records.claim import Claim

if TYPE_CHECKING:
    import xarray as xr

WITHIN_TIME, WITHIN_VALUE = 0.1, 0.02  # of the replication: its own seeds differ by 8 % and .01
_LEAST_SAMPLES = 1000  # fewer show the first focus, which lasts an eighth of an e-fold of time, in fewer than ten samples

_PLATEAU = (55, 150)  # from when to when the replication sees attention frozen


@dataclass(frozen=True)
class Row:
    """An event of the replication: its time, or the times it was seen at, and attention; None where nothing is reported."""

    label: str
    event: str
    query: int | None
    times: tuple[float, float]
    value: float | None = None
    timed: bool = True

    @property
    def middle(self) -> float:
        return sum(self.times) / 2

    @property
    def slack(self) -> float:
        return (self.times[1] - self.times[0]) / 2 + WITHIN_TIME * self.middle


def _at(label: str, event: str, query: int | None, time: float, value: float | None = None) -> Row:
    return Row(label, event, query, (time, time), value)


REPLICATED = (
    Row("embeddings condense", "condensation", None, (29, 34)),
    Row("first focus", "focus_peak", 1, (174, 181), 0.511),
    *(
        Row("first focus", "focus_peak", q, (174, 181), value, timed=False)
        for q, value in ((2, 0.452), (3, 0.434), (4, 0.426), (5, 0.422))
    ),
    *(
        _at("first dilution", "dilution", q, *seen)
        for q, *seen in ((2, 204, 0.283), (3, 227, 0.139), (4, 314, 0.043), (5, 625, 0.001))
    ),
    Row("second direction", "new_direction", None, (492, 542), 2),
    *(_at("second focus", "focus_peak", q, *seen) for q, *seen in ((1, 1001, 0.702), (2, 700, 0.470), (3, 611, 0.240))),
    *(_at("second dilution", "dilution", q, *seen) for q, *seen in ((1, 1194, 0.639), (2, 1116, 0.014), (3, 1236, 0.001))),
    Row("third direction", "new_direction", None, (941, 973), 3),
    *(_at("third focus", "focus_peak", q, *seen) for q, *seen in ((1, 1384, 0.667), (2, 2144, 0.380), (5, 1229, 0.451))),
    Row("fourth direction", "new_direction", None, (1320, 1430), 4),
    Row("fifth direction", "new_direction", None, (2060, 2130), 5),
)
"""Three seeds of the flow on zipf(6), stay 0.5, initial scale 1e-3, to t = 5000, integrated by another program."""


def replicated_claims(record: xr.Dataset, events: list[Event], settings: dict[str, Any]) -> list[Claim]:
    """None for other laws and models, of which the table says nothing."""
    met = _is_replicated(record, settings)
    if not all(met.values()):
        return []
    claims = [claim for row in REPLICATED for claim in _row_claims(row, events, met, settings["t1"])]
    excess = record.isel(seed=0).loss.values - optimal_loss(record)
    attention = record.isel(seed=0).attention.values[..., int(np.argmax(record.stationary.values))].mean(axis=1)
    return [
        *claims,
        *(
            _claim(f"{what} at t = {time}", value, _at_time(record, series, time), WITHIN_VALUE, met | until(time, settings["t1"]))
            for time in _PLATEAU
            for what, value, series in (("loss above the optimum", 0.393, excess), ("attention on token 0", 0.408, attention))
        ),
        _claim(
            "loss above the optimum at t = 5000, as a power of ten",
            -10,
            math.log10(max(_at_time(record, excess, 5000), 1e-16)),
            1,
            met | until(5000, settings["t1"]),
        ),
    ]


def _at_time(record: xr.Dataset, series: ArrayLike, time: float) -> float:
    return float(np.interp(time, record.time.values, np.asarray(series), right=math.nan))


def _row_claims(row: Row, events: list[Event], met: dict[str, bool], t1: float) -> list[Claim]:
    """Time and value of the event of this kind, query and (for a direction) number that is nearest to the replicated one."""
    alike = [event for event in events if (event.name, event.query) == (row.event, row.query)]
    if row.event == "new_direction":
        alike = [event for event in alike if event.value == row.value]
    nearest = min(alike, key=lambda event: abs(math.log(event.time / row.middle)), default=None)
    who = row.label if row.query is None else f"{row.label}, query {row.query}"
    needs = met | until((1 + WITHIN_TIME) * row.times[1], t1)
    claims = []
    if row.timed:
        claims.append(_claim(f"{who}: time", row.middle, nearest.time if nearest else math.nan, row.slack, needs))
    if row.value is not None and row.event != "new_direction":
        what = f"{who}: attention on token 0"
        claims.append(_claim(what, row.value, nearest.value if nearest else math.nan, WITHIN_VALUE, needs))
    return claims


def _claim(statement: str, predicted: float, measured: float, tolerance: float, assumptions: dict[str, bool]) -> Claim:
    return Claim(statement, "[independent replication]", predicted, measured, tolerance, assumptions)


def until(time: float, t1: float) -> dict[str, bool]:
    """A run that ends before an event does not decide it."""
    return {f"t1 of at least {time:.0f}": t1 >= time}


def _is_replicated(record: xr.Dataset, settings: dict[str, Any]) -> dict[str, bool]:
    return {
        "zipf(6), stay 0.5": is_lazy(record, settings, zipf_law(6), 0.5),
        "init scale 1e-3": settings["init_scale"] == 1e-3,
        "d_model 8, d_key 8": settings["d_model"] == settings["d_key"] == 8,
        "unscaled logits, one rate": _is_plain(settings),
        f"n_times of at least {_LEAST_SAMPLES}": settings["n_times"] >= _LEAST_SAMPLES,
    }


def is_lazy(record: xr.Dataset, settings: dict[str, Any], law: ArrayLike, stay: float) -> bool:
    found = record.stationary.values
    return settings["stay"] == stay and len(found) == len(np.asarray(law)) and np.allclose(found, law, rtol=0, atol=1e-9)


def _is_plain(settings: dict[str, Any]) -> bool:
    return not settings["scaled"] and settings["logit_scale"] == settings["lr_attention"] == 1
