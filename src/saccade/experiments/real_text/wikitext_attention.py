"""Trained on WikiText by fast SGD, the attention of the lowest layer becomes sparse [tian2023, Fig. 7].

Transformers of one and three layers with the published notebook's settings (width 200, one head, sinusoidal positions, SGD at rate
5, 10 in the MLP, gradients clipped at 0.5, dropout 0.3, streams of 35 tokens). The figure shows the maps of iterations 0, 500, 1000
and 1500; the claims measure them on windows of validation text: relative entropy, the largest weight of a row, the number of keys
that matter, and attention on the query's own position. Comments in the published code say that lower rates "concentrate on the
diagonal"; so one claim asks that at this rate less than half of the attention is there.
Measured (2000 words, batches of 10 streams, one seed): from 0.97 of even attention's entropy to 0.005 (one layer) and 0.016
(three); the largest weight from 0.18 to 0.995 and 0.98; keys that matter from 15 to 1.01 and 1.05; at the end 0.09 and 0.06 on the
own position, 0.10 on the first. One layer is sparse after 50 updates, three wait for 250 and turn within the next 400. All claims
hold. About 100 s on two cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from saccade.dynamics.randomness import checked_seeds
from saccade.errors import InputError, checked_count
from saccade.experiments.real_text import wikitext_training as training
from saccade.experiments.real_text.runs import in_processes
from saccade.records.claim import Claim

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

SECONDS = 100
WHAT = "Fig. 7 of Scan and Snap"
EXPECTED = (
    "the lowest layer ends with less than half the entropy of even attention in {*below 1/2*1 layer:.0%} of runs with one layer, "
    "{*below 1/2*3 layers:.0%} with three"
)

CAPTION = (
    "Attention of the lowest layer in the first window of the validation text, row: query, column: key; dark is 1. Look at "
    "the rows: grey ramps at iteration 0, a few dark keys later. Right: the same in numbers, over all windows: relative entropy "
    "(1: even attention, 0: one key), the largest weight of a row, and attention on the query's own position. Bands: lowest and "
    "highest seed."
)


@dataclass(frozen=True)
class Config:
    """Settings."""

    text: str = "wikitext-2"
    """corpus: a name or a path"""
    n_vocab: int | None = 2000
    """words kept, the others are one token; None: all"""
    layers: tuple[int, ...] = (1, 3)
    """depths"""
    iterations: tuple[int, ...] = (0, 500, 1000, 1500)
    """updates at which maps are shown, the first 0"""
    every: int = 50
    """updates between two looks"""
    lr: float = 5.0
    """learning rate; twice that in the MLP"""
    seeds: int | tuple[int, ...] = 1
    """number of random starts (seeds 0, 1, 2, ...), or a list of seeds"""
    batch: int = 10
    """streams read side by side; 20 in the paper"""
    context: int = 35
    """tokens a window"""
    n_windows: int = 64
    """windows of validation text that attention is measured on"""


FULL = Config(n_vocab=None, seeds=3, batch=20)


def run(config: Config, on_progress: Callable[[float], None] = lambda fraction: None) -> xr.Dataset:
    started = time.perf_counter()
    seeds = checked_seeds(config.seeds)
    looks = _looks(config)
    jobs = [(_job(config, looks, depth, seed),) for depth in config.layers for seed in seeds]
    runs = in_processes(training.trained, jobs, on_progress)
    lowest = training.stacked([one.isel(layer=0, drop=True) for one in runs], {"n_layers": config.layers, "seed": seeds})
    return training.as_record(lowest, config, time.perf_counter() - started)


def _looks(config: Config) -> tuple[int, ...]:
    shown = list(config.iterations)
    if len(shown) < 2 or shown[0] != 0 or shown != sorted(set(shown)):
        raise InputError(f"`iterations` must rise from 0 and name a second one; got {config.iterations!r}.")
    return tuple(sorted({*range(0, shown[-1] + 1, checked_count("every", config.every)), *shown}))


def _job(config: Config, looks: tuple[int, ...], depth: int, seed: int) -> training.TextRun:
    return training.TextRun(
        text=config.text,
        n_vocab=config.n_vocab,
        lr=config.lr,
        looks=looks,
        seed=seed,
        n_layers=depth,
        ffn_ratio=training.FFN_RATIO,
        batch=config.batch,
        context=config.context,
        n_windows=config.n_windows,
    )


def claims(record: xr.Dataset) -> list[Claim]:
    """Directions are the figure's; they were written down when trials of a few hundred updates had been seen. Shares are of seeds;
    a run that diverged does not count as sparser.
    """
    assumptions = {
        "at least 1000 updates": int(record.time[-1]) >= 1000,
        "rate 5, as in the figure": training.settings(record)["lr"] == 5,
    }
    return [claim for depth in record.n_layers.values for claim in _depth_claims(record.sel(n_layers=depth), assumptions)]


def _depth_claims(record: xr.Dataset, assumptions: dict[str, bool]) -> list[Claim]:
    depth, source = int(record.n_layers), "[tian2023, Fig. 7]"
    where = f"lowest of {depth} layer{'s' if depth > 1 else ''}"
    start, end = record.isel(time=0), record.isel(time=-1)
    shares = {
        "in which relative entropy falls from first to last": end.relative_entropy < start.relative_entropy,
        "in which the largest weight of a row rises from first to last": end.top_mass > start.top_mass,
        "in which fewer keys matter at the last than at the first iteration": end.effective_keys < start.effective_keys,
        "with most of the attention off the diagonal at the last iteration": end.self_mass < 0.5,
    }
    return [
        Claim(f"share of runs {what}, {where}", source, 1.0, float(holds.mean()), 0.0, assumptions)
        for what, holds in shares.items()
    ] + [_halved(record, where, assumptions)]


def _halved(record: xr.Dataset, where: str, assumptions: dict[str, bool]) -> Claim:
    """Sparse, not only sparser: the figure's later maps show a few keys a row. Half of an even row's entropy is our reading of
    that, set when a trial had shown one layer far below it and three layers, 100 updates old, far above.
    """
    return Claim(
        statement=f"share of runs in which relative entropy is below 1/2 at the last iteration, {where}",
        source="[tian2023, Fig. 7], read as a number",
        predicted=1.0,
        measured=float((record.relative_entropy.isel(time=-1) < 0.5).mean()),
        tolerance=0.0,
        assumptions=assumptions,
    )


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    """Means over seeds at every look."""
    rows = []
    for depth in record.n_layers.values:
        for step in record.time.values:
            at = record.sel(n_layers=depth, time=step)
            named = {"n_layers": int(depth), "iteration": int(step), "valid_loss": float(at.valid_loss.mean())}
            rows.append(named | {name: float(at[name].mean()) for name in (*training.SHAPE, *training.PLACES)})
    return rows


def shown_iterations(record: xr.Dataset) -> Sequence[int]:
    return [int(step) for step in training.settings(record)["iterations"]]


def figure(record: xr.Dataset) -> Figure:
    from saccade.experiments.real_text.wikitext_attention_figure import draw

    return draw(record, shown_iterations(record))
