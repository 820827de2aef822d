"""The first force of a text does not tell what an ordinary Transformer attends to first.

The first force is a law of the model of Scan and Snap: tables of logits, plain descent, no noise.
Here it is asked about a Transformer of one layer with all its parts: embeddings, several heads, a
residual path, an MLP, learned positions, random starts, mini-batches and Adam. What is compared is
how much each frequent query has come to seek each token, mean over heads, since the start.
Ceilings: two seeds, and two halves of the text. Rival: how often the token stands before the query.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from scipy.stats import rankdata

from saccade.data.text.corpus import Corpus, corpus
from saccade.dynamics.randomness import checked_seeds
from saccade.dynamics.training import train_text
from saccade.experiments.real_text.every_run import CORRELATION, cut
from saccade.experiments.real_text.token_groups import frequent_queries
from saccade.experiments.real_text.token_runs import model_config
from saccade.experiments.real_text.token_scores import score_measure
from saccade.lab.ceiling import Ceiling
from saccade.lab.claim import CANNOT_TELL, FAILS, Case, Claim
from saccade.lab.panel import DASHES, DOTS, LINE, POINTS, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress, Variable
from saccade.observe.fits import agreement, interval, rank_correlation, simultaneous
from saccade.processes import in_processes
from saccade.theory import scan_and_snap as theory
from saccade.theory.questions import FORECAST_TRANSFORMER

Array = np.ndarray
HALVES = ("first half", "second half")


@dataclass(frozen=True)
class Settings:
    text: str = "wikitext-2"
    """corpus: a name or a path"""
    seeds: int | tuple[int, ...] = 3
    """number of seeds (0, 1, 2, ...) on each half of the text, or a list of seeds"""
    n_vocab: int = 500
    """vocabulary size; rarer words become one token"""
    window: int = 16
    """tokens before the query"""
    queries: int = 8
    """most frequent query tokens, which are scored"""
    least_count: int = 20
    """a token is scored if it occurs more often than this before the query"""
    n_windows: int = 40_000
    """windows that the first force is computed from"""
    n_heads: int = 4
    """heads of the Transformer"""
    batch: int = 256
    """windows per step, with a prediction for every token"""
    lr: float = 1e-3
    """rate of Adam"""
    steps: tuple[int, ...] = (10, 25, 50, 100, 200)
    """updates at which the Transformer is observed"""


@dataclass(frozen=True)
class Half:
    """Half of a text's tokens, in the same vocabulary: what training needs to know of it."""

    whole: Corpus
    number: int

    @property
    def train(self) -> Any:
        middle = len(self.whole.train) // 2
        return self.whole.train[middle:] if self.number else self.whole.train[:middle]

    @property
    def valid(self) -> Any:
        return self.whole.valid

    @property
    def n_vocab(self) -> int:
        return self.whole.n_vocab

    @property
    def name(self) -> str:
        return f"{self.whole.name}-{HALVES[self.number]}"

    @property
    def hash(self) -> str:
        return f"{self.whole.hash}-{self.number}"


def measure(settings: Settings, on_progress: Progress) -> Measured:
    text, seeds = corpus(settings.text, n_vocab=settings.n_vocab), checked_seeds(settings.seeds)
    queries = frequent_queries(text, settings.queries)
    windows = text.windows(settings.window, n_windows=settings.n_windows)
    force = theory.first_force(windows.counts, windows.query, windows.next_token).force[queries]
    jobs = [(run, settings, half, seed) for half in range(len(HALVES)) for seed in seeds]
    found = np.stack(in_processes(operator.call, jobs, on_progress)).reshape(
        len(HALVES), len(seeds), -1, *force.shape
    )
    values = {
        "score": found,
        "force": force,
        "token_count": np.stack([windows.token_count(query) for query in queries]),
    }
    names = [text.vocabulary[query] for query in queries]
    coords = {
        "half": list(HALVES),
        "seed": seeds,
        "time": list(settings.steps),
        "query": names,
        "token": list(text.vocabulary),
    }
    return Measured(values, coords)


def run(settings: Settings, half: int, seed: int) -> Array:
    """Change of every score since the start (time, query, token)."""
    text = corpus(settings.text, n_vocab=settings.n_vocab)
    queries = frequent_queries(text, settings.queries)
    record = train_text(
        Half(text, half),
        model=model_config("ordinary", text.n_vocab, settings.window, n_heads=settings.n_heads),
        steps=max(settings.steps),
        batch=settings.batch,
        context=settings.window + 1,
        optimiser="adam",
        lr=settings.lr,
        seed=seed,
        every=[0, *settings.steps],
        measures=score_measure(queries, settings.window),
        watch=False,
        evaluate=0,
    )
    score = record["token_score"].values
    return score[1:] - score[0]


def order(seen: Array, one: Any, other: Any) -> float:
    """Rank correlation over the tokens of each query that are seen often enough, mean over queries."""
    return float(
        np.mean(
            [rank_correlation(a[own], b[own]) for a, b, own in zip(one, other, seen, strict=True)]
        )
    )


class Scores:
    """By time: of a law against the runs of every seed, and of runs against each other."""

    def __init__(self, record: xr.Dataset, least_count: int) -> None:
        self.score = record.score.transpose("time", "half", "seed", "query", "token").values
        self.seen = record.token_count.values > least_count
        self.laws = {"first force": record.force.values, "frequency": record.token_count.values}

    def of(self, law: str) -> Array:
        """(time, seed): mean over the two halves of the text, whose runs share their start."""
        found = [
            [[order(self.seen, self.laws[law], run) for run in half] for half in at]
            for at in self.score
        ]
        return np.mean(found, axis=1)

    def two_seeds(self) -> Array:
        """(time): mean over halves."""
        score = partial(order, self.seen)
        return np.array([np.mean([agreement(half, score) for half in at]) for at in self.score])

    def two_halves(self) -> Array:
        """(time): runs on different halves and with different seeds."""
        pairs = [
            (i, j) for i in range(self.score.shape[2]) for j in range(self.score.shape[2]) if i != j
        ]
        return np.array(
            [
                np.mean([order(self.seen, at[0, i], at[1, j]) for i, j in pairs])
                if pairs
                else np.nan
                for at in self.score
            ]
        )


_ASKED = (25, 100, 200)
_HALF = 0.5


def claims(record: xr.Dataset) -> Iterator[Claim]:
    """At three looks, together: the whole interval over seeds is above chance, and above that of
    frequency. Set before any run.

    Then, at the last look, where runs agree well enough to decide: at least half of what two seeds
    agree on. Set after a trial with two seeds, which had shown that it would fail.
    """
    settings = EXPERIMENT.settings_of(record)
    scores, times = Scores(record, settings.least_count), record.time.values.tolist()
    asked = [step for step in _ASKED if step in times]
    force, frequency, seeds, halves = (
        scores.of("first force"),
        scores.of("frequency"),
        scores.two_seeds(),
        scores.two_halves(),
    )
    samples = {("chance", step): force[times.index(step)] for step in asked}
    samples |= {
        ("frequency", step): force[times.index(step)] - frequency[times.index(step)]
        for step in asked
    }
    intervals = simultaneous(samples)
    for (rival, step), uncut in intervals.items():
        found = cut(uncut, CORRELATION if rival == "chance" else (-2.0, 2.0))
        at = times.index(step)
        case = Case({"text": settings.text, "update": step}).under(
            Ceiling("two seeds", seeds[at], "seeds averaged"),
            Ceiling("two halves of the text", halves[at]),
        )
        title = "rank correlation of the first force with a Transformer" + (
            "" if rival == "chance" else ", above that of frequency"
        )
        yield case.at_least(
            FORECAST_TRANSFORMER, title, found, 0.0, strict=True, expected=CANNOT_TELL
        )
    case = Case({"text": settings.text, "update": times[-1]}).under(
        Ceiling("two halves of the text", halves[-1], limits=False)
    )
    title = "rank correlation of the first force / that of two seeds"
    yield case.at_least(
        FORECAST_TRANSFORMER, title, interval(force[-1] / seeds[-1]), _HALF, expected=FAILS
    )


def panels(record: xr.Dataset) -> Layout:
    scores, x = Scores(record, EXPERIMENT.settings_of(record).least_count), record.time.values
    lines = []
    for tone, law in enumerate(scores.laws):
        found = scores.of(law)
        lines.append(
            Line(
                x,
                found.mean(axis=1),
                law,
                LINE,
                tone,
                low=found.min(axis=1),
                high=found.max(axis=1),
            )
        )
    lines += [
        Line(x, scores.two_seeds(), "ceiling: two seeds", DASHES, None),
        Line(x, scores.two_halves(), "ceiling: two halves", DOTS, None),
    ]
    first = Lines(
        "an ordinary Transformer, Adam",
        "updates",
        "rank correlation with training",
        lines,
        "x",
        ylim=(-1, 1.05),
        levels={0.0: ""},
    )
    at, query = int(np.argmin(np.abs(x - 100))), 0
    own = scores.seen[query]
    law, run = (
        scores.laws["first force"][query][own],
        scores.score[at].mean(axis=(0, 1))[query][own],
    )
    cloud = [Line(rankdata(-law), rankdata(-run), "tokens", POINTS, 0)]
    title = f"query {record['query'].values[query]}, update {x[at]}"
    return [
        first,
        Lines(
            title,
            "rank by first force (1 gains most)",
            "rank by change of score, mean over runs",
            cloud,
        ),
    ]


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    scores = Scores(record, EXPERIMENT.settings_of(record).least_count)
    laws, seeds, halves = (
        {law: scores.of(law) for law in scores.laws},
        scores.two_seeds(),
        scores.two_halves(),
    )
    ends = {
        law: [cut(interval(at), CORRELATION)._asdict() for at in found]
        for law, found in laws.items()
    }
    return [
        {"update": int(step)}
        | {
            f"{law} {end}": value
            for law, of_law in ends.items()
            for end, value in of_law[i].items()
        }
        | {"two seeds": float(seeds[i]), "two halves": float(halves[i])}
        for i, step in enumerate(record.time.values)
    ]


EXPERIMENT = Experiment(
    "forecast-transformer",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Panel 1: rank correlation of the first force, and of frequency, with what an ordinary one-layer Transformer has come to "
        "seek; bands from the lowest to the highest seed. Dashed and dotted: how far runs agree with each other. Panel 2: the "
        "tokens of the most frequent query, ranked."
    ),
    question="Do the counts of a text tell which words gain attention first?",
    finding=(
        "of what an ordinary Transformer under Adam attends to after 200 updates, counts tell {rank correlation of the first force "
        "/ *:.2f} times as much as a second seed does (rank correlations)"
    ),
    caveat="Other widths, rates and texts were not tried; a model without residual path and positions is closer to the theory.",
    variables={
        "score": Variable(
            "half seed time query token",
            "1",
            "change of how much the query seeks the token, mean over heads",
        ),
        "force": Variable("query token", "1", "first force F, from windows of the whole text"),
        "token_count": Variable(
            "query token", "1", "how often the token stands in the windows of the query"
        ),
    },
    dynamics="training of a Transformer on text",
    time_unit="updates",
    table=table,
)
