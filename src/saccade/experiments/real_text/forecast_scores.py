r"""Scores of a forecast against training runs, beside those of forecasts that need no theory.

| forecaster        | says                                                                                                    |
|-------------------|---------------------------------------------------------------------------------------------------------|
| forecast          | the population flow of the counted classes, contexts endless                                            |
| short contexts    | the same classes trained on, with contexts as short as in the text; mean over seeds, the text not seen  |
| follows frequency | the more frequent of two tokens gains more, and those above the middle rank gain                        |
| nothing changes   | no token gains or loses                                                                                 |

All say something of the same tokens, those that stand before the query in the counted classes.
Attention is that of a long context with the frequencies of the query's contexts, $a_l \propto s_l e^{z_l}$, for both sides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from saccade.forecasting import naive
from saccade.forecasting.score import attention_distance, rank_agreement, sign_agreement, within_factor

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]
FORECASTERS = ("forecast", "short contexts", "follows frequency", "nothing changes")
FACTOR = 2.0  # a time is told if it is right to within this factor; set before any run
MOVED = 0.1  # a token has moved if it has by this part of its query's largest move; set before any run
MEASURES = {
    "distinct order": "rank correlation of predicted and measured gain among the distinct tokens of a query",
    "token order": "rank correlation of predicted and measured gain among all tokens of a query",
    "common sign": "share of the common tokens that moved whose sign was predicted",
    "attention": "distance of predicted from measured attention at the end, in total variation",
    "half way": f"share of queries whose attention is half way within a factor of {FACTOR:g} of the time predicted",
}


def order_scores(record: xr.Dataset, way: str, forecaster: str) -> dict[str, Array]:
    """Every measure of `MEASURES` by seed, mean over queries; NaN where a forecaster says nothing, or is what it is scored on."""
    if (way, forecaster) == ("short", "short contexts"):
        return {name: np.full(record.sizes["seed"], np.nan) for name in MEASURES}
    guess = predicted_gain(record, forecaster)
    runs = record["measured_gain"].sel(way=way).transpose("seed", "time", "query", "token").values
    return {name: np.array([_score(record, name, forecaster, guess, run) for run in runs]) for name in MEASURES}


def predicted_gain(record: xr.Dataset, forecaster: str) -> Array:
    """Gain of every token (time, query, token) as the forecaster has it; of the naive ones the same at all times."""
    path = record["predicted_gain"].values
    if forecaster == "follows frequency":
        return np.broadcast_to(naive.follows_frequency(record["frequency"].values, n_queries=path.shape[1]), path.shape)
    if forecaster == "short contexts":
        return record["measured_gain"].sel(way="short").mean("seed").transpose("time", "query", "token").values
    return path if forecaster == "forecast" else np.zeros_like(path)


def _score(record: xr.Dataset, name: str, forecaster: str, guess: Array, run: Array) -> float:
    start, distinct = record["attention_start"].values, record["distinct"].values
    seen = start > 0
    if name == "half way":
        return _half_way_score(record, forecaster, guess, run)
    if name == "attention":
        says = forecaster != "follows frequency"
        return attention_distance(attention(guess[-1], start), attention(run[-1], start)) if says else float("nan")
    members = {"distinct order": seen & distinct, "token order": seen, "common sign": seen & ~distinct}[name]
    pairs = [(guess[-1, q][own], run[-1, q][own], np.abs(run[-1, q]).max()) for q, own in enumerate(members)]
    if name == "common sign":
        return _mean([sign_agreement(told, truth, least=MOVED * largest) for told, truth, largest in pairs])
    return _mean([rank_agreement(told, truth) for told, truth, _ in pairs])


def _half_way_score(record: xr.Dataset, forecaster: str, guess: Array, run: Array) -> float:
    if forecaster == "follows frequency":
        return float("nan")
    time, start = record["time"].values, record["attention_start"].values
    return within_factor(half_way(time, attention(guess, start)), half_way(time, attention(run, start)), factor=FACTOR)


def attention(gain: Array, start: Array) -> Array:
    """Attention (..., query, token) in a long context that has every token as often as the query's contexts."""
    weight = start * np.exp(gain - gain.max(axis=-1, keepdims=True))
    return weight / weight.sum(axis=-1, keepdims=True)


def half_way(time: Array, attention: Array) -> Array:
    """When the attention of each query (query) is half as far from its start as at the end; NaN if it has not moved."""
    moved = np.abs(attention - attention[0]).sum(axis=-1) / 2
    return np.array([time[(far >= far[-1] / 2).argmax()] if far[-1] > 0 else np.nan for far in moved.T])


def _mean(values: list[float]) -> float:
    """Mean over queries, those that cannot be scored left out."""
    known = [value for value in values if np.isfinite(value)]
    return float(np.mean(known)) if known else float("nan")
