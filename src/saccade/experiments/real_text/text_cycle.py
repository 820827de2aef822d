"""On WikiText-2 two of three runs condense, focus jointly, dilute and open a second direction; on
TinyStories none dilutes.

Trains the one-layer model of [chen2026] with Adam and observes how much each query attends to the
most frequent token. What comes after a joint focus is asked only of runs that had one. What "every
run" does is refuted by one exception; a size is judged by its interval over seeds.

The first move is read from short runs on texts with few and many words. At the unigram point
queries grow along keys at the rate c of the text's pairs: c > 0 moves attention to the most frequent
token, c < 0 away from it. The rule needs condensation to be over when attention starts. Where |c| is
above the rate of condensation it does not apply, and the drive integrated along the run takes its
place. Both are about plain descent; Adam has a rule of its own.

The settings are ours; `text-cycle-published` has the paper's. Set after trial runs: the batch, a
share of 0.95 as condensed, that the probe may focus on any word, the number of updates, and the
integrated drive. Shorter runs end before the second focus.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Annotated as A
from typing import Any

import numpy as np
import xarray as xr

import saccade
from saccade.data.text.corpus import Corpus
from saccade.data.text.library_tokenisers import UNKNOWN
from saccade.dynamics.randomness import checked_seeds
from saccade.errors import InputError
from saccade.experiments.real_text.every_run import every_run
from saccade.experiments.real_text.text_cycle_runs import (
    CURVES,
    Array,
    cycle_run,
    events_of,
    lacking,
    phi_scale,
    spelt,
    spread_ranks,
)
from saccade.lab.ceiling import Ceiling
from saccade.lab.claim import Case, Claim
from saccade.lab.experiment import Lab, experiment
from saccade.lab.panel import DASHES, DOTS, POINTS, RINGS, Heat, Line, Lines, family
from saccade.lab.settings import Range
from saccade.observe.fits import agreement
from saccade.observe.measures import entropy
from saccade.observe.turning_points import VISIBLE
from saccade.processes import in_processes
from saccade.theory import focus_and_dilution as theory
from saccade.theory.condition import met
from saccade.theory.focus_and_dilution.statements import ADAM_FOCUS, DRIVE, SIGN_RULE
from saccade.theory.questions import CYCLE_ON_TEXT
from saccade.theory.statement import Statement

PROBES = {  # words of the maps; other texts have words evenly spaced in log rank
    "wikitext-2": (UNKNOWN, "the", ",", "been", "continue"),
    "tinystories": ("the", ",", "a", "full", "been"),
}
STARTS = {"tinystories": (1e-2, False)}  # scale of entries, whether scores are over root of width
USUAL_START = (1e-3, True)
FOCUSED = 0.9  # attention that counts as all of it: of ten parts one is left
STAGES = {  # title, at least
    "condensation": ("share of the embedding's first direction when attention first moves", 0.95),
    "focus": ("largest joint attention of all queries on the most frequent token", FOCUSED),
    "focused": (f"every run has a joint focus, all queries above {FOCUSED}", 1),
    "dilution": ("after a joint focus every query's attention falls below half its height", 1),
    "direction": ("after a joint focus a second direction opens", 1),
    "again": ("after a joint focus and a new direction a query focuses again", 1),
    "probe": ("largest joint attention of all probe words on one word", FOCUSED),
    "itself": ("the rarest probe word ends up attending mostly to itself in every run", 1),
}
AFTER_FOCUS = ("dilution", "direction", "again")
CONTEXT = {"context": 64}
OPTIMISERS = "sgd", "adam"
MOVE_START, MOVE_BATCH, ADAM_LR = (16, *USUAL_START), 128, 1e-3  # in the runs of the first move
MOVES = {
    "side": "+1: attention first moves to the most frequent token, -1: away from it; NaN: neither",
    "impulse": "integral of the drive until attention moves, under plain descent",
    "focus_rate": "c of the text's pairs, at the unigram point, per time",
    "condensation_rate": "mu0 of the text's frequencies, per time",
}
ENOUGH = 1.5  # times as long as the linear stages take from the start to weights of size one
SLOWER = "attention slower than condensation"
CAPTION = (
    "Three panels and three maps for each text, first seed but for the third panel. Attention of "
    "queries, dark for rare ones, on the most frequent token in an endless context: look for all "
    "of them going to it, then parting. One direction until a second opens; the entropy of "
    "attention falls, rises and falls. The least attention of any query on that token, and dashed "
    "the second singular value of the embedding over the first: look whether seeds do the same at "
    "the same time. Maps: attention of each probe word on a context of all of them once, when all "
    "are most on one word, when attention is most spread after that, and at the end. Last row: "
    "the side of the first move, a point for each run. Plain descent should follow the dotted sign "
    "of c where it has a ring; elsewhere attention is faster than condensation."
)


@experiment(
    "text-cycle",
    dynamics="training on text, the embedded model",
    time_unit="updates",
    caveat="The vocabulary and the learning rate: both change how long a stage takes, and a "
    "shorter run ends before the cycle closes. Another tokeniser or vocabulary: which pairs of "
    "tokens a text has decides the sign of c.",
    full={
        "batch": 512,
        "looks": 400,
        "resumable": True,
        "move_lr": 0.25,
        "move_steps": (10_000, 2000),
        "move_seeds": 5,
    },
)
def text_cycle(
    lab: Lab,
    texts: A[tuple[str, ...], "corpora: names or paths"] = ("wikitext-2", "tinystories"),
    n_vocabs: A[tuple[int, ...], "words of each text; rarer ones become one"] = (2000, 512),
    rates: A[tuple[float, ...], "Adam's learning rate on each text"] = (1e-3, 3e-4),
    steps: A[tuple[int, ...], "updates on each text"] = (12_000, 15_000),
    d_model: A[int, "width"] = 64,
    batch: A[int, "windows per update"] = 128,
    seeds: A[int | tuple[int, ...], "number of random starts, or a list of seeds"] = 3,
    looks: A[int, "number of observations, evenly spaced in log time"] = 240,
    move_sizes: A[tuple[int, ...], "vocabularies for the first move", Range(3, 1e9)] = (
        8,
        32,
        128,
        512,
        2000,
    ),
    move_lr: A[float, "rate of plain descent for the first move; Adam has 0.001"] = 0.5,
    move_steps: A[tuple[int, int], "most updates of plain descent; updates of Adam"] = (2500, 500),
    move_seeds: A[int, "random starts of each short run"] = 2,
    resumable: A[bool, "whether a stopped run resumes from its last checkpoint"] = False,
) -> str:
    """Does a Transformer on text condense, focus, dilute and find new directions?"""
    if not len(texts) == len(n_vocabs) == len(rates) == len(steps):
        raise InputError(
            "`n_vocabs`, `rates` and `steps` must have an entry for each of the "
            f"{len(texts)} texts; they have {len(n_vocabs)}, {len(rates)} and {len(steps)}."
        )
    chosen, jobs, corpora, probes = checked_seeds(seeds), [], {}, {}
    for name, n_vocab, rate, updates in zip(texts, n_vocabs, rates, steps, strict=True):
        corpora[name] = text = saccade.corpus(name, n_vocab=n_vocab)
        words = PROBES.get(name) or [text.vocabulary[i] for i in spread_ranks(text.n_vocab, 5)]
        tokens = spelt(text, words)
        if missing := lacking(name, words, tokens):
            lab.leave_out(missing)
        known = sorted({text.id_of(token) for token in tokens if token})
        probes[name] = known if len(known) > 1 else [0, 1]
        start = d_model, *STARTS.get(name, USUAL_START)
        place = name, {"n_vocab": n_vocab}, probes[name], start
        times = np.geomspace(1, updates, looks).round()
        training = {"optimiser": "adam", "lr": rate, "steps": updates, "batch": batch}
        for seed in chosen:
            jobs += [(*place, times, resumable, CONTEXT | training | {"seed": seed})]
    n_long, chains = len(jobs), []
    for name, size in product(texts, move_sizes):
        text = saccade.corpus(name, n_vocab=size)
        c, condensation = chain_rates(text, phi_scale(MOVE_START[0], True))
        time = math.log(1 / MOVE_START[1]) * (1 / condensation + 1 / max(abs(c), 1e-12))
        lengths = int(min(move_steps[0], ENOUGH * time / move_lr)), move_steps[1]
        chains += [(text.frequencies[0], c, condensation)]
        place = name, {"n_vocab": size}, [0, 1], MOVE_START
        ways = zip(OPTIMISERS, (move_lr, ADAM_LR), lengths, strict=True)
        for (optimiser, rate, updates), seed in product(ways, range(move_seeds)):
            training = {"optimiser": optimiser, "lr": rate, "steps": updates, "batch": MOVE_BATCH}
            times = np.linspace(0, updates, 120)
            jobs += [(*place, times, resumable, CONTEXT | training | {"seed": seed})]
    lab.progress(0)
    runs = in_processes(cycle_run, jobs, lab.progress)

    answer, main = [], []
    for i, (name, text) in enumerate(corpora.items()):
        of_text = dict(zip(chosen, runs[i * len(chosen) :], strict=False))
        share, words = text.frequencies[0], [text.vocabulary[token] for token in probes[name]]
        found = [stages(run, share) for run in of_text.values()]
        joint = [one for one in found if one["focused"]]
        for stage, (title, bound) in STAGES.items():
            case = lab.case(text=name)
            if stage in ("probe", "itself"):
                case = case.but(probe=" ".join(words))
            if stage in ("condensation", "probe"):
                case = case.after_trial_runs
            asked = [one[stage] for one in (joint if stage in AFTER_FOCUS else found)]
            # three sizes of each text are judged by their intervals
            claim = every_run(case, CYCLE_ON_TEXT, title, asked, bound, among=3 * len(texts))
            main += [claim] if stage in ("focused", *AFTER_FOCUS) else []
        diluted = sum(one["dilution"] >= 1 for one in joint)
        answer += [f"on {name} in {len(joint)} of {len(found)} runs, of which {diluted} dilute"]
        for seed, run in of_text.items():
            for curve in CURVES:
                lab.keep(curve, run[curve], text=name, seed=seed)
        queries = [text.vocabulary[token] for token in spread_ranks(text.n_vocab)]
        lab.keep("query_word", queries, "query", text=name)
        lab.keep("probe_word", words, "probe_query", text=name)
        lab.draw(*curve_panels(text, of_text, queries))
        first, size = of_text[chosen[0]], (words, words, (0, 1))
        maps = {
            f"{name}: {moment}, step {first.step.values[look]:.0f}": first.probe_attention[look]
            for moment, look in probe_looks(first).items()
        }
        lab.draw(*[Heat(title, "attended word", "query", at, *size) for title, at in maps.items()])

    shares, c, condensation = np.reshape(chains, (len(texts), len(move_sizes), 3)).T
    of_runs = zip(runs[n_long:], np.repeat(shares.T, 2 * move_seeds), strict=True)
    moves = np.reshape(
        [first_side(run, share, move_lr) for run, share in of_runs],
        (len(texts), len(move_sizes), 2, move_seeds, 2),
    )
    axes = {"text": list(texts), "size": list(move_sizes), "optimiser": list(OPTIMISERS)}
    axes |= {"start": list(range(move_seeds))}
    named = {
        "side": ([*axes], moves[..., 0]),
        "impulse": ([*axes], moves[..., 1]),
        "focus_rate": (["size", "text"], c),
        "condensation_rate": (["size", "text"], condensation),
    }
    move = xr.Dataset(named, axes)
    for name, about in MOVES.items():
        lab.keep(name, move[name], about=about)
    sgd, adam = move.sel(optimiser="sgd"), move.sel(optimiser="adam")
    slow, sign = abs(move.focus_rate) < move.condensation_rate, np.sign(move.focus_rate)
    lab.number("share of texts and vocabularies with c < 0", (sign < 0).mean())
    plain, by_adam = lab.case(optimiser="plain descent"), lab.case(optimiser="Adam")
    title = "attention first moves to the side of c"
    slower = plain.but([met(SLOWER, True)], runs=SLOWER)
    others = plain.but([met(SLOWER, False)], runs="the others")
    rule = agreeing(slower, SIGN_RULE, title, sgd.side.where(slow), sign)
    agreeing(others, SIGN_RULE, title, sgd.side.where(~slow), sign)
    agreeing(by_adam.breaking(met("plain descent", False)), SIGN_RULE, title, adam.side, sign)
    title = "attention first moves to the side of the integrated drive"
    agreeing(plain.after_trial_runs, DRIVE, title, sgd.side, np.sign(sgd.impulse))
    title = "attention first moves to the most frequent token"
    turned = agreeing(by_adam, ADAM_FOCUS, title, adam.side, 1.0)
    lab.draw(*[move_panel(move.sel(text=name)) for name in texts], caption=CAPTION)
    right, turns = (
        f"{claim.relation.among - np.nan_to_num(claim.measured):.0f} of {claim.relation.among}"
        for claim in (rule, turned)
    )
    return (
        f"{lab.yes_or_no(*main)}: all queries focus on one token together {'; '.join(answer)}. "
        f"Plain descent first moves attention to the side of c in {right} runs with slow "
        f"attention, and Adam to the most frequent token in {turns}."
    )


def stages(run: xr.Dataset, share: float) -> dict[str, Any]:
    """How far one run came in each stage; `share` is that of the most frequent token."""
    on, events = run.on_frequent.values, events_of(run)
    moved, focus = first_move(on - share), int(run.joint.values.argmax())
    opened = [event.time for event in events if event.name == "new_direction" and event.value == 2]
    probe = run.probe_attention.values
    return {
        "condensation": np.nan if moved is None else run["first"].values[moved],
        "focus": run.joint.values.max(),
        "focused": run.joint.values.max() >= FOCUSED,
        "dilution": float(np.mean(on[focus:].min(axis=0) < on[focus] / 2)),
        "direction": bool(opened) and opened[0] > run.step.values[focus],
        "again": any(event.name == "next_cycle" for event in events),
        "probe": probe.min(axis=1).max(),
        "itself": probe[-1, -1].argmax() == len(probe[-1]) - 1,
    }


def probe_looks(run: xr.Dataset) -> dict[str, int]:
    """When all probe words attend most to one word at once, and are most diluted after that."""
    probe = run.probe_attention.values
    focus = int(probe.min(axis=1).max(axis=1).argmax())
    spread = focus + int(entropy(probe[focus:]).mean(axis=1).argmax())
    return {"focus": focus, "dilution": spread, "end": len(probe) - 1}


def first_move(tilt: Array) -> int | None:
    """The first observation (look, query) at which any attention has visibly moved, or None."""
    moved = np.abs(tilt).max(axis=1) > VISIBLE
    return int(moved.argmax()) if moved.any() else None


def first_side(run: xr.Dataset, share: float, lr: float) -> tuple[float, float]:
    """To which side attention first moves, and the drive integrated until then; time is rate times
    updates.
    """
    tilt = run.on_frequent.values - share
    moved = first_move(tilt)
    end = len(tilt) if moved is None else moved + 1
    impulse = np.trapezoid(run.drive.values[:end], lr * run.step.values[:end])
    return math.nan if moved is None else float(np.sign(tilt[moved].mean())), float(impulse)


def chain_rates(text: Corpus, scale: float) -> tuple[float, float]:
    """Focus rate c and condensation rate mu0 of the text's pairs, all tokens told apart."""
    pairs = text.bigrams.toarray().astype(float)
    known = pairs.sum(axis=1) > 0
    pairs = pairs[np.ix_(known, known)]
    law, table = pairs.sum(axis=1) / pairs.sum(), pairs / pairs.sum(axis=1, keepdims=True)
    rate = theory.focus_rate(stationary=law, transition=table, phi_scale=scale)
    return rate, theory.condensation_rate(stationary=law)


def agreeing(case: Case, statement: Statement, title: str, side: Any, wanted: Any) -> Claim:
    """Of the runs whose attention moved, nine in ten went to the wanted side.

    Where two seeds part in more than a tenth of the chains, what most runs do is inconclusive.
    """
    n_moved, wrong = int(side.notnull().sum()), (side != wanted) & side.notnull()

    def alike(one: Array, other: Array) -> float:
        both = np.isfinite(one) & np.isfinite(other)
        return float((one == other)[both].mean()) if both.any() else np.nan

    same, more = agreement(side.transpose("start", ...), alike), "windows a step"
    case = case.under(Ceiling("two seeds on the same side", same, more, 0.5, not same >= 0.9))
    return case.none(statement, title, int(wrong.sum()), among=n_moved, allowed=n_moved // 10)


def curve_panels(text: Corpus, runs: dict[int, xr.Dataset], queries: Sequence[str]) -> list[Lines]:
    """Attention and directions of the first run, then all seeds."""
    run = next(iter(runs.values())).isel(look=slice(1, None))
    steps: Any = [run.step] * len(queries)
    spread, norm = run.entropy.mean("query"), run.query_norm
    ratios = {
        "share of the embedding's first direction": run["first"],
        "second singular value / first": run.second,
        "entropy of attention / its largest": spread / spread.max(),
        "|W_Q| / its largest": norm / norm.max(),
    }
    lines = []
    for tone, (seed, other) in enumerate(runs.items()):
        later = other.isel(look=slice(1, None))
        lines += [Line(later.step, later.joint, f"joint focus, seed {seed}", tone=tone)]
        lines += [Line(later.step, later.second, "", DASHES, tone)]
    share = {"x": "updates", "log": "x", "ylim": (0, 1.03)}
    return [
        Lines(
            f"{text.name}: focus, then dilution",
            y=f"attention on {text.vocabulary[0]!r}",
            lines=family(steps, run.on_frequent.values.T, queries),
            levels={text.frequencies[0]: "its share"},
            **share,
        ),
        Lines(
            "directions, entropy and size",
            y="share or ratio",
            lines=[Line(run.step, curve, label) for label, curve in ratios.items()],
            **share,
        ),
        Lines("all seeds", y="least attention; s2 / s1 dashed", lines=lines, **share),
    ]


def move_panel(at: xr.Dataset) -> Lines:
    """Where attention went in each run, and the side of c; rings where the sign rule applies."""
    sizes, n_seeds = at["size"].values, at.sizes["start"]
    lines = []
    for label, optimiser, shift in (("plain descent", "sgd", 0.9), ("Adam", "adam", 1.1)):
        places = sizes[:, None] * shift * 1.08 ** np.arange(n_seeds)
        side = at.side.sel(optimiser=optimiser).fillna(0).transpose("size", "start")
        lines += [Line(places.ravel(), side.values.ravel(), label, POINTS)]
    sign, slow = np.sign(at.focus_rate), abs(at.focus_rate) < at.condensation_rate
    lines += [Line(sizes, sign, "sign of c", DOTS, None)]
    lines += [Line(sizes, sign.where(slow), "slow attention: the rule applies", RINGS, None)]
    levels = {1.0: "to the frequent token", 0.0: "did not move", -1.0: "away from it"}
    title, x = f"{at.text.item()}: the first move", "vocabulary (tokens)"
    return Lines(title, x, "side", lines, "x", ylim=(-1.3, 1.3), levels=levels)
