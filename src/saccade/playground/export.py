"""A record of `saccade.flow`, `train` or `reduced_flow` as a JSON file that the playground lays
beside a live run.

The file holds one run, its settings in the words of the page's engine, and its start where the
record has kept it, so that the live run begins at the same place. Training on batches has noise
that the page's descent has not; the rest of its settings are kept.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from saccade.errors import InputError, shortened
from saccade.records.json_files import parsed_json
from saccade.records.writing import write_named

if TYPE_CHECKING:
    import xarray as xr

_MOST_TIMES, _MOST_CELLS = (
    1000,
    500_000,
)  # a chart has fewer pixels than the first; the second is about 10 MB of text
_DIGITS = 10  # of attention, loss and singular values: more than a screen or the page's own comparison can tell
_LAZY = 1e-9  # how far a table may be from a lazy chain's, by rounding
_WEIGHTS = {
    "embedding": "embedding",
    "query": "query_matrix",
    "key": "key_matrix",
    "projection": "projection",
}


def export_record(
    record: xr.Dataset, path: str | Path, *, seed: int | None = None, rate: int = 0
) -> None:
    """Write one run of `record` to `path`; of several, that of `seed` (default: the first) and of
    the `rate`-th pair of rates.
    """
    write_named(
        Path(path),
        json.dumps(playground_record(record, seed=seed, rate=rate), allow_nan=False),
        ".json",
    )


def playground_record(
    record: xr.Dataset, *, seed: int | None = None, rate: int = 0
) -> dict[str, Any]:
    """The same as plain lists and numbers."""
    if (
        "attention" not in record
        or "config" not in record.attrs
        or not ({"token_prob", "transition"} & set(record))
    ):
        raise InputError(
            "the playground shows runs of classes or of a chain: the record must hold `attention` and its data."
        )
    of_chain = "transition" in record
    run = record
    if "rate" in run.dims:
        if not 0 <= rate < run.sizes["rate"]:
            raise InputError(
                f"`rate` must be from 0 to {run.sizes['rate'] - 1}, the pairs of rates in the record; got {rate}."
            )
        run = run.isel(rate=rate)
    if "seed" in run.dims:
        seeds = run.seed.values.tolist()
        if seed is not None and seed not in seeds:
            raise InputError(
                f"`seed` must be one of the record's, {shortened(seeds)}; got {shortened(seed)}."
            )
        run = run.isel(seed=0 if seed is None else seeds.index(seed))
    config = parsed_json(record.attrs["config"])
    settings = _chain_settings(run, config) if of_chain else _class_settings(run, config)
    # Times to keep: those that are finite, thinned evenly to what a page can draw.
    attention = run.attention.transpose("time", ..., "token").values.reshape(run.sizes["time"], -1)
    good = np.flatnonzero(np.isfinite(attention).all(axis=1) & np.isfinite(run.loss.values))
    most = max(2, min(_MOST_TIMES, _MOST_CELLS // max(1, attention.shape[1])))
    if len(good) > most:
        good = good[np.unique(np.rint(np.linspace(0, len(good) - 1, most)).astype(int))]
    kept = run.isel(time=good)
    if kept.sizes["time"] == 0:
        raise InputError(
            "the run has no time at which attention and loss are finite: there is nothing to show."
        )
    return {
        "saccade": "playground-record",
        "model": "focus-and-dilution" if of_chain else "scan-and-snap",
        "dynamics": record.attrs.get("dynamics", ""),
        "settings": settings | _dynamics(run, config, record.attrs.get("dynamics", "")),
        "time": kept.time.values.astype(float).tolist(),
        "attention": _rounded(kept.attention.transpose("time", ..., "token").values),
        "loss": _rounded(kept.loss.values),
        "tokens": [
            str(name)
            for name in (run.token.values if "token" in run.coords else range(run.sizes["token"]))
        ],
    } | _singular_values(kept)


def _rounded(values: NDArray[Any]) -> list[Any]:
    """As lists, each number to so many significant digits."""
    digits = np.array([float(f"{value:.{_DIGITS}g}") for value in np.ravel(values)])
    return digits.reshape(np.shape(values)).tolist()


def _class_settings(run: xr.Dataset, config: dict[str, Any]) -> dict[str, Any]:
    model = config.get("model", {"init": "zero"})
    settings: dict[str, Any] = {
        "tokenProb": run.token_prob.values.tolist(),
        "query": run.class_query.values.tolist(),
        "nextToken": run.class_next.values.tolist(),
        "classWeight": run.class_weight.values.tolist(),
        "nVocab": run.sizes["token"],
    }
    other = [
        name
        for name, usual in (("normalise", True), ("residual", False), ("query_key", False))
        if model.get(name, usual) != usual
    ]
    if other:
        raise InputError(
            f"the playground has only the paper's model; this run has other settings of {', '.join(other)}."
        )
    if model["init"] == "zero":
        return settings
    if {"decoder", "attention_logits"} <= set(run):
        first = run.isel(time=0)
        start = {
            "decoder": first.decoder.values.tolist(),
            "attentionLogits": first.attention_logits.values.tolist(),
        }
        return settings | {"init": "uniform", "start": start}
    return (
        settings
        | {"init": "uniform"}
        | ({"initScale": model["init_scale"]} if model.get("init_scale") else {})
    )


def _chain_settings(run: xr.Dataset, config: dict[str, Any]) -> dict[str, Any]:
    pi, table, model = run.stationary.values, run.transition.values, config["model"]
    stay = float((table[0, 0] - pi[0]) / (1 - pi[0]))
    if np.abs(table - stay * np.eye(len(pi)) - (1 - stay) * pi).max() > _LAZY:
        raise InputError(
            "the playground has only lazy chains, which repeat a token or draw a new one; this chain is another."
        )
    settings = {
        "stationary": pi.tolist(),
        "stay": stay,
        "dModel": model["d_model"],
        "dKey": model["d_key"],
        "initScale": model["init_scale"],
        "logitScale": model["logit_scale"] / (model["d_model"] ** 0.5 if model["scaled"] else 1.0),
    }
    if set(_WEIGHTS.values()) <= set(run) and float(run.time[0]) == 0:
        settings["start"] = {
            ours: run[theirs].values[0].tolist() for ours, theirs in _WEIGHTS.items()
        }
    return settings


def _dynamics(run: xr.Dataset, config: dict[str, Any], label: str) -> dict[str, Any]:
    """Rates and optimiser as the page names them. A rank-one flow is laid beside the whole model's
    flow, which it stands for.
    """
    rates = {"lrDecoder": float(run.lr_decoder), "lrAttention": float(run.lr_attention)}
    if not label.startswith("A"):
        return rates | {
            "optimiser": "reduced" if label.startswith("C") and "token_prob" in run else "flow"
        }
    optimiser = config["optimiser"]
    if optimiser["name"] == "sgd" and optimiser["momentum"]:
        return rates | {"optimiser": "momentum", "momentum": optimiser["momentum"]}
    return rates | {"optimiser": optimiser["name"]}


def _singular_values(run: xr.Dataset) -> dict[str, Any]:
    """Of the embedding or of the decoder, largest first, where the record has kept them."""
    if "gamma" in run:
        return {"singularValues": _rounded(np.linalg.norm(run.gamma.values, axis=1, keepdims=True))}
    matrix, most = (
        ("embedding", None) if "embedding" in run else ("decoder", run.sizes.get("class"))
    )
    if matrix not in run:
        return {}
    return {
        "singularValues": _rounded(np.linalg.svd(run[matrix].values, compute_uv=False)[:, :most])
    }
