"""Plain descent does not freeze where Theorem 4 says; with weak overlaps it creeps on as ln t.

Follows the plain flow (B) to t = 10¹² on classes that share one token and one query. Its decoder
remembers older features and couples classes less than the theory's flow (C). The onset and the
order of tokens survive, but neither the size of growth nor ln ln t. A theory of plain descent
(`theories/scan_and_snap/plain_growth.py`, `fast_attention.py`) should give the logits within 2 %,
growth with fast attention within 1 %, and a snap, far later, where classes overlap strongly (to
t = 10³⁰⁰). Last, the four stages of Fig. 2 in both flows. Set after trial runs: 1 %, the 20 % of
closed forms, the window of the late snap, and the levels of stages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated as A
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

import saccade
from saccade import measures
from saccade.data.sequence_classes import SequenceClasses
from saccade.experiments.scan_and_snap.scan_then_snap import ONSET, SCALES
from saccade.experiments.scan_and_snap.snap_growth import (
    LARGE_VOCABULARY,
    ORDER,
    Growth,
    against_theorem_2,
    class_logits,
    growth_of,
    one_common_token,
)
from saccade.lab.case import Case
from saccade.lab.claim import Claim
from saccade.lab.experiment import Lab, experiment
from saccade.measures import fits
from saccade.measures.fits import Array
from saccade.measures.scan_events import scan_events
from saccade.panels import DASHES, DOTS, POINTS, RINGS, Line, Lines
from saccade.theories import scan_and_snap as theory
from saccade.theories.condition import met
from saccade.theories.scan_and_snap import assumptions as assumed
from saccade.theories.scan_and_snap.open_statements import (
    FAST_GROWTH,
    FOUR_STAGES,
    PLAIN_GROWTH,
    PLAIN_LATE_SNAP,
    PLAIN_MEMORY,
)
from saccade.theories.scan_and_snap.statements import PLAIN_COUPLING, PLAIN_ORDER, PLAIN_SNAP

FOR_ORDER = (assumed.FAST_DECODER, assumed.WEAK_OVERLAPS, assumed.NO_ISOLATED_CLASS)
FOR_PLAIN = (
    *(assumed.FAST_DECODER, assumed.WEAK_OVERLAPS, assumed.EQUAL_CLASSES),
    *(assumed.ONE_COMMON_TOKEN, assumed.DISTINCT_FOR_EACH_QUERY, assumed.ONE_QUERY),
    *(assumed.ALIKE_DISTINCT_TOKENS, LARGE_VOCABULARY),
)
OTHERS = {  # number of classes, overlap, vocabulary
    "two, few tokens": (2, 0.04, 200),
    "many": (10, 0.02, 1000),
    "overlap 0.08": (5, 0.08, 1000),
    "many, overlap 0.04": (10, 0.04, 1000),
    "past its snap": (7, 0.15, 300),
}
STAGES = ("common_suppressed", "winner_emerges", "attention_snapped")
KEEP = ("attention_logits",)
LONG = 1e300  # as far as a float reaches


@experiment(
    "plain-descent",
    dynamics="B: population gradient flow; C: reduced flow of the theory",
    time_unit="steps of SGD",
    caveat="Stronger overlaps, or far longer training: then plain descent snaps too.",
)
def plain_descent(
    lab: Lab,
    n_classes: A[int, "classes that share one token and one query"] = 5,
    common_feature: A[float, "f(0) of the common token; classes overlap by its square"] = 0.2,
    strong_features: A[tuple[float, ...], "the same of classes that overlap strongly"] = (
        0.55,
        0.4,
    ),
    n_distinct: A[int, "distinct tokens of each class"] = 4,
    n_vocab: A[int, "size of the vocabulary"] = 1000,
    slow: A[float, "slow attention rate, per step; the decoder's is 1"] = 0.001,
    fast: A[float, "fast attention rate, per step"] = 10.0,
    ratios: A[tuple[float, ...], "η_Y / η_Z, for the four stages"] = (0.1, 1.0, 5.0, 10.0, 100.0),
    t1: A[float, "end of the flows, steps"] = 1e12,
) -> str:
    """Does attention snap under plain gradient descent?"""

    def task_of(feature: float) -> SequenceClasses:
        return one_common_token(
            n_classes=n_classes, common_feature=feature, n_distinct=n_distinct, n_vocab=n_vocab
        )

    weak = task_of(common_feature)
    stage_tasks = {
        "Syn-Small": SequenceClasses.syn_small(),
        "Syn-Medium": SequenceClasses.syn_medium(1),
        "weak classes": task_of(0.2),
    }
    speeds = [(speed, role) for speed in ("slow", "fast") for role in SCALES]
    followed = {
        "weak, slow": (weak, slow, t1),
        "weak, fast": (weak, fast, t1),
        "strong, fast": (task_of(strong_features[0]), fast, LONG),
    }
    cells = [(name, ratio) for name in stage_tasks for ratio in ratios]
    work = lab.each([*speeds, *followed, *OTHERS, *strong_features, *cells])

    # Theorem 4 in plain descent, at slow attention (Assumption 1(c) holds) and at fast attention.
    flows: dict[tuple[str, str], Growth] = {}
    against = []
    for (speed, role), _ in zip(speeds, work, strict=False):
        lr_decoder, factor = SCALES[role]
        run = saccade.flow(
            weak,
            method="BDF",
            t1=t1,
            n_times=200,
            lr_decoder=lr_decoder,
            lr_attention=(slow if speed == "slow" else 10 * fast) * factor,
            keep=KEEP,
        )
        flows[speed, role] = growth_of(run, weak)
        against.append(bool(against_theorem_2(run, weak)[ORDER]))
    run = saccade.reduced_flow(
        weak,
        t1=t1,
        n_times=200,
        lr_attention=slow,
        keep=KEEP,
    )
    lab.case(*(flows["slow", "base"].conditions[need] for need in FOR_ORDER)).none(
        PLAIN_ORDER, f"{ORDER} in every flow", against
    )
    freezes = theorem_4_claim(lab, flows, growth_of(run, weak))

    # Plain descent's own theory, token by token.
    paths = {}
    falls = {}
    errors = []
    for (name, (task, lr_attention, end)), _ in zip(followed.items(), work, strict=False):
        run = saccade.flow(
            task,
            t1=end,
            n_times=120,
            lr_attention=lr_attention,
            keep=KEEP,
        )
        paths[name] = run
        occurs = task.token_prob.any(axis=0)
        z = class_logits(run, task, 0)[:, occurs]
        expected = predicted_logits(run.time.values, task, lr_attention)[:, 0]
        falls[name] = -z[1:, 0], -expected[1:, 0]
        errors.append(np.abs(expected - z)[1:].max(axis=1) / np.abs(z)[1:].max(axis=1))
        lab.keep("steps", run.time.values, "sample", "time of each sample", "steps", case=name)
        about = "-z of the common token, plain flow (B)"
        lab.keep("fall", -z[:, 0], "sample", about, case=name)
        lab.keep("expected_fall", -expected[:, 0], "sample", "the same by its theory", case=name)
    title = "attention logits of plain descent with memory, largest error along the flow"
    together = lab.case(classes="weak and strong")
    together.at_most(PLAIN_MEMORY, title, np.concatenate(errors), 0.02)

    # Growth per unit of ln t with fast attention, from 100 t0 on.
    quickly = lab.case(attention="fast")
    slowly = lab.case(attention="slow")
    path = lead(paths["weak, fast"], weak)
    law = fast_law(path, weak, fast)
    laws = [(path, law)]
    for (K, overlap, M), _ in zip(OTHERS.values(), work, strict=False):
        task = one_common_token(
            n_classes=K, common_feature=overlap**0.5, n_distinct=n_distinct, n_vocab=M
        )
        run = saccade.flow(
            task,
            t1=t1,
            n_times=120,
            lr_attention=fast,
            keep=KEEP,
        )
        one = lead(run, task)
        laws.append((one, fast_law(one, task, fast)))
    heights = [
        theory.plain_snap_height(feature**2, n_vocab=n_vocab, n_classes=n_classes)
        for feature in strong_features
    ]
    for (feature, height), _ in zip(zip(strong_features, heights, strict=True), work, strict=False):
        # To three times the height at which it should snap, and finely: the peak is flat.
        end = float(np.exp(3 * height) * n_classes / n_vocab)
        task = task_of(feature)
        run = saccade.flow(
            task,
            t1=end,
            n_times=300,
            lr_attention=fast,
            keep=KEEP,
        )
        one = lead(run, task)
        laws.append((one, fast_law(one, task, fast)))
    title = "growth per unit of ln t from the theory of fast attention: largest relative error"
    # The slope at the end is one-sided.
    errors = [np.abs(one.rate[one.late] / its_law - 1)[:-1] for one, its_law in laws]
    quickly.after_trial_runs.at_most(FAST_GROWTH, title, np.concatenate(errors), 0.01)
    off = np.abs(lead(paths["weak, slow"], weak).rate[path.late] / law - 1)[:-1]
    control = slowly.breaking(met("attention is fast", False))
    control.at_most(FAST_GROWTH, title, off, 0.01)

    # Weak overlaps: growth does not freeze by t1.
    ends = {speed: growth_of(paths[f"weak, {speed}"], weak) for speed in ("slow", "fast")}
    end = ends["slow"].t[-1]
    slow_growth = float(
        theory.slow_plain_growth(
            end,
            n_vocab=n_vocab,
            n_classes=n_classes,
            overlap=common_feature**2,
            lr_decoder=1.0,
            lr_attention=slow,
        )
    )
    title = "log growth with slow attention at the end"
    grown = ends["slow"].measured[-1]
    slowly.after_trial_runs.near(PLAIN_GROWTH, title, grown, slow_growth, relative=0.2)
    control = quickly.breaking(met("attention is slow", False))
    grown = ends["fast"].measured[-1]
    control.near(PLAIN_GROWTH, title, grown, slow_growth * fast / slow, relative=0.2)
    rate = path.rate[path.late]
    slowest = theory.slowest_plain_growth(
        n_vocab=n_vocab, n_classes=n_classes, overlap=common_feature**2
    ).rate
    title = "slowest growth per unit of ln t"
    quickly.after_trial_runs.near(PLAIN_GROWTH, title, rate.min(), slowest, relative=0.2)
    title = "growth per unit of ln t picks up again: at the end / at its minimum"
    again = rate[-2]
    quickly.at_least(PLAIN_GROWTH, title, again / rate.min(), 1.05)
    share = 1 - common_feature**2  # of the fall that eq. 100 has and Theorem 4 leaves out
    corrected = n_classes * share * ends["fast"].predicted
    fell, should_fall = falls["weak, fast"]
    title = "fall of the common token at the end / corrected Theorem 4"
    quickly.near(PLAIN_GROWTH, title, fell[-1] / corrected[-1], 1, within=0.5)

    # Strong overlaps: growth slows for good, after its last maximum.
    title = "height L from which growth only slows, after the scan, over L_s"
    strong = [one for one, _ in laws[-len(heights) :]]
    turns = [one.last_peak / height for one, height in zip(strong, heights, strict=True)]
    overlaps = lab.case(overlaps="strong")
    snaps = overlaps.after_trial_runs.between(PLAIN_LATE_SNAP, title, turns, 0.5, 1)
    task = followed["strong, fast"][0]
    long = lead(paths["strong, fast"], task)
    occurs = task.token_prob.any(axis=0)
    z = class_logits(paths["strong, fast"], task, 0)[1:, None, occurs]
    features = theory.normalised_feature(theory.limit_attention(task.token_prob[:, occurs], z))
    class_overlap = np.sum(features[:, 0] * features[:, 1], axis=1)
    measured = np.gradient(long.gap, np.log(long.height))[1:-1]
    after = theory.late_plain_growth_rate(class_overlap, n_classes=n_classes)
    off = np.abs(measured / after[1:-1] - 1)
    above = long.height[1:-1] / heights[0]
    title = "growth per unit of ln L after the snap, largest relative error"
    overlaps.at_most(PLAIN_LATE_SNAP, title, off[above > 3], 0.1)
    control = overlaps.but(height="below L_s").breaking(met("plain descent has snapped", False))
    scanned = long.t[1:-1] >= 10 * long.snap_time
    control.at_most(PLAIN_LATE_SNAP, title, off[scanned & (above < 1)], 0.1)

    leads = leads_of_stages(lab, stage_tasks, ratios, t1, work)

    lines = [
        Line(path.t, ends["fast"].printed, "Theorem 4, printed", DOTS, None),
        Line(path.t, corrected, "Theorem 4, corrected", DASHES, 3),
        Line(path.t, should_fall, "theory of plain descent", tone=0),
        Line(path.t[::5], fell[::5], "plain flow (B), fast attention", POINTS, 0),
    ]
    title = "Theorem 4 and plain descent"
    y = "fall of the common token, -z"
    fall_panel = Lines(
        title,
        "t (steps)",
        y,
        lines,
        "xy",
        xlim=(1, None),
        ylim=(1e-6, 30),
    )
    lines = [
        Line(path.t, np.gradient(corrected, np.log(path.t)), "Theorem 4, corrected", DASHES, 3),
        Line(path.t[path.late], law, "theory of fast attention", tone=0),
        Line(path.t[::4], path.rate[::4], "plain flow (B), fast attention", POINTS, 0),
    ]
    lab.draw(
        fall_panel,
        Lines(
            "weak overlaps: growth stays",
            "t (steps)",
            "growth per unit of ln t",
            lines,
            "xy",
            xlim=(1, None),
            ylim=(3e-4, 3),
            levels={slowest: "slowest"},
        ),
        caption="Panel 1: how far the common token has fallen. Printed Theorem 4 (dotted) and its "
        "corrected form (dashed) are far above plain descent (B, points), "
        "which is on the lines of its own theory. Panel 2: growth per unit of ln t. In Theorem 4 "
        "it keeps falling; in plain descent it passes a minimum and rises again.",
    )
    dense = strong[0]
    snapped = long.height > heights[0]
    fine = dense.height > 3
    coarse = long.height > dense.height[-1]
    lines = [
        Line(dense.height[fine][::5], dense.rate[fine][::5], "plain flow (B)", POINTS, 0),
        Line(long.height[coarse], long.rate[coarse], "", POINTS, 0),
        Line(dense.height[dense.late], laws[-len(heights)][1], "theory of fast attention", tone=1),
        Line(long.height[snapped], (after / long.height)[snapped], "after the snap", DASHES, 0),
    ]
    x = "L = ln(M η_Y t / K); 30 is t = 10¹⁰, 690 is 10²⁹⁷"
    marks = {heights[0]: "ln(M/K)/ρ"}
    title = "strong overlap: it snaps in the end"
    winners = []
    for tone, name in enumerate(stage_tasks):
        here = [i for i, cell in enumerate(cells) if cell[0] == name]
        for flow, style in (("B", POINTS), ("C", RINGS)):
            winners.append(Line(ratios, leads[flow][here], f"{name} ({flow})", style, tone))
        label = "" if tone else "theory of (B)"
        winners.append(Line(ratios, leads["theory"][here], label, tone=tone))
    y = "share of the top token / at the start"
    room = 3 * max(map(max, leads.values()))
    lab.draw(
        Lines(title, x, "growth per unit of ln t", lines, "xy", marks=marks),
        Lines(
            "is there a winner?",
            "η_Y / η_Z",
            y,
            winners,
            "xy",
            ylim=(None, room),
            levels={1.25: "a winner"},
        ),
        caption="Panel 3: strongly overlapping classes, followed to t = 10³⁰⁰. Growth slows for "
        "good near the vertical line, as predicted. Panel 4: the largest lead of the top distinct "
        "token, on three tasks at five ratios of the rates. Above the dotted line it is a winner.",
    )
    return (
        f"{lab.yes_or_no(freezes, snaps)}: with strong overlaps, growth slows for good at "
        f"{turns[0]:.2f} times the predicted height of the decoder. With weak overlaps and fast "
        f"attention, growth per unit of ln t is {again / rate.min():.2g} times its minimum at t = "
        f"{t1:g}. There the common token has fallen {fell[-1] / corrected[-1]:.2g} times as far "
        "as the corrected Theorem 4 says."
    )


def theorem_4_claim(lab: Lab, flows: dict[tuple[str, str], Growth], ideal: Growth) -> Claim:
    """Theorem 4 in plain descent; the claim returned says that growth freezes as it predicts."""

    def case(speed: str, role: str = "base") -> Case:
        growth = flows[speed, role]
        return lab.case(*(growth.conditions[need] for need in FOR_PLAIN), attention=speed)

    for speed in ("slow", "fast"):
        base = flows[speed, "base"]
        at = int(np.argmin(np.abs(base.t - base.theory.scan_time)))
        grown = base.measured[at]
        coupled = base.theory.plain_growth(np.append(0.0, base.t))[1:]
        one = case(speed) if speed == "slow" else case(speed).breaking(assumed.FAST_DECODER)
        title = "log growth of the plain flow (B) near t0', from plain descent's coupling"
        one.near(PLAIN_COUPLING, title, grown, coupled[at], relative=0.05)
        if speed == "slow":
            title = "log growth near t0': plain flow (B) / theory's flow (C)"
            one.near(PLAIN_COUPLING, title, grown / ideal.measured[at], 1, within=0.5)
    scan_time = base.theory.scan_time
    case("fast").between(PLAIN_SNAP, ONSET, base.onset, scan_time, base.theory.snap_time)
    ends = [flows["fast", role] for role in ("slower decoder", "faster decoder")]
    power = fits.power([0.1, 10], [one.onset for one in ends])
    title = "(a) a faster decoder snaps earlier: power of η_Y in the onset"
    case("fast", "slower decoder").near(PLAIN_SNAP, title, power, -1, within=0.05)
    base = flows["slow", "base"]
    first = int(np.argmin(np.abs(np.log(base.t / (100 * base.theory.snap_time)))))
    found, predicted = (
        np.divide(*base.exponent(growth)[[-2, first]])  # one-sided at the very end
        for growth in (base.measured, base.predicted)
    )
    title = "local exponent at the end / at 100 t0"
    return case("slow").near(PLAIN_SNAP, title, found, predicted, relative=0.25)


def leads_of_stages(
    lab: Lab,
    tasks: dict[str, SequenceClasses],
    ratios: tuple[float, ...],
    t1: float,
    work: Iterator[object],
) -> dict[str, Array]:
    """The largest lead of a distinct token, by flow, over tasks and ratios; and the claims on the
    four stages of Fig. 2, in both flows and by the theory of plain descent.
    """
    cells = [(name, ratio) for name in tasks for ratio in ratios]
    times: dict[str, list[list[float]]] = {
        "B": [],
        "C": [],
        "theory": [],
    }
    largest: dict[str, list[float]] = {flow: [] for flow in times}
    for (name, ratio), _ in zip(cells, work, strict=True):
        task = tasks[name]
        run = saccade.flow(
            task,
            t1=t1,
            n_times=160,
            lr_attention=1 / ratio,
            keep=("attention",),
        )
        when = run.time.values
        occurs = task.token_prob.any(axis=0)
        expected = np.zeros(run.attention.shape)
        logits = predicted_logits(when, task, 1 / ratio)
        expected[..., occurs] = theory.limit_attention(task.token_prob[:, occurs], logits)
        ideal = saccade.reduced_flow(
            task, t1=t1, n_times=160, lr_attention=1 / ratio, keep=("attention",)
        )
        moved = {
            "B": run.attention.values,
            "C": ideal.attention.values,
            "theory": expected,
        }
        for flow, attention in moved.items():
            times[flow].append(stages(when, attention, task))
            largest[flow].append(largest_lead(attention, task.distinct))
    leads = {flow: np.array(found) for flow, found in largest.items()}
    begins = {flow: np.array(found) for flow, found in times.items()}
    comes = {flow: np.isfinite(at) for flow, at in begins.items()}
    ordered = {flow: np.diff(at, axis=-1).min(axis=-1) >= 0 for flow, at in begins.items()}
    quick = np.array([ratio <= 1 for _, ratio in cells])
    strong_ones = np.array([name != "weak classes" for name, _ in cells])
    title = "all stages come, in order"
    one = lab.case(
        flow="C",
        overlaps="strong",
        attention="as fast as the decoder or faster",
    )
    one.none(FOUR_STAGES, title, ~ordered["C"][quick & strong_ones])
    one = lab.case(
        flow="C",
        overlaps="strong",
        attention="slower than the decoder",
    )
    title = "attention freezes by the end"
    one.none(FOUR_STAGES, title, ~comes["C"][~quick & strong_ones, 2])
    title = "a winner emerges, at every ratio"
    lab.case(flow="C", overlaps="weak").none(FOUR_STAGES, title, ~comes["C"][~strong_ones, 1])
    title = "all stages come, in order, for every task and ratio"
    plain = lab.case(flow="B")
    plain.none(FOUR_STAGES, title, ~ordered["B"])
    title = "plain flow reaches the stages that theory says, and no others"
    plain.none(PLAIN_MEMORY, title, comes["B"] != comes["theory"])
    forgets = met("the decoder remembers older features", False)
    control = lab.case(flow="B", theory="flow (C)").breaking(forgets)
    control.none(PLAIN_MEMORY, title, comes["B"] != comes["C"])
    title = "largest lead of the top distinct token: error of theory, relative"
    plain.at_most(PLAIN_MEMORY, title, np.abs(leads["B"] / leads["theory"] - 1), 0.02)
    return leads


def predicted_logits(t: Array, task: SequenceClasses, lr_attention: float) -> Array:
    """By the theory of plain descent (time, class, token that occurs); the decoder's rate is 1."""
    return theory.plain_attention_logits(
        t,
        token_prob=task.token_prob[:, task.token_prob.any(axis=0)],
        query=task.query,
        class_weight=task.class_weight,
        n_vocab=task.n_vocab,
        lr_decoder=1.0,
        lr_attention=lr_attention,
    )


class Lead(NamedTuple):
    """How far the most frequent distinct token of class 1 is ahead of the common one, after t = 0."""

    t: Array
    height: Array  # L, of the decoder
    gap: Array
    snap_time: float  # t0

    @property
    def late(self) -> NDArray[np.bool_]:
        """Samples from 100 t0 on: the scan is over."""
        return self.t >= 100 * self.snap_time

    @property
    def rate(self) -> Array:
        """Growth per unit of ln t."""
        return np.gradient(self.gap, np.log(self.t))

    @property
    def last_peak(self) -> float:
        """Height of the last maximum of growth after 10 t0, beyond that of the scan; NaN if none."""
        rate = self.rate
        height = self.height
        past = self.t[1:-1] >= 10 * self.snap_time
        peaks = np.flatnonzero(past & (rate[1:-1] > rate[:-2]) & (rate[1:-1] >= rate[2:])) + 1
        return float(height[peaks[-1]]) if len(peaks) else np.nan


def lead(run: xr.Dataset, task: SequenceClasses) -> Lead:
    t = run.time.values[1:]
    z = class_logits(run, task, 0)[1:]
    gap = z[:, np.flatnonzero(task.distinct[0])[-1]] - z[:, np.flatnonzero(task.common)[0]]
    height = np.log(task.n_vocab * t / task.n_classes)
    snap_time = theory.snap_time(
        n_vocab=task.n_vocab,
        n_classes=task.n_classes,
        lr_decoder=1.0,
    )
    return Lead(t, height, gap, snap_time)


def fast_law(path: Lead, task: SequenceClasses, lr_attention: float) -> Array:
    """Growth per unit of ln t from 100 t0 on, by the theory of fast attention."""
    return theory.fast_plain_growth(
        path.t[path.late],
        overlap=float(theory.class_overlap(theory.normalised_feature(task.token_prob))[0, 1]),
        n_vocab=task.n_vocab,
        n_classes=task.n_classes,
        lr_decoder=1.0,
        lr_attention=lr_attention,
    ).rate


def stages(t: Array, attention: Array, task: SequenceClasses) -> list[float]:
    """When each stage begins, by the detector of `saccade.find_events`; NaN if it does not."""
    own = np.where(task.distinct, attention, 0.0)
    events = scan_events(t, measures.mass(attention, task.common), own)
    found = {event.name: event.time for event in events}
    return [found.get(stage, np.nan) for stage in STAGES]


def largest_lead(attention: Array, distinct: NDArray[np.bool_]) -> float:
    """Largest share of the leading distinct token over its share at the start, mean over classes."""
    own = np.where(distinct, attention, 0.0)
    share = (own.max(axis=-1) / own.sum(axis=-1)).mean(axis=1)
    return float(share.max() / share[0])
