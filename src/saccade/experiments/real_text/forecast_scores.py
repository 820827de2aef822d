"""How good a forecast of the stages was: times, rates and the first move of attention, for each seed."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from saccade.forecasting.score import TURN, exponential_rate, in_time
from saccade.observe.events import CONDENSED, GROWN, LEARNT
from saccade.observe.fits import first_time
from saccade.observe.turning_points import VISIBLE, local_noise, peaks, smoothed, thresholds

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
FACTOR = 2.0  # a time was forecast if it is right to within this factor; set before any run
MOVED = 0.1  # a token has moved if it has by this part of its query's largest move; set before any run
DRAWS = 1000  # the ends of an interval then lie on 25 draws each
EVENTS = {
    "condensed_time": "embeddings lie along one direction",
    "plateau_time": "token frequencies are learnt",
    "focus_onset": "query matrices have begun to grow",
}
TURNS = {
    "told": "predicted and measured, time within a factor of 2",
    "wrong time": "predicted and measured, time not within a factor of 2",
    "missed": "measured, not predicted",
    "false alarm": "predicted, not measured",
    "neither": "neither predicted nor measured",
}


def stage_scores(record: xr.Dataset, optimiser: str) -> dict[str, Array]:
    """By seed: times of `EVENTS` and whether they were forecast, rates over the predicted ones, the first move of attention."""
    share, runs = float(record["word_share"].max()), _runs(record, optimiser)
    each = [event_times(run, float(record["unigram_loss"])) | first_move(run, share) for run in runs]
    found = {name: np.array([one[name] for one in each]) for name in each[0]}
    told = {f"{name} told": in_time(predicted_time(record, name), found[name], factor=FACTOR) for name in EVENTS}
    embedding, query = (
        np.array([exponential_rate(run["look_step"].values, run[name].values) for run in runs])
        for name in ("embedding_norm", "query_scale")
    )
    return {
        **found,
        **told,
        "condensation ratio": embedding / float(record["predicted_condensation_rate"]),
        "focus ratio": query / abs(float(record["predicted_focus_rate"])),
        "flow ratio": query / _flow_rate(record, runs[0]["look_step"].values),
        "sign told": (found["side"] == float(record["predicted_sign"])).astype(float),
        "diluted": np.array([float(np.isfinite(turn_times(run, share, 1.0)).any()) for run in runs]),
    }


def _runs(record: xr.Dataset, optimiser: str) -> list[xr.Dataset]:
    return [record.sel(optimiser=optimiser).isel(seed=seed) for seed in range(record.sizes["seed"])]


def event_times(run: xr.Dataset, unigram_loss: float) -> dict[str, float]:
    """Times of `EVENTS` in one run (axis: look), as the forecast defines them; NaN for what does not come."""
    time, loss, query = run["look_step"].values, run["population_loss"].values, run["query_norm"].values
    return {
        "condensed_time": first_time(time, run["top_share"].values >= CONDENSED),
        "plateau_time": first_time(time, loss <= unigram_loss + (1 - LEARNT) * (loss[0] - unigram_loss)),
        "focus_onset": first_time(time, query >= GROWN * query[0]),
    }


def predicted_time(record: xr.Dataset, name: str) -> float:
    """The middle one of the forecast's random starts."""
    return float(np.median(record[f"predicted_{name}"].values))


def first_move(run: xr.Dataset, share: float) -> dict[str, float]:
    """To which side of its share attention on the most frequent token first moves visibly, mean over queries, and when."""
    tilt = run["on_frequent"].transpose("look", "word").values - share
    moved = np.abs(tilt).max(axis=1) > VISIBLE
    side = float(np.sign(tilt[moved.argmax()].mean())) if moved.any() else 0.0
    return {"side": side, "moved_at": first_time(run["look_step"].values, moved)}


def _flow_rate(record: xr.Dataset, looks: Array) -> float:
    """Growth rate of the rank-one flow from the first start, as that of a run is taken: at the same looks, to the same end."""
    known = looks[np.isfinite(looks)]
    path = np.exp(np.interp(known, record["stage_time"].values, np.log(record["predicted_query_path"].values)))
    return exponential_rate(known, path)


def turn_times(run: xr.Dataset, share: float, sign: float) -> Array:
    """When each query's attention on it first turns back after it went to the side `sign` (word); NaN if it does not.

    A turn stands out from the noise of batches (`observe/turning_points.py`) and loses a tenth of its height, as in a forecast.
    """
    known = np.isfinite(run["look_step"].values) & np.isfinite(run["query_norm"].values)
    time, curves = run["look_step"].values[known], sign * (run["on_frequent"].transpose("look", "word").values[known] - share)
    noise = local_noise(curves)
    return np.array([_turn(time, *pair) for pair in zip(smoothed(curves, noise).T, thresholds(noise, None).T, strict=True)])


def _turn(time: Array, height: Array, threshold: Array) -> float:
    turns = (top for top in peaks(height, threshold) if top.value > VISIBLE and top.prominence >= TURN * top.value)
    return next((float(time[top.place]) for top in turns), float("nan"))


def turn_counts(record: xr.Dataset, optimiser: str) -> dict[str, Array]:
    """Queries of each kind of `TURNS`, by seed. What is predicted for after the run, or too little to see, is not predicted."""
    share, sign, runs = float(record["word_share"].max()), float(record["predicted_sign"]), _runs(record, optimiser)
    guess = np.median(record["predicted_turn_time"].values, axis=0)
    seen = np.abs(np.median(record["predicted_turn_height"].values, axis=0)) > VISIBLE
    guess = np.where(seen & (guess <= np.nanmax(runs[0]["look_step"].values)), guess, np.nan)
    kinds = [turn_kinds(guess, turn_times(run, share, sign)) for run in runs]
    return {name: np.array([float((found == name).sum()) for found in kinds]) for name in TURNS}


def turn_kinds(guess: Array, truth: Array) -> NDArray[np.str_]:
    """Which of `TURNS` each pair of times is."""
    told, predicted, measured = in_time(guess, truth, factor=FACTOR) == 1, np.isfinite(guess), np.isfinite(truth)
    conditions = [told, predicted & measured, measured, predicted]
    return np.select(conditions, ["told", "wrong time", "missed", "false alarm"], default="neither")
