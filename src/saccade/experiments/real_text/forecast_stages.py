"""What became of the stages that were forecast: the same numbers, taken from training runs of the embedded model on text.

Every event is defined as the forecast defines it (`forecasting/stages.py`); looks are those of the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from saccade.experiments.real_text.forecast_scores import FACTOR
from saccade.forecasting.score import TURN, growth_rate, within_factor
from saccade.observe.events import CONDENSED, GROWN, LEARNT
from saccade.observe.turning_points import VISIBLE, local_noise, peaks, smoothed, thresholds

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]
EVENTS = {
    "condensed_time": "embeddings lie along one direction",
    "plateau_time": "the unigram law is learnt",
    "focus_onset": "query matrices have begun to grow",
}
TURNS = {
    "told": "predicted and measured, time within a factor of 2",
    "wrong time": "predicted and measured, time not within a factor of 2",
    "missed": "measured, not predicted",
    "false alarm": "predicted, not measured",
    "neither": "neither predicted nor measured",
}


def event_times(run: xr.Dataset, unigram_loss: float) -> dict[str, float]:
    """Times of `EVENTS` in one run (axis: look); NaN for what does not come."""
    time, loss, query = run["look_step"].values, run["population_loss"].values, run["query_norm"].values
    return {
        "condensed_time": _first(time, run["top_share"].values >= CONDENSED),
        "plateau_time": _first(time, loss <= unigram_loss + (1 - LEARNT) * (loss[0] - unigram_loss)),
        "focus_onset": _first(time, query >= GROWN * query[0]),
    }


def first_side(run: xr.Dataset, share: float) -> tuple[float, float]:
    """To which side of its share attention on the most frequent token first moves visibly, mean over queries, and when."""
    tilt = run["on_frequent"].transpose("look", "word").values - share
    moved = np.abs(tilt).max(axis=1) > VISIBLE
    if not moved.any():
        return 0.0, float("nan")
    look = int(moved.argmax())
    return float(np.sign(tilt[look].mean())), float(run["look_step"].values[look])


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


def stage_scores(record: xr.Dataset, optimiser: str) -> dict[str, Array]:
    """By seed: ratios of measured to predicted rates, times of events and whether they were told, sign, turns."""
    share, sign = float(record["word_share"].max()), float(record["predicted_sign"])
    runs = [record.sel(optimiser=optimiser).isel(seed=seed) for seed in range(record.sizes["seed"])]
    times = [event_times(run, float(record["unigram_loss"])) for run in runs]
    sides = [first_side(run, share) for run in runs]
    found = {name: np.array([event[name] for event in times]) for name in EVENTS}
    told = {
        f"{name} told": np.array([within_factor([_middle(record, name)], [time], factor=FACTOR) for time in found[name]])
        for name in EVENTS
    }
    return (
        found
        | told
        | {
            "condensation ratio": _rates(runs, "embedding_norm") / float(record["predicted_condensation_rate"]),
            "focus ratio": _rates(runs, "query_scale") / abs(float(record["predicted_focus_rate"])),
            "flow ratio": _rates(runs, "query_scale") / _flow_rate(record, runs[0]["look_step"].values),
            "side": np.array([side for side, _ in sides]),
            "moved_at": np.array([when for _, when in sides]),
            "sign told": np.array([float(side == sign) for side, _ in sides]),
            "diluted": np.array([float(np.isfinite(turn_times(run, share, 1.0)).any()) for run in runs]),
        }
    )


def _middle(record: xr.Dataset, name: str) -> float:
    """The predicted time: the middle one of the forecast's random starts."""
    return float(np.median(record[f"predicted_{name}"].values))


def _rates(runs: list[xr.Dataset], name: str) -> Array:
    return np.array([growth_rate(run["look_step"].values, run[name].values) for run in runs])


def _flow_rate(record: xr.Dataset, looks: Array) -> float:
    """Growth rate of the rank-one flow from the first start, as that of a run is taken: at the same looks, to the same end."""
    known = looks[np.isfinite(looks)]
    path = np.exp(np.interp(known, record["stage_time"].values, np.log(record["predicted_query_path"].values)))
    return growth_rate(known, path)


def turn_counts(record: xr.Dataset, optimiser: str) -> dict[str, Array]:
    """Queries of each kind of `TURNS`, by seed. What is predicted for after the run, or too little to see, is not predicted."""
    share, sign = float(record["word_share"].max()), float(record["predicted_sign"])
    runs = [record.sel(optimiser=optimiser).isel(seed=seed) for seed in range(record.sizes["seed"])]
    guess = np.median(record["predicted_turn_time"].values, axis=0)
    seen = np.abs(np.median(record["predicted_turn_height"].values, axis=0)) > VISIBLE
    guess = np.where(seen & (guess <= np.nanmax(runs[0]["look_step"].values)), guess, np.nan)
    kinds = [_turn_kinds(guess, turn_times(run, share, sign)) for run in runs]
    return {name: np.array([float((found == name).sum()) for found in kinds]) for name in TURNS}


def _turn_kinds(guess: Array, truth: Array) -> NDArray[np.str_]:
    told = np.array([within_factor([one], [other], factor=FACTOR) == 1 for one, other in zip(guess, truth, strict=True)])
    both, either = np.isfinite(guess) & np.isfinite(truth), np.isfinite(guess) | np.isfinite(truth)
    return np.select(
        [told, both, either & np.isfinite(truth), either], ["told", "wrong time", "missed", "false alarm"], default="neither"
    )


def _first(time: Array, reached: NDArray[np.bool_]) -> float:
    return float(time[reached.argmax()]) if reached.any() else float("nan")
