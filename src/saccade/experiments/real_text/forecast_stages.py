"""What became of the stages that were forecast: the same numbers, taken from training runs of the embedded model on text.

Every event is defined as the forecast defines it (`forecasting/stages.py`); looks are those of the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from saccade.experiments.real_text.forecast_scores import FACTOR
from saccade.forecasting.score import TURN, within_factor
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
_APART = 3.0  # a rate is fitted where what grows is so far from where it starts and from where it ends


def growth_rate(time: Array, size: Array) -> float:
    """Growth rate of what grows as e^(rate t): slope of its logarithm between three times its start and a third of its peak.

    NaN if fewer than three looks lie there.
    """
    top = int(np.nanargmax(size))
    inside = (np.arange(len(size)) <= top) & (size >= _APART * size[0]) & (size <= size[top] / _APART)
    return float(np.polyfit(time[inside], np.log(size[inside]), 1)[0]) if inside.sum() >= 3 else float("nan")


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
    """By seed: ratios of measured to predicted rates, times of events and whether they were told, sign, turns that were told."""
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
            "side": np.array([side for side, _ in sides]),
            "moved_at": np.array([when for _, when in sides]),
            "sign told": np.array([float(side == sign) for side, _ in sides]),
            "turns told": np.array([_turns_told(record, turn_times(run, share, sign)) for run in runs]),
            "diluted": np.array([float(np.isfinite(turn_times(run, share, 1.0)).any()) for run in runs]),
        }
    )


def _middle(record: xr.Dataset, name: str) -> float:
    """The predicted time: the middle one of the forecast's random starts."""
    return float(np.median(record[f"predicted_{name}"].values))


def _rates(runs: list[xr.Dataset], name: str) -> Array:
    return np.array([growth_rate(run["look_step"].values, run[name].values) for run in runs])


def _turns_told(record: xr.Dataset, measured: Array) -> float:
    """Share of the queries that were to move visibly of which it was told when they turn back, or that they do not."""
    seen = np.abs(np.median(record["predicted_turn_height"].values, axis=0)) > VISIBLE
    guess, truth = np.median(record["predicted_turn_time"].values, axis=0)[seen], measured[seen]
    told = [float(within_factor([one], [other], factor=FACTOR)) for one, other in zip(guess, truth, strict=True)]
    return float(np.mean(np.nan_to_num(told, nan=1.0))) if told else float("nan")  # neither predicted nor measured: told


def _first(time: Array, reached: NDArray[np.bool_]) -> float:
    return float(time[reached.argmax()]) if reached.any() else float("nan")
