"""In the theorem's own model counts predict which tokens of a text gain attention first, as well as
a second sample of the text does.

The pairwise model of Scan and Snap, trained without noise on windows of a text, and two laws that
have seen no training: the first force (one pass over the counts) and decoder first (attention's
force along the decoder's own path). Scored by rank correlation over the tokens of frequent queries,
with intervals over samples of the text that share no token; beside each score, how far runs on two
samples agree. Expect decoder first to have order and size until attention moves the decoder, and to
say itself when that is; the first force to have the order longer than the size, because the decoder
learns the frequencies within a few steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.stats import rankdata

import saccade
from saccade.data.text.corpus import Corpus
from saccade.data.text.windows import Windows
from saccade.errors import checked_count
from saccade.experiments.real_text.every_run import CORRELATION, cut
from saccade.lab.ceiling import SAME_SAMPLE, Ceiling
from saccade.lab.claim import Case, Claim
from saccade.lab.panel import DASHES, DOTS, LINE, POINTS, RINGS, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress, Variable, padded
from saccade.observe.fits import jackknife, rank_correlation, simultaneous
from saccade.processes import in_processes
from saccade.theory import scan_and_snap as theory
from saccade.theory.scan_and_snap.statements import (
    DECODER_FIRST,
    DECODER_FIRST_ERROR,
    FIRST_FORCE,
    FIRST_FORCE_CLOCK,
)
from saccade.theory.statement import Statement

Array = np.ndarray
SLOW_STEPS = 24  # of the run at a rate at which the clock of the first force takes so many steps; eight points of an error below 10 %
EARLY, LATER = 10, 25  # steps at which the first force and decoder first are asked for the order
_EARLY_BAR, _LATER_BAR = 0.85, 0.95  # set before any run of this experiment
_ACROSS_BAR = 0.9  # of what two runs agree


@dataclass(frozen=True)
class Settings:
    """Settings of the runs; the defaults are those of the quick experiments on text, without their
    noise.
    """

    texts: tuple[str, ...] = ("wikitext-2", "tinystories", "sotu")
    """corpora: names or paths"""
    n_vocab: int = 500
    """vocabulary size; rarer words become one token"""
    n_context: int = 16
    """tokens before the query"""
    samples: int = 5
    """samples of each text, at least 3; they share no token"""
    n_windows: int = 22_000
    """windows in a sample; WikiText-2 has 113,888"""
    queries: int = 8
    """most frequent query tokens, which are scored"""
    least_count: int = 20
    """a token is scored if it occurs more often than this before the query"""
    lr_decoder: float = 10.0
    """rate of Y"""
    lr_attention: float = 1.0
    """rate of Z"""
    steps: tuple[int, ...] = (2, 3, 5, 10, 25)
    """updates at which training and predictions are compared"""
    seed: int = 0
    """seed of the choice of windows"""


def measure(settings: Settings, on_progress: Progress) -> Measured:
    samples = range(checked_count("samples", settings.samples, low=3))
    jobs = [(text, sample, settings) for text, sample in product(settings.texts, samples)]
    found = in_processes(of_sample, jobs, on_progress)
    by_text = [
        _of_text(found[start : start + len(samples)])
        for start in range(0, len(found), len(samples))
    ]
    n_vocab = max(len(one["token_name"]) for one in by_text)
    for one in by_text:  # a text may have fewer words than asked for
        one["token_name"] = np.append(one["token_name"], [""] * (n_vocab - len(one["token_name"])))
    values = {name: padded([one[name] for one in by_text]) for name in by_text[0]}
    coords = {"text": list(settings.texts), "sample": samples, "step": list(settings.steps)}
    return Measured(values, coords | {"slow_step": np.arange(1, SLOW_STEPS + 1)})


_OF_EACH = ("run", "force", "decoder_first")


def _of_text(samples: Sequence[dict[str, Array]]) -> dict[str, Array]:
    return samples[0] | {name: np.stack([one[name] for one in samples]) for name in _OF_EACH}


def of_sample(name: str, sample: int, settings: Settings) -> dict[str, Array]:
    """Run and laws of one sample; of the first one also the names, the second path and the slow
    run.
    """
    text = saccade.corpus(name, n_vocab=settings.n_vocab)
    first, windows = (_windows(text, number, settings) for number in (0, sample))
    queries = first.frequent_queries[: settings.queries].tolist()
    force = theory.first_force(windows.counts, windows.query, windows.next_token)
    told = _told(windows, queries, settings, with_error=sample == 0)
    found = dict(
        zip(
            _OF_EACH,
            (_run(windows, queries, settings), force.force[queries], told.attention_logits),
            strict=True,
        )
    )
    if sample:
        return found
    slow = theory.first_force_clock(force, lr_decoder=1.0, queries=queries) / SLOW_STEPS
    return found | {
        "token_name": np.array(text.vocabulary),
        "query_name": np.array([text.vocabulary[query] for query in queries]),
        "token_count": np.stack([windows.token_count(query) for query in queries]),
        "second": told.second_logits,
        "slow_rate": np.array(slow),
        "slow_run": _slow_run(windows, queries, slow),
    }


def _windows(text: Corpus, sample: int, settings: Settings) -> Windows:
    return text.windows(
        settings.n_context, n_windows=settings.n_windows, sample=sample, seed=settings.seed
    )


def _told(
    windows: Windows, queries: list[int], settings: Settings, *, with_error: bool
) -> theory.DecoderFirst:
    return theory.decoder_first(
        windows.counts,
        windows.query,
        windows.next_token,
        steps=settings.steps,
        queries=queries,
        lr_decoder=settings.lr_decoder,
        lr_attention=settings.lr_attention,
        with_error=with_error,
    )


def _run(windows: Windows, queries: list[int], settings: Settings) -> Array:
    model = saccade.PairwiseText(
        windows, queries=queries, lr_decoder=settings.lr_decoder, lr_attention=settings.lr_attention
    )
    record = saccade.train(
        model, steps=max(settings.steps), save=settings.steps, keep=("attention_logits",)
    )
    return record.attention_logits.values


def _slow_run(windows: Windows, queries: list[int], rate: float) -> Array:
    """Until the clock of the first force, in small steps; attention's rate is a tenth of the
    decoder's, as at full speed.
    """
    model = saccade.PairwiseText(windows, queries=queries, lr_decoder=rate, lr_attention=0.1 * rate)
    record = saccade.train(
        model,
        steps=SLOW_STEPS,
        save=range(1, SLOW_STEPS + 1),
        keep=("attention_logits",),
        dtype="float64",
    )
    return record.attention_logits.values


class Scores:
    """Scores of one text (step): rank correlation over the tokens of each query that are seen often
    enough, mean over queries.

    `run`, `force` and `told` are of every sample (sample, ...).
    """

    def __init__(self, one: xr.Dataset, least_count: int) -> None:
        self.one, self.seen = one, one.token_count.values > least_count
        self.run, self.force, self.told = one.run.values, one.force.values, one.decoder_first.values

    def order(self, law: Any, run: Any) -> Array:
        return np.array(
            [self._mean(*pair) for pair in zip(np.broadcast_to(law, run.shape), run, strict=True)]
        )

    def _mean(self, law: Array, run: Array) -> float:
        return float(
            np.mean(
                [
                    rank_correlation(a[own], b[own])
                    for a, b, own in zip(law, run, self.seen, strict=True)
                ]
            )
        )

    def table(self, laws: Any) -> Array:
        """Of the law of each sample with the run on each (law's sample, run's sample, step)."""
        return np.array([[self.order(law, run) for run in self.run] for law in laws])

    @property
    def ceiling(self) -> Array:
        return elsewhere(self.table(self.run))

    @property
    def rare_first(self) -> Array:
        """The score of no theory at all: the rarer a token before the query, the more it gains."""
        counts = self.one.token_count.values
        return -np.mean([self.order(counts, run) for run in self.run], axis=0)

    @property
    def frequency(self) -> Array:
        return self.order(self.one.token_count.values, self.run[0])

    @property
    def told_error(self) -> Array:
        return _apart(self.told[0], self.one.second.values)

    @property
    def true_error(self) -> Array:
        return _apart(self.told[0], self.run[0])

    @property
    def slow_error(self) -> Array:
        """Of the first force along the slow run, in size and direction (slow step)."""
        steps, rate = self.one.slow_step.values, float(self.one.slow_rate)
        law = 0.1 * rate**2 * (steps * (steps - 1) / 2)[:, None, None] * self.force[0]
        return _apart(law[1:], self.one.slow_run.values[1:])


def _apart(one: Array, other: Array) -> Array:
    """Distance of two sets of logits over the size of the second (first axis)."""
    return np.linalg.norm(one - other, axis=(1, 2)) / np.linalg.norm(other, axis=(1, 2))


def elsewhere(table: Array) -> Any:
    """Mean score on samples other than the law's own; of a table as `Scores.table` gives it."""
    return table[~np.eye(len(table), dtype=bool)].mean(axis=0)


def share_elsewhere(law: Array, runs: Array) -> Array:
    """What a law of one sample scores on another, over what two runs agree: jackknife values, one
    for each sample.

    Pairs of samples share samples, so their scores depend on each other and would make the interval
    half as wide as it should be. NaN for two samples.
    """
    if len(law) < 3:
        return np.full(len(law), np.nan)
    return jackknife(
        lambda kept: float(
            elsewhere(law[np.ix_(kept, kept)]) / elsewhere(runs[np.ix_(kept, kept)])
        ),
        len(law),
    )


class Asked(NamedTuple):
    """A law, and the step at which it is asked for the order."""

    name: str
    statement: Statement
    step: int
    bar: float


ASKED = {
    "force": Asked("first force", FIRST_FORCE, EARLY, _EARLY_BAR),
    "told": Asked("decoder first", DECODER_FIRST, LATER, _LATER_BAR),
}


def claims(record: xr.Dataset) -> Iterator[Claim]:
    """Whole intervals over samples decide, simultaneous over texts and laws. A law from the same
    windows as the run is not limited by the ceiling, which is shown; one from other windows is
    asked for at least nine tenths of what another run agrees.

    Bars were set before the first run of this experiment, after trials on the same texts had shown
    the first two to be within reach. Intervals came later: five samples of 22,000 windows, all that
    WikiText-2 has, for two of 40,000, of which the worse had scored .86 on WikiText-2 after ten
    steps. That they are simultaneous was set before their first run.
    """
    settings, steps = EXPERIMENT.settings_of(record), record.step.values.tolist()
    texts = {
        str(text): Scores(record.sel(text=text), settings.least_count)
        for text in record.text.values
    }
    asked = {law: one for law, one in ASKED.items() if one.step in steps}
    tables: dict[Any, Array] = {}
    for (text, scores), law in product(texts.items(), asked):
        at = steps.index(asked[law].step)
        tables[text, law], tables[text, law, "runs"] = (
            scores.table(laws)[..., at] for laws in (getattr(scores, law), scores.run)
        )
    intervals = simultaneous(
        {(text, law, "own"): np.diag(tables[text, law]) for text, law in product(texts, asked)}
        | {
            (text, law, "other"): share_elsewhere(tables[text, law], tables[text, law, "runs"])
            for text, law in product(texts, asked)
        }
    )
    for text, scores in texts.items():
        case = Case({"text": text})
        for law, one in asked.items():
            across = Ceiling(
                "a run on other windows", float(elsewhere(tables[text, law, "runs"])), limits=False
            )
            rival = Ceiling(
                "rare words first", float(scores.rare_first[steps.index(one.step)]), limits=False
            )
            shown, beside = case.under(across), case.under(rival, across)
            title = f"{one.name}: rank correlation with training, step {one.step}"
            yield beside.at_least(
                one.statement, title, cut(intervals[text, law, "own"], CORRELATION), one.bar
            )
            title = (
                f"{one.name} from other windows / a run on them: rank correlation, step {one.step}"
            )
            yield shown.at_least(one.statement, title, intervals[text, law, "other"], _ACROSS_BAR)
        yield from _size_claims(scores, case)


def _size_claims(scores: Scores, case: Case) -> Iterator[Claim]:
    """Of the first sample."""
    slow, ceiling = scores.slow_error, scores.ceiling
    case = case.under(SAME_SAMPLE)
    yield case.at_most(
        FIRST_FORCE, "first force against slow training, second step: distance", slow[0], 0.01
    )
    yield case.between(
        FIRST_FORCE_CLOCK,
        "first force against slow training where its predicted error is 10 %: distance",
        slow[-1],
        0.05,
        0.2,
    )
    told, true = scores.told_error, scores.true_error
    small = (told > 1e-6) & (told <= 0.2)
    title = "predicted error of decoder first / true error"
    if small.any():
        yield case.near(DECODER_FIRST_ERROR, title, told[small] / true[small], 1, within=0.25)
    in_order = scores.order(scores.told[0], scores.one.second.values) >= _LATER_BAR
    title = "rank correlation of decoder first with training, while it predicts at least .95"
    if in_order.any():
        shown = case.under(
            Ceiling("a run on other windows", float(ceiling[in_order].min()), limits=False)
        )
        yield shown.at_least(
            DECODER_FIRST_ERROR,
            title,
            scores.order(scores.told[0], scores.run[0])[in_order],
            _LATER_BAR,
        )


def panels(record: xr.Dataset) -> Layout:
    settings = EXPERIMENT.settings_of(record)
    rows = []
    for text in record.text.values:
        scores = Scores(record.sel(text=text), settings.least_count)
        rows.append(
            [
                _order_panel(str(text), scores),
                _size_panel(str(text), scores),
                _tokens_panel(str(text), scores),
            ]
        )
    return rows


def _ticks(scores: Scores) -> dict[float, str]:
    return {float(step): str(step) for step in scores.one.step.values}


def _order_panel(text: str, scores: Scores) -> Lines:
    x = scores.one.step.values
    lines = [
        Line(x, scores.order(scores.told[0], scores.run[0]), "decoder first", LINE, 0),
        Line(x, scores.order(scores.force[0], scores.run[0]), "first force", LINE, 1),
        Line(x, scores.ceiling, "ceiling: a run on other windows", DASHES, None),
        Line(x, elsewhere(scores.table(scores.force)), "first force of other windows", DOTS, 1),
        Line(x, scores.frequency, "frequency before the query", LINE, 2),
    ]
    return Lines(
        f"{text}: who gains first",
        "updates",
        "rank correlation with training",
        lines,
        "x",
        ylim=(-1, 1.05),
        levels={0.0: ""},
        ticks=_ticks(scores),
    )


def _size_panel(text: str, scores: Scores) -> Lines:
    x = scores.one.step.values
    moved = scores.told_error > 1e-9
    lines = [
        Line(x[moved], scores.true_error[moved], "true error", POINTS, 0),
        Line(x[moved], scores.told_error[moved], "predicted error", DASHES, 0),
    ]
    return Lines(
        f"{text}: size of decoder first",
        "updates",
        "distance from training",
        lines,
        "xy",
        levels={0.1: "10 %"},
        ticks=_ticks(scores),
    )


def _tokens_panel(text: str, scores: Scores, query: int = 1) -> Lines:
    """Ranks: the sizes are those of one word and many that hardly move."""
    at = int(np.argmin(np.abs(scores.one.step.values - EARLY)))
    own = scores.seen[query]
    laws = {"first force": scores.force[0, query], "decoder first": scores.told[0, at, query]}
    run = rankdata(-scores.run[0, at, query][own])
    lines = [
        Line(rankdata(-law[own]), run, name, style, tone)
        for (name, law), style, tone in zip(laws.items(), (RINGS, POINTS), (1, 0))
    ]
    title = (
        f"{text}: query {scores.one.query_name.values[query]}, update {scores.one.step.values[at]}"
    )
    return Lines(title, "predicted rank (1 gains most)", "rank in training", lines)


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    """Scores of every text and step."""
    settings, rows = EXPERIMENT.settings_of(record), []
    for text in record.text.values:
        scores = Scores(record.sel(text=text), settings.least_count)
        columns = {
            "first force": scores.order(scores.force[0], scores.run[0]),
            "decoder first": scores.order(scores.told[0], scores.run[0]),
            "frequency": scores.frequency,
            "ceiling": scores.ceiling,
            "error of decoder first": scores.true_error,
            "error it tells": scores.told_error,
        }
        rows += [
            {"text": str(text), "step": int(step)}
            | {name: float(values[i]) for name, values in columns.items()}
            for i, step in enumerate(record.step.values)
        ]
    return rows


EXPERIMENT = Experiment(
    "first-force-text",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Three panels for each text. First, how well each law orders the tokens that gain attention, and how well a run on other "
        "windows of the same text does (dashed): no forecast from a sample can be expected to do better than that on another. "
        "Second, the error of decoder first in size and direction, and its own estimate of it. Third, the words of one query, "
        "ranked by who gains most, told and trained."
    ),
    question="Do the counts of a text tell which words gain attention first?",
    finding=(
        "in training without noise, the first force of the counts orders words by their gains after 10 steps with a rank "
        "correlation of {first force? rank* (text wikitext-2):.2f} on WikiText-2 ({first force? rank* (text "
        "wikitext-2):verdict}), {first force? rank* (text tinystories):.2f} on TinyStories ({first force? rank* (text "
        "tinystories):verdict}) and {first force? rank* (text sotu):.2f} on speeches of US presidents ({first force? rank* (text "
        "sotu):verdict}); 0.85 was asked. With the decoder's learning counted in it is {decoder first? rank* (text "
        "wikitext-2):.2f}, {decoder first? rank* (text tinystories):.2f} and {decoder first? rank* (text sotu):.2f} after 25 "
        "steps, all on the windows that were trained on"
    ),
    answer=(
        "In the theorem's own model, trained without noise, token counts rank words by the attention "
        "gained in 25 updates. On WikiText-2, TinyStories and speeches of US presidents they "
        "correlate {decoder first? rank* (text wikitext-2):.2f}, {decoder first? rank* (text "
        "tinystories):.2f} and {decoder first? rank* (text sotu):.2f} with runs on the same windows. "
        "Runs on two different samples correlate only {decoder first from*wikitext-2):ceiling .2f}, "
        "{decoder first from*tinystories):ceiling .2f} and {decoder first from*sotu):ceiling .2f}; "
        "counts of the other sample predict a run as well as that ({decoder first "
        "from*wikitext-2):.0%}, {decoder first from*tinystories):.0%} and {decoder first "
        'from*sotu):.0%}). Without any theory, "rare words first" reaches {decoder first? rank* '
        "(text wikitext-2):ceiling .2f}, {decoder first? rank* (text tinystories):ceiling .2f} and "
        "{decoder first? rank* (text sotu):ceiling .2f}. With batches of 4,096 "
        "windows the correlation is {rank*batch 4096,*:.2f} after 50 updates; for an ordinary Transformer under Adam it is {rank "
        "correlation of the first force / *:.2f} times that of two seeds after 200"
    ),
    caveat=(
        "More windows: they raise the ceiling, and with it how well one part of a text can predict another. The predictions are "
        "for the model of Scan and Snap, trained without noise from zero."
    ),
    variables={
        "token_name": Variable("text token", "", "tokens of each text, most frequent first"),
        "query_name": Variable("text query", "", "query tokens, most frequent first"),
        "token_count": Variable(
            "text query token",
            "1",
            "how often the token stands in the windows of the query, first sample",
        ),
        "run": Variable(
            "text sample step query token",
            "1",
            "attention logits in training on all windows of a sample",
        ),
        "force": Variable("text sample query token", "1", "first force F of each sample"),
        "decoder_first": Variable(
            "text sample step query token", "1", "attention logits told by decoder first"
        ),
        "second": Variable(
            "text step query token", "1", "the same along its second path, first sample"
        ),
        "slow_rate": Variable(
            "text",
            "1",
            "decoder's rate of the slow run: the clock of the first force takes all its steps",
        ),
        "slow_run": Variable(
            "text slow_step query token", "1", "attention logits in the slow run, first sample"
        ),
    },
    dynamics="A: training on all windows",
    time_unit="updates",
    full=Settings(n_vocab=2000, steps=(2, 3, 5, 10, 25, 50, 100)),
    table=table,
)
