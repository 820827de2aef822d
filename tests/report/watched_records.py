"""Records of watched models: one that was really watched, and one of any size with curves that are
known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from saccade.records.schema import make_record

STATISTICS = (
    *("relative_entropy", "entropy", "top_mass", "top_k_mass", "effective_keys", "sink_mass"),
    *("self_mass", "previous_mass", "distinct_mass", "common_mass", "judged_mass", "moved"),
)


N_LAYERS, N_HEADS, N_TOKENS = 2, 3, 23  # of a small run


def small_run(slower: int = 0) -> xr.Dataset:
    """Heads that sharpen and look at the token before, looked at from step 0 on; of all tokens the
    maps are kept.
    """
    record = watched_record(17, N_LAYERS, N_HEADS, N_TOKENS, n_rows=N_TOKENS)
    steps = np.array(
        [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 800, 1000, 1300, 1600, 1800, 2000]
    ) * (1 + slower)
    alone = {
        name: 0.1 * record[name] for name in ("sink_mass", "self_mass")
    }  # so that heads take one place, and not two in turn
    return record.assign(alone).assign_coords(time=("time", steps, record.time.attrs))


def with_losses(record: xr.Dataset, loss: Callable[[np.ndarray], np.ndarray]) -> xr.Dataset:
    """The same run with the loss of every step, kept as a recorder keeps it: with the observation
    after it, by steps back.
    """
    looks = record.time.values
    back = np.diff(looks, prepend=looks[0] - 1)  # steps since the observation before
    kept = np.full((len(looks), back.max()), np.nan)
    for row, (look, count) in enumerate(zip(looks, back, strict=True)):
        kept[row, :count] = loss(look - np.arange(count))
    return record.assign(step_loss=(("time", "steps_back"), kept), loss=("time", loss(looks)))


def watched_record(
    n_times: int, n_layers: int, n_heads: int, n_keys: int, n_rows: int = 32, words: Any = None
) -> xr.Dataset:
    """Heads that sharpen one after the other, with noise; maps of one sequence."""
    rng = np.random.default_rng(11)
    steps = np.unique(np.geomspace(1, 1e6, 20 * n_times).astype(int))
    steps = steps[np.linspace(0, len(steps) - 1, n_times).astype(int)]
    onset = rng.uniform(0.3, 0.9, (n_layers, n_heads))
    sharp = 1 / (1 + np.exp(-15 * (np.linspace(0, 1, n_times)[:, None, None] - onset)))
    heads = ("time", "layer", "head")

    def noisy(values: np.ndarray) -> np.ndarray:
        return np.clip(values + rng.normal(0, 0.005, values.shape), 0, 1).astype(np.float32)

    variables: dict[str, Any] = {
        name: (heads, noisy(0.9 * sharp if name != "relative_entropy" else 1 - 0.8 * sharp))
        for name in STATISTICS
    }
    variables["decile_focus"] = (
        (*heads, "decile"),
        np.exp(sharp[..., None] * np.linspace(-1, 1, 10)).astype(np.float32),
    )
    variables["loss"] = (("time",), np.linspace(10, 3, n_times))
    rank = np.where((np.arange(n_times) % 7 == 0)[:, None, None], 60 - 50 * sharp, np.nan)
    variables["qk_effective_rank"] = (("time", "weight_layer", "weight_head"), rank)
    rows = np.unique(np.linspace(0, n_keys - 1, n_rows).round().astype(int))
    variables["attention_map"] = (
        ("time", "sequence", "layer", "head", "map_query", "key"),
        _maps(rng, sharp, rows, n_keys),
    )
    layers = [f"transformer.h.{number}.attn" for number in range(n_layers)]
    coords = {
        "time": steps,
        "sequence": [0],
        "map_query": rows,
        "layer": layers,
        "weight_layer": layers,
    }
    config = {
        "task": "synthetic",
        "map_tokens": [words or [f"word{place}" for place in range(n_keys)]],
    }
    definitions = {name: ("1", name.replace("_", " ")) for name in variables}
    return make_record(
        dynamics="watched training run",
        variables=variables,
        coords=coords,
        time_unit="updates",
        config=config,
        wall_time=1.0,
        definitions=definitions,
    )


def _maps(rng: np.random.Generator, sharp: np.ndarray, rows: np.ndarray, n_keys: int) -> np.ndarray:
    """Softmax of random logits that grow as a head sharpens; keys after the query have no weight.
    In float16, to fit memory.
    """
    n_times, n_layers, n_heads = sharp.shape
    logits = rng.normal(0, 1.5, (n_layers, n_heads, len(rows), n_keys)).astype(np.float32)
    logits[..., np.arange(n_keys) > rows[:, None]] = -np.inf
    start, end = _softmax(logits), _softmax(3 * logits)
    maps = np.empty((n_times, 1, *logits.shape), np.float16)
    for moment in range(n_times):
        share = sharp[moment].astype(np.float32)[..., None, None]
        maps[moment, 0] = (1 - share) * start + share * end
    return maps


def _softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)
