"""When the scan breaks: the ratio of the rates, classes that are not alike, and large steps.

Decoder rates from 0.01 to 100 times that of attention, with either rate held at 1, since a ratio
alone does not say which of the two has changed. Equal classes: Syn-Medium with one query. Unequal:
the same with the distinct tokens of class 1 more frequent, and nine other sets of classes.
Assumption 1(c) is misread as saying that the scan fails below ratio 1. Set after trial runs: five
snap heights, up to which the theory with memory has 2 % (the last three classes are held out),
20 % for the closed form, and 2.75 times the limit of stable steps.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Annotated as A
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

import saccade
from saccade import measures
from saccade.errors import InputError
from saccade.experiments.scan_and_snap.unequal_tasks import (
    plain_logits,
    three_classes,
    top_token,
    unequal_classes,
    unequal_enough,
)
from saccade.experiments.scan_and_snap.weak_classes import class_logits, context_prob
from saccade.lab.case import Case
from saccade.lab.claim import Claim
from saccade.lab.experiment import Lab, experiment
from saccade.measures.fits import Array, reaching_time
from saccade.panels import DASHES, LINE, POINTS, RINGS, Line, Lines
from saccade.theories import scan_and_snap as theory
from saccade.theories.condition import at_most, met
from saccade.theories.scan_and_snap.open_statements import (
    LARGE_STEPS,
    PLAIN_MEMORY,
    RATE_RATIO,
    SLOW_DECODER,
    TURNING_HEIGHT,
    UNEQUAL_FATES,
)

ALIKE = "classes alike"
UNEQUAL = "unequal classes"
TWO = "two classes"
STABLE = "steps of attention do not overshoot"
FATES = "distinct tokens rise, common ones fall, at every ratio"
TURN = "height at which the top distinct token of the lightest class is back at its start / "
LITTLE = (0.25, 0.5)  # logs of the weight of class 1 at which classes are hardly unequal
# In units of the height L_s at which plain descent snaps: 4 % up to ten had failed (4.5 %).
REACH = 5.0
SURELY = 2.75  # times the limit of stable steps: in a first run every seed had lost the scan
LIMITS = (0.8, 1.2, 2.0, 2.3, 2.5, 2.75, 3.0)
# Log of the weight of class 1, common tokens, distinct tokens of a class, vocabulary.
PAIRS = {
    "lighter class 1": (1.5, 10, 10, 33),
    "heavier class 1": (3.0, 10, 10, 33),
    "larger vocabulary": (2.0, 10, 10, 300),
    "few distinct tokens": (2.0, 16, 7, 33),
    "few common tokens": (2.5, 4, 13, 100),
    "nearly alike": (1.0, 10, 10, 33),
}
THREES = {
    "three classes": (6, 5, (4.0, 1.5, 0.7), 60),
    "three other classes": (8, 4, (5.0, 2.0, 0.6), 300),
    "three classes, held out": (2, 6, (4.0, 2.0, 0.8), 300),
}


@experiment(
    "when-it-breaks",
    dynamics="B: population gradient flow; C: reduced flow of the theory; A: mini-batch training",
    time_unit="steps of SGD",
)
def when_it_breaks(
    lab: Lab,
    ratios: A[tuple[float, ...], "decoder rate over attention rate"] = (
        0.01,
        0.1,
        1.0,
        10.0,
        100.0,
    ),
    t1: A[float, "end of the flows with equal classes, steps"] = 1e4,
    heavier: A[float, "log of how much more frequent class 1's distinct tokens are"] = 2.0,
    unequal_t1: A[float, "end of the flows with unequal classes, steps"] = 1e6,
    turn_ratios: A[tuple[float, ...], "the same, where tokens turn"] = (
        1.0,
        3.0,
        10.0,
        30.0,
        100.0,
    ),
    limits: A[tuple[float, ...], "attention rates of SGD over the limit of stable steps"] = LIMITS,
    steps: A[int, "updates of SGD"] = 150,
    context: A[int, "context tokens in SGD, enough to show the rarest token ten times"] = 2047,
    seeds: A[int | tuple[int, ...], "number of seeds of SGD, or a list of them"] = 8,
) -> str:
    """Does the scan break if the decoder is slower than attention?"""
    ratios = tuple(sorted(ratios))
    if ratios[0] >= 1:
        raise InputError("`ratios` must have one below 1, where the decoder is slower.")
    medium = saccade.SequenceClasses.syn_medium(1)
    unequal = unequal_classes(heavier)
    by_name = {"Syn-Medium": unequal}
    by_name |= {name: unequal_classes(*shape) for name, shape in PAIRS.items()}
    by_name |= {name: three_classes(*shape) for name, shape in THREES.items()}
    little = {one: unequal_classes(one) for one in (*LITTLE, heavier)}
    limit = theory.stable_attention_rate(
        context_prob(medium), medium.class_weight, n_vocab=medium.n_vocab
    )
    ratio = np.array(ratios)
    near = np.array(limits)
    equal = int(np.argmin(np.abs(np.log(ratio))))
    speeds = np.concatenate([1 / ratio, limit * near])  # of attention in SGD; the decoder's is 1
    engines: dict[tuple[str, str], Any] = {
        ("B", "η_Y"): saccade.flow,
        ("B", "η_Z"): saccade.flow,
        ("C", "η_Y"): saccade.reduced_flow,
    }

    plan: dict[Any, Any] = {}
    for (flow, held), one in product(engines, ratios):
        engine = engines[flow, held]
        rates = rates_at(one, held)
        plan[flow, held, one] = partial(
            engine,
            medium,
            t1=t1,
            n_times=100,
            **rates,
        )
        if held == "η_Y":
            ended = {
                "t1": unequal_t1,
                "n_times": 30,
                "keep": ("attention_logits",),
            }
            plan["unequal", flow, one] = partial(
                engine,
                unequal,
                **ended,
                **rates,
            )
    for weight, task in little.items():
        long: dict[str, Any] = {
            "t1": unequal_t1,
            "n_times": 100,
            "keep": ("attention_logits",),
        }
        plan["slow", weight] = partial(
            saccade.flow,
            task,
            **long,
            **rates_at(ratios[0]),
        )
    for name, one in product(by_name, turn_ratios):
        plan["turn", name, one] = partial(turn, by_name[name], one)
    plan["sgd"] = partial(
        saccade.train,
        medium,
        steps=steps,
        lr_decoder=np.ones(len(speeds)),
        lr_attention=speeds,
        context=context,
        seeds=seeds,
        save=[steps],
        keep=("attention", "attention_logits"),
    )
    runs = {name: run() for name, run in lab.each(plan.items())}

    # Equal classes: every ratio of the rates, along three kinds of flow.
    kinds = {kind: [outcome(runs[*kind, one], medium) for one in ratios] for kind in engines}
    seen = {
        kind: Outcome(*map(np.stack, zip(*all_of, strict=True))) for kind, all_of in kinds.items()
    }
    mass = {kind: one.mass[:, -1] for kind, one in seen.items()}
    fixed = [kind for kind in engines if kind[1] == "η_Y"]
    every = lab.case(flows="B and C")
    fates(every, list(seen.values()), medium)
    every.at_least(
        RATE_RATIO,
        "attention left on common tokens: fastest decoder / equal rates",
        [one[-1] / one[equal] for one in mass.values()],
        1,
        strict=True,
    )
    every.in_order(
        RATE_RATIO,
        "attention left on common tokens rises with η_Y/η_Z, at fixed η_Y",
        [mass[kind] for kind in fixed],
    )
    prob = context_prob(medium)
    breaks = []
    expected = {}
    for kind in (("B", "η_Y"), ("B", "η_Z")):
        fall = seen[kind].mass[:, 0] - mass[kind]
        fall = fall / fall[equal]
        case = lab.case(flow="B", **{kind[1]: 1.0})
        breaks.append(
            case.at_most(
                SLOW_DECODER,
                "equal classes: fall of common tokens, slowest decoder / equal rates",
                fall[0],
                0.5,
            )
        )
        ends = [plain_logits(medium, [0.0, t1], **rates_at(one, kind[1]))[-1] for one in ratios]
        attention = theory.limit_attention(prob, np.array(ends)[:, None])
        expected[kind] = measures.mass(attention[:, 0], theory.common_tokens(prob))
    errors = [expected[kind] - mass[kind] for kind in expected]
    plain = lab.case(flow="B")
    plain.at_most(
        PLAIN_MEMORY,
        "attention left on common tokens: largest error of plain-descent theory",
        np.abs(errors),
        0.01,
    )

    # Unequal classes at the same ratios.
    two = context_prob(unequal)
    own = theory.distinct_tokens(two)
    rises = np.where(own.any(axis=0), 1, -1)
    z, reduced = (
        np.array([class_logits(runs["unequal", flow, one], unequal)[-1, 0] for one in ratios])
        for flow in "BC"
    )
    case = lab.case(flow="B", classes="unequal")
    case.breaking(met(ALIKE, False)).none(RATE_RATIO, FATES, z * rises <= 0)
    lab.case(flow="C", classes="unequal").none(RATE_RATIO, FATES, reduced * rises <= 0)
    slow = z[ratio < 1][:, own.any(axis=0)]
    fallen = (slow < 0).sum()
    breaks.append(
        plain.at_least(
            SLOW_DECODER,
            "unequal classes: distinct tokens that fall if the decoder is slower than attention",
            fallen,
            1,
        )
    )
    told = np.array(
        [plain_logits(unequal, [0.0, unequal_t1], **rates_at(one))[-1] for one in ratios]
    )
    case.none(
        PLAIN_MEMORY,
        "every token goes where plain-descent theory says, at every ratio",
        np.sign(z) != np.sign(told),
    )
    height = np.log(unequal.n_vocab * unequal_t1 / unequal.n_classes)
    border = float((height / theory.turning_height(two, top_token(unequal), **rates_at(1.0))) ** 2)
    weaker = z[:, own[1]]
    enough = lab.case(
        unequal_enough(unequal),
        flow="B",
        classes="unequal",
    )
    title = "distinct tokens of class 2 have fallen below the ratio that theory gives for this time"
    below = ratio < border
    enough.none(TURNING_HEIGHT, f"{title}, and risen above it", (weaker < 0) != below[:, None])
    if below.any():
        in_order = weaker[below][:, np.argsort(two[1, own[1]])]
        enough.none(
            UNEQUAL_FATES,
            "where they fall, the frequent ones fall further",
            ~(np.diff(in_order, axis=1) < 0),
        )
    lab.case(flow="B", classes="alike").breaking(met(UNEQUAL, False)).at_least(
        UNEQUAL_FATES,
        "tokens that go the wrong way at the slowest decoder",
        seen["B", "η_Y"].wrong_way[0],
        1,
    )

    # The slowest decoder: who rises while the coupling is small, and at the end.
    early = []
    for weight, task in little.items():
        path = runs["slow", weight]
        heights = height_at(path.time.values, task)
        now = [
            np.interp(
                1 / theory.class_overlap(theory.normalised_feature(task.token_prob))[0, 1],
                heights,
                token,
            )
            for token in class_logits(path, task)[:, 0].T
        ]
        early.append(np.sign(now) != np.sign(theory.resting_lead(context_prob(task))))
    lab.case(flow="B", when="ρL = 1").none(
        UNEQUAL_FATES, "fates at the slowest decoder are those of the resting lead", early
    )

    # When a token that must fall is back at its start, in units of the height of the decoder.
    turns = {name: np.array([runs["turn", name, one] for one in turn_ratios]) for name in by_name}
    memory, closed = ({name: one[:, 0] / one[:, k] for name, one in turns.items()} for k in (1, 2))
    reach = {name: one[:, 1] / snap_height(by_name[name]) for name, one in turns.items()}
    conditions = {
        name: [met(TWO, name not in THREES), unequal_enough(task)] for name, task in by_name.items()
    }
    unmet = {
        name: [one for one in several if not one.holds] for name, several in conditions.items()
    }
    inside = [name for name in by_name if not unmet[name]]
    others = [name for name in by_name if unmet[name]]
    title = f"{TURN}by theory with memory"
    here = lab.case(
        *conditions[inside[0]],
        flow="B",
        classes="two, unequal enough",
    )
    here.near(PLAIN_MEMORY, title, [memory[name] for name in inside], 1, within=0.02)
    ratio_of, far = (np.concatenate([one[name] for name in others]) for one in (memory, reach))
    for part, where in ((far <= REACH, "up to"), (far > REACH, "beyond")):
        if part.any():
            long_ago = at_most(
                "plain descent has not snapped long ago", far[part].max(), REACH, "height over L_s"
            )
            elsewhere = lab.case(
                long_ago, flow="B", classes="others", heights=f"{where} {REACH:g} L_s"
            )
            elsewhere.after_trial_runs.near(PLAIN_MEMORY, title, ratio_of[part], 1, within=0.02)
    title = f"{TURN}in closed form"
    here.after_trial_runs.between(TURNING_HEIGHT, title, [closed[name] for name in inside], 1, 1.2)
    for name in others:
        if len(unmet[name]) == 1:  # of two conditions broken at once neither is shown to matter
            control = lab.case(
                *conditions[name],
                flow="B",
                classes=name,
            )
            control.breaking(unmet[name][0].name).between(
                TURNING_HEIGHT, title, closed[name], 1, 1.2
            )
    first = turns["Syn-Medium"][np.argmax(turn_ratios)]
    case.but(ratio="largest").between(
        TURNING_HEIGHT,
        "time of that turn / in closed form",
        float(np.exp(first[0] - first[2])),
        0.5,
        2,
    )

    # SGD: every ratio below the limit of stable steps, and attention rates around it.
    end = outcome(runs["sgd"], medium)
    stable = speeds <= limit
    fates(lab.case(A="SGD", η_Y=1.0), [Outcome(*(part[stable] for part in end))], medium)
    start = measures.mass(medium.token_prob[0], medium.common)
    lost = (end.mass[..., -1] >= start) | (end.wrong_way > 0)
    title = "attention on common tokens falls, in every seed, and distinct tokens rise"
    given = at_most(STABLE, speeds[stable].max(initial=0), limit, "attention rate")
    main = lab.case(given, A="SGD", η_Z="below the limit").none(LARGE_STEPS, title, lost[stable])
    surely = speeds >= SURELY * limit
    if surely.any():
        given = at_most(STABLE, speeds[surely].min(), limit, "attention rate")
        control = lab.case(given, A="SGD", η_Z="far above the limit").after_trial_runs
        control.breaking(STABLE).none(LARGE_STEPS, title, lost[surely])
    mass_in_sgd = runs["sgd"].loss[..., :0].sum("time").copy(data=end.mass[..., -1])
    lab.keep("sgd_mass", mass_in_sgd, "", "attention left on common tokens, SGD")
    share = xr.DataArray(lost[len(ratio) :].mean(axis=1), {"η_Z/limit": near}, ["η_Z/limit"])
    lab.number("share of seeds that lose the scan", share)

    lab.keep("mass", mass["B", "η_Y"], "ratio", "attention left on common tokens, plain flow (B)")
    lab.keep("turn", list(turns.values()), "classes turn_ratio kind", "heights of a turn (B)")
    left = [
        Line(ratio, mass["B", "η_Y"], "plain flow (B), η_Y = 1", POINTS, 0),
        Line(ratio, expected["B", "η_Y"], "theory of plain descent", LINE, 0),
        Line(ratio, mass["B", "η_Z"], "plain flow (B), η_Z = 1", POINTS, 4),
        Line(ratio, expected["B", "η_Z"], "", LINE, 4),
        Line(ratio, mass["C", "η_Y"], "theory's flow (C), η_Y = 1", POINTS, 1),
    ]
    wrong = [
        Line(ratio, (z * rises <= 0).mean(axis=1), "plain flow (B)", POINTS, 0),
        Line(ratio, (told * rises <= 0).mean(axis=1), "theory of plain descent", LINE, 0),
        Line(ratio, (reduced * rises <= 0).mean(axis=1), "theory's flow (C)", RINGS, 1),
    ]
    x = "η_Y / η_Z"
    lab.draw(
        Lines("equal classes", x, "attention left on common tokens", left, "x", ylim=(0, 1)),
        Lines(
            "unequal classes",
            x,
            "share of tokens that go the wrong way",
            wrong,
            "x",
            ylim=(-0.02, 1),
            marks={border: "predicted border"},
        ),
        caption="Panel 1: equal classes lose attention on common tokens at every ratio of the "
        "rates. Panel 2: if classes are unequal, tokens go the wrong way in the plain flow (B) "
        "left of the border that theory gives for this time, and never in the theory's flow (C).",
    )
    names = ("plain flow (B)", "theory with memory", "closed form, the root of the ratio")
    three = [
        Line(turn_ratios, turns["Syn-Medium"][:, k], name, (POINTS, LINE, DASHES)[k], k)
        for k, name in enumerate(names)
    ]
    lab.draw(
        Lines("when tokens fall below their start", x, "height of the decoder", three, "xy"),
        Lines(
            "SGD near the limit of stable steps",
            "η_Z / limit",
            "share of seeds that lose the scan",
            [Line(near, share, "", POINTS, 2)],
            ylim=(-0.04, 1.04),
            marks={1.0: "limit"},
        ),
        caption="Panel 3: the height of the decoder, about ln(M η_Y t/K), at which the most "
        "frequent distinct token of class 2 is back at its start; unequal classes. Panel 4: SGD on "
        "equal classes with attention rates around the limit at which single steps overshoot.",
    )
    return (
        f"{lab.yes_or_no(*breaks)}: in plain descent, the slowest decoder takes "
        f"{breaks[0].measured:.2f} times as much attention from Syn-Medium's common tokens as "
        f"equal rates. With unequal classes {fallen} of {slow.size} distinct tokens fall where "
        f"the decoder is slower. Below the limit of stable steps {main.measured:.0f} runs of SGD "
        "lose the scan."
    )


class Outcome(NamedTuple):
    """What became of attention; leading axes are those of the runs."""

    mass: Array  # on common tokens, over time
    wrong_way: Array  # distinct tokens whose logit did not rise, common ones whose did not fall
    disordered: Array  # neighbours in frequency of which the rarer has the larger logit


def outcome(run: xr.Dataset, task: saccade.SequenceClasses) -> Outcome:
    a = run.attention.values
    z = run.attention_logits.values[..., -1, 0, :]
    mass = measures.mass(a[..., 0, :], task.common)
    any_class = task.distinct.any(axis=0)
    ordered = [
        np.diff(z[..., own[np.argsort(prob[own])]]) > 0
        for prob, own in zip(task.token_prob, map(np.flatnonzero, task.distinct), strict=True)
    ]
    return Outcome(
        mass,
        (z[..., any_class] <= 0).sum(axis=-1) + (z[..., task.common] >= 0).sum(axis=-1),
        (~np.concatenate(ordered, axis=-1)).sum(axis=-1),
    )


def fates(case: Case, outcomes: list[Outcome], task: saccade.SequenceClasses) -> list[Claim]:
    """Who rises, and in what order, over all runs of these outcomes."""
    n = sum(one.wrong_way.size for one in outcomes)
    distinct = int(task.distinct.sum())
    wrong, disordered = (
        sum(int(part.sum()) for part in parts)
        for parts in ([one.wrong_way for one in outcomes], [one.disordered for one in outcomes])
    )
    among = n * (distinct + int(task.common.sum())), n * (distinct - task.n_classes)
    return [
        case.none(RATE_RATIO, FATES, wrong, among=among[0]),
        case.none(
            RATE_RATIO,
            "frequent distinct tokens gain more, at every ratio",
            disordered,
            among=among[1],
        ),
    ]


def rates_at(ratio: float, held: str = "η_Y") -> dict[str, Any]:
    decoder, attention = (1.0, 1 / ratio) if held == "η_Y" else (ratio, 1.0)
    return {"lr_decoder": decoder, "lr_attention": attention}


def height_at(t: Array, task: saccade.SequenceClasses) -> Array:
    """Height M h of the decoder, about ln(M η_Y t/K), at decoder rate 1."""
    M = task.n_vocab
    K = task.n_classes
    return M * theory.decoder_height(t / K, n_vocab=M, lr_decoder=1.0)


def snap_height(task: saccade.SequenceClasses) -> float:
    """L_s of the two classes that overlap most."""
    largest = theory.class_overlap(theory.normalised_feature(task.token_prob)).max()
    return theory.plain_snap_height(
        float(largest),
        n_vocab=task.n_vocab,
        n_classes=task.n_classes,
    )


def turn(task: saccade.SequenceClasses, ratio: float) -> tuple[float, float, float]:
    """The height at which the top token of the lightest class is back at 0: in (B), by theory with
    memory, and in closed form. The flow goes on to 1.4 times the last, or 2.5 of three classes.
    """
    token = top_token(task)
    rates = rates_at(ratio)
    predicted = theory.turning_height(context_prob(task), token, **rates)
    factor = 1.4 if task.n_classes == 2 else 2.5
    until = np.exp(factor * predicted) * task.n_classes / task.n_vocab
    t1 = until if np.isfinite(predicted) else 1e6
    path = saccade.flow(
        task,
        t1=t1,
        n_times=200,
        keep=("attention_logits",),
        **rates,
    )
    heights = height_at(path.time.values, task)
    paths = plain_logits(task, path.time.values, **rates)
    found = []
    for z in (path.attention_logits.values[:, 0, token], paths[:, token]):
        after = int(np.argmax(z))  # it rises first
        found.append(reaching_time(heights[after:], -z[after:], 0.0))
    return found[0], found[1], predicted
