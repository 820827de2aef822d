"""What the record of `forecast` holds: the forecasts as they were made, and beside them what training did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.experiments.real_text.forecast_runs import STAGE_AXES, Array

if TYPE_CHECKING:
    import xarray as xr

DEFINITIONS = {
    "predicted_gain": ("1", "forecast: gain of each token's attention logit since the start"),
    "measured_gain": ("1", "the same in training"),
    "attention_start": ("1", "share of each token in the query's contexts"),
    "distinct": ("", "one class of the query shows the token more than all its other classes together"),
    "frequency": ("1", "share of the token in the text"),
    "coverage": ("1", "share of training positions that belong to the classes"),
    "scan_time": ("updates", "forecast: end of scanning of each query"),
    "snap_time": ("updates", "forecast: onset of snapping of each query"),
    "on_frequent": ("1", "attention of each query on the most frequent token, of an endless context"),
    "top_share": ("1", "share of the embedding's top direction in its square"),
    "embedding_norm": ("1", "length of the embedding"),
    "query_norm": ("1", "length of the query matrix"),
    "query_scale": ("1", "how far the query matrix sends the top direction of the embedding"),
    "population_loss": ("nats", "cross-entropy of the next token, contexts endless, pairs as often as in the text"),
    "look_step": ("updates", "when an embedded run was looked at"),
    "unigram_loss": ("nats", "entropy of the tokens' shares"),
    "word_share": ("1", "share of each token of the small vocabulary"),
    "predicted_condensation_rate": ("1/update", "forecast: growth rate of the embedding"),
    "predicted_focus_rate": (
        "1/update",
        "forecast: growth rate of query and key; negative: attention turns away from frequent tokens",
    ),
    "predicted_query_path": ("1", "forecast, from the first start: how far the query matrix sends the one direction"),
    "predicted_sign": ("", "forecast: +1 to the most frequent token first, -1 away from it"),
    "predicted_condensed_time": ("updates", "forecast, from each random start: embeddings lie along one direction"),
    "predicted_plateau_time": ("updates", "forecast: the unigram law is learnt"),
    "predicted_focus_onset": ("updates", "forecast: query matrices have begun to grow"),
    "predicted_turn_time": ("updates", "forecast: a query's attention on the most frequent token turns back"),
    "predicted_turn_height": ("1", "forecast: how far from its share it gets"),
    "predicted_on_frequent": ("1", "forecast, from the first start: attention of each query on the most frequent token"),
}
_KEPT = ("attention_start", "distinct", "scan_time", "snap_time", "coverage")
_RATES = ("condensation_rate", "focus_rate")
_TOLD = ("condensed_time", "plateau_time", "focus_onset", "turn_time", "turn_height", "on_frequent", "query_path")


def order_variables(order: xr.Dataset, alone: Array, found: list[Array], looks: Array) -> dict[str, Any]:
    """`alone`: gains on the classes (way, seed, time, query, token); `found`: on text, seeds of SGD, then of Adam."""
    path = order.gain_path.transpose("time", "query", "token")
    on_text = np.stack(found).reshape(2, alone.shape[1], *found[0].shape)
    return {
        "predicted_gain": (path.dims, path.interp(time=looks, kwargs={"fill_value": "extrapolate"}).values),
        "measured_gain": (("way", "seed", *path.dims), np.concatenate([alone, on_text])),
        **{name: (order[name].dims, order[name].values) for name in _KEPT},
    }


def stage_variables(stages: xr.Dataset, found: list[dict[str, Array]], looks: list[np.ndarray]) -> dict[str, Any]:
    """`found`: seeds of SGD, then of Adam; `looks`: steps at which each of the two was looked at."""
    n_looks, law = max(len(steps) for steps in looks), stages.frequency.values
    variables: dict[str, Any] = {f"predicted_{name}": (stages[name].dims, stages[name].values) for name in (*_RATES, *_TOLD)}
    for name, axes in STAGE_AXES.items():
        runs = np.stack([_padded(run[name], n_looks) for run in found])
        variables[name] = (("optimiser", "seed", "look", *axes), runs.reshape(2, -1, *runs.shape[1:]))
    return variables | {
        "look_step": (("optimiser", "look"), np.stack([_padded(steps.astype(float), n_looks) for steps in looks])),
        "predicted_sign": ((), float(stages.focus_sign)),
        "word_share": (("word",), law),
        "unigram_loss": ((), float(-(law * np.log(law)).sum())),
    }


def _padded(values: Array, length: int) -> Array:
    """The same with NaN for looks that this run does not have, or did not get to."""
    return np.concatenate([values, np.full((length - len(values), *values.shape[1:]), np.nan)])
