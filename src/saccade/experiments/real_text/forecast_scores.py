r"""Scores of a forecast against training runs, beside those of forecasts that need no theory.

| forecaster        | says                                                                                                    |
|-------------------|---------------------------------------------------------------------------------------------------------|
| forecast          | the population flow of the counted classes, contexts endless; the clock in closed form                  |
| short contexts    | the same classes trained on, with contexts as short as in the text; mean over seeds, the text not seen  |
| follows frequency | the more frequent of two tokens gains more, and those above the middle rank gain                        |
| nothing changes   | no token gains or loses                                                                                 |
| majority sign     | one sign for all tokens, that which more of them turned out to have: known afterwards only              |

All say something of the same tokens, those that stand before the query in the counted classes. What is scored is the mean gain over
seeds. Scores of tokens weigh every token alike, those of queries every query.
Attention is that of a long context with the frequencies of the query's contexts, $a_l \propto s_l e^{z_l}$, for both sides.

The clock says when scanning ends and when snapping begins. In between the speed of attention is highest [tian2023, Lemma 9]. It is
told if the highest speed measured comes between the two, to a factor of two at either end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from saccade.experiments.real_text.forecast_resampling import query_draws, rank_correlations, token_draws, weighted_mean
from saccade.forecasting import naive
from saccade.forecasting.score import within_factor

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]
FACTOR = 2.0  # a time is told if it is right to within this factor; set before any run
MOVED = 0.1  # a token has moved if it has by this part of its query's largest move; set before any run
_LEAST = 3  # tokens that have an order worth the name: two are right by chance every other time
_SPEED_WINDOWS = 60  # log-spaced, [t, 2t]: wide enough to average the noise of batches
MEASURES = {
    "distinct order": "rank correlation of predicted and measured gain among the distinct tokens of a query",
    "token order": "rank correlation of predicted and measured gain among all tokens of a query",
    "other sign": "share of the tokens not distinct that moved whose sign was predicted",
    "attention": "distance of predicted from measured attention at the end, in total variation",
    "half way": f"share of queries whose attention is half way within a factor of {FACTOR:g} of the time predicted",
    "clock": f"share of queries whose speed is highest from end of scan to snap, to a factor of {FACTOR:g}",
}
_ORDERS = ("distinct order", "token order")
_SAYS = {
    "forecast": tuple(MEASURES),
    "short contexts": (*_ORDERS, "other sign", "attention", "half way"),
    "follows frequency": (*_ORDERS, "other sign"),
    "nothing changes": (*_ORDERS, "other sign", "attention", "half way"),
    "majority sign": ("other sign",),
}
FORECASTERS = tuple(_SAYS)


def says(way: str, forecaster: str, name: str) -> bool:
    """Whether the forecaster says anything of this measure, and is not what it is scored on."""
    return name in _SAYS[forecaster] and (way, forecaster) != ("short", "short contexts")


def score_draws(record: xr.Dataset, way: str, forecaster: str, name: str) -> Array:
    """A measure of `MEASURES`, first of the sample, then of every draw over queries and tokens (draw); NaN if nothing is said."""
    queries = query_draws(record.sizes["query"])
    if not says(way, forecaster, name):
        return np.full(len(queries), np.nan)
    guess, run = predicted_gain(record, way, forecaster), measured_gain(record, way)
    if name in ("attention", "half way", "clock"):
        each = {"attention": _distance, "half way": _half_way_told, "clock": _clock_told}[name](record, guess, run)
        return weighted_mean(each[None], queries)
    members, each_draw = scored_tokens(record, way, name), []
    for query, own in enumerate(members):
        weight = token_draws(int(own.sum()), query)
        told, truth = guess[-1, query][own], run[-1, query][own]
        right = (np.sign(told) == np.sign(truth)).astype(float)[None]
        each_draw.append(weighted_mean(right, weight) if name == "other sign" else _correlations(told, truth, weight))
    return weighted_mean(np.stack(each_draw, axis=1), queries * members.sum(axis=1))


def _correlations(told: Array, truth: Array, weight: Array) -> Array:
    return rank_correlations(told, truth, weight) if len(told) >= _LEAST else np.full(len(weight), np.nan)


def scored_tokens(record: xr.Dataset, way: str, name: str) -> NDArray[np.bool_]:
    """The tokens that a measure is taken over (query, token)."""
    seen, distinct = record["attention_start"].values > 0, record["distinct"].values
    if name != "other sign":
        return seen & distinct if name == "distinct order" else seen
    end = np.abs(measured_gain(record, way)[-1])
    return seen & ~distinct & (end > MOVED * end.max(axis=-1, keepdims=True))


def n_scored(record: xr.Dataset, way: str, name: str) -> tuple[int, str]:
    """How many tokens or queries a measure is taken over."""
    if name == "clock":
        return int(_within_run(record).sum()), "queries whose snap lies within the run"
    if name in ("attention", "half way"):
        return record.sizes["query"], "queries"
    members = scored_tokens(record, way, name)
    return int(members.sum()), f"tokens of {int(members.any(axis=1).sum())} queries"


def measured_gain(record: xr.Dataset, way: str) -> Array:
    """Mean over seeds (time, query, token)."""
    return record["measured_gain"].sel(way=way).mean("seed").transpose("time", "query", "token").values


def predicted_gain(record: xr.Dataset, way: str, forecaster: str) -> Array:
    """Gain of every token (time, query, token) as the forecaster has it; of the naive ones the same at all times."""
    path = record["predicted_gain"].values
    if forecaster == "follows frequency":
        return np.broadcast_to(naive.follows_frequency(record["frequency"].values, n_queries=path.shape[1]), path.shape)
    if forecaster == "short contexts":
        return measured_gain(record, "short")
    if forecaster == "majority sign":
        signs = np.sign(measured_gain(record, way)[-1][scored_tokens(record, way, "other sign")])
        return np.full_like(path, 1.0 if signs.sum() > 0 else -1.0)
    return path if forecaster == "forecast" else np.zeros_like(path)


def _distance(record: xr.Dataset, guess: Array, run: Array) -> Array:
    start = record["attention_start"].values
    return np.abs(attention(guess[-1], start) - attention(run[-1], start)).sum(axis=-1) / 2


def _half_way_told(record: xr.Dataset, guess: Array, run: Array) -> Array:
    time, start = record["time"].values, record["attention_start"].values
    pairs = zip(half_way(time, attention(guess, start)), half_way(time, attention(run, start)), strict=True)
    return np.array([within_factor([told], [truth], factor=FACTOR) for told, truth in pairs])


def _within_run(record: xr.Dataset) -> NDArray[np.bool_]:
    return record["snap_time"].values <= record["time"].values[-1]


def _clock_told(record: xr.Dataset, guess: Array, run: Array) -> Array:
    """Of each query whose snap lies within the run; NaN of the others."""
    when = fastest(record["time"].values, run)
    told = (record["scan_time"].values / FACTOR <= when) & (when <= FACTOR * record["snap_time"].values)
    return np.where(_within_run(record), told.astype(float), np.nan)


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


def attention(gain: Array, start: Array) -> Array:
    """Attention (..., query, token) in a long context that has every token as often as the query's contexts."""
    weight = start * np.exp(gain - gain.max(axis=-1, keepdims=True))
    return weight / weight.sum(axis=-1, keepdims=True)


def half_way(time: Array, attention: Array) -> Array:
    """When the attention of each query (query) is half as far from its start as at the end; NaN if it has not moved."""
    moved = np.abs(attention - attention[0]).sum(axis=-1) / 2
    return np.array([time[(far >= far[-1] / 2).argmax()] if far[-1] > 0 else np.nan for far in moved.T])
