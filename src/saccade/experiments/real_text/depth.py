"""In Transformers of several layers the first one mostly becomes sparse first and slows first, but it never stops.

Ordinary causal Transformers (one head, LayerNorm, MLP, learned positions) trained by Adam at a constant rate; attention of every
layer is measured on windows of validation text. The theorems of [tian2023] are about one layer; of several, its section 7 says that
sparse attention may pick a few tokens first and higher layers compose them. What a reader takes from that, written down before the
runs: layer 0 is sparse before the others and stays sparser, stops moving before the others, and stops for good.
Sparse: entropy of attention below half that of uniform attention, as if n keys were the root of n. Slowed: moving at less than half
its fastest speed from there on, speed being the total variation of attention per unit of log step. Frozen: less than a tenth.

Measured on WikiText-2, 1024 updates, 3 seeds: layer 0 becomes sparse in all 12 runs (6 layers: after 72 updates, the others after
290 to 460), and in 7 of the 9 runs with several layers before all others: more often than chance, not always. It slows first in 7
of 9 too; most higher layers have not slowed at the end. It freezes in none: its speed ends at 0.26 to 0.42 of its peak, while its
entropy hardly changes any more (in 11 of 12 runs by less than a tenth of its range in the last doubling): what it looks at still
turns over, how sharply it looks does not. It does not stay the sparsest: with 4 and 6 layers the higher ones pass it (6 layers:
relative entropy 0.19 in layer 0, 0.06 to 0.15 above). About 75 s on two cores.

A speed is not only a layer's own: a higher layer's attention moves with what the layers below give it. And at a constant rate the
noise of the updates goes on for ever, so that a speed per log step need not fall to zero. The size of the model, the rate, and the
levels of sparse and slowed were chosen by looking at one run of another seed (four layers, seed 11); claims against chance and the
pooling of depths came after the runs, when "always" had failed for four and six layers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from saccade.dynamics.randomness import checked_seeds
from saccade.errors import InputError, checked_count, checked_list
from saccade.experiments.real_text import wikitext_training as training
from saccade.experiments.real_text.runs import in_processes
from saccade.observe.fits import interval
from saccade.records.claim import FAILS, HOLDS, Claim

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

SECONDS = 75
WHAT = "which layer stops first?"
EXPECTED = (
    "with several layers the first is sparse first in {*sparse first? always:.0%} of runs and slows first in {*slows first? "
    "always:.0%}; the first layer freezes in {*first layer freezes:.0%} of all runs"
)
SPARSE = 0.5  # relative entropy: log of the root of n over log n
SLOWED = 0.5  # of the peak speed: the usual half-width
FROZEN = 0.1  # of the peak speed, as in `positions`
SETTLED = 0.1  # of the whole fall of relative entropy: what may still change in the last doubling of the updates

CAPTION = (
    "A column for each depth, a colour for each layer, dark for low ones; lines are means over seeds, bands lowest and highest. "
    "Top: entropy of attention over that of uniform attention; below the dotted line is sparse. Bottom: how fast attention moves "
    "per unit of log step, over the layer's own peak; below the dotted lines it has slowed, and is frozen. Look at which layer "
    "passes a line first."
)


@dataclass(frozen=True)
class Config:
    """Settings; the defaults are the quick ones."""

    text: str = "wikitext-2"
    """corpus: a name or a path"""
    n_vocab: int | None = 1000
    """words kept, the others are one token; None: all"""
    layers: tuple[int, ...] = (1, 2, 4, 6)
    """depths"""
    d_model: int = 64
    """width"""
    d_mlp: int = 128
    """hidden width of the MLP"""
    steps: int = 1024
    """updates"""
    batch: int = 8
    """windows a step, a prediction for every token"""
    context: int = 32
    """tokens a window"""
    lr: float = 3e-3
    """rate of Adam"""
    seeds: int | tuple[int, ...] = 3
    """number of random starts (seeds 0, 1, 2, ...), or a list of seeds; at least two for an interval"""
    n_windows: int = 8
    """windows of validation text that attention is measured on"""


FULL = Config(
    n_vocab=None, layers=(1, 2, 3, 4, 5, 6), d_model=200, d_mlp=200, steps=58_000, batch=20, context=35, lr=1e-4, n_windows=64
)


def run(config: Config, on_progress: Callable[[float], None] = lambda fraction: None) -> xr.Dataset:
    started = time.perf_counter()
    depths = [checked_count("layers", depth) for depth in checked_list("layers", config.layers, low=1)]
    if checked_count("steps", config.steps) < 4:
        raise InputError(f"`steps` must be at least 4, for a last doubling to look at; got {config.steps}.")
    axes: dict[str, Any] = {"n_layers": depths, "seed": checked_seeds(config.seeds)}
    jobs = [(config, depth, seed) for depth in axes["n_layers"] for seed in axes["seed"]]
    runs = in_processes(_trained, jobs, on_progress)
    return training.as_record(training.stacked(runs, axes), config, time.perf_counter() - started)


def look_steps(steps: int) -> list[int]:
    """0, and from 1 to the end by factors of about the root of two, so that the last doubling is between looks."""
    halvings = np.arange(0, 2 * np.log2(steps) + 1e-9)
    return [0, *np.unique(np.rint(steps / 2 ** (halvings / 2)).astype(int)).tolist()]


def _trained(config: Config, depth: int, seed: int) -> xr.Dataset:
    from saccade.data.text.corpus import corpus
    from saccade.dynamics.training import train_text
    from saccade.dynamics.training_batches import fixed_windows
    from saccade.model.transformer_config import TransformerConfig

    text = corpus(config.text, n_vocab=config.n_vocab)
    widths: dict[str, Any] = {"d_model": config.d_model, "d_mlp": config.d_mlp, "context": config.context}
    windows, looks = fixed_windows(text, config.n_windows, config.context).ids, look_steps(config.steps)
    seen = train_text(
        text,
        model=TransformerConfig(text.n_vocab, depth, positions="learned", **widths),
        steps=config.steps,
        batch=config.batch,
        context=config.context,
        optimiser="adam",
        lr=config.lr,
        seed=seed,
        every=looks,
        probe=windows,
        measures=Speed(windows),
        weights=False,
    )
    kept = seen[["loss", "valid_loss", "entropy", "relative_entropy", "top_mass", "speed"]].isel(head=0)
    return kept.reindex(time=looks).assign_coords(layer=range(depth))


@dataclass
class Speed:
    """How fast each layer's attention moves on given windows. The recorder's `moved` is the same on the one map that it keeps."""

    windows: Any
    last: tuple[int, NDArray[np.float32]] | None = field(default=None, init=False)

    def __call__(self, model: Any, step: int) -> dict[str, Any]:
        from saccade.observe.look import moved

        maps = np.stack([model.attention_of(self.windows, layer).numpy() for layer in range(model.config.n_layers)], axis=1)
        speed = np.full(maps.shape[1:3], np.nan) if self.last is None else moved(self.last[1], maps, self.last[0], step)
        self.last = step, maps
        about = {"units": "1/log step", "definition": "total variation of attention since the last look, over the log of the steps"}
        return {"speed": (("layer", "head"), speed, about)}


def first_below(values: NDArray, times: NDArray, level: float) -> float:
    """The first time at which a curve is below a level; infinite if never."""
    below = values < level
    return float(times[below.argmax()]) if below.any() else np.inf


def below_for_good(speed: NDArray, times: NDArray, share: float) -> float:
    """The time from which a speed stays below a share of its peak; infinite if it does not. Looks without a speed are left out."""
    known = np.isfinite(speed)
    speed, times = speed[known], times[known]
    if not len(speed):
        return np.inf
    still = np.logical_and.accumulate((speed < share * speed.max())[::-1])[::-1]
    return float(times[still.argmax()]) if still.any() else np.inf


def drift(values: NDArray, times: NDArray) -> float:
    """Change in the last doubling of the time, over the whole range of the curve: 0 = settled. NaN for a curve that never moves."""
    half = values[np.abs(times - times[-1] / 2).argmin()]
    reach = values.max() - values.min()
    return float(abs(values[-1] - half) / reach) if reach > 0 else np.nan


MEASURES = {
    "started": "updates until attention moves at half its fastest speed",
    "sparse": "updates until attention is sparse",
    "slowed": "updates until attention has slowed for good",
    "frozen": "updates until attention is frozen for good",
    "speed_left": "speed at the end over its peak",
    "drift": "change of relative entropy in the last doubling, over its range",
    "relative_entropy": "relative entropy at the end",
    "top_mass": "largest weight of a query at the end",
}
_TIMES = ("started", "sparse", "slowed", "frozen")  # whose spread is a factor


def measured(record: xr.Dataset, depth: int) -> dict[str, NDArray[np.float64]]:
    """Every measure of one depth (seed, layer)."""
    times = record["time"].values
    of_depth = record.sel(n_layers=depth, layer=range(depth)).transpose("seed", "layer", "time", ...)
    spread, speed = of_depth["relative_entropy"].values, of_depth["speed"].values

    def each(curves: NDArray, measure: Callable[[NDArray], float]) -> NDArray[np.float64]:
        return np.apply_along_axis(measure, -1, curves)

    return {
        "started": each(speed, lambda curve: first_below(-curve, times, -SLOWED * np.nanmax(curve))),
        "sparse": each(spread, lambda curve: first_below(curve, times, SPARSE)),
        "slowed": each(speed, lambda curve: below_for_good(curve, times, SLOWED)),
        "frozen": each(speed, lambda curve: below_for_good(curve, times, FROZEN)),
        "speed_left": speed[..., -1] / np.nanmax(speed, axis=-1),
        "drift": each(spread, lambda curve: drift(curve, times)),
        "relative_entropy": spread[..., -1],
        "top_mass": of_depth["top_mass"].values[..., -1],
    }


def lowest_first(times: NDArray[np.float64]) -> NDArray[np.bool_]:
    """In which seeds layer 0 is before every other layer (times: seed, layer); not if all are at once, nor if it never is."""
    return np.asarray(times[:, 0] < times[:, 1:].min(axis=1))


def rare_by_chance(chances: NDArray[np.float64], at_most: float = 0.025) -> float:
    """The least share of runs that has no more than this chance to be reached, given the chance of each run."""
    law = np.ones(1)
    for chance in chances:
        law = np.convolve(law, [1 - chance, chance])
    reached = law[::-1].cumsum()[::-1]
    return float(np.append(reached <= at_most, True).argmax() / len(chances))


_HINT, _FIGURE = "[tian2023, section 7], beyond its theorems", "[tian2024, Fig. 6], replication"


def claims(record: xr.Dataset) -> list[Claim]:
    depths = record["n_layers"].values.tolist()
    found = {depth: measured(record, depth) for depth in depths}
    lowest = {name: np.concatenate([found[depth][name][:, 0] for depth in depths]) for name in MEASURES}
    made = [
        _share("in which the first layer becomes sparse", lowest["sparse"] < np.inf),
        _share("in which the first layer freezes", lowest["frozen"] < np.inf, FAILS),
        _share("in which the first layer's entropy has settled", lowest["drift"] <= SETTLED, FAILS),
    ]
    deep = {depth: of_depth for depth, of_depth in found.items() if depth > 1}
    return made + (_deep_claims(deep) if deep else [])


def _deep_claims(found: dict[int, dict[str, NDArray[np.float64]]]) -> list[Claim]:
    """Of models with several layers. By chance layer 0 of n layers is first in one of n runs."""
    made = []
    for name, what in (("sparse", "is sparse"), ("slowed", "slows")):
        first = [lowest_first(of_depth[name]) for of_depth in found.values()]
        bound = rare_by_chance(np.concatenate([np.full(len(runs), 1 / depth) for depth, runs in zip(found, first, strict=True)]))
        share = float(np.concatenate(first).mean())
        whole = f"share of runs with several layers in which the first layer {what} first"
        made.append(Claim(f"{whole}: always", _HINT, 1.0, share, 0.0, expected=FAILS))
        enough = {"enough runs to tell from chance": bound <= 1}
        made.append(Claim(f"{whole}: at least {bound:.2f}, rare by chance", _HINT, 1.0, share, 1 - bound, enough))
    gap = np.concatenate([e[:, 0] - e[:, 1:].mean(axis=1) for e in (of_depth["relative_entropy"] for of_depth in found.values())])
    text = (
        "relative entropy of the first layer less the mean of the others at the end: upper end of the interval over runs, below 0"
    )
    return [*made, Claim(text, _FIGURE, -1.0, interval(gap).high, 1.0, expected=FAILS)]


def _share(what: str, holds: NDArray[np.bool_], expected: str = HOLDS) -> Claim:
    return Claim(f"share of runs {what}", _HINT, 1.0, float(holds.mean()), 0.0, expected=expected)


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    """A row for each measure of each layer: mean and interval over the seeds that have it, and how many have. Times: geometric."""
    rows = []
    for depth in record["n_layers"].values.tolist():
        for name, values in measured(record, depth).items():
            for layer in range(depth):
                known = values[:, layer][np.isfinite(values[:, layer])]
                found = np.exp(interval(np.log(known))) if name in _TIMES else interval(known)
                named = {"n_layers": depth, "layer": layer, "measure": MEASURES[name], "seeds": len(known)}
                rows.append(named | dict(zip(("mean", "low", "high"), map(float, found), strict=True)))
    return rows


def figure(record: xr.Dataset) -> Figure:
    from saccade.experiments.real_text.depth_figure import draw

    return draw(record)
