"""In Transformers of several layers the first layer is usually the first to become sparse;
whether it slows first is inconclusive.

Ordinary causal Transformers (one head, LayerNorm, MLP, learned positions) are trained by Adam at a
constant rate; attention is measured on windows of validation text. [tian2023] proves results for
one layer; for several, its section 7 says that sparse attention may pick a few tokens first and
higher layers compose them. We read this, before the runs, as: layer 0 becomes sparse before the
others, stays sparser, and slows before them. At a constant rate noise keeps attention moving, so
whether it freezes cannot be tested: a layer has slowed when its speed is half-way from its peak to
its floor, the final speed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from torch import Tensor

from saccade.data.text.corpus import corpus
from saccade.dynamics.randomness import checked_seeds
from saccade.dynamics.training import train_text
from saccade.dynamics.training_batches import fixed_windows
from saccade.dynamics.training_checkpoints import resumed_from
from saccade.errors import InputError, checked_count, checked_list
from saccade.experiments.real_text import wikitext_training as training
from saccade.experiments.real_text.every_run import every_run, same_answer
from saccade.lab.claim import FAILS, REPLICATION, Case, Claim
from saccade.lab.panel import Layout, Line, Lines, over_seeds
from saccade.lab.protocol import Experiment, Progress
from saccade.model.transformer_config import TransformerConfig
from saccade.observe.fits import interval, simultaneous
from saccade.observe.movement import total_variation
from saccade.theory.questions import DEPTH, JOMA_FIG_6

SPARSE = 0.5  # relative entropy: log of the root of n over log n, as if n keys were the root of n
HALF = 0.5  # of the peak speed above the floor: the usual half-width
MEASURES = {
    "started": "updates until attention moves at half its fastest speed",
    "sparse": "updates until attention is sparse",
    "slowed": "updates until attention has slowed for good, half-way to its floor",
    "floor": "floor of the speed, that of the last doubling, over its peak",
    "drift": "change of relative entropy in the last doubling, over its range",
    "relative_entropy": "relative entropy at the end",
    "top_mass": "largest weight of a query at the end",
}
_TIMES = ("started", "sparse", "slowed")  # whose spread is a factor


# Sizes, rate and the threshold for sparse were chosen from one run of another seed. The floor was
# added when no layer had frozen, and the condition that it lies below half the peak when one seed
# had shown layers that never slow.
@dataclass(frozen=True)
class Settings:
    """Settings; the defaults are the quick ones."""

    text: str = "wikitext-2"
    """corpus: a name or a path"""
    n_vocab: int | None = 1000
    """words kept; all others become one token; None: keep all"""
    layers: tuple[int, ...] = (1, 2, 4, 6)
    """depths"""
    d_model: int = 64
    """width"""
    d_mlp: int = 128
    """hidden width of the MLP"""
    steps: int = 1024
    """updates"""
    batch: int = 8
    """windows per step, with a prediction for every token"""
    context: int = 32
    """tokens per window"""
    lr: float = 3e-3
    """rate of Adam"""
    seeds: int | tuple[int, ...] = 3
    """number of random starts (seeds 0, 1, 2, ...), or a list of seeds; at least two for an
    interval
    """
    n_windows: int = 8
    """windows of validation text that attention is measured on"""
    resumable: bool = False
    """whether a stopped run resumes from its last checkpoint, kept in the user's cache folder"""


def measure(settings: Settings, on_progress: Progress) -> xr.Dataset:
    depths = [
        checked_count("layers", depth) for depth in checked_list("layers", settings.layers, low=1)
    ]
    if checked_count("steps", settings.steps) < 4:
        raise InputError(
            f"`steps` must be at least 4, for a last doubling to look at; got {settings.steps}."
        )
    axes = {"n_layers": depths, "seed": checked_seeds(settings.seeds)}
    return training.recorded(
        _trained, [(settings, *cell) for cell in product(*axes.values())], axes, on_progress
    )


def look_steps(steps: int) -> list[int]:
    """0, and from 1 to the end by factors of about the root of two, so that the last doubling is
    between looks.
    """
    halvings = np.arange(0, 2 * np.log2(steps) + 1e-9)
    return [0, *np.unique(np.rint(steps / 2 ** (halvings / 2)).astype(int)).tolist()]


def _trained(settings: Settings, depth: int, seed: int) -> xr.Dataset:
    text = corpus(settings.text, n_vocab=settings.n_vocab)
    widths: dict[str, Any] = {
        "d_model": settings.d_model,
        "d_mlp": settings.d_mlp,
        "context": settings.context,
    }
    windows, looks = (
        fixed_windows(text, settings.n_windows, settings.context).ids,
        look_steps(settings.steps),
    )
    seen = train_text(
        text,
        model=TransformerConfig(text.n_vocab, depth, positions="learned", **widths),
        steps=settings.steps,
        batch=settings.batch,
        context=settings.context,
        optimiser="adam",
        lr=settings.lr,
        seed=seed,
        every=looks,
        probe=windows,
        measures=Speed(windows),
        weights=False,
        checkpoints=resumed_from(settings.resumable, settings, depth, seed),
    )
    kept = seen[["loss", "valid_loss", "entropy", "relative_entropy", "top_mass", "speed"]].isel(
        head=0
    )
    return kept.reindex(time=looks).assign_coords(layer=range(depth))


@dataclass
class Speed:
    """How fast each layer's attention moves on given windows. A mean over the time between two
    looks.
    """

    windows: Tensor
    last: tuple[int, NDArray[np.float32]] | None = field(default=None, init=False)

    def __call__(self, model: Any, step: int) -> dict[str, Any]:
        maps = np.stack(
            [
                model.attention_of(self.windows, layer).numpy()
                for layer in range(model.config.n_layers)
            ],
            axis=1,
        )
        speed = np.full(maps.shape[1:3], np.nan)
        if self.last is not None:
            speed = total_variation(self.last[1], maps) / np.log((step + 1) / (self.last[0] + 1))
        self.last = step, maps
        about = {
            "units": "1/log step",
            "definition": "total variation of attention since the last observation, over the log of the steps",
        }
        return {"speed": (("layer", "head"), speed, about)}


def first_below(values: NDArray, times: NDArray, level: float) -> float:
    """The first time at which a curve is below a level; infinite if never."""
    below = values < level
    return float(times[below.argmax()]) if below.any() else np.inf


def drift(values: NDArray, times: NDArray) -> float:
    """Change in the last doubling of the time, over the whole range of the curve: 0 = settled. NaN
    for a curve that never moves.
    """
    half = values[np.abs(times - times[-1] / 2).argmin()]
    reach = values.max() - values.min()
    return float(abs(values[-1] - half) / reach) if reach > 0 else np.nan


def floor(speed: NDArray, times: NDArray) -> float:
    """Mean speed in the last doubling of the time: what noise keeps going, if all else has come to
    rest.
    """
    return float(np.nanmean(speed[times > times[-1] / 2]))


def below_for_good(speed: NDArray, times: NDArray, share: float) -> float:
    """The time from which a speed stays below a share of its peak; infinite if it does not. Looks
    without a speed are left out.
    """
    known = np.isfinite(speed)
    speed, times = speed[known], times[known]
    if not len(speed):
        return np.inf
    still = np.logical_and.accumulate((speed < share * speed.max())[::-1])[::-1]
    return float(times[still.argmax()]) if still.any() else np.inf


def slowed_for_good(speed: NDArray, times: NDArray) -> float:
    """The time from which a speed stays below half-way from its peak to its floor.

    Infinite in the last doubling, where attention may still be slowing, and for a floor above half
    the peak, where noise decides.
    """
    low = floor(speed, times)
    found = below_for_good(speed - low, times, HALF)
    return found if found <= times[-1] / 2 and low <= HALF * np.nanmax(speed) else np.inf


def measured(record: xr.Dataset, depth: int) -> dict[str, NDArray[np.float64]]:
    """Every measure of one depth (seed, layer)."""
    times = record["time"].values
    of_depth = record.sel(n_layers=depth, layer=range(depth)).transpose(
        "seed", "layer", "time", ...
    )
    spread, speed = of_depth["relative_entropy"].values, of_depth["speed"].values

    def each(curves: NDArray, measure: Callable[[NDArray], float]) -> NDArray[np.float64]:
        return np.apply_along_axis(measure, -1, curves)

    return {
        "started": each(speed, lambda curve: first_below(-curve, times, -HALF * np.nanmax(curve))),
        "sparse": each(spread, lambda curve: first_below(curve, times, SPARSE)),
        "slowed": each(speed, lambda curve: slowed_for_good(curve, times)),
        "floor": each(speed, lambda curve: floor(curve, times) / np.nanmax(curve)),
        "drift": each(spread, lambda curve: drift(curve, times)),
        "relative_entropy": spread[..., -1],
        "top_mass": of_depth["top_mass"].values[..., -1],
    }


def lowest_first(times: NDArray[np.float64]) -> NDArray[np.bool_]:
    """In which seeds layer 0 is before every other layer (times: seed, layer); not if all are at
    once, nor if it never is.
    """
    return np.asarray(times[:, 0] < times[:, 1:].min(axis=1))


def claims(record: xr.Dataset) -> Iterator[Claim]:
    found = {depth: measured(record, depth) for depth in record["n_layers"].values.tolist()}
    sparse = np.concatenate([of_depth["sparse"][:, 0] for of_depth in found.values()])
    slowed = np.concatenate([of_depth["slowed"][:, 0] for of_depth in found.values()])
    yield every_run(
        Case(), DEPTH, "the first layer becomes sparse in every run", sparse < np.inf, 1
    )
    title = "the first layer slows, half-way to its floor, in every run"
    yield every_run(
        Case(), DEPTH, title, slowed < np.inf, 1, expected=FAILS
    )  # 3 of 12 had not, in an earlier run of these settings
    deep = {depth: of_depth for depth, of_depth in found.items() if depth > 1}
    if deep:
        yield from _deep_claims(deep)


def _deep_claims(found: dict[int, dict[str, NDArray[np.float64]]]) -> Iterator[Claim]:
    """Of models with several layers. By chance layer 0 of n layers is first in one of n runs; runs
    of all depths are one sample.

    The three intervals are simultaneous.
    """
    case = Case({"depth": "several layers"})
    chances = np.concatenate(
        [np.full(len(of_depth["sparse"]), 1 / depth) for depth, of_depth in found.items()]
    )
    first = {
        name: np.concatenate([lowest_first(of_depth[name]) for of_depth in found.values()])
        for name in ("sparse", "slowed")
    }
    of_first = [
        of_depth["relative_entropy"][:, 0] - of_depth["relative_entropy"][:, 1:].mean(axis=1)
        for of_depth in found.values()
    ]
    gaps = np.concatenate(of_first)
    intervals = simultaneous(
        {name: is_first - chances for name, is_first in first.items()} | {"gap": gaps}
    )
    for name, what in (("sparse", "is sparse"), ("slowed", "slows")):
        title = f"share of runs in which the first layer {what} first, above chance"
        yield case.under(same_answer(first[name])).at_least(
            DEPTH, title, intervals[name], 0, strict=True
        )
    yield (
        case.but(against=REPLICATION)
        .under(same_answer(gaps <= 0))
        .at_most(
            JOMA_FIG_6,
            "final relative entropy: first layer - mean of the others",
            intervals["gap"],
            0,
            sentence="The first layer stays sparser than the others, in the whole interval over runs.",
        )
    )


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    """A row for each measure of each layer: mean and interval over the seeds that have it, and how
    many have. Times: geometric.
    """
    rows = []
    for depth in record["n_layers"].values.tolist():
        for name, values in measured(record, depth).items():
            for layer, of_layer in enumerate(values.T):
                known = of_layer[np.isfinite(of_layer)]
                found = np.exp(interval(np.log(known))) if name in _TIMES else interval(known)
                named = {
                    "n_layers": depth,
                    "layer": layer,
                    "measure": MEASURES[name],
                    "seeds": len(known),
                }
                rows.append(
                    named | dict(zip(("mean", "low", "high"), map(float, found), strict=True))
                )
    return rows


def panels(record: xr.Dataset) -> Layout:
    """From the first update on: speed needs a look before it."""
    speed, depths = (
        record["speed"] / record["speed"].max("time"),
        record["n_layers"].values.tolist(),
    )
    spread, pace = {SPARSE: "sparse"}, {HALF: ""}
    rows: tuple[list[Lines], list[Lines]] = ([], [])
    for depth in depths:
        title = f"{depth} layer{'s' if depth > 1 else ''}"
        for row, curves, y, levels in (
            (rows[0], record["relative_entropy"], "entropy / entropy of uniform", spread),
            (rows[1], speed, "speed per log step / its peak", pace),
        ):
            row.append(
                Lines(
                    title,
                    "updates",
                    y,
                    _layers(curves.sel(n_layers=depth), depth),
                    "x",
                    ylim=(0, 1.02),
                    levels=levels,
                )
            )
    return rows


def _layers(curves: xr.DataArray, depth: int) -> list[Line]:
    later, shade = curves.isel(time=slice(1, None)), 1 / max(depth - 1, 1)
    return [
        over_seeds(later.sel(layer=layer), f"layer {layer}", tone=1.0 - shade * layer)
        for layer in range(depth)
    ]


EXPERIMENT = Experiment(
    "depth",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "First, a panel for each depth with the entropy of attention over that of uniform attention; then, a panel for each depth"
        " with how fast attention moves per unit of log step, over the layer's own peak. A colour for each layer, dark for low "
        "ones; lines are means over seeds, bands lowest and highest. Look at which layer passes the dashed line first, and that "
        "the speed ends on a floor above zero: at a constant rate noise goes on."
    ),
    picture=-1,  # the deepest model
    question="In deep models, which layer becomes sparse first and slows first?",
    finding=(
        "in models of several layers the share of runs in which the lowest becomes sparse first is {*is sparse first*:points} "
        "above chance ({*is sparse first*:verdict}), and the share in which it slows first {*slows first*:points} ({*slows "
        "first*:verdict})"
    ),
    caveat=(
        "A decaying learning rate, with which noise dies out, or more updates: upper layers still move at the end of these runs."
    ),
    full=Settings(
        n_vocab=None,
        layers=(1, 2, 3, 4, 5, 6),
        d_model=200,
        d_mlp=200,
        steps=58_000,
        batch=20,
        context=35,
        lr=1e-4,
        n_windows=64,
        resumable=True,
    ),
    table=table,
)
