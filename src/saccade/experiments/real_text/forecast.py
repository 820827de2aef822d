"""Counts of a text predict when SGD condenses and which way attention first moves; the predicted
rate of focus is off by a third.

Two forecasts are made from a text and the learning rates, and then left alone: *decoder first* for
the theorem's model, from windows of the text (`first-force-text` scores it without noise), and the
stages of the embedded model, from its pairs. Then the models are trained as usual, with batches,
and the forecasts are scored. Where two seeds agree less than is asked of the forecast, the claim
cannot be told; so small and large batches are both tried. The simplest rival is frequency. With SGD
stages come when predicted, though queries and keys grow more slowly than in the closed form, which
holds on the plateau; under Adam attention first turns to the most frequent token, whatever the
forecast for SGD says.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from saccade.data.text.corpus import corpus
from saccade.dynamics.randomness import checked_seeds
from saccade.dynamics.training import train_text
from saccade.errors import checked_count, checked_list
from saccade.experiments.real_text import forecast_stages
from saccade.experiments.real_text.every_run import CORRELATION, cut
from saccade.experiments.real_text.forecast_stages import EVENTS, OPTIMISERS, UNWATCHED, Array
from saccade.experiments.real_text.token_groups import frequent_queries
from saccade.experiments.real_text.token_scores import score_measure
from saccade.lab.ceiling import Ceiling
from saccade.lab.claim import Case, Claim
from saccade.lab.panel import DASHES, LINE, POINTS, RINGS, Layout, Line, Lines, with_intervals
from saccade.lab.protocol import Experiment, Measured, Progress, Variable, stretch
from saccade.model.transformer_config import TransformerConfig
from saccade.observe.fits import Interval, agreement, interval, rank_correlation, simultaneous
from saccade.processes import in_processes
from saccade.theory.questions import FORECAST_ORDER
from saccade.theory.scan_and_snap import decoder_first

TOLD = 0.5  # rank correlation of forecast and training: what a reader would call forecast
LEAST_COUNT = (
    20  # a token is scored if the forecast has seen it more often than this before the query
)
_LOOK = "optimiser seed look"
VARIABLES = {
    "predicted_gain": Variable(
        "time query token",
        "1",
        "decoder first: gain of each token's attention logit since the start",
    ),
    "measured_gain": Variable("batch seed time query token", "1", "the same in training with SGD"),
    "token_count": Variable(
        "query token",
        "1",
        "how often the token stands before the query in the windows of the forecast",
    ),
    "on_frequent": Variable(
        f"{_LOOK} word",
        "1",
        "attention of each query on the most frequent token, of an endless context",
    ),
    "top_share": Variable(_LOOK, "1", "share of the embedding's top direction in its square"),
    "embedding_norm": Variable(_LOOK, "1", "length of the embedding"),
    "query_norm": Variable(_LOOK, "1", "length of the query matrix"),
    "query_scale": Variable(
        _LOOK, "1", "how far the query matrix sends the top direction of the embedding"
    ),
    "population_loss": Variable(
        _LOOK,
        "nats",
        "cross-entropy of the next token, contexts endless, pairs as often as in the text",
    ),
    "look_step": Variable("optimiser look", "updates", "when an embedded run was looked at"),
    "unigram_loss": Variable("", "nats", "entropy of the tokens' shares"),
    "word_share": Variable("word", "1", "share of each token of the small vocabulary"),
    "predicted_condensation_rate": Variable(
        "", "1/update", "forecast: growth rate of the embedding"
    ),
    "predicted_focus_rate": Variable(
        "", "1/update", "forecast: growth rate of query and key; negative: attention turns away"
    ),
    "predicted_query_path": Variable(
        "stage_time", "1", "forecast, first start: how far the query matrix sends the one direction"
    ),
    "predicted_sign": Variable(
        "", "", "forecast: +1 to the most frequent token first, -1 away from it"
    ),
    "predicted_turn_time": Variable(
        "start word", "updates", "forecast: attention on the most frequent token turns back"
    ),
    "predicted_turn_height": Variable(
        "start word", "1", "forecast: how far from its share it gets"
    ),
    "predicted_on_frequent": Variable(
        "stage_time word", "1", "forecast, first start: attention on the most frequent token"
    ),
    **{
        f"predicted_{name}": Variable("start", "updates", f"forecast, each random start: {what}")
        for name, what in EVENTS.items()
    },
}


# Bounds were set before any run of this form: half of the ranks for tokens; for the stages see
# `claims`.
@dataclass(frozen=True)
class Settings:
    """Settings; the defaults are the quick ones. The second half is on the stages of the embedded
    model.
    """

    text: str = "wikitext-2"
    """corpus: a name or a path"""
    seeds: int | tuple[int, ...] = 4
    """number of seeds (0, 1, 2, ...) of every run, or a list of seeds"""
    n_vocab: int = 500
    """vocabulary size; rarer words become one token"""
    queries: int = 8
    """most frequent query tokens"""
    window: int = 16
    """tokens before the query"""
    n_windows: int = 20_000
    """windows that the forecast is made from"""
    looks: tuple[int, ...] = (5, 10, 25, 50)
    """updates at which forecast and training are compared; the last is judged"""
    batches: tuple[int, ...] = (256, 4096)
    """windows per step, with one prediction each"""
    lr_decoder: float = 10.0
    """rate of Y"""
    lr_attention: float = 1.0
    """rate of Z"""
    n_words: int = 64
    """vocabulary of the embedded model; rarer words become one token"""
    d_model: int = 64
    """width of the embedded model"""
    init_scale: float = 1e-3
    """standard deviation of its entries at the start"""
    context: int = 64
    """tokens per window"""
    stage_steps: int = 800
    """updates of plain descent"""
    stage_batch: int = 128
    """windows per step"""
    stage_lr: float = 0.25
    """rate of plain descent"""
    adam_steps: int = 1500
    """updates of Adam"""
    adam_lr: float = 1e-3
    """rate of Adam"""


def measure(settings: Settings, on_progress: Progress) -> Measured:
    """First both forecasts, which stay as they are; then the runs."""
    seeds = checked_seeds(settings.seeds)
    looks = sorted(
        checked_count("looks", look) for look in checked_list("looks", settings.looks, low=1)
    )
    batches = [
        checked_count("batches", batch)
        for batch in checked_list("batches", settings.batches, low=1)
    ]
    order, stages = _order_forecast(settings, looks), forecast_stages.stage_forecast(settings)
    on_progress(0.2)
    jobs: list[tuple[Any, ...]] = [
        (pairwise_run, settings, batch, seed) for batch in batches for seed in seeds
    ]
    jobs += [
        (forecast_stages.embedded_run, settings, optimiser, seed)
        for optimiser in OPTIMISERS
        for seed in seeds
    ]
    found = in_processes(operator.call, jobs, stretch(on_progress, 0.2, 1.0))
    n_order = len(batches) * len(seeds)
    gains = np.stack([run[1:] for run in found[:n_order]]).reshape(
        len(batches), len(seeds), *order["gain"].shape
    )
    values = {
        "predicted_gain": order["gain"],
        "measured_gain": gains,
        "token_count": order["count"],
    }
    coords = {
        "batch": batches,
        "optimiser": list(OPTIMISERS),
        "seed": seeds,
        "time": np.array(looks, float),
    }
    coords |= {name: order[name] for name in ("query", "token")} | {
        name: stages[name].values for name in ("word", "stage_time")
    }
    return Measured(
        values | forecast_stages.stage_values(settings, stages, found[n_order:]), coords
    )


def _order_forecast(settings: Settings, looks: list[int]) -> dict[str, Any]:
    """Decoder first on windows of the text; rows are centred, as those of training are."""
    text = corpus(settings.text, n_vocab=settings.n_vocab)
    windows, queries = (
        text.windows(settings.window, n_windows=settings.n_windows),
        frequent_queries(text, settings.queries),
    )
    rates: dict[str, Any] = {
        "lr_decoder": settings.lr_decoder,
        "lr_attention": settings.lr_attention,
    }
    counted = (windows.counts, windows.query, windows.next_token, windows.weight)
    gain = decoder_first(
        *counted, steps=looks, queries=queries, with_error=False, **rates
    ).attention_logits
    names = text.vocabulary
    return {
        "gain": gain - gain.mean(axis=-1, keepdims=True),
        "count": np.stack([windows.token_count(query) for query in queries]),
        "query": [names[query] for query in queries],
        "token": list(names),
    }


def pairwise_run(settings: Settings, batch: int, seed: int) -> Array:
    """Gain of every token's attention logit since the start (time, query, token); rows of all
    tokens together sum to 0.
    """
    text, looks = corpus(settings.text, n_vocab=settings.n_vocab), sorted(settings.looks)
    record = train_text(
        text,
        model=TransformerConfig.scan_and_snap(text.n_vocab),
        measures=score_measure(frequent_queries(text, settings.queries), settings.window),
        steps=looks[-1],
        batch=batch,
        context=settings.window + 1,
        every=[0, *looks],
        lr=settings.lr_decoder,
        lr_attention=settings.lr_attention,
        seed=seed,
        **UNWATCHED,
    )
    score = record["token_score"].values
    return score - score[0]


class Score:
    """Rank correlations over the tokens that the forecast has seen often enough, mean over queries."""

    def __init__(self, record: xr.Dataset) -> None:
        self.count = record["token_count"].transpose("query", "token").values
        self.known = self.count > LEAST_COUNT
        self.gain = (
            record["measured_gain"].transpose("batch", "seed", "time", "query", "token").values
        )
        self.predicted = record["predicted_gain"].transpose("time", "query", "token").values

    def same(self, one: Array, other: Array) -> float:
        return float(
            np.mean(
                [
                    rank_correlation(a[at], b[at])
                    for a, b, at in zip(one, other, self.known, strict=True)
                ]
            )
        )

    def forecast(self, batch: int, time: int) -> Array:
        """By seed."""
        return np.array([self.same(self.predicted[time], run[time]) for run in self.gain[batch]])

    def told(self, time: int) -> list[Interval]:
        """Of `forecast` for each batch, simultaneous over batches."""
        found = simultaneous({batch: self.forecast(batch, time) for batch in range(len(self.gain))})
        return [cut(each, CORRELATION) for each in found.values()]

    def frequency(self, batch: int, time: int) -> Array:
        return np.array([self.same(self.count, run[time]) for run in self.gain[batch]])

    def ceiling(self, batch: int, time: int) -> float:
        return agreement(self.gain[batch][:, time], self.same)


def claims(record: xr.Dataset) -> Iterator[Claim]:
    """Tokens: the whole simultaneous interval over seeds reaches `TOLD`, where two seeds agree as
    well. Times and signs of the stages: right in every seed. Rates: the interval is within a tenth
    for condensation, which starts from nothing, a quarter for focus. Three of four seeds were asked
    until it was seen that four seeds cannot tell a share of .75 from 1 or from .3.
    """
    score, last = Score(record), record.sizes["time"] - 1
    found = score.told(last)
    for i, batch in enumerate(record["batch"].values):
        case = Case({"batch": int(batch), "update": int(record["time"].values[last])})
        yield case.under(Ceiling("two seeds", score.ceiling(i, last), "batch")).at_least(
            FORECAST_ORDER,
            "rank correlation of forecast and measured gains",
            found[i],
            TOLD,
            sentence="Counts of the text tell which tokens gain attention in training.",
        )
    yield from forecast_stages.stage_claims(record)


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    """Scores of the tokens at every look with their ceilings, and of the stages; intervals over
    seeds.
    """
    score, rows = Score(record), []
    for i, batch in enumerate(record["batch"].values):
        for j, step in enumerate(record["time"].values):
            by_frequency = cut(interval(score.frequency(i, j)), CORRELATION)
            for name, found in (
                ("decoder first", score.told(j)[i]),
                ("follows frequency", by_frequency),
            ):
                measure = f"rank correlation of gains, batch {batch}, update {step:g}"
                rows.append(
                    forecast_stages.score_row("sgd", name, measure, found)
                    | {"ceiling": score.ceiling(i, j)}
                )
    return [*rows, *forecast_stages.stage_table(record)]


def files(record: xr.Dataset) -> dict[str, tuple[list[str], list[dict[str, Any]]]]:
    """`stages.csv`: the stages of every run and the forecast."""
    rows = forecast_stages.stage_rows(record)
    return {"stages.csv": (list(rows[0]), rows)}


def panels(record: xr.Dataset) -> Layout:
    return [
        [_scores(record), _cloud(record), forecast_stages.events_panel(record)],
        [forecast_stages.attention_panel(record, optimiser) for optimiser in OPTIMISERS],
    ]


def _scores(record: xr.Dataset) -> Lines:
    """Forecast and frequency against training at every look, each batch, with ceilings."""
    score, lines, times = Score(record), [], record["time"].values
    for i, batch in enumerate(record["batch"].values):
        x = times * 1.06 ** (i - 0.5)
        told = [score.told(j)[i] for j in range(len(times))]
        lines += with_intervals(x, told, f"forecast, batch {batch}", tone=i)
        lines.append(
            Line(
                x,
                [score.ceiling(i, j) for j in range(len(times))],
                f"two seeds, batch {batch}",
                RINGS,
                i,
            )
        )
    last = len(record["batch"]) - 1
    by_frequency = [score.frequency(last, j).mean() for j in range(len(times))]
    lines.append(
        Line(times, by_frequency, f"frequency, batch {record['batch'].values[last]}", DASHES, None)
    )
    ticks = {float(time): f"{time:g}" for time in times}
    return Lines(
        "which tokens gain",
        "updates",
        "rank correlation with training",
        lines,
        "x",
        ylim=(-1, 1),
        ticks=ticks,
        levels={0.0: ""},
    )


def _cloud(record: xr.Dataset) -> Lines:
    """Every scored token of every query: mean gain over seeds with the largest batch against the
    gain predicted.
    """
    score = Score(record)
    guess, run = score.predicted[-1][score.known], score.gain[-1].mean(axis=0)[-1][score.known]
    reach = np.abs(guess).max() * np.array([-1, 1])
    lines = [Line(guess, run, "tokens", POINTS, 0), Line(reach, reach, "as predicted", LINE, None)]
    return Lines(
        f"batch {record['batch'].values[-1]}, last update",
        "gain predicted",
        "gain measured, mean over seeds",
        lines,
    )


EXPERIMENT = Experiment(
    "forecast",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Panel 1: rank correlation of the gains that decoder first predicts with those of training, small and large batches, with "
        "95 % intervals over seeds; rings: agreement of two seeds; dashed: frequency as a forecast. Panel 2: predicted, measured "
        "gains of the scored tokens. Panel 3: times of the stages, all seeds. Panels 4 and 5: attention on the most frequent token "
        "(first seed, queries that move most): with SGD as predicted, with Adam the other way."
    ),
    question="Do the counts of a text tell which words gain attention first?",
    finding=(
        "in training with batches, predicted and measured gains correlate {rank*batch 256,*:.2f} with 256 windows a batch and "
        "{rank*batch 4096,*:.2f} with 4096; SGD condenses at {condensation rate*:.2f} times the predicted rate, and "
        "attention first moves the predicted way in {attention first moves*:count} seeds"
    ),
    caveat="Smaller batches, whose noise hides the mean, or rates at which attention is as fast as the decoder.",
    variables=VARIABLES,
    dynamics="a forecast, then training on text",
    time_unit="updates",
    full=Settings(
        n_vocab=2000,
        n_windows=60_000,
        seeds=10,
        stage_steps=4000,
        stage_lr=0.1,
        stage_batch=512,
        adam_steps=4000,
    ),
    table=table,
    files=files,
)
