"""With two or three layers of attention, all of them move at about the same time; the lowest does
not lead, and freezes last.

The data have as many levels as the model has layers (`model/attention_tree.py`): every layer must
find the one token or node that carries the answer. Gradient flow from small random starts. Asked
before the first run: does the lowest layer move its attention before those above, as scan and snap
layer by layer would suggest, and does it freeze? It does not move first. That layers move within a
factor of 1.5 of each other, and that the lowest moves most at the end, was set after that run.
JoMA's joint law concerns one layer and its input: with exponential attention it must be exact in
the lowest layer of a deep model, and, summed over what is attended to, in every layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

import saccade
from saccade.dynamics.randomness import checked_seeds
from saccade.lab.claim import FAILS, Case, Claim
from saccade.lab.panel import DASHES, LINE, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress, Variable, padded
from saccade.model.attention_tree import AttentionTree
from saccade.observe.fits import Array, reaching_time
from saccade.theory import joma
from saccade.theory.condition import met
from saccade.theory.joma.statements import DEEP_LAW, LAYER_LAW, LAYER_ORDER

EXPONENTIAL = "exponential attention"
FROZEN = 0.1  # share of all that a layer's attention moves, in the last tenfold of time
VARIABLES = {
    "entropy": Variable(
        "depth seed layer time", "1", "entropy of attention over its value at the start"
    ),
    "turned": Variable(
        "depth seed layer",
        "time",
        "when attention is half as far from its start as at the end, interpolated",
    ),
    "still_moving": Variable(
        "depth seed layer",
        "1",
        "share of all its movement that attention makes in the last tenfold of time",
    ),
    "loss": Variable("depth seed", "nats", "cross-entropy at the end"),
    "drift": Variable(
        "",
        "1",
        "change of what the joint law conserves in layer 1 of 3 over that of its logits, exp attention",
    ),
    "softmax_drift": Variable("", "1", "the same with softmax attention"),
    "sum_drift": Variable(
        "law_layer", "1", "drift of Σ logits - ½ Σ weights² / change of Σ logits"
    ),
}


@dataclass(frozen=True)
class Settings:
    depths: tuple[int, ...] = (2, 3)
    """layers of attention, at most 3"""
    seeds: int | tuple[int, ...] = 4
    """number of random starts (seeds 0, 1, 2, ...), or a list of seeds"""
    scale: float = 0.5
    """size of the random start"""
    t1: float = 1e4
    """end of the flows"""


def measure(settings: Settings, on_progress: Progress) -> Measured:
    seeds, found = checked_seeds(settings.seeds), []
    for done, depth in enumerate(settings.depths, 1):
        found.append(_followed(depth, seeds, settings))
        on_progress(0.8 * done / len(settings.depths))
    values: dict[str, Any] = {
        name: padded([one[name] for one in found]) for name in found[0] if name != "time"
    }
    coords = {
        "depth": list(settings.depths),
        "seed": seeds,
        "layer": np.arange(1, max(settings.depths) + 1),
    }
    return Measured(
        values | _laws(settings), coords | {"time": found[0]["time"], "law_layer": [1, 2, 3]}
    )


def _tree(depth: int, settings: Settings, **options: Any) -> AttentionTree:
    """Two common tokens, and two distinct ones for each state, one of them rare."""
    law = np.array([[0.3, 0.3, 0.1, 0.3, 0.0, 0.0], [0.3, 0.3, 0.0, 0.0, 0.1, 0.3]])
    return AttentionTree(depth, law, scale=settings.scale, **options)


def _followed(depth: int, seeds: list[int], settings: Settings) -> dict[str, Any]:
    run = saccade.flow(_tree(depth, settings), t1=settings.t1, seeds=seeds)
    time, layers = (
        run.time.values,
        [run[f"attention_{layer}"].values for layer in range(1, depth + 1)],
    )
    entropy = [
        saccade.measures.entropy(path).reshape(*path.shape[:2], -1).mean(axis=-1) for path in layers
    ]
    flat = [path.reshape(*path.shape[:2], -1) for path in layers]
    return {
        "time": time,
        "entropy": np.stack([curve / curve[:, :1] for curve in entropy], axis=1),
        "turned": np.array([[_half_way(time, of_seed) for of_seed in path] for path in flat]).T,
        "still_moving": np.array(
            [[_late_share(time, of_seed) for of_seed in path] for path in flat]
        ).T,
        "loss": run.loss.values[:, -1],
    }


def _half_way(time: Array, path: Array) -> float:
    """Between samples: layers turn closer together than samples lie."""
    moved = np.abs(path - path[0]).sum(axis=-1)
    return reaching_time(time, moved, moved[-1] / 2)


def _late_share(time: Array, path: Array) -> float:
    moved = np.abs(np.diff(path, axis=0)).sum(axis=-1)
    return float(moved[time[1:] > time[-1] / 10].sum() / moved.sum())


def _laws(settings: Settings) -> dict[str, Any]:
    """Layer 1 sees tokens, one by one; of every layer the sum over what it attends to."""
    runs = {
        kind: saccade.flow(_tree(3, settings, kind=kind), t1=min(settings.t1, 100.0), seed=0)
        for kind in ("exp", "softmax")
    }
    layers, by_softmax = (
        [
            [run[f"parameter_{name}_{layer}"].values for name in ("attention", "neurons")]
            for layer in range(3)
        ]
        for run in runs.values()
    )
    return {
        "drift": _drift(layers[0][0], joma.invariant("exp", *layers[0])),
        "softmax_drift": _drift(by_softmax[0][0], joma.invariant("exp", *by_softmax[0])),
        "sum_drift": [
            _drift(logits.sum(axis=-1), joma.layer_invariant(logits, weights))
            for logits, weights in layers
        ],
    }


def _drift(logits: Array, kept: Array) -> float:
    return float(np.abs(kept - kept[0]).max() / np.abs(logits - logits[0]).max())


def claims(record: xr.Dataset) -> Iterator[Claim]:
    for depth in record.depth.values.tolist():
        at = record.sel(depth=depth)
        case, lowest, above = (
            Case({"layers": depth}),
            at.turned.values[:, :1],
            at.turned.values[:, 1:depth],
        )
        yield case.none(
            LAYER_ORDER,
            "the lowest layer turns before each one above",
            ~(lowest < above),
            expected=FAILS,
        )
        yield case.between(
            LAYER_ORDER,
            "time at which the lowest layer turns over that of one above",
            lowest / above,
            2 / 3,
            1.5,
        )
        title = "share of its movement that the lowest layer makes in the last tenfold of time"
        yield case.at_most(LAYER_ORDER, title, at.still_moving.values[:, 0], FROZEN)
        title = "the lowest layer freezes last: its late share of movement / that of layers above"
        yield case.at_least(
            LAYER_ORDER,
            title,
            at.still_moving.values[:, :1] / at.still_moving.values[:, 1:depth],
            1,
            strict=True,
        )
        yield case.none(
            LAYER_ORDER, "entropy of every layer falls", at.entropy.values[:, :depth, -1] >= 1
        )
    title = "drift of the conserved quantity / change of the logits, three layers"
    yield Case({"layer": 1}).at_most(DEEP_LAW, title, record.drift, 1e-6)
    broken = Case({"layer": 1, "attention": "softmax"}, [met(EXPONENTIAL, False)]).breaking(
        EXPONENTIAL
    )
    yield broken.at_most(DEEP_LAW, title, record.softmax_drift, 1e-6)
    title = "drift of Σ logits - ½ Σ weights² / change of Σ logits"
    for layer in record.law_layer.values.tolist():
        yield Case({"layer": layer}).at_most(
            LAYER_LAW, title, record.sum_drift.sel(law_layer=layer), 1e-6
        )


def panels(record: xr.Dataset) -> Layout:
    drawn = []
    for depth in record.depth.values.tolist():
        lines = []
        for layer, seed in np.ndindex(depth, record.sizes["seed"]):
            curve, label = (
                record.entropy.sel(depth=depth).isel(seed=seed, layer=layer),
                f"layer {layer + 1}" if seed == 0 else "",
            )
            lines.append(Line(record.time[1:], curve[1:], label, (LINE, DASHES)[seed > 0], layer))
        drawn.append(
            Lines(
                f"model of {depth} layers",
                "time",
                "entropy of attention / at the start",
                lines,
                "x",
                ylim=(0, 1.05),
            )
        )
    return drawn


EXPERIMENT = Experiment(
    "layers-in-turn",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Entropy of attention in each layer relative to its value at the start, one panel per depth. Solid: one random start; "
        "dashed: the others. All layers of a model fall at about the same time and then move slowly, the lowest for longest. The "
        "lowest layer attends to six tokens, two of them common; the others attend to three nodes, of which one matters."
    ),
    finding=(
        "in {the lowest layer turns*layers 2):.0f} of 4 starts the lower of two layers does not move first; {share of its "
        "movement that*layers 2):.0%} of its movement comes in the last decade of time; JoMA's conservation law holds to {drift of "
        "the conserved*layer 1):.0e} in layer 1 of 3"
    ),
    variables=VARIABLES,
    dynamics="B: population gradient flow",
    time_unit="steps of gradient descent at rate 1",
)
