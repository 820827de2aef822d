"""The four stages of Fig. 2 need fast attention, strong overlaps and the theory's flow; plain flow
barely shows them all.

Syn-Small, Syn-Medium with one query and the weakly overlapping classes of Theorem 4, at five ratios
of the rates, along the theory's flow (C) and the plain flow (B) to t = 1e12. Stages are the events
that `saccade.find_events` finds; its thresholds were set after a first look at the flows. Expect in
(C) all stages, in order, if overlaps are strong and attention is no slower than the decoder; with
slower attention no freeze, with weak overlaps no winner. In (B) expect what the theory of plain
descent gives for each case: with fast attention a freeze but no winner, since frequency drops out;
with slow attention perhaps a winner, and a freeze very late.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

import saccade
from saccade.experiments.scan_and_snap.snap_growth import one_common_token
from saccade.lab.claim import FAILS, Case, Claim
from saccade.lab.film import Film
from saccade.lab.panel import LINE, POINTS, RINGS, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress, Variable
from saccade.numerals import numeral
from saccade.observe import measures
from saccade.observe.fits import Array
from saccade.observe.scan_events import scan_events
from saccade.theory import scan_and_snap as theory
from saccade.theory.condition import met
from saccade.theory.scan_and_snap.open_statements import FOUR_STAGES, PLAIN_MEMORY

STAGES = ("common_suppressed", "winner_emerges", "attention_snapped")
ENGINES: dict[str, Any] = {"C": saccade.reduced_flow, "B": saccade.flow}
SHOWN, WEAK = "Syn-Medium", "weak classes"
MEMORY = "the decoder remembers older features"
_LEAD = 0.02  # relative: the error of the theory of plain descent, as in `plain-descent`


@dataclass(frozen=True)
class Settings:
    ratios: tuple[float, ...] = (0.1, 1.0, 5.0, 10.0, 100.0)
    """decoder rate over attention rate; the decoder's is 1 per step"""
    t1: float = 1e12
    """end of the flows, steps"""
    n_times: int = 160
    """samples of each flow, log-spaced"""


def tasks() -> dict[str, saccade.SequenceClasses]:
    weak = one_common_token(n_classes=5, common_feature=0.2, n_distinct=4, n_vocab=1000)
    return {
        "Syn-Small": saccade.SequenceClasses.syn_small(),
        SHOWN: saccade.SequenceClasses.syn_medium(1),
        WEAK: weak,
    }


def measure(settings: Settings, on_progress: Progress) -> Measured:
    listed, rows, expected = tasks(), [], []
    for done, task in enumerate(listed.values(), 1):
        for ratio in settings.ratios:
            rates: dict[str, Any] = {"lr_decoder": 1.0, "lr_attention": 1 / ratio}
            for engine in ENGINES.values():
                rows.append(
                    _seen(
                        engine(
                            task,
                            t1=settings.t1,
                            n_times=settings.n_times,
                            keep=("attention",),
                            **rates,
                        ),
                        task,
                    )
                )
            expected.append(_expected(task, rows[-1]["steps"], rates))
        on_progress(done / len(listed))
    shape = (len(listed), len(settings.ratios))
    values: dict[str, Any] = {
        name: np.array([row[name] for row in rows]).reshape(*shape, len(ENGINES), -1)
        for name in ("steps", "common_mass", "event_time")
    }
    values["lead"] = np.array([row["lead"] for row in rows]).reshape(*shape, len(ENGINES))
    values |= {
        name: np.array([one[name] for one in expected]).reshape(*shape, -1)
        for name in ("expected_time", "expected_lead")
    }
    mass = np.array([one["mass"] for one in expected]).reshape(*shape, -1)
    values["expected_mass"] = np.stack(
        [mass if flow == "B" else np.full_like(mass, np.nan) for flow in ENGINES], axis=2
    )
    place = len(settings.ratios) * list(listed).index(SHOWN) + int(
        np.argmin(np.abs(np.log(settings.ratios)))
    )
    values["attention"] = [
        row["attention"][:, 0, _shown(listed[SHOWN])] for row in rows[2 * place : 2 * place + 2]
    ]
    told = {
        "B": expected[place]["attention"],
        "C": _by_theorem_3(values["attention"][list(ENGINES).index("C")], 10),
    }
    values["told_attention"] = [told[flow] for flow in ENGINES]
    values["shown_time"] = [row["steps"] for row in rows[2 * place : 2 * place + 2]]
    names = [f"{kind}{i + 1}" for kind in "cd" for i in range(10)]
    coords = {
        "task": list(listed),
        "ratio": list(settings.ratios),
        "flow": list(ENGINES),
        "stage": list(STAGES),
        "token": names,
    }
    coords["token_role"] = ("token", ["common"] * 10 + ["distinct"] * 10)
    return Measured(values, coords)


def _seen(path: xr.Dataset, task: saccade.SequenceClasses) -> dict[str, Any]:
    """What became of one flow; the events of a flow are those of `saccade.find_events`."""
    t, attention = path.time.values, path.attention.values
    found = {event.name: event.time for event in saccade.find_events(path)}
    return {
        "steps": t,
        "common_mass": measures.mass(attention, task.common).mean(axis=1),
        "event_time": [found.get(stage, np.nan) for stage in STAGES],
        "lead": _lead(attention, task.distinct),
        "attention": attention,
    }


def _expected(task: saccade.SequenceClasses, t: Array, rates: dict[str, Any]) -> dict[str, Any]:
    """Stages of the plain flow and its largest lead by the theory of plain descent, with the same
    detector.
    """
    occurs = task.token_prob.any(axis=0)
    told: dict[str, Any] = {
        "query": task.query,
        "class_weight": task.class_weight,
        "n_vocab": task.n_vocab,
    }
    prob, distinct = task.token_prob[:, occurs], task.distinct[:, occurs]
    attention = theory.limit_attention(
        prob, theory.plain_attention_logits(t, token_prob=prob, **told, **rates)
    )
    events = scan_events(
        t, measures.mass(attention, task.common[occurs]), np.where(distinct, attention, 0.0)
    )
    found = {event.name: event.time for event in events}
    of_class = np.full((len(t), task.token_prob.shape[1]), np.nan)
    of_class[:, occurs] = attention[:, 0]
    return {
        "expected_time": [found.get(stage, np.nan) for stage in STAGES],
        "expected_lead": [_lead(attention, distinct)],
        "mass": measures.mass(attention, task.common[occurs]).mean(axis=1),
        "attention": of_class[:, _shown(task)],
    }


def _by_theorem_3(attention: Array, n_common: int) -> Array:
    """Attention on all distinct tokens from that on the two most frequent ones, which are last;
    missing for common ones.
    """
    own = attention[:, n_common:]
    leads = theory.relative_gain(own[:, -1:], own[:, :-1])
    growth = leads[:, -1:] / leads[0, -1]
    told = np.full_like(attention, np.nan)
    told[:, n_common:] = own[:, -1:] / np.sqrt(
        1 + theory.relative_gain(own[0, -1], own[0]) * growth
    )
    return told


def _lead(attention: Array, distinct: Any) -> float:
    """Largest share of the leading distinct token over its share at the start, mean over classes."""
    own = np.where(distinct, attention, 0.0)
    share = (own.max(axis=-1) / own.sum(axis=-1)).mean(axis=1)
    return float(share.max() / share[0])


def _shown(task: saccade.SequenceClasses) -> Any:
    """Common tokens, then the distinct ones of class 1, rarest first."""
    return np.concatenate([np.flatnonzero(task.common), np.flatnonzero(task.distinct[0])])


def _shown_ratio(record: xr.Dataset) -> float:
    return float(record.ratio.values[np.argmin(np.abs(np.log(record.ratio.values)))])


def in_order(times: Any) -> Any:
    """Whether all stages come, none before the one in front of it (last axis: stage)."""
    return (np.diff(np.asarray(times), axis=-1) >= 0).all(axis=-1)


def claims(record: xr.Dataset) -> Iterator[Claim]:
    ratios, times = record.ratio.values, record.event_time
    reduced, plain = Case({"flow": "C"}), Case({"flow": "B"})
    title = "all stages come, in order"
    yield reduced.none(
        FOUR_STAGES,
        f"{title}, for every task and ratio",
        ~in_order(times.sel(flow="C")),
        expected=FAILS,
    )
    strong = times.sel(flow="C", task=[name for name in record.task.values if name != WEAK])
    case = reduced.but(overlaps="strong")
    yield case.but(attention="as fast as the decoder or faster").none(
        FOUR_STAGES, title, ~in_order(strong[:, ratios <= 1])
    )
    title = "attention freezes by the end"
    frozen = np.isfinite(strong.sel(stage="attention_snapped").values)
    yield case.but(attention="slower than the decoder").none(
        FOUR_STAGES, title, ~frozen[:, ratios > 1], expected=FAILS
    )
    winners = times.sel(flow="C", task=WEAK, stage="winner_emerges").values
    yield reduced.but(overlaps="weak").none(
        FOUR_STAGES, "a winner emerges, at every ratio", ~np.isfinite(winners), expected=FAILS
    )
    reached = np.isfinite(times.sel(flow="B").values)
    title = "all stages come, in order, for every task and ratio"
    yield plain.none(FOUR_STAGES, title, ~in_order(times.sel(flow="B")), expected=FAILS)
    yield from _told(record, plain, reached)


def _told(record: xr.Dataset, plain: Case, reached: Any) -> Iterator[Claim]:
    title = "plain flow reaches the stages that theory says, and no others"
    yield plain.none(PLAIN_MEMORY, title, reached != np.isfinite(record.expected_time.values))
    forgetful = np.isfinite(record.event_time.sel(flow="C").values)
    yield (
        plain.but([met(MEMORY, False)], theory="flow (C)")
        .breaking(MEMORY)
        .none(PLAIN_MEMORY, title, reached != forgetful)
    )
    gap = record.lead.sel(flow="B").values / record.expected_lead.values[..., 0] - 1
    yield plain.at_most(
        PLAIN_MEMORY,
        "largest lead of the top distinct token: error of theory, relative",
        np.abs(gap),
        _LEAD,
    )


def panels(record: xr.Dataset) -> Layout:
    return [[_pictures(record, "C"), _pictures(record, "B")], [_leads(record), _ends(record)]]


def _pictures(record: xr.Dataset, flow: str) -> Lines:
    """Attention over tokens at the start and at each stage that is reached."""
    course = record.sel(flow=flow, task=SHOWN, ratio=_shown_ratio(record))
    steps, attention, lines = course.steps.values, record.attention.sel(flow=flow).values, []
    names = ("start", "common suppressed", "winner emerges", "frozen")
    for i, (name, t) in enumerate(zip(names, (0.0, *course.event_time.values), strict=True)):
        if np.isfinite(t):
            at = int(np.argmin(np.abs(steps - t)))
            label = name if i == 0 else f"{name}, t = {numeral(t, '.2g')}"
            lines.append(Line(np.arange(attention.shape[1]) + 1, attention[at], label, LINE, i / 3))
    title = (
        "Syn-Medium, equal rates: theory's flow (C)" if flow == "C" else "the same, plain flow (B)"
    )
    kinds = {5.5: "common", 15.5: "distinct"}
    return Lines(
        title,
        "tokens of one class, rare to frequent",
        "attention",
        lines,
        ylim=(0, 0.4),
        ticks=kinds,
    )


def _leads(record: xr.Dataset) -> Lines:
    lines = []
    for tone, task in enumerate(record.task.values.tolist()):
        at = record.sel(task=task)
        lines += [
            Line(at.ratio, at.lead.sel(flow="B"), f"{task} (B)", POINTS, tone),
            Line(
                at.ratio, at.expected_lead[:, 0], "theory of (B)" if tone == 0 else "", LINE, tone
            ),
            Line(at.ratio, at.lead.sel(flow="C"), f"{task} (C)", RINGS, tone),
        ]
    y, room = (
        "share of the top token / at the start",
        3 * float(record.lead.max()),
    )  # for the legend
    return Lines(
        "is there a winner?",
        "η_Y / η_Z",
        y,
        lines,
        "xy",
        ylim=(None, room),
        levels={1.25: "a winner"},
    )


def _ends(record: xr.Dataset) -> Lines:
    lines = []
    for tone, task in enumerate(record.task.values.tolist()):
        for flow, style in (("B", POINTS), ("C", RINGS)):
            times = record.event_time.sel(task=task, flow=flow, stage="attention_snapped").values
            lines.append(Line(record.ratio, times, f"{task} ({flow})", style, tone))
    room = (None, 1e5 * EXPERIMENT.settings_of(record).t1)  # for the legend
    title = "when attention freezes, if it does"
    return Lines(title, "η_Y / η_Z", "t (steps)", lines, "xy", xlim=_span(record), ylim=room)


def _span(record: xr.Dataset) -> tuple[float, float]:
    return float(record.ratio.min()) / 2, float(record.ratio.max()) * 2


def stages(record: xr.Dataset) -> dict[str, tuple[list[str], list[dict[str, Any]]]]:
    """`stages.csv`: when each stage of each flow begins, where it does."""
    runs = [
        (task, ratio, flow)
        for task in record.task.values
        for ratio in record.ratio.values
        for flow in record.flow.values
    ]
    rows = []
    for run in runs:
        at = dict(zip(("task", "ratio", "flow"), run, strict=True))
        times = zip(
            ("scanning", *FILM_STAGES), (0.0, *record.event_time.sel(at).values), strict=True
        )
        rows += [
            at | {"stage": stage, "from": float(time)} for stage, time in times if np.isfinite(time)
        ]
    return {"stages.csv": (["task", "ratio", "flow", "stage", "from"], rows)}


FILM_STAGES = ("common tokens suppressed", "a winner emerges", "frozen")


def film(record: xr.Dataset) -> Film:
    """Attention in the theory's flow. Theorem 3 tells all distinct tokens from the two most
    frequent ones.
    """
    course = record.sel(flow="C", task=SHOWN, ratio=_shown_ratio(record))
    attention, names = (
        record.attention.sel(flow="C").values,
        [str(name) for name in record.token.values],
    )
    when = course.event_time.values
    return Film(
        "In the theory's flow attention scans, then snaps: common tokens lose it, frequent distinct ones win, then little moves.",
        course.steps.values,
        attention,
        names,
        theory=record.told_attention.sel(flow="C").values,
        outlines="Theorem 3",
        roles=["distinct tokens" if name.startswith("d") else "common tokens" for name in names],
        marks={float(t): name for t, name in zip(when, FILM_STAGES, strict=True) if np.isfinite(t)},
        clock="t (steps)",
    )


_CELL, _ALONG = "task ratio flow", "task ratio flow sample"
EXPERIMENT = Experiment(
    "four-stages",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Panels 1 and 2: attention of one class of Syn-Medium at the start and at each stage, light to dark. The theory's flow "
        "goes through all stages; in plain flow distinct tokens rise together and no winner emerges. Panels 3 and 4: three tasks "
        "at five rate ratios. Panel 3: the largest lead of the top distinct token; above the dotted line it counts as a winner. "
        "In plain flow only Syn-Small at ratios 5 and 10 has one. Panel 4: when attention freezes; points are missing where it "
        "does not by t = 1e12."
    ),
    finding=(
        "the theory's flow goes through all stages if overlaps are strong and attention is fast; of all 15 tasks and rates it "
        "misses a stage in {all stages come, in order, for every*flow C):.0f}, plain flow in {all stages come, in order, for "
        "every*flow B):.0f}; plain flow reaches the stages that its own theory predicts"
    ),
    variables={
        "steps": Variable(_ALONG, "steps of SGD", "time of each sample"),
        "common_mass": Variable(_ALONG, "1", "attention on common tokens, mean over classes"),
        "event_time": Variable(
            f"{_CELL} stage",
            "steps of SGD",
            "when `find_events` finds the stage; missing if it does not",
        ),
        "expected_time": Variable(
            "task ratio stage", "steps of SGD", "the same along the theory of plain descent"
        ),
        "lead": Variable(
            _CELL,
            "1",
            "largest share of the leading distinct token over that at the start, mean over classes",
        ),
        "expected_lead": Variable(
            "task ratio one", "1", "the same along the theory of plain descent"
        ),
        "expected_mass": Variable(
            _ALONG,
            "1",
            "the same along the theory of plain descent; none for flow (C)",
            "common_mass",
        ),
        "shown_time": Variable("flow sample", "steps of SGD", "time of each sample of `attention`"),
        "attention": Variable(
            "flow sample token", "1", "attention of class 1 of Syn-Medium at the ratio nearest 1"
        ),
        "told_attention": Variable(
            "flow sample token",
            "1",
            "the same by the theory of plain descent (B), by Theorem 3 from two tokens (C)",
            "attention",
        ),
    },
    dynamics="B: population gradient flow; C: reduced flow of the theory",
    time_unit="steps of SGD",
    film=film,
    files=stages,
)
