"""Frequent distinct tokens gain attention faster than rare ones, and the growth of one determines
that of all.

Theorem 3 of Scan and Snap. It is misread as saying that rare distinct tokens gain faster: they fall
behind first, which is not the order of gain. Along the theory's flow the lead of token l over l' is its initial lead times the growth
factor of l. Plain joint descent lags behind, more so for faster attention, because its decoder
remembers older attention. Expect the relation to 1e-8 along the flow, a growing lag in descent, and
the same order in SGD.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

import saccade
from saccade.experiments.scan_and_snap.weak_classes import (
    class_logits,
    conditions,
    context_prob,
    feature_and_drive,
    one_common_token,
    travelled,
)
from saccade.lab.claim import CALCULUS, HOLDS, OUTSIDE, REPLICATION, Case, Claim
from saccade.lab.panel import DOTS, POINTS, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress, Variable, stretch
from saccade.observe.fits import Array, rank_correlation
from saccade.theory import scan_and_snap as theory
from saccade.theory.condition import equal
from saccade.theory.scan_and_snap.statements import PLAIN_ORDER, PLAIN_RELATIVE_GAIN, THEOREM_3

# Largest lag after 20,000 steps at lr_decoder 1, by ratio, from an independent replication.
REPLICATED_LAG = {10.0: 0.22, 1.0: 0.50}
_DESCENT_RATE = 1.0  # of the decoder, per step
_SLACK = 1e-6  # relative, for the quadrature behind the growth bound
VARIABLES = {
    "flow_logits": Variable(
        "time class token",
        "1",
        "z of each class along flow (C), classes that meet Assumption 2, token 0 common",
    ),
    "flow_attention": Variable("time class token", "1", "attention of each class along flow (C)"),
    "told_attention": Variable(
        "time class token",
        "1",
        "the same by Theorem 3 from the most frequent token alone",
        "flow_attention",
        "Theorem 3",
    ),
    "flow_prob": Variable("class token", "1", "P(l|n) of the flow's classes"),
    "descent_logits": Variable(
        "ratio step class_of_two token_of_two",
        "1",
        "z in plain joint descent on the population of Syn-Medium",
    ),
    "descent_attention": Variable(
        "ratio step class_of_two token_of_two",
        "1",
        "attention of each class in plain joint descent on Syn-Medium",
    ),
    "sgd_logits": Variable(
        "seed class_of_two token_of_two",
        "1",
        "z of each class after training on Syn-Small with mini-batches",
    ),
    "two_prob": Variable(
        "class_of_two token_of_two",
        "1",
        "P(l|n) of Syn-Small, the same as of Syn-Medium with one query",
    ),
}


@dataclass(frozen=True)
class Settings:
    n_vocab: int = 2000
    """vocabulary of the flow's classes; Assumption 2 needs more than 1296 for three classes"""
    overlap: float = 0.15
    """f_n . f_n' of any two of the flow's classes, between 6/sqrt(n_vocab) and 1/6"""
    lr_decoder: float = 0.5
    """decoder rate of the flow, per step, below 1"""
    lr_attention: float = 5.0
    """attention rate of the flow, per step"""
    t1: float = 1e12
    """end of the flow, in steps of SGD"""
    ratios: tuple[float, ...] = (100.0, 10.0, 1.0)
    """decoder rate (1 per step) over attention rate in plain joint descent"""
    descent_steps: int = 20000
    """steps of plain joint descent on the population"""
    steps: int = 48
    """updates of SGD, otherwise as in Fig. 4"""
    context: int = 127
    """context tokens before the query in SGD"""
    seeds: int | tuple[int, ...] = 10
    """number of seeds of SGD (0, 1, 2, ...), or a list of seeds"""


def measure(settings: Settings, on_progress: Progress) -> Measured:
    weak = one_common_token(overlap=settings.overlap, n_vocab=settings.n_vocab)
    medium, small = saccade.SequenceClasses.syn_medium(1), saccade.SequenceClasses.syn_small()
    keep = ("attention_logits",)
    flow = saccade.reduced_flow(
        weak,
        t1=settings.t1,
        lr_decoder=settings.lr_decoder,
        lr_attention=settings.lr_attention,
        n_times=400,
        rtol=1e-10,
        atol=1e-13,
        on_progress=stretch(on_progress, 0.0, 0.6),
        keep=keep,
    )
    descent = saccade.train(
        medium,
        steps=settings.descent_steps,
        lr_decoder=np.full(len(settings.ratios), _DESCENT_RATE),
        lr_attention=_DESCENT_RATE / np.array(settings.ratios),
        batch=math.inf,
        context=math.inf,
        dtype="float64",
        on_progress=stretch(on_progress, 0.6, 0.9),
        keep=keep,
    )
    sgd = saccade.train(
        small,
        steps=settings.steps,
        momentum=0.9,
        context=settings.context,
        seeds=settings.seeds,
        save=[settings.steps],
        on_progress=stretch(on_progress, 0.9, 1.0),
        keep=keep,
    )
    prob, two_prob = context_prob(weak), context_prob(small)
    flow_logits, descent_logits = _by_class(flow, weak), _by_class(descent.isel(seed=0), medium)
    values = {
        "flow_logits": flow_logits,
        "flow_attention": theory.limit_attention(prob, flow_logits),
        "told_attention": _told_attention(flow_logits, prob),
        "flow_prob": prob,
        "descent_logits": descent_logits,
        "descent_attention": theory.limit_attention(two_prob, descent_logits),
        "sgd_logits": _by_class(sgd.isel(time=0), small),
        "two_prob": two_prob,
    }
    coords = {
        "time": flow.time.values,
        "ratio": list(settings.ratios),
        "step": descent.time.values,
        "seed": sgd.seed.values,
    }
    return Measured(values, coords)


def _told_attention(logits: Array, prob: Array) -> Array:
    """Attention (time, class, token) on distinct tokens if each followed the most frequent one of
    its class as Theorem 3 says.
    """
    told, every = logits.copy(), theory.distinct_tokens(prob)
    for n, distinct in enumerate(every):
        own = np.flatnonzero(distinct)
        top = own[np.argmax(prob[n, own])]
        for token in own[own != top]:
            told[:, n, token] = theory.follower_logit_gain(
                logits[:, n, top], theory.relative_gain(prob[n, top], prob[n, token])
            )
    return np.where(every, theory.limit_attention(prob, told), np.nan)


def _by_class(record: xr.Dataset, task: saccade.SequenceClasses) -> Array:
    return class_logits(record.attention_logits.values, record["query"].values, task)


class Leads(NamedTuple):
    """Distinct tokens of one class, rarest first (last axis); the last is the leader, the others
    its followers.
    """

    prob: Array
    logits: Array
    initial: Array  # lead over each follower at the start
    lead: Array
    forecast: Array  # the lead that Theorem 3 makes of the leader's growth


def _leads(logits: Array, prob: Array, n: int) -> Leads:
    """Leads of class n from logits (..., class, token), zero at the start."""
    own = np.flatnonzero(theory.distinct_tokens(prob)[n])
    own = own[np.argsort(prob[n, own])]
    p, z = prob[n, own], logits[..., n, :][..., own]
    weight, initial = p * np.exp(z), theory.relative_gain(p[-1], p[:-1])
    lead = theory.relative_gain(weight[..., -1:], weight[..., :-1])
    return Leads(p, z, initial, lead, theory.relative_gain_forecast(initial, z[..., -1:]))


def flow_leads(record: xr.Dataset) -> list[Leads]:
    z, prob = record.flow_logits.transpose("time", "class", "token").values, record.flow_prob.values
    return [_leads(z, prob, n) for n in range(len(prob))]


def descent_leads(record: xr.Dataset, ratio: float) -> list[Leads]:
    z = (
        record.descent_logits.sel(ratio=ratio)
        .transpose("step", "class_of_two", "token_of_two")
        .values
    )
    return [_leads(z, record.two_prob.values, n) for n in range(len(record.two_prob))]


def sgd_leads(record: xr.Dataset) -> list[Leads]:
    z = record.sgd_logits.transpose("seed", "class_of_two", "token_of_two").values
    return [_leads(z, record.two_prob.values, n) for n in range(len(record.two_prob))]


def order_correlation(logits: Array) -> Array:
    """Spearman's correlation along the last axis with the order of that axis itself: 1 = rising
    throughout, -1 = falling.
    """
    return np.apply_along_axis(rank_correlation, -1, logits, np.arange(logits.shape[-1]))


def sgd_order(record: xr.Dataset) -> Array:
    """Rank correlation of each seed, the lesser of its two classes."""
    return np.min([order_correlation(c.logits) for c in sgd_leads(record)], axis=0)


def claims(record: xr.Dataset) -> Iterator[Claim]:
    settings = EXPERIMENT.settings_of(record)
    weak = one_common_token(overlap=settings.overlap, n_vocab=settings.n_vocab)
    rates = {
        "lr_decoder": settings.lr_decoder,
        "lr_attention": settings.lr_attention,
        "n_steps": settings.t1,
    }
    flow = Case(
        {"flow": "C"}, conditions(weak, ("Assumption 2", "Theorem 1", "Theorem 2"), **rates)
    )
    yield from _along_flow(record, settings, flow)
    yield from _in_descent(record, settings)
    yield flow.erratum(
        THEOREM_3, "rank correlation of attention gained and frequency among distinct tokens",
        min(float(order_correlation(c.logits[1:]).min()) for c in flow_leads(record)),
        number="0.1", printed=-1, corrected=1, within=1e-12,
        sentence="Frequent tokens gain faster, without exception; a common misreading is that rare ones do.",
    )  # fmt: skip
    sgd = Case(
        {"T": settings.context + 1},
        [equal("context, tokens", settings.context, Settings().context)],
    )
    title = "frequent distinct tokens gain more in every seed of SGD (rank correlation ≥ .98)"
    yield sgd.none(PLAIN_ORDER, title, ~(sgd_order(record) >= 0.98))
    yield from _controls(record, settings, flow)


_RELATION = "lead of the most frequent distinct token against r(0) χ, largest relative gap"
_IN_BOUNDS = "growth factor of the dominant token within its bounds"


def _controls(record: xr.Dataset, settings: Settings, case: Case) -> Iterator[Claim]:
    """For a common token in place of a distinct one, for the rarest token in place of the leader,
    and for tighter bounds.
    """
    common = case.but(against=CALCULUS).breaking("both tokens are distinct, of one class")
    yield common.at_most(THEOREM_3, _RELATION, np.abs(_common_lead(record) - 1), 1e-8)
    growth, usual = _Growth.of(record, settings), settings == Settings()
    rarest = case.breaking("for the bounds: l leads all other distinct tokens, common tokens fall")
    yield rarest.none(
        THEOREM_3,
        "growth factor of the rarest distinct token within its bounds",
        growth.outside(place=0),
    )
    yield case.tightened(1.05, usual, "lower bound").none(
        THEOREM_3, _IN_BOUNDS, growth.outside(lower=1.05)
    )
    yield case.tightened(0.6, usual, "upper bound").none(
        THEOREM_3, _IN_BOUNDS, growth.outside(upper=0.6)
    )


def _along_flow(record: xr.Dataset, settings: Settings, case: Case) -> Iterator[Claim]:
    classes = flow_leads(record)
    gap = max(float(np.abs(c.lead / c.forecast - 1).max()) for c in classes)
    shared = max(
        float(np.ptp(c.prob[-1] ** 2 * theory.conserved_gain(c.logits, c.prob), axis=1).max())
        for c in classes
    )
    growth = _Growth.of(record, settings)
    exact = case.but(against=CALCULUS)  # in the theory's own flow
    yield exact.at_most(THEOREM_3, _RELATION, gap, 1e-8)
    yield exact.at_most(
        THEOREM_3,
        "conserved quantity shared by a class's distinct tokens, largest spread",
        shared,
        1e-8,
    )
    yield case.none(THEOREM_3, _IN_BOUNDS, growth.outside())
    yield case.none(
        THEOREM_3,
        "logit and feature of the dominant token rise",
        growth.falling,
        among=2 * growth.bound.size,
    )


def _common_lead(record: xr.Dataset) -> Array:
    """Lead of each class's leader over the common token, over what Theorem 3 would make of it for a
    distinct one.
    """
    z, prob = (
        record.flow_logits.transpose("time", "class", "token").values[1:],
        record.flow_prob.values,
    )
    leaders = np.argmax(np.where(theory.distinct_tokens(prob), prob, 0), axis=1)
    shares = []
    for n, leader in enumerate(leaders):
        weight, initial = (
            prob[n] * np.exp(z[:, n]),
            theory.relative_gain(prob[n, leader], prob[n, 0]),
        )
        shares.append(
            theory.relative_gain(weight[:, leader], weight[:, 0])
            / theory.relative_gain_forecast(initial, z[:, n, leader])
        )
    return np.stack(shares)


class _Growth(NamedTuple):
    """The theory's flow after t = 0: logits and features (time, class, token), and the growth bound
    B (time, class).
    """

    prob: Array
    logits: Array
    feature: Array
    bound: Array

    @classmethod
    def of(cls, record: xr.Dataset, settings: Settings) -> _Growth:
        times, z, prob = (
            record.time.values[1:],
            record.flow_logits.values[1:],
            record.flow_prob.values,
        )
        feature, drive = feature_and_drive(
            times, z, prob, n_vocab=settings.n_vocab, lr_decoder=settings.lr_decoder
        )
        return cls(prob, z, feature, travelled(times, drive * settings.lr_attention / len(prob)))

    def _token(self, n: int, place: int) -> int:
        """The distinct token of class n at a place among its distinct tokens, the rarest first."""
        own = np.flatnonzero(theory.distinct_tokens(self.prob)[n])
        return int(own[np.argsort(self.prob[n, own])][place])

    def outside(self, place: int = -1, lower: float = 1.0, upper: float = 1.0) -> NDArray[np.bool_]:
        """Where (class, time) the token at a place leaves its bounds; the exponents of these may be
        multiplied by a factor.
        """
        found = []
        for n, bound in enumerate(self.bound.T):
            token = self._token(n, place)
            start = float(theory.normalised_feature(self.prob)[n, token])
            low, high = map(np.log, theory.growth_factor_bounds(bound, initial_feature=start))
            growth = np.log(theory.growth_factor(self.logits[:, n, token]))
            found.append(
                (growth < lower * low * (1 - _SLACK)) | (growth > upper * high * (1 + _SLACK))
            )
        return np.stack(found)

    @property
    def falling(self) -> int:
        """How often the dominant token's logit, or its feature, does not rise."""
        return sum(
            int(np.sum(np.diff(path[:, n, self._token(n, -1)]) <= 0))
            for path in (self.logits, self.feature)
            for n in range(len(self.prob))
        )


def lag(record: xr.Dataset, ratio: float) -> float:
    """Largest shortfall of a lead behind Theorem 3 at the last step of plain descent."""
    return max(float(np.max(1 - c.lead[-1] / c.forecast[-1])) for c in descent_leads(record, ratio))


def _in_descent(record: xr.Dataset, settings: Settings) -> Iterator[Claim]:
    task, title = (
        saccade.SequenceClasses.syn_medium(1),
        "lag of a lead behind r(0) χ in plain joint descent, largest",
    )
    for ratio in record.ratio.values.tolist():
        given = conditions(
            task,
            ("Assumption 1",),
            lr_decoder=ratio,
            lr_attention=1.0,
            n_steps=settings.descent_steps,
        )
        case = Case({"η_Y/η_Z": ratio, "steps": settings.descent_steps}, given)
        expected = HOLDS if ratio >= 100 else OUTSIDE  # known, whatever the validator says
        yield case.at_most(PLAIN_RELATIVE_GAIN, title, lag(record, ratio), 0.02, expected=expected)
        if ratio in REPLICATED_LAG:
            same = [
                equal(
                    "steps, as in the replication", settings.descent_steps, Settings().descent_steps
                )
            ]
            replicated = case.but(given=same, against=REPLICATION)
            yield replicated.near(
                PLAIN_RELATIVE_GAIN, title, lag(record, ratio), REPLICATED_LAG[ratio], within=0.03
            )


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    """Ends of all runs. `growth_share`: growth of the lead over the growth predicted, a harder test
    where little has grown.
    """
    cases = {"flow (C)": flow_leads(record)}
    cases |= {
        f"descent, ratio {ratio:g}": descent_leads(record, ratio) for ratio in record.ratio.values
    }
    rows = [
        row
        for case, classes in cases.items()
        for n, c in enumerate(classes)
        for row in _rows(case, n, c)
    ]
    for n, c in enumerate(sgd_leads(record)):
        for rank, (p, z) in enumerate(zip(c.prob, c.logits.mean(axis=0), strict=True)):
            rows.append(_row("SGD, mean over seeds", n, rank, p, z))
    return rows


def _rows(case: str, n: int, c: Leads) -> list[dict[str, Any]]:
    share = c.lead[-1] / c.forecast[-1]
    grown = (c.lead[-1] / c.initial - 1) / (theory.growth_factor(c.logits[-1, -1]) - 1)
    followers = [
        _row(case, n, i, c.prob[i], c.logits[-1, i], share[i], grown[i]) for i in range(len(share))
    ]
    return [*followers, _row(case, n, len(share), c.prob[-1], c.logits[-1, -1])]


def _row(
    case: str,
    n: int,
    rank: int,
    prob: float,
    z: float,
    share: float | None = None,
    grown: float | None = None,
) -> dict[str, Any]:
    named = {
        "case": case,
        "class": n + 1,
        "rank": rank + 1,
        "token_prob": float(prob),
        "z": float(z),
    }
    return named | {"lead_over_forecast": share, "growth_share": grown}


def panels(record: xr.Dataset) -> Layout:
    return [_flow_panel(record), _lag_panel(record), _sgd_panel(record)]


def _flow_panel(record: xr.Dataset) -> Lines:
    c, t, dots, lines = flow_leads(record)[1], record.time.values[1:], slice(None, None, 14), []
    for i, p in enumerate(c.prob):
        shade = float(i / (len(c.prob) - 1))
        if i < len(c.prob) - 1:
            ceiling = np.full_like(t, 0.5 * np.log1p(1 / c.initial[i]))
            lines += [
                Line(
                    t,
                    theory.follower_logit_gain(c.logits[1:, -1], c.initial[i]),
                    "predicted from the top one" if i == 0 else "",
                    tone=shade,
                ),
                Line(t, ceiling, "ceiling of each" if i == 0 else "", DOTS, shade),
            ]
        lines.append(Line(t[dots], c.logits[1:, i][dots], f"frequency {p:.2f}", POINTS, shade))
    title, ylim = (
        "flow (C): the frequent gain faster",
        (None, 1.9 * max(np.max(line.y) for line in lines)),
    )  # room for the legend
    return Lines(
        title, "t (steps of SGD)", "attention logit z", lines, "x", xlim=(1, t[-1]), ylim=ylim
    )


def _lag_panel(record: xr.Dataset) -> Lines:
    t, inside = (
        record.time.values,
        (record.time.values >= 1) & (record.time.values <= record.step.values[-1]),
    )
    flow = np.min(np.concatenate([c.lead / c.forecast for c in flow_leads(record)], axis=1), axis=1)
    lines = [Line(t[inside][::6], flow[inside][::6], "flow (C)", POINTS, None)]
    for i, ratio in enumerate(record.ratio.values):
        worst = np.min(
            np.concatenate([c.lead / c.forecast for c in descent_leads(record, ratio)], axis=1),
            axis=1,
        )
        lines.append(Line(record.step[1:], worst[1:], f"descent, η_Y/η_Z = {ratio:g}", POINTS, i))
    y = "r(t) / r(0)χ(t), worst token"
    return Lines(
        "plain descent lags behind",
        "t (steps of SGD)",
        y,
        lines,
        "x",
        ylim=(0, 1.1),
        levels={1.0: "Theorem 3"},
    )


def _sgd_panel(record: xr.Dataset) -> Lines:
    lines = [
        Line(
            c.prob,
            c.logits.mean(axis=0),
            f"class {n + 1}, mean and range over seeds",
            tone=n,
            low=c.logits.min(axis=0),
            high=c.logits.max(axis=0),
        )
        for n, c in enumerate(sgd_leads(record))
    ]
    order, length = sgd_order(record), EXPERIMENT.settings_of(record).context + 1
    title = f"SGD, T = {length}: rank correlation ≥ {order.min():.3f}"
    return Lines(
        title, "frequency of a distinct token", "attention logit z", lines, levels={0.0: ""}
    )


EXPERIMENT = Experiment(
    "relative-gain",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Panel 1: attention logits of the distinct tokens of one class along the theory's flow, dark for frequent ones. Frequent "
        "tokens gain faster and more (the opposite is a common misreading). Dots: the flow; lines: what the "
        "growth of the most frequent token alone predicts for the others; dotted: the ceiling of each. Panel 2: the lead of the "
        "most frequent token over each other one, divided by the prediction of Theorem 3: 1 along the flow, less in plain joint "
        "descent, and least where the two rates are closest. Panel 3: in SGD, too, logits rise with frequency; mean and range "
        "over seeds for each class."
    ),
    finding=(
        "Theorem 3's relation between tokens holds to 1e-8 along the flow; in SGD frequent distinct tokens gain more, with {*every "
        "seed*:.0f} exceptions in 10 seeds"
    ),
    variables=VARIABLES,
    dynamics="C: reduced flow of the theory; A: training on the population and on mini-batches",
    time_unit="steps of SGD",
    table=table,
)
