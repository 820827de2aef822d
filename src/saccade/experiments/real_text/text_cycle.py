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
from collections.abc import Mapping
from functools import partial
from typing import Annotated as A
from typing import Any

import numpy as np
import xarray as xr

import saccade
from saccade.data.text.corpus import Corpus
from saccade.data.text.library_tokenisers import UNKNOWN
from saccade.engines.randomness import checked_seeds
from saccade.errors import InputError
from saccade.experiments.real_text.every_run import every_run
from saccade.experiments.real_text.text_cycle_runs import (
    Array,
    cycle_run,
    events_of,
    lacking,
    phi_scale,
    spelt,
    spread_words,
)
from saccade.lab.case import Case
from saccade.lab.ceiling import Ceiling
from saccade.lab.experiment import Lab, experiment
from saccade.lab.settings import Range
from saccade.measures.fits import agreement
from saccade.measures.turning_points import VISIBLE
from saccade.panels import DASHES, DOTS, POINTS, RINGS, Line, Lines, family
from saccade.theories import focus_and_dilution as theory
from saccade.theories.condition import met
from saccade.theories.focus_and_dilution.statements import ADAM_FOCUS, DRIVE, SIGN_RULE
from saccade.theories.questions import CYCLE_ON_TEXT
from saccade.theories.statement import Statement

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
MOVE_START, MOVE_BATCH, ADAM_LR = (16, *USUAL_START), 128, 1e-3  # in the runs of the first move
MOVES = {
    "side": "+1: attention first moves to the most frequent token, -1: away from it; NaN: neither",
    "impulse": "integral of the drive until attention moves, under plain descent",
    "focus_rate": "c of the text's pairs, at the unigram point, per time",
    "condensation_rate": "mu0 of the text's frequencies, per time",
}
ENOUGH = 1.5  # times as long as the linear stages take from the start to weights of size one
SLOWER = "attention slower than condensation"
LIMITS = (0, 1.03)
CAPTION = (
    "A row for each text. First, attention of queries, dark for rare ones, on the most frequent "
    "token in an endless context, first seed: look for all of them going to it, then parting. "
    "Then the least attention of any query on that token, and dashed the second singular value of "
    "the embedding over the first: look whether seeds do the same at the same time. Last row: the "
    "side of the first move, a point for each run. Plain descent should follow the dotted sign of "
    "c where it has a ring; elsewhere attention is faster than condensation."
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
            f"`n_vocabs`, `rates` and `steps` must have an entry for each of {len(texts)} texts."
        )
    chosen, parts = checked_seeds(seeds), lab.each(("first move", "stages"))
    next(parts)
    moves = partial(first_move_run, lr=move_lr, steps=move_steps, resumable=resumable)
    starts = range(move_seeds)
    move = lab.grid(moves, text=texts, size=move_sizes, optimiser=("sgd", "adam"), start=starts)
    next(parts)
    plans = dict(zip(texts, zip(n_vocabs, rates, steps, strict=True), strict=True))
    runs = partial(
        stages_run, plans, d_model=d_model, batch=batch, n_looks=looks, resumable=resumable
    )
    found = lab.grid(runs, text=texts, seed=chosen)

    answer, main = [], []
    for name in texts:
        at = found.sel(text=name)
        words = [str(word) for word in at.probe_word.values[0] if word]
        if left_out := str(at.lacking.values[0]):
            lab.leave_out(left_out)
        joint = at.focus.values >= FOCUSED
        for stage, (title, bound) in STAGES.items():
            case = lab.case(text=name)
            if stage in ("probe", "itself"):
                case = case.but(probe=" ".join(words))
            if stage in ("condensation", "probe"):
                case = case.after_trial_runs
            asked = at[stage].values[joint] if stage in AFTER_FOCUS else at[stage].values
            # three sizes of each text are judged by their intervals
            claim = every_run(case, CYCLE_ON_TEXT, title, asked, bound, among=3 * len(texts))
            main += [claim] if stage in ("focused", *AFTER_FOCUS) else []
        diluted = np.sum(at.dilution.values[joint] >= 1)
        answer += [f"on {name} in {joint.sum()} of {len(joint)} runs, of which {diluted} dilute"]
        first, lines = at.isel(seed=0), []
        for tone, seed in enumerate(chosen):
            run = at.sel(seed=seed)
            lines += [Line(run.step, run.joint, f"joint focus, seed {seed}", tone=tone)]
            lines += [Line(run.step, run.second, "", DASHES, tone)]
        queries = [str(word) for word in first.query_word.values if word]
        curves = family([first.step] * len(queries), first.on_frequent.values.T, queries)
        title, y = f"{name}: focus, then dilution", f"attention on {queries[0]!r}"
        share = {first.share.item(): "its share"}
        lab.draw(
            Lines(title, "updates", y, curves, "x", ylim=LIMITS, levels=share),
            Lines("all seeds", "updates", "least attention; s2 / s1", lines, "x", ylim=LIMITS),
        )

    sgd, adam = move.sel(optimiser="sgd"), move.sel(optimiser="adam")
    slow, sign = abs(sgd.focus_rate) < sgd.condensation_rate, np.sign(sgd.focus_rate)
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
    return (
        f"{lab.yes_or_no(*main)}: all queries focus on one token together {'; '.join(answer)}. "
        f"Plain descent first moves attention to the side of c in {rule} runs with slow "
        f"attention, and Adam to the most frequent token in {turned}."
    )


def stages_run(
    plans: Mapping[str, tuple[int, float, int]],
    text: str,
    seed: int,
    *,
    d_model: int,
    batch: int,
    n_looks: int,
    resumable: bool,
) -> xr.Dataset:
    """A long run under Adam, and how far it came in each stage."""
    n_vocab, lr, steps = plans[text]
    corpus = saccade.corpus(text, n_vocab=n_vocab)
    tokens, share = corpus.vocabulary, corpus.frequencies[0]
    queries = spread_words(corpus)
    asked = PROBES.get(text, queries[::2])
    spelling = spelt(corpus, asked)
    known = sorted({corpus.id_of(token) for token in spelling if token})
    probe = known if len(known) > 1 else [0, 1]
    run = cycle_run(
        corpus,
        probe,
        (d_model, *STARTS.get(text, USUAL_START)),
        np.geomspace(1, steps, n_looks).round(),
        resumable,
        {"optimiser": "adam", "lr": lr, "steps": steps, "batch": batch, "seed": seed, **CONTEXT},
    )
    words = {"query_word": ("query", queries), "share": share}
    words["probe_word"] = "probe_query", [tokens[token] for token in probe]
    words["lacking"] = lacking(text, asked, spelling)
    return run.assign(words | stages(run, share))


def first_move_run(
    text: str,
    size: int,
    optimiser: str,
    start: int,
    *,
    lr: float,
    steps: tuple[int, int],
    resumable: bool,
) -> xr.Dataset:
    """To which side attention first moves, and what the chain and the drive say of it.

    Plain descent takes (1/mu0 + 1/|c|) ln(1/init_scale) in time for both linear stages, and runs
    half as long again; time is rate times updates.
    """
    corpus = saccade.corpus(text, n_vocab=size)
    width, scale, is_scaled = MOVE_START
    c, condensation = chain_rates(corpus, phi_scale(width, is_scaled))
    time = math.log(1 / scale) * (1 / condensation + 1 / max(abs(c), 1e-12))
    n = steps[1] if optimiser == "adam" else int(min(steps[0], ENOUGH * time / lr))
    rate = ADAM_LR if optimiser == "adam" else lr
    training = {"optimiser": optimiser, "lr": rate, "steps": n, "batch": MOVE_BATCH, "seed": start}
    looks = np.linspace(0, n, 120)
    run = cycle_run(corpus, [0, 1], MOVE_START, looks, resumable, CONTEXT | training)
    tilt = run.on_frequent.values - corpus.frequencies[0]
    moved = first_move(tilt)
    end = len(tilt) if moved is None else moved + 1
    found = {
        "side": math.nan if moved is None else np.sign(tilt[moved].mean()),
        "impulse": np.trapezoid(run.drive.values[:end], rate * run.step.values[:end]),
        "focus_rate": c,
        "condensation_rate": condensation,
    }
    return xr.Dataset({name: ((), found[name], {"definition": MOVES[name]}) for name in found})


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


def first_move(tilt: Array) -> int | None:
    """The first observation (look, query) at which any attention has visibly moved, or None."""
    moved = np.abs(tilt).max(axis=1) > VISIBLE
    return int(moved.argmax()) if moved.any() else None


def chain_rates(text: Corpus, scale: float) -> tuple[float, float]:
    """Focus rate c and condensation rate mu0 of the text's pairs, all tokens told apart."""
    pairs = text.bigrams.toarray().astype(float)
    known = pairs.sum(axis=1) > 0
    pairs = pairs[np.ix_(known, known)]
    law, table = pairs.sum(axis=1) / pairs.sum(), pairs / pairs.sum(axis=1, keepdims=True)
    rate = theory.focus_rate(stationary=law, transition=table, phi_scale=scale)
    return rate, theory.condensation_rate(stationary=law)


def agreeing(case: Case, statement: Statement, title: str, side: Any, wanted: Any) -> str:
    """Of the runs whose attention moved, nine in ten went to the wanted side; returns how many did.

    Where two seeds part in more than a tenth of the chains, what most runs do is inconclusive.
    """
    n_moved, wrong = int(side.notnull().sum()), (side != wanted) & side.notnull()
    n_wrong = int(wrong.sum())

    def alike(one: Array, other: Array) -> float:
        both = np.isfinite(one) & np.isfinite(other)
        return float((one == other)[both].mean()) if both.any() else np.nan

    same, more = agreement(side.transpose("start", ...), alike), "windows a step"
    case = case.under(Ceiling("two seeds on the same side", same, more, 0.5, not same >= 0.9))
    case.none(statement, title, n_wrong, among=n_moved, allowed=n_moved // 10)
    return f"{n_moved - n_wrong} of {n_moved}"


def move_panel(at: xr.Dataset) -> Lines:
    """Where attention went in each run, and the side of c; rings where the sign rule applies."""
    sizes, n_seeds = at["size"].values, at.sizes["start"]
    lines = []
    for label, optimiser, shift in (("plain descent", "sgd", 0.9), ("Adam", "adam", 1.1)):
        places = sizes[:, None] * shift * 1.08 ** np.arange(n_seeds)
        side = at.side.sel(optimiser=optimiser).fillna(0).transpose("size", "start")
        lines += [Line(places.ravel(), side.values.ravel(), label, POINTS)]
    chain = at.isel(optimiser=0, start=0)
    sign, slow = np.sign(chain.focus_rate), abs(chain.focus_rate) < chain.condensation_rate
    lines += [Line(sizes, sign, "sign of c", DOTS, None)]
    lines += [Line(sizes, sign.where(slow), "slow attention: the rule applies", RINGS, None)]
    levels = {1.0: "to the frequent token", 0.0: "did not move", -1.0: "away from it"}
    title, x = f"{at.text.item()}: the first move", "vocabulary (tokens)"
    return Lines(title, x, "side", lines, "x", ylim=(-1.3, 1.3), levels=levels)
