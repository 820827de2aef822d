"""The scores of `forecast` as rows: all forecasters with intervals, stages run by run, gains token by token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.experiments.real_text.forecast_resampling import resampled
from saccade.experiments.real_text.forecast_scores import FORECASTERS, MEASURES, n_scored, says, score_draws
from saccade.experiments.real_text.forecast_stages import EVENTS, TURNS, stage_scores, turn_counts
from saccade.observe.fits import Interval, interval

if TYPE_CHECKING:
    import xarray as xr

_NAIVE_SIDES = {"forecast": None, "follows frequency": 1.0, "nothing changes": 0.0}
STAGE_MEASURES = {
    "condensation ratio": "condensation rate, measured over predicted",
    "focus ratio": "rate of focus, measured over the closed form",
    "flow ratio": "rate of focus, measured over that of the flow in the same updates",
    **{f"{name} told": f"{what}: time within a factor of 2" for name, what in EVENTS.items()},
}


def score_rows(record: xr.Dataset) -> list[dict[str, Any]]:
    """Scores of tokens with intervals over queries and tokens, then those of stages with intervals over seeds."""
    rows = [
        _row(way, forecaster, said, resampled(score_draws(record, way, forecaster, name)), *n_scored(record, way, name))
        for way in map(str, record["way"].values)
        for forecaster in FORECASTERS
        for name, said in MEASURES.items()
        if says(way, forecaster, name)
    ]
    return rows + [row for optimiser in map(str, record["optimiser"].values) for row in _stage_score_rows(record, optimiser)]


def _stage_score_rows(record: xr.Dataset, optimiser: str) -> list[dict[str, Any]]:
    found, by_seed = stage_scores(record, optimiser), {}
    if optimiser == "sgd":
        by_seed = {said: found[name] for name, said in STAGE_MEASURES.items()}
        turns = turn_counts(record, optimiser)
        by_seed |= {f"queries that turn back: {said}": turns[name] for name, said in TURNS.items()}
    rows = [_row(optimiser, "forecast", said, interval(values), len(values), "seeds") for said, values in by_seed.items()]
    for forecaster, side in _NAIVE_SIDES.items():
        told = (found["side"] == (float(record["predicted_sign"]) if side is None else side)).astype(float)
        said = "sign of the first move of attention: share of seeds"
        rows.append(_row(optimiser, forecaster, said, interval(told), len(told), "seeds"))
    return rows


def _row(way: str, forecaster: str, measure: str, found: Interval, n: int, unit: str) -> dict[str, Any]:
    return {"trained on": way, "forecaster": forecaster, "measure": measure, **found._asdict(), "n": n, "of": unit}


def stage_rows(record: xr.Dataset) -> list[dict[str, Any]]:
    rows = []
    for optimiser in map(str, record["optimiser"].values):
        found = stage_scores(record, optimiser)
        for name in (*EVENTS, "moved_at", "side"):
            guess = float(np.median(record[f"predicted_{name}"])) if name in EVENTS else np.nan
            guess = float(record["predicted_sign"]) if name == "side" else guess
            for seed, value in zip(record["seed"].values, found[name], strict=True):
                named = {"optimiser": optimiser, "what": name, "predicted": guess, "seed": int(seed)}
                rows.append(named | {"measured": float(value)})
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
