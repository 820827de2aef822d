"""SGD keeps the scan at any rate ratio while steps of attention do not overshoot, and loses it at
some multiple of that limit.

SGD (A) on Syn-Medium with one query, whose classes are alike: decoder rates from .01 to 100 times
that of attention, with either rate held at 1; the ratio that breaks, again with smaller steps; and
attention rates around the limit of our theory. Asked: who rises, who falls, in what order, and how
fast the loss falls. Expect no break below the limit, which is on the safe side: just above it
nothing breaks either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

import saccade
from saccade.dynamics.randomness import checked_seeds
from saccade.experiments.scan_and_snap.break_conditions import SEEN, fate_claims, seen_in
from saccade.lab.claim import FAILS, HOLDS, Case, Claim
from saccade.lab.panel import POINTS, RINGS, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress, Variable, stretch
from saccade.observe import measures
from saccade.observe.fits import Array, first_time
from saccade.theory import scan_and_snap as theory
from saccade.theory.condition import at_most
from saccade.theory.scan_and_snap.open_statements import LARGE_STEPS, RATE_RATIO

STABLE = "steps of attention do not overshoot"
_CONVERGED = 0.1  # nats: the loss at which SGD counts as converged
_SMALLER = 0.1  # the factor by which both rates are reduced where SGD breaks
_SURELY = 2.75  # times the limit: by then every seed has lost the scan, in a first run


@dataclass(frozen=True)
class Settings:
    ratios: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0, 100.0)
    """decoder rate over attention rate; one of the two is 1 per step"""
    limits: tuple[float, ...] = (0.8, 1.2, 2.0, 2.3, 2.5, 2.75, 3.0)
    """attention rates of SGD near the limit of stable steps, in units of it; the decoder's rate is
    1
    """
    limit_seeds: int | tuple[int, ...] = 8
    """seeds of SGD near the limit"""
    steps: int = 150
    """updates of SGD"""
    held_steps: int = 400
    """updates of SGD at attention rate 1, where a slow decoder needs longer"""
    context: int = 2047
    """context tokens in SGD, enough to show the rarest token ten times"""
    seeds: int | tuple[int, ...] = 3
    """number of seeds of SGD (0, 1, 2, ...), or a list of seeds"""


def measure(settings: Settings, on_progress: Progress) -> Measured:
    """SGD at every ratio, with each rate held; where steps of attention overshoot, with both rates
    smaller; and near the limit.
    """
    task, ratios = saccade.SequenceClasses.syn_medium(1), np.array(settings.ratios)
    limit = theory.stable_attention_rate(
        task.token_prob[:, task.token_prob.any(axis=0)], task.class_weight, n_vocab=task.n_vocab
    )
    sgd = _sgd(
        task, settings, settings.steps, 1 + 0 * ratios, 1 / ratios, stretch(on_progress, 0, 0.3)
    )
    held = _sgd(
        task, settings, settings.held_steps, ratios, 1 + 0 * ratios, stretch(on_progress, 0.3, 0.6)
    )
    smaller = np.where(1 / ratios > limit, _SMALLER, np.nan)  # elsewhere there is nothing to mend
    broken = np.isfinite(smaller)
    values = {f"sgd_{name}": value for name, value in sgd.items()} | {
        "held_converged": held["converged"]
    }
    values |= {
        f"small_{name}": np.full(np.shape(sgd[name]), np.nan) for name in ("mass", "wrong_way")
    }
    if broken.any():
        small = _sgd(
            task,
            settings,
            round(settings.steps / _SMALLER / 3),
            smaller[broken],
            smaller[broken] / ratios[broken],
            on_progress,
        )
        for name in ("mass", "wrong_way"):
            values[f"small_{name}"][broken] = small[name]
    limits = np.array(settings.limits)
    near = _sgd(
        task,
        settings,
        settings.steps,
        1 + 0 * limits,
        limit * limits,
        on_progress,
        settings.limit_seeds,
    )
    values |= {
        "stable_rate": limit,
        "limit_mass": near["mass"],
        "limit_wrong_way": near["wrong_way"],
    }
    values |= {"start_mass": measures.mass(task.token_prob[0], task.common)}
    seeds = {
        "seed": checked_seeds(settings.seeds),
        "limit_seed": checked_seeds(settings.limit_seeds),
    }
    return Measured(
        values, {"ratio": list(settings.ratios), "limit": list(settings.limits), **seeds}
    )


def _sgd(
    task: saccade.SequenceClasses,
    settings: Settings,
    steps: int,
    decoder: Array,
    attention: Array,
    on_progress: Progress,
    seeds: int | tuple[int, ...] | None = None,
) -> dict[str, Any]:
    """All pairs of rates at once."""
    record = saccade.train(
        task,
        steps=steps,
        lr_decoder=decoder,
        lr_attention=attention,
        context=settings.context,
        seeds=settings.seeds if seeds is None else seeds,
        save=sorted({*range(0, steps + 1, max(1, steps // 150)), steps}),
        keep=("attention", "attention_logits"),
        on_progress=on_progress,
    )
    seen = seen_in(record.attention, record.attention_logits, record.time.values, task)
    seen["converged"] = np.apply_along_axis(
        lambda one: first_time(record.time.values, one < _CONVERGED), -1, record.loss.values
    )
    seen["mass"] = seen["mass"][..., -1]
    del seen["steps"]
    return seen


def claims(record: xr.Dataset) -> Iterator[Claim]:
    ratios, limit = record.ratio.values, float(record.stable_rate)
    within = 1 / ratios <= limit
    stable, case = record.isel(ratio=within), Case({"A": "SGD", "η_Y": 1.0})
    yield from fate_claims(stable, "sgd", case)
    title = "attention left on common tokens rises with η_Y/η_Z, at fixed η_Y, in every seed"
    yield case.in_order(RATE_RATIO, title, stable.sgd_mass.transpose("seed", "ratio").values)
    title = "updates to a loss of 0.1 rise with η_Y/η_Z, at fixed η_Y, mean over seeds"
    yield case.in_order(RATE_RATIO, title, stable.sgd_converged.mean("seed").values)
    held = record.held_converged.mean("seed", skipna=False).values
    title = "updates to a loss of 0.1 never rise with η_Y/η_Z, at fixed η_Z, mean over seeds"
    longest = np.where(np.isfinite(held), held, np.inf)  # what has not come by the end came later
    yield Case({"A": "SGD", "η_Z": 1.0}).none(RATE_RATIO, title, ~(longest[1:] <= longest[:-1]))
    yield from _overshooting(record, limit)


def _overshooting(record: xr.Dataset, limit: float) -> Iterator[Claim]:
    start, title = (
        float(record.start_mass),
        "attention on common tokens falls, in every seed, and distinct tokens rise",
    )
    for ratio in record.ratio.values:
        at = record.sel(ratio=ratio)
        for name, scale in (("sgd", 1.0), ("small", _SMALLER)):
            if not np.isfinite(at[f"{name}_mass"].values).all():
                continue
            lost = (at[f"{name}_mass"].values >= start) | (at[f"{name}_wrong_way"].values > 0)
            given = at_most(STABLE, scale / ratio, limit, "attention rate")
            case = Case({"A": "SGD", "η_Y/η_Z": float(ratio), "η_Z": scale / float(ratio)}, [given])
            yield (case if given.holds else case.breaking(STABLE)).none(LARGE_STEPS, title, lost)
    yield from _near_the_limit(record, limit, start, title)


def _near_the_limit(record: xr.Dataset, limit: float, start: float, title: str) -> Iterator[Claim]:
    """The limit is where a single step overshoots by more than it corrects; the scan is lost only
    if many do.
    """
    lost = (record.limit_mass >= start) | (record.limit_wrong_way > 0)
    for multiple, seeds in zip(
        record.limit.values, lost.transpose("limit", "limit_seed").values, strict=True
    ):
        case = Case({"A": "SGD", "η_Y": 1.0, "η_Z/limit": float(multiple)})
        if multiple <= 1:
            yield case.none(LARGE_STEPS, title, seeds)
        else:
            told = "share of seeds that lose the scan above the limit"
            yield case.at_least(
                LARGE_STEPS, told, seeds.mean(), 1, expected=HOLDS if multiple >= _SURELY else FAILS
            )


def panels(record: xr.Dataset) -> Layout:
    return [_ratio_panel(record), _limit_panel(record)]


def _each_seed(x: Array, y: xr.DataArray, along: str, name: str, tone: int) -> list[Line]:
    return [
        Line(x, y.isel({along: i}), "" if i else name, RINGS, tone) for i in range(y.sizes[along])
    ]


def _ratio_panel(record: xr.Dataset) -> Lines:
    ratios, marks = record.ratio.values, {1 / float(record.stable_rate): "limit"}
    lines = [
        *_each_seed(ratios, record.sgd_wrong_way, "seed", "SGD, each seed", 2),
        Line(ratios, record.small_wrong_way.mean("seed"), "steps a tenth as large", POINTS, 3),
    ]
    return Lines(
        "SGD at five ratios of the rates",
        "η_Y / η_Z",
        _WRONG,
        lines,
        "x",
        ylim=(-0.5, 12),
        marks=marks,
    )


def _limit_panel(record: xr.Dataset) -> Lines:
    lines = _each_seed(
        record.limit.values, record.limit_wrong_way, "limit_seed", "SGD, each seed", 2
    )
    return Lines(
        "SGD near the limit of stable steps",
        "η_Z / limit",
        _WRONG,
        lines,
        "",
        ylim=(-0.5, 12),
        marks={1.0: "limit"},
    )


_WRONG = "tokens that go the wrong way"
_RUNS = "ratio seed"
EXPERIMENT = Experiment(
    "large-steps",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "SGD on Syn-Medium with one query: how many of its 30 tokens have moved the wrong way at the end. Panel 1: against the "
        "ratio of the rates, with the decoder's rate fixed at 1. At ratio .01 some tokens do, unless steps are smaller. Panel 2: "
        "attention rates near the limit at which single steps overshoot."
    ),
    finding=(
        "SGD still scans at every rate ratio tried as long as the attention rate is below the limit of our theory; at 2.3 times "
        "the limit {share of seeds*η_Z/limit 2.3):.0%} of seeds lose the scan, at 2.75 times "
        "{share of seeds*η_Z/limit 2.75):.0%}"
    ),
    variables={
        **{f"sgd_{key}": Variable(_RUNS, *said) for key, said in SEEN.items()},
        "sgd_mass": Variable(_RUNS, "1", "attention on common tokens at the end of SGD"),
        "sgd_converged": Variable(
            _RUNS, "updates", "first update at which the loss is below 0.1, at decoder rate 1"
        ),
        "held_converged": Variable(
            _RUNS, "updates", "the same at attention rate 1; missing if it is not reached"
        ),
        "small_mass": Variable(
            _RUNS,
            "1",
            "attention on common tokens with steps a tenth as large, where larger ones overshoot",
        ),
        "small_wrong_way": Variable(
            _RUNS, SEEN["wrong_way"][0], f"{SEEN['wrong_way'][1]}, the same runs"
        ),
        "limit_mass": Variable(
            "limit limit_seed", "1", "attention on common tokens at the end of SGD near the limit"
        ),
        "limit_wrong_way": Variable(
            "limit limit_seed", SEEN["wrong_way"][0], f"{SEEN['wrong_way'][1]}, the same runs"
        ),
        "stable_rate": Variable(
            "", "1/step", "attention rate above which single steps overshoot, by theory"
        ),
        "start_mass": Variable("", "1", "attention on common tokens at the start"),
    },
    dynamics="A: mini-batch training",
    time_unit="steps of SGD",
)
