"""In the theory's own flow attention scans, then snaps: growth is logarithmic in t, then
logarithmic in log t.

Follows the theory's flow (C) to t = 1e12 on classes that share one token and one query, or on your
own P(l|n) with `--classes my.csv`. Expect the corrected growth per ln t before the onset and per ln
ln t after it, and an onset between t0' and t0. In two controls one class is drawn more often or two
tokens are common, and growth must miss the prediction. Set after first results: the scanning window
t0'/3 to t0', 10 % for K = 2, and two conditions of our own (M >= 100; scans before it snaps), which
came from a table with M = 8 that failed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from saccade.data.sequence_classes import SequenceClasses
from saccade.errors import InputError
from saccade.experiments.scan_and_snap.snap_cases import (
    DECODERS,
    FEWEST,
    FOR_THEOREM_2,
    FOR_THEOREM_4,
    ONSET,
    ROLES,
    STEPS,
    VARIABLES,
    WITHIN,
    CaseSettings,
    Flow,
    Setup,
    built_in,
    flows_of,
    growth_panel,
    measured,
    onset_power,
    rate_setups,
    stages,
    table,
    window,
)
from saccade.experiments.scan_and_snap.snap_growth import seen
from saccade.lab.claim import CALCULUS, FAILS, HOLDS, Case, Claim
from saccade.lab.panel import DASHES, POINTS, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress
from saccade.laboratory import reduced_flow
from saccade.theory.condition import Condition
from saccade.theory.scan_and_snap.assumptions import (
    ALIKE_COMMON_TOKENS,
    ALIKE_DISTINCT_TOKENS,
    DISTINCT_FOR_EACH_QUERY,
    EQUAL_CLASSES,
    ONE_COMMON_TOKEN,
    ONE_QUERY,
)
from saccade.theory.scan_and_snap.statements import (
    COROLLARY_2,
    FROZEN_ENTROPY,
    SELF_CONSISTENT_GROWTH,
    THEOREM_2A,
    THEOREM_2B,
    THEOREM_3,
    THEOREM_4,
)

CONTROLS = {
    "one class drawn four times as often": EQUAL_CLASSES,
    "two common tokens": ONE_COMMON_TOKEN,
}
SIDES = {
    "scanning": "log growth per ln t from t0'/3 to t0'",
    "snapping": "log growth per ln ln(M η_Y t / K) from t0 on",
}
FOR_THEOREM_2B = (*FOR_THEOREM_2, ONE_COMMON_TOKEN, DISTINCT_FOR_EACH_QUERY)
FOR_COROLLARY_2 = (ONE_QUERY, ALIKE_DISTINCT_TOKENS, ALIKE_COMMON_TOKENS)
# The bound holds fixed how concentrated distinct tokens are. With few classes growth is of order
# one and they concentrate on the way (K = 2: the sum of f^4 goes from .38 to .65), which leaves its
# late slope 7 % high.
MANY_CLASSES, WITHIN_FEW_CLASSES = 5, 0.10


@dataclass(frozen=True)
class Settings(CaseSettings):
    """Every case starts from the settings above; those below vary one of them."""

    vocabularies: tuple[int, ...] = (100, 10_000)
    """other sizes of the vocabulary"""
    other_n_classes: tuple[int, ...] = (2, 10)
    """other numbers of classes"""
    other_common_features: tuple[float, ...] = (0.3, 0.1)
    """the common token's feature for each of them, small enough to meet Assumption 2"""


def _setups(settings: Settings) -> list[Setup]:
    """With a user's own classes only the rates vary."""
    varied = rate_setups(settings)
    if settings.classes:
        return varied
    if len(settings.other_n_classes) != len(settings.other_common_features):
        raise InputError(
            "`other_n_classes` and `other_common_features` are used in pairs: they must have the same length."
        )
    base, others = (
        varied[0],
        zip(settings.other_n_classes, settings.other_common_features, strict=True),
    )
    return [
        *varied,
        *(
            replace(
                base, group="vocabulary", role=f"M = {size}", task=built_in(settings, n_vocab=size)
            )
            for size in settings.vocabularies
        ),
        *(
            replace(
                base,
                group="classes",
                role=f"K = {K}",
                task=built_in(settings, n_classes=K, common_feature=f),
            )
            for K, f in others
        ),
        *(
            replace(base, group="control", role=role, task=task)
            for role, task in zip(CONTROLS, _broken(base.task), strict=True)
        ),
    ]


def _broken(task: SequenceClasses) -> tuple[SequenceClasses, SequenceClasses]:
    """The controls: one class drawn four times as often; the common token, the first, as two alike,
    so that classes overlap as before.
    """
    unlike = replace(task, class_weight=np.append(4.0, np.ones(len(task.token_prob) - 1)))
    half, rest = (
        task.token_prob[:, :1] / np.sqrt(2),
        task.token_prob[:, 1:][:, task.token_prob[:, 1:].any(axis=0)],
    )
    return unlike, SequenceClasses(
        np.hstack([half, half, rest]), n_vocab=task.n_vocab, normalise=True, name="two-common"
    )


def measure(settings: Settings, on_progress: Progress) -> Measured:
    setups = _setups(settings)
    found = measured(
        setups, partial(_followed, settings=settings), on_progress, bool(settings.classes)
    )
    if found.attributes["obstacle"]:
        return found
    return found._replace(
        attributes={**found.attributes, "left_out": json.dumps(_left_out(setups, found.values))}
    )


def _followed(setup: Setup, *, settings: Settings) -> dict[str, Any]:
    return seen(reduced_flow(setup.task, **setup.options(settings)), setup.theory)


def _left_out(setups: list[Setup], values: Mapping[str, Any]) -> list[str]:
    """A sentence for each group of claims that cannot be formed."""
    said = [
        f"Growth while {side} is left out at rates {setup.lr_decoder:g} and {setup.lr_attention:g}: too few samples lie there."
        for setup, t in zip(setups, values["steps"][:, 1:], strict=True)
        for side in SIDES
        if setup.group not in ("slow rates", "control")
        and window(setup.theory, t, side).sum() < FEWEST
    ]
    if not np.isfinite(values["gain_error"][0]):
        said.append(
            "Theorem 3 is left out: no class has two distinct tokens of different frequency."
        )
    if values["distinct_entropy"][0, 0] == 0:
        said.append(
            "Entropy is left out: the leading class has a single distinct token, on which attention is sparse already."
        )
    return said


def claims(record: xr.Dataset) -> Iterator[Claim]:
    flows = flows_of(record)
    if not flows:
        return
    for flow in flows.values():
        if flow.group not in ("slow rates", "control"):
            yield from _growth(flow, _case(flow))
    yield from _fates(record, flows["rates", "base"].given)
    yield from _rates(flows)
    for (group, role), flow in flows.items():
        if group == "control":
            yield from _control(flow, _case(flow, classes=role).breaking(CONTROLS[role]))


def _case(flow: Flow, **settings: Any) -> Case:
    return flow.case(FOR_THEOREM_4, flow="C", **settings)


def _growth(flow: Flow, case: Case) -> Iterator[Claim]:
    """Slopes on both sides of the snap, the onset, and the common token's fall."""
    if flow.role == "base" or flow.group == "classes":
        yield from _common_token(flow, case)
    for side, slope in flow.slopes.items():
        if not np.isnan(slope["log"]):
            yield from _slope(flow, side, case)
    yield _onset(flow, case)


def _tolerance(flow: Flow) -> float:
    return WITHIN if flow.n_classes >= MANY_CLASSES else WITHIN_FEW_CLASSES


def _common_token(flow: Flow, case: Case) -> Iterator[Claim]:
    """How much faster the common token falls than distinct ones grow."""
    K, grown, fall = flow.n_classes, flow.run.log_growth.values, -float(flow.run.common_logit[-1])
    yield case.erratum(
        THEOREM_4,
        "fall of the common token over log growth",
        fall / grown[-1],
        number="0.5",
        printed=1.0,
        corrected=float(K),
        within=(0.25 if K == 2 else 0.07) * K,
        sentence="As printed, the common token falls as fast as a distinct token grows; all K classes push it down at once.",
    )
    ratio = fall / (K * np.trapezoid(1 - flow.run.common_share.values, grown))
    title = "fall of the common token over K ∫(1 - f²) dB along log growth"
    yield replace(case, against=CALCULUS).near(THEOREM_2B, title, ratio, 1, within=1e-4)


def _corrected_slope(flow: Flow, side: str, case: Case) -> Claim:
    slope = flow.slopes[side]
    return case.erratum(
        THEOREM_4,
        SIDES[side],
        slope["log"],
        number="0.5",
        printed=slope["printed"],
        corrected=slope["theory"],
        within=_tolerance(flow) * slope["theory"],
        sentence="Both forms have B(0) = 0 and rate η_Z/K. In the corrected one the common token falls through all K classes, "
        "distinct tokens count in the normaliser, and the coupling keeps its floor of 1/M.",
    )


def _slope(flow: Flow, side: str, case: Case) -> Iterator[Claim]:
    """The slope; in the base case also as printed, how far the factor K alone goes (of a user's
    classes that is not known), and theory sample by sample.
    """
    slope = flow.slopes[side]
    if (flow.group, flow.role) != ("rates", "base"):
        yield case.near(
            SELF_CONSISTENT_GROWTH,
            SIDES[side],
            slope["log"],
            slope["theory"],
            relative=_tolerance(flow),
        )
        return
    yield _corrected_slope(flow, side, case)
    if not flow.whose:
        # The factor K alone does while scanning; later the flow has shrunk overlaps below 1/M, and
        # the coupling's floor shows.
        yield case.near(
            SELF_CONSISTENT_GROWTH,
            f"{SIDES[side]}, only the factor K corrected",
            slope["log"],
            slope["factor"],
            within=_tolerance(flow) * slope["theory"],
            expected=HOLDS if side == "scanning" else FAILS,
        )
    gap = np.abs(flow.exponents["log"] / flow.exponents["theory"] - 1)[flow.inside[side]]
    yield case.at_most(
        SELF_CONSISTENT_GROWTH,
        f"largest relative gap of the local exponent while {side}",
        gap,
        WITHIN,
        sentence="How fast attention grows at each moment is what the corrected theory says.",
    )


def _onset(flow: Flow, case: Case) -> Claim:
    said = "Growth stops being logarithmic (its local exponent falls to half its peak) when theory says."
    return case.between(THEOREM_4, ONSET, flow.onset, flow.scan_time, flow.snap_time, sentence=said)


def _fates(record: xr.Dataset, given: Mapping[str, Condition]) -> Iterator[Claim]:
    """At the end: who rose, who fell, in what order. A flow with any such token is one exception."""
    ends, one_common = (
        record.isel(case=record.group.values != "control"),
        given[ONE_COMMON_TOKEN].value == 1,
    )
    has_pairs = bool(
        np.isfinite(ends.gain_error).all()
    )  # of distinct tokens with different frequencies
    rows = (
        (
            "falling_distinct",
            "distinct tokens gain attention in every flow",
            THEOREM_2A,
            FOR_THEOREM_2,
        ),
        (
            "rising_common",
            "common tokens lose attention in every flow",
            *((THEOREM_2B, FOR_THEOREM_2B) if one_common else (COROLLARY_2, FOR_COROLLARY_2)),
        ),
        (
            "out_of_order",
            "of two distinct tokens the more frequent gains more in every flow",
            THEOREM_2A,
            FOR_THEOREM_2,
        ),
    )
    for name, title, statement, needs in rows if has_pairs else rows[:2]:
        which = str(ends[f"{name}_named"].values[np.argmax(ends[name].values)])
        said = f"In the flow with most exceptions: {which}." if which else ""
        case = Case({"flow": "C"}, [given[need] for need in needs])
        yield case.none(statement, title, ~(ends[name].values <= 0), sentence=said)
    if has_pairs:
        title = "relative gain over its forecast from the leader alone, largest error"
        yield Case({"flow": "C"}, against=CALCULUS).at_most(THEOREM_3, title, ends.gain_error, 1e-6)


def _rates(flows: Mapping[tuple[str, str], Flow]) -> Iterator[Claim]:
    """What the paper reads off Theorem 4 about the two rates."""
    one = {role: flows["rates", role] for role in ROLES}
    power, title = (
        onset_power(flows),
        "(a) a faster decoder snaps earlier: power of η_Y in the onset",
    )
    yield _joint(one["slower decoder"]).near(THEOREM_4, title, power, -1, within=WITHIN)
    for title, less, more in (
        ("(b) both rates scaled up: gain in log growth", one["both slower"], one["both faster"]),
        (
            "(c) the decoder slower, attention as it was: gain in log growth",
            one["faster decoder"],
            one["slower decoder"],
        ),
    ):
        found, predicted = (
            more.curves[name][-1] - less.curves[name][-1] for name in ("log", "theory")
        )
        yield _joint(more, t=float(more.t[-1])).near(
            THEOREM_4, title, found, predicted, relative=WITHIN
        )
    title = "entropy (nats) that distinct tokens have lost when attention has frozen"
    for flow in one.values():
        if _has_entropy(flow):
            predicted = float(flow.run.entropy_lost_theory)
            yield _case(flow).near(
                FROZEN_ENTROPY, title, flow.entropy_lost, predicted, relative=WITHIN
            )


def _joint(flow: Flow, **settings: Any) -> Case:
    """A claim about several flows, under the assumptions of one of them."""
    return Case(settings | {"flow": "C"}, [flow.given[name] for name in FOR_THEOREM_4])


def _control(flow: Flow, case: Case) -> Iterator[Claim]:
    """Theorem 4 with one assumption broken: growth must miss the prediction on both sides of the
    snap. Two common tokens leave the onset where it was, so only a class that is drawn more often
    must move it.
    """
    for side in SIDES:
        yield _corrected_slope(flow, side, case)
    if case.breaks == EQUAL_CLASSES:
        yield _onset(flow, case)


def headlines(record: xr.Dataset) -> dict[str, float]:
    """At the base case: onset, slopes of log growth on both sides of the snap, and what is reached.
    NaN: not to be had.
    """
    names = (
        "onset",
        "onset_over_snap_time",
        "scanning_slope",
        "snapping_slope",
        "log_growth",
        "entropy_lost",
    )
    flows = flows_of(record)
    if not flows:
        return dict.fromkeys(names, np.nan)
    base = flows["rates", "base"]
    slopes = [slope["log"] for slope in base.slopes.values()]
    found = (
        base.onset,
        base.onset / base.snap_time,
        *slopes,
        float(base.curves["log"][-1]),
        base.entropy_lost,
    )
    return dict(zip(names, found, strict=True))


def panels(record: xr.Dataset) -> Layout:
    flows = flows_of(record)
    if not flows:
        return [Lines("no claim can be formed: see the caption", "", "", [])]
    title, n_common = (
        "growth bends at the snap",
        int(((record.token_prob > 0).sum("class") > 1).sum()),
    )
    return [
        [
            _attention_panel(flows["rates", "base"], n_common),
            growth_panel(flows, title, theory=True),
        ],
        [_late_panel(flows), _exponent_panel(flows)],
    ]


def _attention_panel(flow: Flow, n_common: int) -> Lines:
    """Where attention goes, in one class of the base case."""
    top, common = flow.run.top_attention.values[1:], flow.run.common_attention.values[1:]
    leader, where = (
        flow.whose.get("token", "most frequent distinct token"),
        f"class {flow.whose.get('class', 1)}",
    )
    lines = [
        Line(flow.t, top, leader, tone=0),
        Line(flow.t, 1 - top - common, "other distinct tokens", tone=2),
        Line(
            flow.t, common, "common token" if n_common == 1 else f"{n_common} common tokens", tone=6
        ),
    ]
    room = 1.5 * max(float(line.y.max()) for line in lines)  # for the legend
    marks = {flow.scan_time: "t0': scanned", flow.snap_time: "t0: snapped"}
    title = "in the theory's flow attention scans, then snaps"
    return Lines(
        title,
        "t (steps)",
        f"attention of {where}",
        lines,
        "x",
        xlim=(1e-1, None),
        ylim=(0, room),
        marks=marks,
    )


def _has_entropy(flow: Flow) -> bool:
    """Attention on a single distinct token is sparse from the start."""
    return bool(flow.run.distinct_entropy[0] > 0)


def _late_panel(flows: Mapping[tuple[str, str], Flow]) -> Lines:
    lines = []
    for i, one in enumerate(flows["rates", role] for role in DECODERS):
        grown, predicted = (one.curves[name][one.inside["snapping"]] for name in ("log", "theory"))
        name = f"η_Y = {one.lr_decoder:g}"
        lines += [
            Line(one.log_height[::4], grown[::4], name, POINTS, i),
            Line(one.log_height, predicted, "", tone=i),
        ]
    return Lines(
        "after the snap: nearly straight in ln ln t",
        "ln ln(M η_Y t / K), from t0 on",
        "log growth B, flow (C)",
        lines,
    )


def _exponent_panel(flows: Mapping[tuple[str, str], Flow]) -> Lines:
    """Over t / t0', so that vocabularies (or a user's rates) can be told apart by shape alone."""
    base, varied = (
        flows["rates", "base"],
        [one for one in flows.values() if one.group == "vocabulary"],
    )
    several = sorted([base, *varied], key=lambda one: one.n_vocab)
    lines, shown = [], several if varied else [flows["rates", role] for role in DECODERS]
    for i, one in enumerate(shown):
        tone, x = (i + 1) / len(shown), one.t / one.scan_time
        name = f"M = {one.n_vocab}" if varied else f"η_Y = {one.lr_decoder:g}"
        lines += [
            Line(x[::4], one.exponents["log"][::4], name, POINTS, tone),
            Line(x, one.exponents["theory"], "", tone=tone),
        ]
    lines.append(
        Line(
            base.t / base.scan_time, base.exponents["printed"], "Theorem 4 as printed", DASHES, None
        )
    )
    title, y = "growth peaks, then collapses at the snap", "local exponent dB / d ln t"
    marks = {1.0: "t0'", base.snap_time / base.scan_time: "t0"}
    return Lines(title, "t / t0'", y, lines, "xy", xlim=(1e-2, None), ylim=(1e-3, 1), marks=marks)


CAPTION = (
    "Panel 1: attention of one class along the theory's flow (C). While it scans, the common token loses attention to the distinct "
    "ones, most to the most frequent; after the snap hardly anything moves. Panel 2: log growth B of that token at three decoder "
    "rates. It rises in proportion to ln t until the dotted line t0', bends, and from the dashed line t0 on crawls with ln ln t "
    "(panel 3: nearly straight in ln ln t). Points: the flow; lines: theory with the common token falling through all classes; "
    "they need not meet where assumptions are not met. Panel 4: growth per unit of ln t. It peaks before t0', collapses around t0 "
    "and then falls slowly; dashed: Theorem 4 as printed."
)

EXPERIMENT = Experiment(
    "scan-then-snap",
    Settings,
    measure,
    claims,
    panels,
    caption=CAPTION,
    finding=(
        "in the theory's own flow growth follows ln t, then ln ln t, up to t = 1e12; its local slope "
        "is within {largest*scanning*:.1%} of the corrected "
        "theory before the snap and within {largest*snapping*:.1%} after it (K = 5, M = 1000)"
    ),
    variables=VARIABLES,
    dynamics="C: reduced flow of the theory",
    time_unit=STEPS,
    table=table,
    files=stages,
    headlines=headlines,
)
