"""Initial attention decides which token wins, never which tokens rise; a wrong initial decoder can stop attention for good.

Syn-Medium with one query from other starts than zero. Z(0): a rare token favoured just below and just above the threshold of the
extended Theorem 3, common tokens favoured, random. Y(0): a decoder taught the opposite of the truth. Flows (C) and (B), and
SGD. Expect Theorem 3 with z(0) to hold to 1e-6 in (C) and fail without it, the forecast winner in (C) and (B), the same fates
from every Z(0); and a strong wrong decoder to leave all attention on common tokens, at the loss of guessing among the classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

import saccade
from saccade.lab.claim import CALCULUS, FAILS, HOLDS, Case, Claim
from saccade.lab.experiment import Experiment, Measured, Progress, Variable
from saccade.lab.panel import LINE, POINTS, Layout, Line, Lines
from saccade.observe import measures
from saccade.observe.fits import Array
from saccade.theory import scan_and_snap as theory
from saccade.theory.scan_and_snap.open_statements import START_FATES, START_GAIN, WRONG_DECODER

_ENGINES: dict[str, Callable[..., xr.Dataset]] = {"reduced": saccade.reduced_flow, "plain": saccade.flow}
_LEARNT = 0.1  # nats: a loss below it is far from guessing among two classes, ln 2


@dataclass(frozen=True)
class Settings:
    beside: float = 0.1
    """how far below or above its threshold the favoured rare token starts"""
    common: float = 2.0
    """logit at which common tokens start when they are favoured"""
    random_starts: int = 5
    """random starts, standard normal"""
    wrong: tuple[float, ...] = (1.0, 5.0)
    """strengths of a decoder that maps each class's distinct tokens to the other class"""
    t1: float = 1e6
    """end of the flows, steps"""
    steps: int = 300
    """updates of SGD from the strongest wrong decoder"""


def starts(settings: Settings) -> dict[str, Array]:
    """Z(0) by name (query, token)."""
    task = saccade.SequenceClasses.syn_medium(1)
    zero, own = np.zeros((1, task.n_vocab)), np.flatnonzero(task.distinct[0])
    prob = task.token_prob[0]
    threshold = np.log(prob[own].max() / prob[own[0]])  # of the rarest token of class 1
    found = {}
    for name, shift in (("rare, below", -settings.beside), ("rare, above", settings.beside)):
        found[name] = zero.copy()
        found[name][0, own[0]] = threshold + shift
    found["common favoured"] = np.where(task.common, settings.common, zero)
    rng = np.random.default_rng(0)
    return found | {f"random {i + 1}": rng.standard_normal(zero.shape) for i in range(settings.random_starts)}


def measure(settings: Settings, on_progress: Progress) -> Measured:
    task, listed = saccade.SequenceClasses.syn_medium(1), starts(settings)
    occurs = task.token_prob.any(axis=0)
    logits: dict[str, list[Array]] = {"reduced": [], "plain": []}
    for done, z in enumerate(listed.values(), 1):
        for name, engine in _ENGINES.items():
            path = engine(
                task, t1=settings.t1, n_times=60, rtol=1e-9, atol=1e-12, start={"attention_logits": z}, keep=("attention_logits",)
            )
            logits[name].append(path.attention_logits.values[:, 0, occurs])
        on_progress(0.8 * done / len(listed))
    wrong = [
        saccade.flow(task, t1=settings.t1, n_times=60, start={"decoder": wrong_decoder(task, size)}) for size in settings.wrong
    ]
    options: dict[str, Any] = {"steps": settings.steps, "start": {"decoder": wrong_decoder(task, max(settings.wrong))}, "seeds": 3}
    trained = saccade.train(task, save=[settings.steps], **options)
    values = {
        "reduced_logits": logits["reduced"],
        "plain_logits": logits["plain"],
        "token_prob": task.token_prob[:, occurs],
        "wrong_loss": [one.loss.values for one in wrong],
        "wrong_mass": [measures.mass(one.attention.values[:, 0], task.common) for one in wrong],
        "wrong_sgd_loss": trained.loss.values[:, -1],
    }
    coords = {"start": list(listed), "time": path.time.values, "strength": list(settings.wrong), "seed": trained.seed.values}
    return Measured(values, coords)


def wrong_decoder(task: saccade.SequenceClasses, strength: float) -> Array:
    """Y(0) that takes the distinct tokens of each of two classes for the other's."""
    decoder = np.zeros((task.n_vocab, task.n_vocab))
    for n, own in enumerate(task.distinct):
        decoder[np.ix_(np.flatnonzero(own), task.next_token[[1 - n, n]])] = strength, -strength
    return decoder


def gains(record: xr.Dataset, flow: str, *, from_start: bool = True) -> Array:
    """Lead of each class's leader over what Theorem 3 makes of its growth, less 1, of every start; without z(0) in r(0) if
    asked."""
    prob, z = record.token_prob.values, record[f"{flow}_logits"].transpose("start", "time", "token").values
    found = []
    for n, own in enumerate(theory.distinct_tokens(prob)):
        at_start = np.where(from_start, prob[n, own] * np.exp(z[:, 0][:, own]), prob[n, own])  # (start, token)
        for start, weight in enumerate(at_start):
            path, top = z[start][:, own], int(np.argmax(weight))
            others = np.arange(len(weight)) != top
            lead = theory.relative_gain((prob[n, own] * np.exp(path))[:, [top]], (prob[n, own] * np.exp(path))[:, others])
            initial = theory.relative_gain(weight[top], weight[others])
            found.append(lead / theory.relative_gain_forecast(initial, path[:, [top]] - path[0, top]) - 1)
    return np.concatenate([one.ravel() for one in found])


def winners(record: xr.Dataset, flow: str) -> tuple[Array, Array]:
    """The distinct token with most attention at the end, and the forecast one (class, start)."""
    prob, z = record.token_prob.values, record[f"{flow}_logits"].transpose("start", "time", "token").values
    distinct = theory.distinct_tokens(prob)
    end, first = (np.where(distinct[:, None], prob[:, None] * np.exp(z[:, at]), 0.0).argmax(axis=-1) for at in (-1, 0))
    return end, first


def fates(record: xr.Dataset, flow: str) -> Array:
    """Tokens that went the wrong way (start, token)."""
    z, distinct = (
        record[f"{flow}_logits"].transpose("start", "time", "token").values,
        theory.distinct_tokens(record.token_prob.values),
    )
    moved = z[:, -1] - z[:, 0]
    return np.where(distinct.any(axis=0), moved <= 0, moved >= 0)


def claims(record: xr.Dataset) -> Iterator[Claim]:
    theory_flow, plain = Case({"flow": "C"}), Case({"flow": "B"})
    title = "lead of the top token against r(0) χ with z(0) in r(0), largest relative gap"
    identity = theory_flow.but(against=CALCULUS)
    yield identity.at_most(START_GAIN, title, np.abs(gains(record, "reduced")), 1e-6)
    control = identity.breaking("r(0) has z(0) in it")
    yield control.at_most(START_GAIN, title, np.abs(gains(record, "reduced", from_start=False)), 1e-6)
    for case, name in ((theory_flow, "reduced"), (plain, "plain")):
        end, first = winners(record, name)
        yield case.none(START_GAIN, "the distinct token with the largest P e^z(0) has most attention at the end", end != first)
        yield case.none(START_FATES, "distinct tokens rise and common ones fall from every Z(0)", fates(record, name))
    end, _ = winners(record, "reduced")
    places = [record.start.values.tolist().index(name) for name in ("rare, below", "rare, above")]
    own = np.flatnonzero(theory.distinct_tokens(record.token_prob.values)[0])
    flipped = end[0, places] != own[[-1, 0]]
    yield theory_flow.none(START_GAIN, "the rarest token wins from just above its threshold and not from just below", flipped)
    for strength, loss in zip(record.strength.values, record.wrong_loss.values, strict=True):
        known = HOLDS if strength <= 1 else FAILS
        case = plain.but(strength=float(strength))
        yield case.at_most(WRONG_DECODER, "loss at the end, after recovery", loss[-1], _LEARNT, expected=known)
    guessing = np.log(len(record.token_prob))
    strongest = float(record.strength.max())
    title = "loss at the end from the strongest wrong decoder: guessing among the classes, ln K"
    yield plain.but(strength=strongest).near(WRONG_DECODER, title, record.wrong_loss.values[-1, -1], guessing, within=0.01)
    yield Case({"A": "SGD", "strength": strongest}).near(WRONG_DECODER, title, record.wrong_sgd_loss.values, guessing, within=0.05)


def panels(record: xr.Dataset) -> Layout:
    t, prob = record.time.values[1:], record.token_prob.values
    own = np.flatnonzero(theory.distinct_tokens(prob)[0])
    rare = []
    for tone, name in enumerate(("rare, below", "rare, above")):
        z = record.reduced_logits.sel(start=name).values[1:]
        weight = theory.limit_attention(prob[0], z)
        side = name.removeprefix("rare, ")
        rare += [
            Line(t, weight[:, own[0]], f"rarest token, {side} its threshold", LINE, tone),
            Line(t, weight[:, own[-1]], f"most frequent, rarest {side}", "dashes", tone),
        ]
    moved = record.plain_logits.values[:, -1] - record.plain_logits.values[:, 0]
    distinct = theory.distinct_tokens(prob).any(axis=0)
    places = np.arange(len(moved))
    fate = [
        Line(np.repeat(places, distinct.sum()), moved[:, distinct].ravel(), "distinct tokens", POINTS, 0),
        Line(np.repeat(places, (~distinct).sum()), moved[:, ~distinct].ravel(), "common tokens", POINTS, 1),
    ]
    wrong = [
        Line(t, record.wrong_mass.values[i, 1:], f"strength {strength:g}", LINE, i)
        for i, strength in enumerate(record.strength.values)
    ]
    names = {float(i): name for i, name in enumerate(record.start.values.tolist())}
    return [
        Lines("flow (C): the start decides who wins", "t (steps)", "attention", rare, "x", ylim=(0, 1)),
        Lines("flow (B): from every Z(0) the same fates", "start", "change of z", fate, levels={0.0: ""}, ticks=names),
        Lines("flow (B): a wrong decoder", "t (steps)", "attention on common tokens", wrong, "x", ylim=(0, 1.02)),
    ]


EXPERIMENT = Experiment(
    "starts",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Panel 1: attention on the rarest and on the most frequent distinct token of a class along the theory's flow (C), the "
        "rarest started just below and just above the logit at which theory says it wins. Panel 2: how far each logit has moved "
        "by the end of the plain flow (B), for each start of attention: distinct tokens rise, common ones fall. Panel 3: "
        "attention on common tokens when the decoder starts out wrong: weakly wrong it recovers, strongly wrong it never does."
    ),
    finding=(
        "from eight starts Z(0) distinct tokens rise ({distinct tokens rise*flow B):.0f} exceptions) and the token with the "
        "largest P e^z(0) wins; from a wrong decoder the loss stays at {loss at the end from the strongest*flow B*:.3f}, no better "
        "than guessing"
    ),
    variables={
        "reduced_logits": Variable(
            "start time token", "1", "attention logits along the theory's flow (C), over the tokens that occur"
        ),
        "plain_logits": Variable("start time token", "1", "the same along the plain flow (B)"),
        "token_prob": Variable("class token", "1", "P(l|n) over the tokens that occur"),
        "wrong_loss": Variable("strength time", "nats", "loss of the plain flow from a wrong decoder"),
        "wrong_mass": Variable("strength time", "1", "attention on common tokens, the same"),
        "wrong_sgd_loss": Variable("seed", "nats", "loss at the end of SGD from the strongest wrong decoder"),
    },
    dynamics="B: population gradient flow; C: reduced flow of the theory; A: mini-batch training",
    time_unit="steps of SGD",
)
