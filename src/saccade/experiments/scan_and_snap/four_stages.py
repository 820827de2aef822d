"""In the theory's flow common tokens are suppressed, winners emerge and attention freezes; in plain flow no winner emerges.

Syn-Medium with one query and the weakly overlapping classes of Theorem 4, along the theory's flow (C) and the plain flow (B) to
t = 1e12. Stages are the events that `saccade.find_events` finds; its thresholds were set after a first look at the flows. In (C)
half or twice the threshold gives the same order. In (B) half the threshold would count a winner, because the leading token's share
passes through a small maximum. Expect all three stages in order in (C) on Syn-Medium; in (B) suppression and, with strong overlaps,
a freeze, but no winner; with weak overlaps none of the three.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

import saccade
from saccade.experiments.scan_and_snap.snap_growth import one_common_token
from saccade.lab.claim import FAILS, HOLDS, Case, Claim
from saccade.lab.experiment import Experiment, Measured, Progress, Variable
from saccade.lab.film import Film
from saccade.lab.panel import LINE, POINTS, Layout, Line, Lines
from saccade.observe import measures
from saccade.observe.fits import Array
from saccade.theory import scan_and_snap as theory
from saccade.theory.scan_and_snap.open_statements import FOUR_STAGES

STAGES = ("common_suppressed", "winner_emerges", "attention_snapped")
CASES = ("C, Syn-Medium", "B, Syn-Medium", "B, weak classes")


@dataclass(frozen=True)
class Settings:
    lr_attention: float = 1.0
    """attention rate on Syn-Medium, per step; the decoder's is 1"""
    weak_lr_attention: float = 100.0
    """attention rate on the weakly overlapping classes, per step"""
    t1: float = 1e12
    """end of the flows, steps"""
    n_times: int = 200
    """samples of each flow, log-spaced"""


def measure(settings: Settings, on_progress: Progress) -> Measured:
    medium = saccade.SequenceClasses.syn_medium(1)
    weak = one_common_token(n_classes=5, common_feature=0.2, n_distinct=4, n_vocab=1000)
    options: dict[str, Any] = {"t1": settings.t1, "n_times": settings.n_times, "keep": ("attention",)}
    paths = []
    for case, engine, task, rate in (
        (CASES[0], saccade.reduced_flow, medium, settings.lr_attention),
        (CASES[1], saccade.flow, medium, settings.lr_attention),
        (CASES[2], saccade.flow, weak, settings.weak_lr_attention),
    ):
        paths.append((task, engine(task, lr_attention=rate, **options)))
        on_progress((CASES.index(case) + 1) / len(CASES))
    values = {
        "steps": [path.time.values for _, path in paths],
        "common_mass": [measures.mass(path.attention.values, task.common).mean(axis=1) for task, path in paths],
        "top_share": [_top_share(path.attention.values, task.distinct) for task, path in paths],
        "event_time": [_event_times(path) for _, path in paths],
        "attention": [path.attention.values[:, 0, _shown(medium)] for _, path in paths[:2]],
    }
    names = [f"common {i + 1}" for i in range(10)] + [f"distinct {i + 1}" for i in range(10)]
    return Measured(values, {"case": list(CASES), "stage": list(STAGES), "flow": ["C", "B"], "token": names})


def _shown(task: saccade.SequenceClasses) -> Any:
    """Common tokens, then the distinct ones of class 1, rarest first."""
    return np.concatenate([np.flatnonzero(task.common), np.flatnonzero(task.distinct[0])])


def _top_share(attention: Array, distinct: Any) -> Array:
    own = np.where(distinct, attention, 0.0)
    return (own.max(axis=-1) / own.sum(axis=-1)).mean(axis=1)


def _event_times(path: xr.Dataset) -> list[float]:
    found = {event.name: event.time for event in saccade.find_events(path)}
    return [found.get(stage, np.nan) for stage in STAGES]


def claims(record: xr.Dataset) -> Iterator[Claim]:
    times = {case: record.event_time.sel(case=case).values for case in CASES}
    for case, expected in zip(CASES, (HOLDS, FAILS, FAILS), strict=True):
        yield Case({"flow": case}).in_order(
            FOUR_STAGES, "suppression, a winner and the freeze come in this order", times[case], expected=expected
        )
    missing = Case({"flow": CASES[1]})
    title = "no winner: largest share of the leading distinct token / initial share"
    share = record.top_share.sel(case=CASES[1]).values
    yield missing.at_most(FOUR_STAGES, title, share.max() / share[0], 1.2)
    both = times[CASES[1]][[0, 2]]
    yield missing.in_order(FOUR_STAGES, "strong overlaps: suppression, then the freeze", both)
    title = "number of stages reached with weak overlaps"
    yield Case({"flow": CASES[2]}).near(FOUR_STAGES, title, np.isfinite(times[CASES[2]]).sum(), 0, within=0)


def panels(record: xr.Dataset) -> Layout:
    return [_pictures(record, "C"), _pictures(record, "B"), _courses(record)]


def _pictures(record: xr.Dataset, flow: str) -> Lines:
    """Attention over tokens at the start and at each stage that is reached."""
    case = f"{flow}, Syn-Medium"
    steps, when = record.steps.sel(case=case).values, record.event_time.sel(case=case).values
    attention, lines = record.attention.sel(flow=flow).values, []
    for i, (name, t) in enumerate(zip(("start", "common suppressed", "winner emerges", "frozen"), (0.0, *when), strict=True)):
        if np.isfinite(t):
            at = int(np.argmin(np.abs(steps - t)))
            label = name if i == 0 else f"{name}, t = {t:.2g}"
            lines.append(Line(np.arange(attention.shape[1]) + 1, attention[at], label, LINE, i / 3))
    title = "theory's flow (C)" if flow == "C" else "plain flow (B)"
    return Lines(title, "token: 10 common, then distinct by frequency", "attention", lines, ylim=(0, 0.4))


def _courses(record: xr.Dataset) -> Lines:
    lines = []
    for tone, case in enumerate(CASES):
        steps, mass = record.steps.sel(case=case).values[1:], record.common_mass.sel(case=case).values
        lines.append(Line(steps, mass[1:] / mass[0], case, LINE, tone))
        for t in record.event_time.sel(case=case).values:
            if np.isfinite(t):
                lines.append(Line([t], [np.interp(t, steps, mass[1:] / mass[0])], "", POINTS, tone))
    title = "stages along the way (points)"
    return Lines(title, "t (steps)", "attention on common tokens over its start", lines, "x", xlim=(0.1, None), ylim=(0, 1.05))


def film(record: xr.Dataset) -> Film:
    """Attention in the theory's flow. Theorem 3 tells all distinct tokens from the two most frequent ones."""
    case = CASES[0]
    attention, names = record.attention.sel(flow="C").values, [str(name) for name in record.token.values]
    distinct = np.array([name.startswith("distinct") for name in names])
    leads = theory.relative_gain(attention[:, -1:], attention[:, distinct][:, :-1])
    growth = leads[:, -1:] / leads[0, -1]
    told = np.full_like(attention, np.nan)
    told[:, distinct] = attention[:, -1:] / np.sqrt(1 + theory.relative_gain(attention[0, -1], attention[0, distinct]) * growth)
    said = ("common tokens suppressed", "a winner emerges", "frozen")
    when = record.event_time.sel(case=case).values
    return Film(
        "Attention scans, then snaps: common tokens lose it, the frequent distinct ones win, then nearly nothing moves.",
        record.steps.sel(case=case).values,
        attention,
        [name.replace("common ", "c").replace("distinct ", "d") for name in names],
        theory=told,
        outlines="Theorem 3",
        roles=["distinct tokens" if own else "common tokens" for own in distinct],
        marks={float(t): name for t, name in zip(when, said, strict=True) if np.isfinite(t)},
        clock="t (steps)",
    )


_ALONG = "case sample"
EXPERIMENT = Experiment(
    "four-stages",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Panels 1 and 2: attention of one class of Syn-Medium at the start and at each stage, light to dark. The theory's flow "
        "goes through all stages. In plain flow common tokens are suppressed and attention freezes, but distinct tokens rise "
        "together and no winner emerges. Panel 3: attention on common tokens relative to the start; points mark stages. Weakly "
        "overlapping classes (B) reach none of them by t = 1e12."
    ),
    finding=(
        "in the theory's flow all stages come in order; in plain flow the leading token never exceeds {no winner*:.3g} "
        "times its initial share, so no winner emerges"
    ),
    variables={
        "steps": Variable(_ALONG, "steps of SGD", "time of each sample"),
        "common_mass": Variable(_ALONG, "1", "attention on common tokens, mean over classes"),
        "top_share": Variable(_ALONG, "1", "share of the leading distinct token in attention on distinct ones, mean over classes"),
        "event_time": Variable("case stage", "steps of SGD", "when `find_events` finds the stage; missing if it does not"),
        "attention": Variable("flow sample token", "1", "attention of class 1 of Syn-Medium"),
    },
    dynamics="B: population gradient flow; C: reduced flow of the theory",
    time_unit="steps of SGD",
    film=film,
)
