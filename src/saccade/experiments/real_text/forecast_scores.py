r"""How good a forecast was: scores of gains with intervals over queries and tokens, and scores of the stages for each seed.

All forecasters speak of the same tokens, those that stand before the query in the counted classes. Seeds share text, classes and
start, so that a spread over them says nothing of other queries or tokens: gains are averaged over seeds, then queries are drawn
with replacement and, within each, its tokens. Draws are the same for all forecasters, so that differences are paired. With few
queries intervals are rough, and rather too narrow than too wide. Every token weighs alike, or every query.
Attention is that of a long context with the frequencies of the query's contexts, $a_l \propto s_l e^{z_l}$.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from saccade.forecasting import naive
from saccade.forecasting.score import TURN, exponential_rate, in_time
from saccade.observe.events import CONDENSED, GROWN, LEARNT
from saccade.observe.fits import Interval, first_time, half_way_time
from saccade.observe.turning_points import VISIBLE, local_noise, peaks, smoothed, thresholds

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
FACTOR = 2.0  # a time was forecast if it is right to within this factor; set before any run
MOVED = 0.1  # a token has moved if it has by this part of its query's largest move; set before any run
DRAWS = 1000  # the ends of an interval then lie on 25 draws each
_LEAST = 3  # tokens that have an order worth the name: two are right by chance every other time
_SPEED_WINDOWS = 60  # log-spaced, [t, 2t]: wide enough to average the noise of batches
MEASURES = {
    "distinct order": "rank correlation of predicted and measured gains, distinct tokens",
    "token order": "rank correlation of predicted and measured gains, all tokens",
    "other sign": "share of tokens not distinct that moved whose sign was predicted",
    "attention": "distance of predicted from measured attention at the end, in total variation",
    "half way": f"share of queries whose attention is half way when predicted, to a factor of {FACTOR:g}",
    "clock": f"share of queries fastest between end of scan and onset of snap, to a factor of {FACTOR:g}",
}
_ORDERS_AND_SIGNS = ("distinct order", "token order", "other sign")
FORECASTERS = {  # and the measures that each says something of
    "forecast": tuple(MEASURES),  # the population flow of the counted classes, contexts endless; the clock in closed form
    "short contexts": (*_ORDERS_AND_SIGNS, "attention", "half way"),  # trained on the classes, contexts as short as in the text
    "follows frequency": _ORDERS_AND_SIGNS,  # the more frequent of two tokens gains more; those above the middle rank gain
    "nothing changes": (*_ORDERS_AND_SIGNS, "attention", "half way"),
    "majority sign": ("other sign",),  # that which more of the tokens turned out to have: known afterwards only
}
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


def says(way: str, forecaster: str, name: str) -> bool:
    """Whether the forecaster says anything of this measure, and is not what it is scored on."""
    return name in FORECASTERS[forecaster] and (way, forecaster) != ("short", "short contexts")


def score_draws(record: xr.Dataset, way: str, forecaster: str, name: str) -> Array:
    """A measure of `MEASURES`, first of the sample, then of every draw over queries and tokens (draw); NaN if nothing is said."""
    queries = drawn(record.sizes["query"])
    if not says(way, forecaster, name):
        return np.full(len(queries), np.nan)
    guess, run = predicted_gain(record, way, forecaster), measured_gain(record, way)
    if name in ("attention", "half way", "clock"):
        each = {"attention": _distance, "half way": _half_way_told, "clock": _clock_told}[name](record, guess, run)
        return weighted_mean(each[None], queries)
    members, each_draw = scored_tokens(record, way, name), []
    for query, own in enumerate(members):
        weight = drawn(int(own.sum()), query)
        told, truth = guess[-1, query][own], run[-1, query][own]
        right = (np.sign(told) == np.sign(truth)).astype(float)[None]
        each_draw.append(weighted_mean(right, weight) if name == "other sign" else rank_correlations(told, truth, weight))
    return weighted_mean(np.stack(each_draw, axis=1), queries * members.sum(axis=1))


def interval_of(draws: Array) -> Interval:
    """The score of the sample, and the middle 95 % of the draws; those that cannot be scored are left out."""
    known = draws[1:][np.isfinite(draws[1:])]
    low, high = np.quantile(known, [0.025, 0.975]) if len(known) else (np.nan, np.nan)
    return Interval(float(draws[0]), float(low), float(high))


@lru_cache(maxsize=64)
def drawn(n: int, *place: int) -> Array:
    """How often each of `n` is drawn with replacement (draw, n), one stream for each place; the first draw is the sample itself."""
    if n == 0:
        return np.zeros((1 + DRAWS, 0))
    again = np.random.default_rng([0, n, *place]).multinomial(n, np.full(n, 1 / n), DRAWS)
    return np.concatenate([np.ones((1, n)), again])


def rank_correlations(guess: Array, truth: Array, weight: Array) -> Array:
    """Spearman's correlation in every draw (draw): the one of values of which each stands there as often as `weight` says.

    0 where the guess has no order; NaN where the truth has none, or where there are too few values.
    """
    if len(guess) < _LEAST:
        return np.full(len(weight), np.nan)
    a, b = (_centred_ranks(values, weight) for values in (guess, truth))
    squares = [np.sum(weight * ranks**2, axis=1) for ranks in (a, b)]
    scale = np.sqrt(squares[0] * squares[1])
    found = np.divide(np.sum(weight * a * b, axis=1), scale, out=np.zeros(len(weight)), where=scale > 0)
    return np.where(squares[1] > 0, found, np.nan)


def _centred_ranks(values: Array, weight: Array) -> Array:
    """Ranks less their mean (draw, value); equal values share theirs."""
    _, first, place = np.unique(np.sort(values), return_index=True, return_inverse=True)
    order = np.argsort(values, kind="stable")
    mass = np.add.reduceat(weight[:, order], first, axis=1)
    rank = np.empty_like(weight)
    rank[:, order] = (np.cumsum(mass, axis=1) - mass / 2)[:, place]
    return rank - np.sum(weight * rank, axis=1, keepdims=True) / weight.sum(axis=1, keepdims=True)


def weighted_mean(values: Array, weight: Array) -> Array:
    """Mean over the last axis in every draw (draw); what cannot be scored is left out, NaN if nothing is left."""
    known = np.where(np.isfinite(values), weight, 0.0)
    total = known.sum(axis=-1)
    return np.divide(np.sum(known * np.nan_to_num(values), axis=-1), total, out=np.full(len(total), np.nan), where=total > 0)


def scored_tokens(record: xr.Dataset, way: str, name: str) -> Mask:
    """The tokens that a measure is taken over (query, token)."""
    seen, distinct = record["attention_start"].values > 0, record["distinct"].values
    if name != "other sign":
        return seen & distinct if name == "distinct order" else seen
    end = np.abs(measured_gain(record, way)[-1])
    return seen & ~distinct & (end > MOVED * end.max(axis=-1, keepdims=True))


def scored(record: xr.Dataset, way: str, name: str) -> str:
    """How many tokens or queries a measure is taken over, in words."""
    if name == "clock":
        return f"{_within_run(record).sum()} queries whose snap lies within the run"
    if name in ("attention", "half way"):
        return f"{record.sizes['query']} queries"
    members = scored_tokens(record, way, name)
    return f"{members.sum()} tokens of {members.any(axis=1).sum()} queries"


def measured_gain(record: xr.Dataset, way: str) -> Array:
    """Mean over seeds (time, query, token)."""
    return record["measured_gain"].sel(way=way).mean("seed").transpose("time", "query", "token").values


def predicted_gain(record: xr.Dataset, way: str, forecaster: str) -> Array:
    """Gain of every token (time, query, token) as the forecaster has it; for those without theory the same at all times."""
    path = record["predicted_gain"].values
    if forecaster == "follows frequency":
        return np.broadcast_to(naive.follows_frequency(record["frequency"].values, n_queries=path.shape[1]), path.shape)
    if forecaster == "short contexts":
        return measured_gain(record, "short")
    if forecaster == "majority sign":
        signs = np.sign(measured_gain(record, way)[-1][scored_tokens(record, way, "other sign")])
        return np.full_like(path, 1.0 if signs.sum() > 0 else -1.0)
    return path if forecaster == "forecast" else np.zeros_like(path)


def attention(gain: Array, start: Array) -> Array:
    """Attention (..., query, token) in a long context that has every token as often as the query's contexts."""
    weight = start * np.exp(gain - gain.max(axis=-1, keepdims=True))
    return weight / weight.sum(axis=-1, keepdims=True)


def _distance(record: xr.Dataset, guess: Array, run: Array) -> Array:
    start = record["attention_start"].values
    return np.abs(attention(guess[-1], start) - attention(run[-1], start)).sum(axis=-1) / 2


def _half_way_told(record: xr.Dataset, guess: Array, run: Array) -> Array:
    time, start = record["time"].values, record["attention_start"].values
    paths = (np.moveaxis(attention(gain, start), 1, 0) for gain in (guess, run))
    told, truth = ([half_way_time(time, path) for path in of_queries] for of_queries in paths)
    return in_time(told, truth, factor=FACTOR)


def _clock_told(record: xr.Dataset, guess: Array, run: Array) -> Array:
    """Between end of scan and onset of snap the speed of attention is highest [tian2023, Lemma 9]; NaN of queries that snap
    later.
    """
    when = fastest(record["time"].values, run)
    told = (record["scan_time"].values / FACTOR <= when) & (when <= FACTOR * record["snap_time"].values)
    return np.where(_within_run(record), told.astype(float), np.nan)


def _within_run(record: xr.Dataset) -> Mask:
    return record["snap_time"].values <= record["time"].values[-1]


def fastest(time: Array, gain: Array) -> Array:
    """When the gains of each query (time, query, token) grow fastest along where they end (query); NaN if it is at the end."""
    starts = np.geomspace(time[1], time[-1] / 2, _SPEED_WINDOWS)
    found = []
    for path in np.moveaxis(gain, 1, 0):
        far = path @ path[-1]
        speed = (np.interp(2 * starts, time, far) - np.interp(starts, time, far)) / starts
        top = int(speed.argmax())
        found.append(1.5 * starts[top] if top < len(starts) - 1 else np.nan)
    return np.array(found)


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
