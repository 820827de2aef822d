"""A decoder slower than attention does not break the scan; a very fast one weakens it, and only large SGD steps break it.

Syn-Medium with one query at decoder rates from .01 to 100 times that of attention: SGD (A) with long contexts and the theory's flow
(C) at decoder rate 1, plain flow (B) both at decoder rate 1 and at attention rate 1, since a ratio alone does not say which of the
two has changed. Asked at each ratio: who rises, who falls, in what order, how sparse, how fast. A public summary says that the scan
fails below ratio 1. Expect no such failure in (B) and (C), however the ratio is made; what is said of one way alone is labelled.
In (A) expect failure at ratio .01, and none at the same ratio with steps a tenth as large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

import saccade
from saccade.dynamics.randomness import checked_seeds
from saccade.lab.claim import FAILS, HOLDS, REPLICATION, Case, Claim
from saccade.lab.experiment import Experiment, Measured, Progress, Variable, stretch
from saccade.lab.panel import LINE, POINTS, Layout, Line, Lines
from saccade.observe import measures
from saccade.observe.fits import Array, first_time
from saccade.theory import scan_and_snap as theory
from saccade.theory.scan_and_snap.open_statements import LARGE_STEPS, PLAIN_MEMORY, RATE_RATIO, SLOW_DECODER

# Common mass at the end of flow (B) at decoder rate 1 in an independent run, by ratio.
REPLICATED_MASS = {0.01: 0.387, 1.0: 0.420, 100.0: 0.619}
_CONVERGED = 0.1  # nats: the loss at which SGD counts as converged
DECODER, ATTENTION = "η_Y", "η_Z"  # the rate that is held at 1 while the ratio changes
# By name: engine, letter of the flow, and what is held.
_FLOWS: dict[str, tuple[Callable[..., xr.Dataset], str, str]] = {
    "plain": (saccade.flow, "B", DECODER),
    "held": (saccade.flow, "B", ATTENTION),
    "reduced": (saccade.reduced_flow, "C", DECODER),
}
_SMALLER = 0.1  # the factor by which both rates are reduced where SGD breaks


@dataclass(frozen=True)
class Settings:
    ratios: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0, 100.0)
    """decoder rate over attention rate; one of the two is 1 per step"""
    t1: float = 1e4
    """end of the flows, steps"""
    steps: int = 150
    """updates of SGD"""
    context: int = 2047
    """context tokens in SGD, enough to show the rarest token ten times"""
    seeds: int | tuple[int, ...] = 3
    """number of seeds of SGD (0, 1, 2, ...), or a list of seeds"""


def measure(settings: Settings, on_progress: Progress) -> Measured:
    task, n = saccade.SequenceClasses.syn_medium(1), len(settings.ratios)
    flows: dict[str, list[dict[str, Any]]] = {name: [] for name in _FLOWS}
    for i, ratio in enumerate(settings.ratios):
        for name, (engine, _, held) in _FLOWS.items():
            path = engine(task, t1=settings.t1, n_times=100, **_rates(ratio, held))
            flows[name].append(_seen(path.attention, path.attention_logits, path.time.values, task))
        on_progress(0.6 * (i + 1) / n)
    sgd = _sgd(task, settings, 1.0, stretch(on_progress, 0.6, 0.8))
    smaller = _sgd(task, settings, _SMALLER, stretch(on_progress, 0.8, 1.0))
    values: dict[str, Any] = {
        f"{name}_{key}": np.stack([one[key] for one in found]) for name, found in flows.items() for key in found[0]
    }
    for name in ("plain", "held"):
        values[f"{name}_expected"] = [
            _expected_mass(task, settings.t1, _rates(ratio, _FLOWS[name][2])) for ratio in settings.ratios
        ]
    values |= {f"sgd_{key}": value for key, value in sgd.items()} | {f"small_{key}": value for key, value in smaller.items()}
    return Measured(
        values, {"ratio": list(settings.ratios), "seed": checked_seeds(settings.seeds), "place": np.arange(len(path.time))}
    )


def _rates(ratio: float, held: str) -> dict[str, float]:
    decoder, attention = (1.0, 1 / ratio) if held == DECODER else (ratio, 1.0)
    return {"lr_decoder": decoder, "lr_attention": attention}


def _seen(attention: xr.DataArray, logits: xr.DataArray, t: Array, task: saccade.SequenceClasses) -> dict[str, Any]:
    """Of one flow or of runs (seed, time, ...): mass of common tokens over time, what became of the tokens, sparsity, half-time."""
    a, z = attention.values, logits.values[..., -1, 0, :]
    mass = measures.mass(a[..., 0, :], task.common)
    fall = mass[..., :1] - mass
    tokens = [own[np.argsort(row[own])] for row, own in zip(task.token_prob, map(np.flatnonzero, task.distinct))]
    ordered = np.concatenate([np.diff(z[..., own]) > 0 for own in tokens], axis=-1)
    half = np.apply_along_axis(lambda one: first_time(t, one >= one[-1] / 2), -1, fall)
    return {
        "steps": t,
        "mass": mass,
        "wrong_way": (z[..., task.distinct.any(axis=0)] <= 0).sum(axis=-1) + (z[..., task.common] >= 0).sum(axis=-1),
        "disordered": (~ordered).sum(axis=-1),
        "entropy": measures.distinct_entropy(a[..., -1, :, :], task.distinct).mean(axis=-1),
        "half_time": half,
    }


def _sgd(task: saccade.SequenceClasses, settings: Settings, scale: float, on_progress: Progress) -> dict[str, Any]:
    """All ratios at once; with smaller steps only the first ratio, for as much longer."""
    ratios = np.array(settings.ratios) if scale == 1 else np.array(settings.ratios[:1])
    steps = round(settings.steps / scale)
    record = saccade.train(
        task,
        steps=steps,
        lr_decoder=np.full(len(ratios), scale),
        lr_attention=scale / ratios,
        context=settings.context,
        seeds=settings.seeds,
        save=list(range(0, steps + 1, round(1 / scale))),
        keep=("attention", "attention_logits"),
        on_progress=on_progress,
    )
    seen = _seen(record.attention, record.attention_logits, record.time.values, task)
    seen["converged"] = np.apply_along_axis(lambda one: first_time(record.time.values, one < _CONVERGED), -1, record.loss.values)
    seen["mass"] = seen["mass"][..., -1]
    del seen["steps"]
    return seen if scale == 1 else {name: value[0] for name, value in seen.items()}


def _expected_mass(task: saccade.SequenceClasses, t1: float, rates: dict[str, float]) -> float:
    """Common mass at the end by the theory of plain descent."""
    prob = task.token_prob
    logits = theory.plain_attention_logits(
        [0.0, t1],
        token_prob=prob,
        query=task.query,
        class_weight=task.class_weight,
        n_vocab=task.n_vocab,
        **rates,
    )[-1]
    return float(measures.mass(theory.limit_attention(prob, logits)[0], task.common))


def claims(record: xr.Dataset) -> Iterator[Claim]:
    ratios = record.ratio.values
    equal = int(np.argmin(np.abs(np.log(ratios))))
    for name, (_, flow, held) in _FLOWS.items():
        case, mass = Case({"flow": flow, held: 1.0}), record[f"{name}_mass"].values
        yield from _fates(record, name, case)
        title = "attention left on common tokens: fastest decoder / equal rates"
        yield case.at_least(RATE_RATIO, title, mass[-1, -1] / mass[equal, -1], 1, strict=True)
        if flow == "B":
            fall = mass[:, 0] - mass[:, -1]
            title = "fall of common tokens: slowest decoder / equal rates"
            yield case.at_most(SLOW_DECODER, title, fall[0] / fall[equal], 0.5, expected=FAILS)
            title = "attention left on common tokens: largest error of plain-descent theory"
            yield case.at_most(PLAIN_MEMORY, title, np.abs(record[f"{name}_expected"].values - mass[:, -1]), 0.01)
        if held == DECODER:
            yield case.in_order(RATE_RATIO, "attention left on common tokens rises with η_Y/η_Z, at fixed η_Y", mass[:, -1])
            half = record[f"{name}_half_time"].values
            yield case.in_order(RATE_RATIO, "time to half of the fall rises with η_Y/η_Z, at fixed η_Y", half)
    title = "entropy among distinct tokens rises with η_Y/η_Z, at fixed η_Y"
    yield Case({"flow": "C"}).in_order(RATE_RATIO, title, record.reduced_entropy.values)
    for ratio, known in REPLICATED_MASS.items():
        if ratio in ratios and EXPERIMENT.settings_of(record).t1 == Settings().t1:
            found = record.plain_mass.values[ratios == ratio, -1]
            case = Case({"flow": "B", "η_Y/η_Z": ratio}, against=REPLICATION)
            yield case.near(RATE_RATIO, "attention left on common tokens", found, known, within=0.003)
    yield from _trained(record)


def _fates(record: xr.Dataset, name: str, case: Case) -> Iterator[Claim]:
    task = saccade.SequenceClasses.syn_medium(1)
    n = record[f"{name}_wrong_way"].size
    tokens = int(task.distinct.sum() + task.common.sum())
    wrong, disordered = (int(record[f"{name}_{key}"].sum()) for key in ("wrong_way", "disordered"))
    yield case.none(RATE_RATIO, "distinct tokens rise, common ones fall, at every ratio", wrong, among=n * tokens)
    pairs = int(task.distinct.sum()) - task.n_classes
    yield case.none(RATE_RATIO, "frequent distinct tokens gain more, at every ratio", disordered, among=n * pairs)


def _trained(record: xr.Dataset) -> Iterator[Claim]:
    stable, case = record.isel(ratio=slice(1, None)), Case({"A": "SGD", "η_Y": 1.0})
    yield from _fates(stable, "sgd", case)
    title = "attention left on common tokens rises with η_Y/η_Z, at fixed η_Y, in every seed"
    yield case.in_order(RATE_RATIO, title, stable.sgd_mass.transpose("seed", "ratio").values)
    title = "updates to a loss of 0.1 rise with η_Y/η_Z, at fixed η_Y, mean over seeds"
    yield case.in_order(RATE_RATIO, title, stable.sgd_converged.mean("seed").values)
    start = float(record.plain_mass[0, 0])
    title = "attention on common tokens falls, in every seed, and distinct tokens rise"
    for name, rate, expected in (("sgd", 1.0, FAILS), ("small", _SMALLER, HOLDS)):
        runs = record[[f"{name}_mass", f"{name}_wrong_way"]]
        runs = runs.isel(ratio=0) if name == "sgd" else runs
        lost = (runs[f"{name}_mass"].values >= start) | (runs[f"{name}_wrong_way"].values > 0)
        case = Case({"A": "SGD", "η_Y/η_Z": float(record.ratio[0]), "η_Z": rate / float(record.ratio[0])})
        yield case.none(LARGE_STEPS, title, lost, expected=expected)


def panels(record: xr.Dataset) -> Layout:
    ratios = record.ratio.values
    rising = [
        Line(record.plain_steps[i, 1:], record.plain_mass[i, 1:], f"η_Y/η_Z = {ratio:g}", LINE, i / (len(ratios) - 1))
        for i, ratio in enumerate(ratios)
    ]
    small = [Line(ratios[:1], [float(record.small_mass.mean())], "SGD (A), steps a tenth as large", POINTS, 3)]
    left = [
        Line(ratios, record.plain_mass.values[:, -1], "plain flow (B), η_Y = 1", POINTS, 0),
        Line(ratios, record.plain_expected.values, "theory of plain descent", LINE, 0),
        Line(ratios, record.held_mass.values[:, -1], "plain flow (B), η_Z = 1", POINTS, 4),
        Line(ratios, record.held_expected.values, "", LINE, 4),
        Line(ratios, record.reduced_mass.values[:, -1], "theory's flow (C), η_Y = 1", POINTS, 1),
        *(
            Line(ratios, record.sgd_mass.values[:, i], "" if i else "SGD (A), each seed", "rings", 2)
            for i in range(record.sizes["seed"])
        ),
        *small,
    ]
    entropy = [
        Line(ratios, record.plain_entropy, "plain flow (B), η_Y = 1", POINTS, 0),
        Line(ratios, record.held_entropy, "plain flow (B), η_Z = 1", POINTS, 4),
        Line(ratios, record.reduced_entropy, "theory's flow (C), η_Y = 1", POINTS, 1),
    ]
    y = "attention on common tokens"
    return [
        Lines("plain flow (B), η_Y = 1", "t (steps)", y, rising, "x", xlim=(0.1, None), ylim=(0, 1)),
        Lines("where it ends", "η_Y / η_Z", y, left, "x", ylim=(-0.02, 1.02), levels={float(record.plain_mass[0, 0]): "start"}),
        Lines("how sparse", "η_Y / η_Z", "entropy among distinct tokens (nats)", entropy, "x", ylim=(0, None)),
    ]


_RUNS, _OF_A_FLOW = "ratio seed", "ratio"
_NAMED = {name: f"flow ({flow}), {held} = 1" for name, (_, flow, held) in _FLOWS.items()}
_SEEN = {
    "wrong_way": ("1", "distinct tokens whose logit did not rise plus common ones whose logit did not fall, at the end"),
    "disordered": ("1", "neighbours in frequency among distinct tokens of which the rarer has the larger logit at the end"),
    "entropy": ("nats", "entropy of attention among distinct tokens at the end, mean over classes"),
    "half_time": ("steps", "when attention on common tokens has made half of its fall"),
}
EXPERIMENT = Experiment(
    "break-conditions",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Panel 1: attention on common tokens along the plain flow (B) at decoder rate 1, darker for faster decoders: it falls at "
        "every ratio. Panel 2: where it ends, in (B) with either rate fixed at 1 and in its theory (lines), and with the decoder's "
        "rate fixed at 1 in the theory's flow (C) and in SGD (A). Either way, a decoder 100 times as fast leaves most attention on "
        "common tokens. At ratio .01 SGD loses the scan (outermost rings) unless its steps are smaller. Panel 3: entropy among "
        "distinct tokens; fast attention makes it small only in (C)."
    ),
    finding=(
        "a slow decoder does not break the scan: at rate ratio 0.01 common tokens fall {fall of common tokens*η_Y 1):.2f} times as "
        "far as at ratio 1 (fixed η_Y), or {fall of common tokens*η_Z 1):.2f} times (fixed η_Z); SGD breaks it in {attention on "
        "common tokens falls*η_Z 100):.0f} of 3 seeds, and in none with steps a tenth as large"
    ),
    variables={
        **{f"{name}_mass": Variable("ratio place", "1", f"attention on common tokens, {of}") for name, of in _NAMED.items()},
        **{f"{name}_steps": Variable("ratio place", "steps of SGD", f"time of each sample, {of}") for name, of in _NAMED.items()},
        **{f"{name}_{key}": Variable(_OF_A_FLOW, *said) for name in _FLOWS for key, said in _SEEN.items()},
        **{
            f"{name}_expected": Variable(_OF_A_FLOW, "1", "attention on common tokens at the end by the theory of plain descent")
            for name in ("plain", "held")
        },
        **{f"sgd_{key}": Variable(_RUNS, *said) for key, said in _SEEN.items()},
        **{
            f"small_{key}": Variable("seed", said[0], f"{said[1]}, first ratio, steps a tenth as large")
            for key, said in _SEEN.items()
        },
        "sgd_mass": Variable(_RUNS, "1", "attention on common tokens at the end of SGD"),
        "small_mass": Variable("seed", "1", "the same at the first ratio with steps a tenth as large, for ten times as many"),
        "sgd_converged": Variable(_RUNS, "updates", "first update at which the loss is below 0.1"),
        "small_converged": Variable("seed", "updates", "the same with smaller steps"),
    },
    dynamics="A: mini-batch training; B: population gradient flow; C: reduced flow of the theory",
    time_unit="steps of SGD",
)
