"""One epoch of text at the published settings: of Fig. 3's four phases the first two appear, and on
WikiText-2 with another word.

The model of [chen2026] with Adam at 1.5e-4, width 256, entries from N(0, 1/m²), scores not scaled,
one pass over WikiText-2 and TinyStories as words and as byte pairs. Batch, windows and vocabulary,
which the paper does not give, are varied; an epoch is as many windows as cover the text once. The
query of a probe, its last word, is *diluted* when no word has half of its attention, else on the
word that has. Fig. 3 says: diluted, on one frequent word (whitespace on WikiText-2), diluted, on
itself; the event detector finds the turns, where all words of the probe are tokens. Which claims
are expected to fail was set from the run itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
import xarray as xr
from scipy.special import softmax

from saccade.data.text.corpus import Corpus, corpus
from saccade.dynamics.randomness import checked_seeds
from saccade.dynamics.training import train_text
from saccade.dynamics.training_checkpoints import resumed_from
from saccade.errors import InputError
from saccade.experiments.real_text.every_run import every_run, of_every_run
from saccade.experiments.real_text.text_cycle_runs import (
    CycleMeasures,
    lacking,
    matrices,
    said,
    sought,
    spelt,
    spread_ranks,
)
from saccade.lab.case import Case
from saccade.lab.ceiling import EXACT_COUNT
from saccade.lab.claim import FAILS, HOLDS, PUBLISHED, Claim
from saccade.lab.panel import Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress, Variable, padded
from saccade.model.transformer import Transformer
from saccade.model.transformer_config import TransformerConfig
from saccade.observe.events import find_events
from saccade.processes import in_processes
from saccade.theory.focus_and_dilution.statements import FIG_3

HALF = 0.5  # of its attention: a word is on another
DILUTED = "diluted"
OWN = 0.75  # attention on itself that the paper highlights
# the words of Fig. 3 in its order; the last one is the query
PROBES = {
    "wikitext-2": ("the", ",", " ", "ter", "end", "continue"),
    "tinystories": ("the", ",", "a", "full", "been"),
}
N_LOOKS, N_QUERIES, N_SAMPLES, N_PROBE = 100, 8, 200, 6
STAGES = (
    "condensation",
    "focus_peak",
    "dilution",
    "new_direction",
    "next_cycle",
)  # as `find_events` names them
_LOOK = "text reading seed look"
VARIABLES = {
    "step": Variable(_LOOK, "updates", "when the run was looked at"),
    "loss": Variable(
        _LOOK, "nats", "cross-entropy of the next token, of the batch about to be learned from"
    ),
    "on_frequent": Variable(
        f"{_LOOK} query",
        "1",
        "attention of each query on the most frequent token, of an endless context",
    ),
    "second": Variable(_LOOK, "1", "second singular value of the embedding over the first"),
    "probe_attention": Variable(
        f"{_LOOK} probe_query probe_key",
        "1",
        "attention among the probe words that are tokens, once each",
    ),
    "probe_norm": Variable(
        f"{_LOOK} probe_query", "1", "length of each probe word's embedding; NaN: not a token"
    ),
    "own": Variable(
        _LOOK,
        "1",
        "share of the last tokens of windows of the text that give themselves over 0.75 of their attention",
    ),
    "stage_time": Variable(
        "text reading seed stage", "updates", "when the event detector finds each stage; NaN: not"
    ),
    "probe_word": Variable(
        "text probe_query",
        "",
        "words of the probe in the paper's order, the query last; empty: no more",
    ),
    "probe_token": Variable(
        "text reading probe_query",
        "",
        "how the vocabulary spells each; empty: it has no such token",
    ),
    "updates": Variable("text reading", "updates", "in one epoch"),
}


class Reading(NamedTuple):
    """What the paper leaves open."""

    tokenizer: str = "word"
    n_vocab: int = 2000
    batch: int = 100
    context: int = 20

    @property
    def vocabulary(self) -> str:
        return f"{self.n_vocab} {'byte pairs' if self.tokenizer == 'bpe' else 'words'}"

    def __str__(self) -> str:
        return f"{self.vocabulary}, batch {self.batch}, windows of {self.context}"


WORDS = Reading()
BYTE_PAIRS = Reading(
    tokenizer="bpe", n_vocab=4000
)  # of WikiText-2, the fewest thousands with all words of the probe
READ_AS = {
    "wikitext-2": BYTE_PAIRS
}  # tokens that have all words of its probe; of other texts words have


def readings_of(text: str) -> dict[str, Reading]:
    varied = READ_AS.get(text, WORDS)
    return {
        "words": WORDS,
        "byte pairs": BYTE_PAIRS,
        "smaller batch": varied._replace(batch=25),
        "longer windows": varied._replace(context=64, batch=32),
        "other vocabulary": varied._replace(n_vocab=8000 if varied is BYTE_PAIRS else 200),
    }


READINGS = tuple(readings_of(""))


@dataclass(frozen=True)
class Settings:
    texts: tuple[str, ...] = ("wikitext-2", "tinystories")
    """corpora: names or paths"""
    width: int = 256
    """width of the embedding, and of queries and keys"""
    lr: float = 1.5e-4
    """learning rate of Adam"""
    epochs: float = 1.0
    """passes over the text"""
    seeds: int | tuple[int, ...] = 2
    """number of runs of each text and reading (seeds 0, 1, 2, ...), or a list of seeds"""
    resumable: bool = False
    """whether a stopped run resumes from its last checkpoint, kept in the user's cache folder"""


def measure(settings: Settings, on_progress: Progress) -> Measured:
    seeds = checked_seeds(settings.seeds)
    words = {text: _probe_of(text) for text in settings.texts}
    read = {
        (text, name): reading
        for text in settings.texts
        for name, reading in readings_of(text).items()
    }
    tokens = {
        (text, name): _spelling(text, reading, words[text])
        for (text, name), reading in read.items()
    }
    jobs = [
        (settings, key[0], reading, seed, tokens[key])
        for key, reading in read.items()
        for seed in seeds
    ]
    found = in_processes(_run, jobs, on_progress)
    shape = (len(settings.texts), len(READINGS), len(seeds))
    values: dict[str, Any] = {}
    for name, variable in VARIABLES.items():
        if variable.axes.startswith(_LOOK) or name == "stage_time":
            whole = padded([run[name] for run in found])
            values[name] = whole.reshape(*shape, *whole.shape[1:])
    values |= {
        "probe_word": [_lengthened(probe) for probe in words.values()],
        "probe_token": np.reshape(
            [_lengthened(spelling) for spelling in tokens.values()], (*shape[:2], N_PROBE)
        ),
        "updates": np.reshape([run["updates"] for run in found[:: len(seeds)]], shape[:2]),
    }
    missing = dict.fromkeys(
        lacking(f"{text}, {reading.vocabulary}", words[text], tokens[text, name])
        for (text, name), reading in read.items()
    )
    coords = {
        "text": list(settings.texts),
        "reading": list(READINGS),
        "seed": seeds,
        "stage": list(STAGES),
    }
    return Measured(values, coords, {"left_out": json.dumps(list(filter(None, missing)))})


def _corpus(name: str, reading: Reading) -> Corpus:
    return corpus(name, tokenizer=reading.tokenizer, n_vocab=reading.n_vocab)


def _probe_of(name: str) -> tuple[str, ...]:
    """The published probe; for other texts words evenly spaced in the logarithm of their rank."""
    if name in PROBES:
        return PROBES[name]
    words = _corpus(name, WORDS)
    return tuple(words.vocabulary[rank] for rank in spread_ranks(words.n_vocab, N_PROBE))


def _spelling(name: str, reading: Reading, words: Sequence[str]) -> list[str]:
    tokens = spelt(_corpus(name, reading), words)
    if not any(tokens):
        raise InputError(
            f"{name}: no word of the probe ({', '.join(words)}) is one of {reading.vocabulary}; give another text."
        )
    return tokens


def _lengthened(words: Sequence[str]) -> list[str]:
    return [*words, *[""] * (N_PROBE - len(words))]


@dataclass(frozen=True)
class PublishedMeasures(CycleMeasures):
    """What `text-cycle` sees, and how far tokens of real windows attend to themselves."""

    windows: Any = None  # sample, position

    def __call__(self, model: Transformer, step: int) -> dict[str, Any]:
        seen = super().__call__(model, step)
        last = self.windows[:, -1]
        embedding = matrices(model)[0].detach()
        scores = torch.einsum(
            "wd,wjd->wj", sought(model, last).to(embedding), embedding[self.windows]
        ).double()
        own = (softmax(scores.numpy(), axis=1) * (self.windows == last[:, None])).sum(axis=1)
        norms = embedding[self.probe].double().norm(dim=1).numpy()
        return seen | {"own": float((own > OWN).mean()), "probe_norm": ("probe_query", norms)}


def _run(
    settings: Settings, name: str, reading: Reading, seed: int, tokens: Sequence[str]
) -> dict[str, Any]:
    text = _corpus(name, reading)
    places = [place for place, token in enumerate(tokens) if token]
    probe = np.array([text.id_of(tokens[place]) for place in places], np.intp)
    updates = max(1, int(settings.epochs * len(text.train) / (reading.batch * reading.context)))
    starts = np.random.default_rng(0).integers(len(text.valid) - reading.context, size=N_SAMPLES)
    windows = text.valid[starts[:, None] + np.arange(reading.context)].astype(np.intp)
    queries = spread_ranks(text.n_vocab, N_QUERIES)
    measures = PublishedMeasures(
        text.frequencies, text.bigrams / text.bigrams.sum(), queries, probe, windows
    )
    record = train_text(
        text,
        model=TransformerConfig.focus_and_dilution(
            text.n_vocab, settings.width, 1 / settings.width, False
        ),
        steps=updates,
        batch=reading.batch,
        context=reading.context,
        optimiser="adam",
        lr=settings.lr,
        loss="last",
        seed=seed,
        every=sorted({0, *np.geomspace(1, updates, N_LOOKS).round().astype(int).tolist()}),
        measures=measures,
        watch=False,
        evaluate=0,
        checkpoints=resumed_from(
            settings.resumable, settings.width, settings.lr, updates, name, reading, seed
        ),
    )
    values = record.singular_values.values
    events = find_events(
        record.time.values,
        attention_on_frequent=record.on_frequent.values,
        embedding_singular_values=values,
        query_norm=record.query_norm.values,
        loss=record.loss.values,
    )
    return {
        "step": record.time.values.astype(float),
        "second": values[:, 1] / values[:, 0],
        **{key: record[key].values for key in ("loss", "on_frequent", "own")},
        "probe_norm": _placed(record.probe_norm.values, places),
        "probe_attention": _placed(record.probe_attention.values, places),
        "stage_time": [
            min((event.time for event in events if event.name == stage), default=np.nan)
            for stage in STAGES
        ],
        "updates": updates,
    }


def _placed(values: Any, places: Sequence[int]) -> Any:
    """Values of the words that are tokens (look, word, ...) at their places in the probe; NaN
    elsewhere.
    """
    n_axes = values.ndim - 1
    whole: Any = np.full((len(values), *[N_PROBE] * n_axes), np.nan)
    whole[:, *np.ix_(*[places] * n_axes)] = values
    return whole


def seen_phases(step: Any, attention: Any, own: int, named: int | None = None) -> int:
    """How many of Fig. 3's phases one word of the probe goes through in their order, attention
    (look, key): diluted, on another word (that at place `named`, if the paper names it), diluted
    again, on itself. Turns of its largest attention are those that the event detector finds.
    """
    largest, on = attention.max(axis=1), attention.argmax(axis=1)
    looked_away = (largest >= HALF) & ((on != own) if named is None else (on == named))
    if largest[0] >= HALF or not looked_away.any():
        return int(largest[0] < HALF)
    events = find_events(step, attention_on_frequent=largest[:, None])
    focused = set(step[looked_away])
    peaks = [event.time for event in events if event.name == "focus_peak" and event.time in focused]
    dips = [
        event
        for event in events
        if event.name == "dilution" and event.value < HALF and peaks and event.time > peaks[0]
    ]
    return 2 + bool(dips) + (bool(dips) and largest[-1] >= HALF and on[-1] == own)


def looked_at(attention: Any, words: Sequence[str]) -> list[str]:
    """What one word looks at, attention (look, key), one state after the other: `diluted`, or a
    word.
    """
    most, on = attention.max(axis=1), attention.argmax(axis=1)
    states = [
        said(words[key]) if share >= HALF else DILUTED for share, key in zip(most, on, strict=True)
    ]
    return [state for state, _ in groupby(states)]


def _query(run: xr.Dataset) -> tuple[Any, int]:
    """Attention of the probe's last word in one run (look, key) on those that are tokens, and its
    own place among them.
    """
    known = run.probe_token.values != ""
    looks = np.isfinite(run.step.values)
    return run.probe_attention.values[looks][:, np.flatnonzero(known)[-1], known], int(
        known.sum()
    ) - 1


def _whole(record: xr.Dataset, text: str) -> list[str]:
    """Readings whose vocabulary has every word of the probe."""
    words, tokens = (
        record.probe_word.sel(text=text).values,
        record.probe_token.sel(text=text).values,
    )
    complete = ((tokens != "") == (words != "")).all(axis=1)
    return [str(reading) for reading in record.reading.values[complete]]


def claims(record: xr.Dataset) -> Iterator[Claim]:
    """Words of the probe are asked of every vocabulary, joint focus and the words of each phase of
    every reading, yes or no of all runs of all readings together; sizes of the reading of each text
    that shows most of it. What concerns the probe is asked only of readings that have all of its
    words.
    """
    published = [EXPERIMENT.as_published(record, "seeds", "texts", "resumable")]
    for text in map(str, record.text.values):
        case = Case({"text": text}, published, PUBLISHED)
        found = {name: _shown(record, text, name) for name in READINGS}
        whole = _whole(record, text)
        yield from _vocabularies(record, text, case)
        yield from _of_each_reading(record, text, case, found)
        for what, (title, bound) in IN_EVERY_RUN.items():
            among = whole if what in OF_THE_PROBE else list(found)
            values = np.array([found[name][what] for name in among])  # reading, seed
            expected = HOLDS if what in SEEN else FAILS
            if not np.isnan(values).any():
                every = _every_seed(case.but(of=f"all {len(among)} readings"), (values >= bound).T)
                yield every.none(FIG_3, title, values < bound, expected=expected)
        for what, (title, least) in AT_BEST.items():
            among = whole if what in OF_THE_PROBE else list(found)
            best = max(among, key=lambda name: np.mean(found[name][what]))
            best_of = case.but(
                **{"best of": f"{len(among)} readings", "reading": _reading(record, text, best)}
            )
            expected = HOLDS if what in SEEN else FAILS
            yield every_run(best_of, FIG_3, title, found[best][what], least, expected=expected)


def _reading(record: xr.Dataset, text: str, name: str) -> str:
    """A reading with its updates in one epoch: `4000 byte pairs, batch 100, windows of 20, 1554
    updates`.
    """
    return f"{readings_of(text)[name]}, {int(record.updates.sel(text=text, reading=name))} updates"


def _vocabularies(record: xr.Dataset, text: str, case: Case) -> Iterator[Claim]:
    """Which vocabularies can be the paper's: those that have the words of its probe."""
    asked = record.probe_word.sel(text=text).values != ""
    for vocabulary, name in {
        reading.vocabulary: name for name, reading in readings_of(text).items()
    }.items():
        missing = record.probe_token.sel(text=text, reading=name).values[asked] == ""
        expected = FAILS if (text, vocabulary) in LACKING else HOLDS
        of_one = case.but(vocabulary=vocabulary).under(EXACT_COUNT)
        yield of_one.none(FIG_3, "every word of the probe is a token", missing, expected=expected)


def _of_each_reading(record: xr.Dataset, text: str, case: Case, found: Any) -> Iterator[Claim]:
    """Joint focus, and the phases; the words that were seen instead are in the sentence, so that no
    label depends on a run.
    """
    for name, reading in readings_of(text).items():
        read = case.but(reading=_reading(record, text, name))
        expected = FAILS if reading.tokenizer == "bpe" else HOLDS
        yield every_run(read, FIG_3, FOCUS, found[name]["focus"], 0.9, expected=expected)
    for name in _whole(record, text):
        seen = "; ".join(dict.fromkeys(" → ".join(states) for states in found[name]["seen"]))
        kept = found[name]["phases"] >= 3
        read = _every_seed(case.but(reading=_reading(record, text, name)), kept)
        told = f"Does the query of the probe go through the first three published phases? Seen: {seen}."
        yield read.none(FIG_3, THREE, ~kept, sentence=told, expected=FAILS)


def _every_seed(case: Case, kept: Any) -> Case:
    """With how far seeds agree on what is `kept` (seed, ...)."""
    return case.under(of_every_run(kept))


FOCUS = "largest attention that all queries give the most frequent token at once"
THREE = "the query of the probe goes through the first three of the published phases, in every run"
OF_THE_PROBE = ("turns", "first", "ever", "phases", "shrink")
IN_EVERY_RUN = {  # title, at least
    "turns": ("the query of the probe turns from all words to one other, in every run", 2),
    "first": (
        "the first word that the query of the probe turns to is the published one, whitespace, in every run",
        1,
    ),
    "ever": (
        "the query of the probe gives whitespace half of its attention at some time, in every run",
        1,
    ),
    "phases": ("the query of the probe goes through the published four phases, in every run", 4),
    "condensed": ("the event detector finds condensation, in every run", 1),
    "cycle": (
        "the event detector finds focus, dilution and a new direction, in this order, in every run",
        3,
    ),
}
AT_BEST = {  # title, at least
    "shrink": ("every probe word but the longest gets shorter by a tenth, in every run", 1),
    "direction": ("second singular value of the embedding over the first, at the end", 0.1),
    "own": ("share of last tokens with over 0.75 on themselves, at the end", 0.5),
}
# by the run that set what is expected
LACKING = {("wikitext-2", "2000 words"), ("tinystories", "200 words")}
SEEN = ("turns", "direction")
CYCLE = ["focus_peak", "dilution", "new_direction"]


def _shown(record: xr.Dataset, text: str, reading: str) -> dict[str, Any]:
    """What each seed shows of what is asked. The word of phase two is asked for where the paper
    names it: whitespace.
    """
    run = record.sel(text=text, reading=reading)
    end = run.isel(look=_last(run))
    words = [str(word) for word in run.probe_word.values[run.probe_token.values != ""]]
    named = words.index(" ") if " " in words else None
    queries = [
        (run.sel(seed=seed).step.values, *_query(run.sel(seed=seed))) for seed in record.seed.values
    ]
    seen = [looked_at(looks, words) for _, looks, _ in queries]
    on_words = [[state for state in states if state != DILUTED] for states in seen]
    whitespace = said(" ")
    return {
        "focus": run.on_frequent.min("query").max("look").values,
        "turns": np.array(
            [seen_phases(step[: len(looks)], looks, own) for step, looks, own in queries]
        ),
        "phases": np.array(
            [seen_phases(step[: len(looks)], looks, own, named) for step, looks, own in queries]
        ),
        "seen": seen,
        "first": np.array(
            [np.nan if named is None else whitespace in states[:1] for states in on_words]
        ),
        "ever": np.array(
            [np.nan if named is None else whitespace in states for states in on_words]
        ),
        "condensed": np.isfinite(run.stage_time.sel(stage="condensation").values).astype(float),
        "cycle": np.array([_in_order(times) for times in run.stage_time.sel(stage=CYCLE).values]),
        "shrink": np.array(
            [shrinking(run.sel(seed=seed).probe_norm.values) for seed in record.seed.values]
        ),
        "direction": end.second.values,
        "own": end.own.values,
    }


def _in_order(times: Any) -> int:
    """How many of the stages come, each after those before it."""
    n_seen = 0
    while n_seen < len(times) and times[n_seen] > max([0.0, *times[:n_seen]]):
        n_seen += 1
    return n_seen


def shrinking(norms: Any) -> float:
    """Share of words whose embedding (look, word) loses a tenth of an earlier length; not asked of
    the one longest at the end.
    """
    known = norms[np.isfinite(norms).any(axis=1)]
    known = known[:, np.isfinite(known).all(axis=0)]
    lost = (known < 0.9 * np.maximum.accumulate(known, axis=0)).any(axis=0)
    return float(np.delete(lost, known[-1].argmax()).mean())


def _last(run: xr.Dataset) -> int:
    return int(np.isfinite(run.step.values).all(axis=0).sum()) - 1


def panels(record: xr.Dataset) -> Layout:
    return [_row(record, text) for text in map(str, record.text.values)]


def _row(record: xr.Dataset, text: str) -> list[Lines]:
    """The probe is drawn in the first reading that has all of its words."""
    reading = _whole(record, text)[0]
    run = record.sel(text=text, reading=reading).isel(seed=0)
    words = [said(str(word)) for word in run.probe_word.values if word]
    attention, own = _query(run)
    steps = run.step.values[: len(attention)]
    shades = [place / max(1, len(words) - 1) for place in range(len(words))]
    readings = [
        Line(
            record.step.sel(text=text, reading=name).isel(seed=0),
            record.on_frequent.sel(text=text, reading=name).isel(seed=0).min("query"),
            name,
            tone=place,
        )
        for place, name in enumerate(map(str, record.reading.values))
    ]
    on_itself = [
        line._replace(y=record.own.sel(text=text, reading=line.label).isel(seed=0))
        for line in readings
    ]
    return [
        Lines(
            f"{text}, {reading}: attention of “{words[own]}”",
            "updates",
            "attention on",
            [Line(steps, attention[:, k], words[k], tone=shades[k]) for k in range(len(words))],
            "x",
            levels={HALF: ""},
        ),
        Lines(
            "size of embeddings",
            "updates",
            "norm",
            [
                Line(run.step, run.probe_norm[:, k], words[k], tone=shades[k])
                for k in range(len(words))
            ],
            "x",
        ),
        Lines(
            "joint focus, by reading",
            "updates",
            "least attention of any query",
            readings,
            "x",
            ylim=(0, 1.02),
        ),
        Lines(
            "tokens that attend to themselves",
            "updates",
            "share of last tokens above 0.75",
            on_itself,
            "x",
            ylim=(0, None),
        ),
    ]


EXPERIMENT = Experiment(
    "text-cycle-published",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "One epoch at the published settings, text by text. First, attention of the probe's last word among its words, in the "
        "first reading that has them all as tokens; then lengths of their embeddings; then, for each reading of what the paper "
        "leaves open, the attention that all queries give the most frequent token at once, and the share of tokens at the end of "
        "a window with over 0.75 on themselves. The last three readings are of byte pairs on WikiText-2, of words on TinyStories."
    ),
    question="Does a Transformer on text condense, focus, dilute and find new directions?",
    finding=(
        "at the published settings, whatever the batch, windows and vocabulary, the last word of the paper's probe turns from all "
        "words to one other in {*turns from all*wikitext-2*:count} runs on WikiText-2 and {*turns from all*tinystories*:count} on "
        "TinyStories, and goes through the four published phases in {*four phases*wikitext-2*:count} and {*four "
        "phases*tinystories*:count}"
    ),
    caveat=(
        "What the paper does not give: batch size, window length and vocabulary, all varied here, and what an epoch is. Here it is "
        "as many windows as cover the text once, drawn anywhere in it, each teaching its last token only: 1,000 to 6,200 updates, "
        "named in each claim. More epochs, or a loss at every position, may give other phases."
    ),
    full=Settings(seeds=10, resumable=True),
    variables=VARIABLES,
    dynamics="A: mini-batch training, one-layer model with embeddings",
    time_unit="updates",
)
