"""The scores of `forecast` as rows: all forecasters with intervals over seeds, stages run by run, gains token by token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.experiments.real_text.forecast_scores import FORECASTERS, MEASURES, order_scores
from saccade.experiments.real_text.forecast_stages import EVENTS, stage_scores
from saccade.experiments.real_text.spread import interval

if TYPE_CHECKING:
    import xarray as xr

_NAIVE_SIDES = {"forecast": None, "follows frequency": 1.0, "nothing changes": 0.0}
STAGE_MEASURES = {
    "condensation ratio": "condensation rate, measured over predicted",
    "focus ratio": "rate of focus, measured over predicted",
    **{f"{name} told": f"{what}: time within a factor of 2" for name, what in EVENTS.items()},
    "turns told": "share of queries told whether they turn back, and when within a factor of 2",
}


def score_rows(record: xr.Dataset) -> list[dict[str, Any]]:
    rows = [
        _row(way, forecaster, MEASURES[name], by_seed)
        for way in map(str, record["way"].values)
        for forecaster in FORECASTERS
        for name, by_seed in order_scores(record, way, forecaster).items()
    ]
    for optimiser in map(str, record["optimiser"].values):
        found = stage_scores(record, optimiser)
        if optimiser == "sgd":
            rows += [_row(optimiser, "forecast", said, found[name]) for name, said in STAGE_MEASURES.items()]
        for forecaster, side in _NAIVE_SIDES.items():
            told = found["side"] == (float(record["predicted_sign"]) if side is None else side)
            rows.append(_row(optimiser, forecaster, "sign of the first move of attention: share of seeds", told.astype(float)))
    return rows


def _row(way: str, forecaster: str, measure: str, by_seed: Any) -> dict[str, Any]:
    mean, low, high = interval(by_seed)
    return {"trained on": way, "forecaster": forecaster, "measure": measure, "mean": mean, "low": low, "high": high}


def stage_rows(record: xr.Dataset) -> list[dict[str, Any]]:
    rows = []
    for optimiser in map(str, record["optimiser"].values):
        found = stage_scores(record, optimiser)
        for name in (*EVENTS, "moved_at", "side"):
            guess = float(np.median(record[f"predicted_{name}"])) if name in EVENTS else np.nan
            guess = float(record["predicted_sign"]) if name == "side" else guess
            for seed, value in enumerate(found[name]):
                rows.append({"optimiser": optimiser, "what": name, "predicted": guess, "seed": seed, "measured": float(value)})
    return rows


def token_rows(record: xr.Dataset) -> list[dict[str, Any]]:
    last = record.isel(time=-1)
    rows = []
    for query in record["query"].values:
        of_query = last.sel(query=query)
        mean = of_query["measured_gain"].mean("seed")
        for i in np.argsort(-of_query["predicted_gain"].values, kind="stable"):
            if of_query["attention_start"].values[i] > 0:
                named: dict[str, Any] = {"query": str(query), "token": str(record["token"].values[i])}
                named |= {
                    "distinct": bool(of_query["distinct"].values[i]),
                    "predicted": float(of_query["predicted_gain"].values[i]),
                }
                rows.append(named | {f"measured, {way}": float(mean.sel(way=way).values[i]) for way in record["way"].values})
    return rows
