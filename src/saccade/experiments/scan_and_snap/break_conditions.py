"""A slow decoder breaks the scan if classes are unequal, but not if they are equal.

Decoder rates from .01 to 100 times that of attention, in the plain flow (B), with either rate held
at 1, since a ratio alone does not say which of the two has changed, and in the theory's flow (C).
Equal classes: Syn-Medium with one query. Unequal: the same with the distinct tokens of class 1 more
frequent. Asked at each ratio: who rises, who falls, in what order, how sparse, how fast. A public
summary says that the scan fails below ratio 1. Expect that with equal classes no token goes the
wrong way; with unequal classes the distinct tokens of class 2 fall in (B), below the ratio that our
theory gives for this time, and never in (C). When they fall is asked in `turning-heights`, and SGD
(A) in `large-steps`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

import saccade
from saccade.experiments.scan_and_snap.unequal_tasks import (
    ATTENTION,
    DECODER,
    expected_logits,
    rates,
    resting_lead,
    top_token,
    unequal_classes,
    unequal_enough,
)
from saccade.lab.claim import FAILS, REPLICATION, Case, Claim
from saccade.lab.panel import LINE, POINTS, RINGS, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress, Variable
from saccade.observe import measures
from saccade.observe.fits import Array, first_time
from saccade.theory import scan_and_snap as theory
from saccade.theory.condition import met
from saccade.theory.scan_and_snap.open_statements import (
    PLAIN_MEMORY,
    RATE_RATIO,
    SLOW_DECODER,
    TURNING_HEIGHT,
    UNEQUAL_FATES,
)
from saccade.theory.scan_and_snap.statements import PLAIN_ORDER

# Common mass at the end of flow (B) at decoder rate 1 in an independent run, by ratio.
REPLICATED_MASS = {0.01: 0.387, 1.0: 0.420, 100.0: 0.619}
ALIKE, UNEQUAL = "classes alike", "unequal classes"
_MEMORY = 0.01  # of attention, or nats: the error allowed to the theory of plain descent
# By name: engine, letter of the flow, and what is held.
_FLOWS: dict[str, tuple[Callable[..., xr.Dataset], str, str]] = {
    "plain": (saccade.flow, "B", DECODER),
    "held": (saccade.flow, "B", ATTENTION),
    "reduced": (saccade.reduced_flow, "C", DECODER),
}


@dataclass(frozen=True)
class Settings:
    ratios: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0, 100.0)
    """decoder rate over attention rate; one of the two is 1 per step"""
    t1: float = 1e4
    """end of the flows with equal classes, steps"""
    heavier: float = 2.0
    """log of how much more frequent the distinct tokens of class 1 are, where classes are unequal
    """
    unequal_t1: float = 1e6
    """end of the flows with unequal classes, steps"""


def measure(settings: Settings, on_progress: Progress) -> Measured:
    task = saccade.SequenceClasses.syn_medium(1)
    values: dict[str, Any] = {}
    for done, (name, (engine, _, held)) in enumerate(_FLOWS.items(), 1):
        paths = [
            engine(task, t1=settings.t1, n_times=100, **rates(ratio, held))
            for ratio in settings.ratios
        ]
        seen = [
            seen_in(path.attention, path.attention_logits, path.time.values, task) for path in paths
        ]
        values |= {f"{name}_{key}": np.stack([one[key] for one in seen]) for key in seen[0]}
        if engine is saccade.flow:
            told = [_expected(task, settings.t1, rates(ratio, held)) for ratio in settings.ratios]
            values |= {
                f"{name}_expected": [one[0] for one in told],
                f"{name}_expected_entropy": [one[1] for one in told],
            }
        on_progress(0.2 * done)
    values |= _unequal(settings) | {
        "start_entropy": measures.distinct_entropy(task.token_prob, task.distinct).mean()
    }
    return Measured(
        values, {"ratio": list(settings.ratios), "place": np.arange(len(paths[0].time))}
    )


def seen_in(
    attention: xr.DataArray, logits: xr.DataArray, t: Array, task: saccade.SequenceClasses
) -> dict[str, Any]:
    """Of one flow or of runs (seed, time, ...): mass of common tokens over time, what became of the
    tokens, sparsity, half-time.
    """
    a, z = attention.values, logits.values[..., -1, 0, :]
    mass = measures.mass(a[..., 0, :], task.common)
    fall = mass[..., :1] - mass
    tokens = [
        own[np.argsort(row[own])]
        for row, own in zip(task.token_prob, map(np.flatnonzero, task.distinct))
    ]
    ordered = np.concatenate([np.diff(z[..., own]) > 0 for own in tokens], axis=-1)
    half = np.apply_along_axis(lambda one: first_time(t, one >= one[-1] / 2), -1, fall)
    return {
        "steps": t,
        "mass": mass,
        "wrong_way": (z[..., task.distinct.any(axis=0)] <= 0).sum(axis=-1)
        + (z[..., task.common] >= 0).sum(axis=-1),
        "disordered": (~ordered).sum(axis=-1),
        "entropy": measures.distinct_entropy(a[..., -1, :, :], task.distinct).mean(axis=-1),
        "half_time": half,
    }


def _expected(
    task: saccade.SequenceClasses, t1: float, given: dict[str, Any]
) -> tuple[float, float]:
    """Common mass, and entropy among distinct tokens, at the end by the theory of plain descent."""
    prob = task.token_prob
    attention = theory.limit_attention(prob, expected_logits(task, t1, given))
    return float(measures.mass(attention[0], task.common)), float(
        measures.distinct_entropy(attention, task.distinct).mean()
    )


def _unequal(settings: Settings) -> dict[str, Any]:
    """Logits at the end in (B), by theory and in (C); at which height the top distinct token of
    class 2 turns at equal rates.
    """
    task = unequal_classes(settings.heavier)
    options: dict[str, Any] = {
        "t1": settings.unequal_t1,
        "n_times": 30,
        "keep": ("attention_logits",),
    }
    occurs, given = task.token_prob.any(axis=0), [rates(ratio) for ratio in settings.ratios]
    prob = task.token_prob[:, occurs]
    ends: dict[str, list[Array]] = {
        name: [
            engine(task, **options, **one).attention_logits.values[-1, 0, occurs] for one in given
        ]
        for name, engine in (
            ("unequal_logits", saccade.flow),
            ("unequal_reduced", saccade.reduced_flow),
        )
    }
    return ends | {
        "top_lead": resting_lead(task)[top_token(task)],
        "unequal_expected": [
            expected_logits(task, settings.unequal_t1, one)[0, occurs] for one in given
        ],
        "unequal_prob": prob,
        "equal_rates_turn": theory.turning_height(
            prob, top_token(task), lr_decoder=1.0, lr_attention=1.0
        ),
    }


def claims(record: xr.Dataset) -> Iterator[Claim]:
    ratios = record.ratio.values
    equal = int(np.argmin(np.abs(np.log(ratios))))
    for name, (_, flow, held) in _FLOWS.items():
        case, mass = Case({"flow": flow, held: 1.0}), record[f"{name}_mass"].values
        yield from fate_claims(record, name, case)
        title = "attention left on common tokens: fastest decoder / equal rates"
        yield case.at_least(RATE_RATIO, title, mass[-1, -1] / mass[equal, -1], 1, strict=True)
        if flow == "B":
            fall = mass[:, 0] - mass[:, -1]
            title = "equal classes: fall of common tokens, slowest decoder / equal rates"
            yield case.at_most(SLOW_DECODER, title, fall[0] / fall[equal], 0.5, expected=FAILS)
            yield from _told(record, name, case)
        if held == DECODER:
            yield case.in_order(
                RATE_RATIO,
                "attention left on common tokens rises with η_Y/η_Z, at fixed η_Y",
                mass[:, -1],
            )
            half = record[f"{name}_half_time"].values
            yield case.in_order(
                RATE_RATIO, "time to half of the fall rises with η_Y/η_Z, at fixed η_Y", half
            )
    title = "entropy among distinct tokens rises with η_Y/η_Z, at fixed η_Y"
    yield Case({"flow": "C"}).in_order(RATE_RATIO, title, record.reduced_entropy.values)
    for ratio, known in REPLICATED_MASS.items():
        if ratio in ratios and EXPERIMENT.settings_of(record).t1 == Settings().t1:
            found = record.plain_mass.values[ratios == ratio, -1]
            case = Case({"flow": "B", "η_Y/η_Z": ratio}, against=REPLICATION)
            yield case.near(
                RATE_RATIO, "attention left on common tokens", found, known, within=0.003
            )
    yield from _unequal_claims(record)


def _told(record: xr.Dataset, name: str, case: Case) -> Iterator[Claim]:
    """Mass and sparsity at the end, by theory."""
    title = "attention left on common tokens: largest error of plain-descent theory"
    error = np.abs(record[f"{name}_expected"].values - record[f"{name}_mass"].values[:, -1])
    yield case.at_most(PLAIN_MEMORY, title, error, _MEMORY)
    entropy, told = record[f"{name}_entropy"].values, record[f"{name}_expected_entropy"].values
    title = "entropy among distinct tokens: largest error of plain-descent theory, nats"
    yield case.at_most(PLAIN_MEMORY, title, np.abs(entropy - told), _MEMORY)
    title = "rate ratio of least entropy among distinct tokens, as theory predicts"
    best, predicted = (float(record.ratio.values[np.argmin(one)]) for one in (entropy, told))
    yield case.near(PLAIN_MEMORY, title, best, predicted, within=0)


def fate_claims(record: xr.Dataset, name: str, case: Case) -> Iterator[Claim]:
    task = saccade.SequenceClasses.syn_medium(1)
    n = record[f"{name}_wrong_way"].size
    tokens = int(task.distinct.sum() + task.common.sum())
    wrong, disordered = (int(record[f"{name}_{key}"].sum()) for key in ("wrong_way", "disordered"))
    yield case.none(
        RATE_RATIO,
        "distinct tokens rise, common ones fall, at every ratio",
        wrong,
        among=n * tokens,
    )
    pairs = int(task.distinct.sum()) - task.n_classes
    yield case.none(
        RATE_RATIO,
        "frequent distinct tokens gain more, at every ratio",
        disordered,
        among=n * pairs,
    )


def border_ratio(record: xr.Dataset) -> float:
    """Below it the most frequent distinct token of class 2 has fallen by the end of the flows, by
    theory.
    """
    task, used = saccade.SequenceClasses.syn_medium(1), EXPERIMENT.settings_of(record)
    height = np.log(task.n_vocab * used.unequal_t1 / task.n_classes)
    return float((height / record.equal_rates_turn) ** 2)


def _unequal_claims(record: xr.Dataset) -> Iterator[Claim]:
    case, ratios = Case({"flow": "B", "classes": "unequal"}), record.ratio.values
    z, prob = record.unequal_logits.values, record.unequal_prob.values
    distinct = theory.distinct_tokens(prob)
    sign = np.where(distinct.any(axis=0), 1, -1)
    title = "distinct tokens rise, common ones fall, at every ratio"
    yield case.but([met(ALIKE, False)]).breaking(ALIKE).none(RATE_RATIO, title, z * sign <= 0)
    yield Case({"flow": "C", "classes": "unequal"}).none(
        RATE_RATIO, title, record.unequal_reduced.values * sign <= 0
    )
    gained = np.concatenate(
        [np.diff(z[:, own][:, np.argsort(row[own])]) > 0 for row, own in zip(prob, distinct)],
        axis=1,
    )
    title = "of two distinct tokens the more frequent gains more, at every ratio"
    yield case.but([met(ALIKE, False)]).breaking(ALIKE).none(PLAIN_ORDER, title, ~gained)
    slow = z[ratios < 1][:, distinct.any(axis=0)]
    title = "unequal classes: distinct tokens rise though the decoder is slower than attention"
    yield Case({"flow": "B"}).none(SLOW_DECODER, title, slow <= 0, expected=FAILS)
    title = "every token goes where plain-descent theory says, at every ratio"
    yield case.none(PLAIN_MEMORY, title, np.sign(z) != np.sign(record.unequal_expected.values))
    border, weaker = border_ratio(record), z[:, distinct[1]]
    lead = float(record.top_lead)
    case = case.but([unequal_enough(lead)])
    title = "distinct tokens of class 2 have fallen below the ratio that theory gives for this time, and risen above it"
    yield case.but(border=float(f"{border:.2g}")).none(
        TURNING_HEIGHT, title, (weaker < 0) != (ratios < border)[:, None]
    )
    title = "where they fall, the frequent ones fall further"
    below = weaker[ratios < border][:, np.argsort(prob[1, distinct[1]])]
    yield case.none(UNEQUAL_FATES, title, ~(np.diff(below, axis=1) < 0))
    alike = Case({"flow": "B", "classes": "alike"}, [met(UNEQUAL, False)]).breaking(UNEQUAL)
    title = "tokens that go the wrong way at the slowest decoder"
    yield alike.at_least(UNEQUAL_FATES, title, record.plain_wrong_way.values[np.argmin(ratios)], 1)


def panels(record: xr.Dataset) -> Layout:
    return [[_mass_panel(record), _entropy_panel(record)], [_fate_panel(record)]]


def _mass_panel(record: xr.Dataset) -> Lines:
    ratios = record.ratio.values
    left = [
        Line(ratios, record.plain_mass.values[:, -1], "plain flow (B), η_Y = 1", POINTS, 0),
        Line(ratios, record.plain_expected.values, "theory of plain descent", LINE, 0),
        Line(ratios, record.held_mass.values[:, -1], "plain flow (B), η_Z = 1", POINTS, 4),
        Line(ratios, record.held_expected.values, "", LINE, 4),
        Line(ratios, record.reduced_mass.values[:, -1], "theory's flow (C), η_Y = 1", POINTS, 1),
    ]
    start = {float(record.plain_mass[0, 0]): "start"}
    return Lines(
        "equal classes",
        "η_Y / η_Z",
        "attention left on common tokens",
        left,
        "x",
        ylim=(-0.02, 1.02),
        levels=start,
    )


def _entropy_panel(record: xr.Dataset) -> Lines:
    ratios = record.ratio.values
    entropy = [
        Line(ratios, record.plain_entropy, "plain flow (B), η_Y = 1", POINTS, 0),
        Line(ratios, record.plain_expected_entropy, "theory of plain descent", LINE, 0),
        Line(ratios, record.held_entropy, "plain flow (B), η_Z = 1", POINTS, 4),
        Line(ratios, record.held_expected_entropy, "", LINE, 4),
    ]
    title, y, start = (
        "equal classes: how sparse",
        "entropy among distinct tokens (nats)",
        float(record.start_entropy),
    )
    return Lines(title, "η_Y / η_Z", y, entropy, "x", levels={start: "start"})


def _fate_panel(record: xr.Dataset) -> Lines:
    ratios, distinct = record.ratio.values, theory.distinct_tokens(record.unequal_prob.values)
    lines = []
    for tone, (name, told) in enumerate(
        (("unequal_logits", "unequal_expected"), ("unequal_reduced", ""))
    ):
        letter = "B" if told else "C"
        for which, style in ((-1, POINTS), (0, RINGS)):
            token = np.flatnonzero(distinct[1])[which]
            said = "most frequent" if which else "rarest"
            lines.append(
                Line(ratios, record[name].values[:, token], f"flow ({letter}), {said}", style, tone)
            )
            if told:
                lines.append(
                    Line(
                        ratios,
                        record[told].values[:, token],
                        "theory of plain descent" if which else "",
                        LINE,
                        tone,
                    )
                )
    marks = {border_ratio(record): "predicted border"}
    title, y = "unequal classes: distinct tokens of class 2", "attention logit at the end"
    return Lines(title, "η_Y / η_Z", y, lines, "x", levels={0.0: "start"}, marks=marks)


_OF_A_FLOW, _ENDED = "ratio", "ratio token"
_NAMED = {name: f"flow ({flow}), {held} = 1" for name, (_, flow, held) in _FLOWS.items()}
SEEN = {
    "wrong_way": (
        "1",
        "distinct tokens whose logit did not rise plus common ones whose logit did not fall, at the end",
    ),
    "disordered": (
        "1",
        "neighbours in frequency among distinct tokens of which the rarer has the larger logit at the end",
    ),
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
        "Panels 1 and 2: equal classes. Panel 1: attention left on common tokens, in the plain flow (B) with either rate fixed at "
        "1 and in its theory (lines), and with the decoder's rate fixed at 1 in the theory's flow (C). It falls at every ratio. "
        "Panel 2: entropy among distinct tokens; attention differs most between them near ratio 10, and hardly at .01. Panel 3, "
        "unequal classes: logits of the distinct tokens of class 2, which are less frequent than those of class 1. Left of the "
        "dotted line all fall in (B), here the frequent ones most; in (C) they always rise."
    ),
    finding=(
        "a slow decoder does not break the scan if classes are equal; if they are unequal, {distinct tokens rise, common ones "
        "fall*flow B, classes unequal):.0f} of 150 tokens go the wrong way, all below the rate ratio that theory predicts"
    ),
    variables={
        **{
            f"{name}_mass": Variable("ratio place", "1", f"attention on common tokens, {of}")
            for name, of in _NAMED.items()
        },
        **{
            f"{name}_steps": Variable("ratio place", "steps of SGD", f"time of each sample, {of}")
            for name, of in _NAMED.items()
        },
        **{
            f"{name}_{key}": Variable(_OF_A_FLOW, *said)
            for name in _FLOWS
            for key, said in SEEN.items()
        },
        **{
            f"{name}_expected": Variable(
                _OF_A_FLOW,
                "1",
                "attention on common tokens at the end by the theory of plain descent",
            )
            for name in ("plain", "held")
        },
        **{
            f"{name}_expected_entropy": Variable(
                _OF_A_FLOW, "nats", "entropy among distinct tokens at the end by the same theory"
            )
            for name in ("plain", "held")
        },
        "start_entropy": Variable(
            "", "nats", "entropy of attention among distinct tokens at the start"
        ),
        "unequal_prob": Variable(
            "class token", "1", "P(l|n) of the unequal classes over the tokens that occur"
        ),
        "unequal_logits": Variable(
            _ENDED,
            "1",
            "unequal classes: attention logits at the end of the plain flow (B), η_Y = 1",
        ),
        "unequal_expected": Variable(_ENDED, "1", "the same by the theory of plain descent"),
        "unequal_reduced": Variable(_ENDED, "1", "the same in the theory's flow (C)"),
        "top_lead": Variable("", "1", "resting lead times M of the token whose turn is asked"),
        "equal_rates_turn": Variable(
            "",
            "1",
            "height M h when that token is back at its start at equal rates, in closed form",
        ),
    },
    dynamics="B: population gradient flow; C: reduced flow of the theory",
    time_unit="steps of SGD",
)
