"""The gradient formula is exact at any length and ignores token order; attention approaches its
limit as 1/√T.

Random matrices and short sequences for the gradient of Lemma 1: against finite differences, from
sequences, from counts, and from the engine. Then contexts of every length from 2^4 to 2^14 for the
limit of Lemma 2 and the rate of Lemma 18. Expect rounding errors, a slope of -1/2, and no more than
delta outside Hoeffding's bound. As a negative control each context gets a token distribution of its
own, so that its tokens are not independent draws from one: attention then has no common limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import xarray as xr
from numpy.typing import NDArray

import saccade
from saccade.errors import checked_count, checked_number
from saccade.lab.claim import CALCULUS, Case, Claim
from saccade.lab.panel import DASHES, POINTS, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress, Variable
from saccade.model.pairwise import Parameters, Rows, forward, gradients
from saccade.observe.fits import Array, power
from saccade.theory import scan_and_snap as theory
from saccade.theory.scan_and_snap.statements import LEMMA_1, LEMMA_2, LEMMA_18

_STEP = 1e-6  # of the central differences
_LONGEST = 11  # context tokens
Sequence = tuple[NDArray[np.int64], int, int]  # context, query, next token
VARIABLES = {
    "difference_error": Variable(
        "sample", "1", "largest gap between Lemma 1 and central differences of the objective"
    ),
    "row_sum": Variable("sample", "1", "largest sum of a row of either gradient"),
    "count_error": Variable(
        "sample",
        "1",
        "largest gap between the gradient from the sequence and from its token counts",
    ),
    "engine_error": Variable(
        "sample", "1", "largest gap between the engine's gradient and Lemma 1 summed over a batch"
    ),
    "attention_error": Variable(
        "length draw",
        "1",
        "largest gap over tokens between attention of a finite context and its limit",
    ),
    "exceeded": Variable(
        "length token",
        "1",
        "share of contexts whose token frequency is further off than Hoeffding's bound",
    ),
    "frequency_error": Variable(
        "length token",
        "1",
        "gap of frequency and chance that all but delta of the contexts stay below",
    ),
    "mixed_error": Variable(
        "length draw", "1", "attention_error where every context has another token distribution"
    ),
    "token_prob": Variable("token", "1", "P(l|n): chance of each context token"),
    "logits": Variable("token", "1", "z_m: how much the query seeks each token"),
}


@dataclass(frozen=True)
class Settings:
    """Settings; the defaults are small enough for central differences in float64."""

    n_samples: int = 20
    """random matrices and sequences for Lemma 1"""
    n_tokens: int = 20
    """vocabulary of the long contexts; token l has probability proportional to 1/l"""
    shortest: int = 4
    """the shortest context has 2^shortest tokens, query included"""
    longest: int = 14
    """the longest context has 2^longest tokens, query included"""
    draws: int = 200
    """contexts of each length"""
    failure_prob: float = 0.05
    """delta, the failure probability of Hoeffding's bound"""
    seed: int = 0
    """seed of matrices, sequences and contexts"""


def measure(settings: Settings, on_progress: Progress) -> Measured:
    delta = checked_number("failure_prob", settings.failure_prob, low=0.0, high=1.0, open_low=True)
    rng, other = np.random.default_rng(settings.seed), np.random.default_rng([settings.seed, 1])
    prob = 1 / np.arange(1.0, checked_count("n_tokens", settings.n_tokens, low=2) + 1)
    prob, logits = prob / prob.sum(), rng.normal(size=settings.n_tokens)
    shortest = checked_count("shortest", settings.shortest)
    lengths = [
        2**i
        for i in range(shortest, checked_count("longest", settings.longest, low=shortest + 2) + 1)
    ]
    n_draws = checked_count("draws", settings.draws, low=2)
    found: dict[str, list[Array]] = {
        name: [] for name in ("attention_error", "exceeded", "frequency_error", "mixed_error")
    }
    for done, length in enumerate(lengths, 1):
        error, gap = _strayed([prob] * n_draws, prob, logits, length - 1, rng)
        found["attention_error"].append(error)
        found["exceeded"].append(
            (gap > theory.frequency_bound(length - 1, failure_prob=delta)).mean(axis=0)
        )
        found["frequency_error"].append(np.quantile(gap, 1 - delta, axis=0))
        own = list(other.dirichlet(prob * len(prob), n_draws))
        found["mixed_error"].append(_strayed(own, prob, logits, length - 1, other)[0])
        on_progress(done / (len(lengths) + 1))
    values = gradient_errors(settings.n_samples, rng) | {
        name: np.stack(rows) for name, rows in found.items()
    }
    return Measured(values | {"token_prob": prob, "logits": logits}, {"length": lengths})


def _strayed(
    laws: list[Array], prob: Array, logits: Array, n_context: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """A context from each of `laws`: how far its attention is from the limit for `prob`, and its
    frequencies (context, token).
    """
    limit, n = theory.limit_attention(prob, logits), len(prob)
    attention, frequency = np.zeros((2, len(laws), n))
    for i, law in enumerate(laws):
        context = rng.choice(n, n_context, p=law)
        weight = np.exp(logits[context])
        attention[i] = np.bincount(context, weight / weight.sum(), minlength=n)
        frequency[i] = np.bincount(context, minlength=n) / n_context
    return np.abs(attention - limit).max(axis=1), np.abs(frequency - prob)


def gradient_errors(n_samples: int, rng: np.random.Generator) -> dict[str, Array]:
    """Each kind of error, largest over both matrices, by sample."""
    engine = _Engine(_uneven_task())
    rows = [_sample_errors(engine, rng) for _ in range(n_samples)]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _uneven_task() -> saccade.SequenceClasses:
    """Three classes over ten tokens with two queries, one of them a context token; tokens of one,
    two and all classes.
    """
    prob = np.zeros((3, 7))
    prob[:, :2] = 1.0
    prob[:2, 2] = 2.0
    prob[[0, 1, 2, 2], [3, 4, 5, 6]] = 3.0
    return saccade.SequenceClasses(
        prob, query=np.array([7, 7, 0]), next_token=np.array([8, 9, 3]), n_vocab=10, normalise=True
    )


def _sample_errors(engine: _Engine, rng: np.random.Generator) -> dict[str, float]:
    task = engine.task
    decoder, logits = rng.normal(size=(2, task.n_vocab, task.n_vocab))
    batch: list[Sequence] = [
        (
            rng.choice(task.n_vocab, rng.integers(1, _LONGEST + 1), p=prob),
            int(query),
            int(following),
        )
        for prob, query, following in zip(task.token_prob, task.query, task.next_token, strict=True)
    ]
    exact = [_from_sequence(decoder, logits, sequence) for sequence in batch]
    counted = [_from_counts(decoder, logits, sequence) for sequence in batch]
    sloped = [_central_differences(decoder, logits, sequence) for sequence in batch]
    return {
        "difference_error": _gap(exact, sloped),
        "row_sum": float(np.abs(np.sum(exact, axis=-1)).max()),
        "count_error": _gap(exact, counted),
        "engine_error": _gap(np.sum(exact, axis=0), engine.gradient(decoder, logits, batch)),
    }


def _gap(a: object, b: object) -> float:
    return float(np.abs(np.asarray(a) - np.asarray(b)).max())


def _from_sequence(decoder: Array, logits: Array, sequence: Sequence) -> Array:
    context, query, label = sequence
    rates = {"lr_decoder": 1.0, "lr_attention": 1.0}
    return np.stack(
        theory.gradient_from_sequence(decoder, logits, context, query=query, label=label, **rates)
    )


def _from_counts(decoder: Array, logits: Array, sequence: Sequence) -> Array:
    context, query, label = sequence
    counts = np.bincount(context, minlength=len(decoder))
    rates = {"lr_decoder": 1.0, "lr_attention": 1.0}
    return np.stack(
        theory.gradient_from_counts(decoder, logits, counts, query=query, label=label, **rates)
    )


def _objective(decoder: Array, logits: Array, sequence: Sequence) -> float:
    """Log-probability of the next token, position by position."""
    context, query, label = sequence
    weight = np.exp(logits[query, context])
    seen = np.zeros(len(decoder))
    for token, attention in zip(context, weight / weight.sum(), strict=True):
        seen[token] += attention
    output = seen / np.linalg.norm(seen) @ decoder
    return float(output[label] - np.log(np.exp(output).sum()))


def _central_differences(decoder: Array, logits: Array, sequence: Sequence) -> Array:
    both = np.stack([decoder, logits])
    slope = np.zeros_like(both)
    for place in np.ndindex(both.shape):
        up, down = both.copy(), both.copy()
        up[place] += _STEP
        down[place] -= _STEP
        slope[place] = (
            _objective(up[0], up[1], sequence) - _objective(down[0], down[1], sequence)
        ) / (2 * _STEP)
    return slope


class _Engine:
    """The gradient that training follows, compiled once for all samples."""

    def __init__(self, task: saccade.SequenceClasses) -> None:
        model = saccade.Pairwise(init="uniform")  # every next token keeps its own column
        self.task, self._blocks, weight = task, model.blocks(task), np.ones((task.n_classes, 1))

        @jax.jit
        def uphill(parameters: Parameters, counts: Array) -> Parameters:
            return gradients(
                forward(parameters, counts, model, self._blocks),
                parameters,
                weight,
                model,
                self._blocks,
            )

        self._uphill = uphill

    def gradient(self, decoder: Array, logits: Array, batch: list[Sequence]) -> Array:
        """Of the summed objective, one sequence of each class, as dense matrices."""
        task, blocks = self.task, self._blocks
        counts = np.array(
            [np.append(np.bincount(context, minlength=task.n_vocab), 0) for context, *_ in batch],
            float,
        )
        at_slots = np.take_along_axis(counts, blocks.slots, axis=1)[
            ..., None
        ]  # a filler, -1, reads the zero at the end
        parameters = Parameters(
            Rows(decoder[blocks.shared], decoder[blocks.own]),
            Rows(logits[blocks.queries][:, blocks.shared], logits[task.query[:, None], blocks.own]),
        )
        with jax.enable_x64(True):
            uphill = jax.tree.map(np.asarray, self._uphill(parameters, at_slots))
        attention = np.zeros_like(logits)
        attention[blocks.queries] = blocks.dense_attention_logits(*uphill.attention)
        return np.stack([blocks.dense_decoder(*uphill.decoder), attention])


def claims(record: xr.Dataset) -> Iterator[Claim]:
    case, delta = Case(), EXPERIMENT.settings_of(record).failure_prob
    for name, title, bound in (
        ("difference_error", "gradient against central differences, largest gap", 1e-8),
        ("row_sum", "rows of both gradients sum to zero, largest sum", 1e-14),
        ("count_error", "gradient from token counts against the sequence's, largest gap", 1e-13),
        ("engine_error", "the engine's gradient of a batch against Lemma 1, largest gap", 1e-13),
    ):
        yield case.but(against=CALCULUS).at_most(LEMMA_1, title, record[name], bound)
    slope = "power of T in the distance of attention from its limit"
    yield case.near(
        LEMMA_2,
        slope,
        _power(record.attention_error),
        -0.5,
        within=0.05,
        sentence="A context four times as long brings attention twice as close to its infinite-context limit.",
    )
    outside = "share of contexts outside Hoeffding's bound, worst token and length"
    yield case.at_most(LEMMA_18, outside, record.exceeded, delta)
    hoeffding = theory.frequency_bound(record.length - 1, failure_prob=delta)[:, None]
    title = "frequency error that all but δ of the contexts stay below, over Hoeffding's bound"
    yield case.tightened(0.6, EXPERIMENT.settings_of(record) == Settings()).at_most(
        LEMMA_18, title, record.frequency_error / hoeffding, 0.6
    )
    control = case.breaking("independent context tokens")
    yield control.near(LEMMA_2, slope, _power(record.mixed_error), -0.5, within=0.05)


def _power(error: xr.DataArray) -> float:
    return power(error.length, error.mean("draw"))


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    delta = EXPERIMENT.settings_of(record).failure_prob
    return [
        {
            "length": int(at.length),
            "attention_error_mean": float(at.attention_error.mean()),
            "attention_error_p05": float(at.attention_error.quantile(0.05)),
            "attention_error_p95": float(at.attention_error.quantile(0.95)),
            "frequency_error_worst_token": float(at.frequency_error.max()),
            "hoeffding_bound": float(
                theory.frequency_bound(int(at.length) - 1, failure_prob=delta)
            ),
            "share_exceeding_worst_token": float(at.exceeded.max()),
        }
        for at in (record.isel(length=i) for i in range(record.sizes["length"]))
    ]


def panels(record: xr.Dataset) -> Layout:
    delta, T, error = (
        EXPERIMENT.settings_of(record).failure_prob,
        record.length.values,
        record.attention_error,
    )
    mean, low, high = (
        error.mean("draw").values,
        error.quantile(0.05, "draw"),
        error.quantile(0.95, "draw"),
    )
    bound, worst = (
        theory.frequency_bound(T - 1, failure_prob=delta),
        record.frequency_error.max("token"),
    )
    lines = [
        Line(
            T,
            mean,
            f"attention, mean of the largest error (slope {_power(error):.3f})",
            POINTS,
            0,
            low,
            high,
        ),
        Line(T, mean[-1] * np.sqrt(T[-1] / T), "slope -1/2 (Lemma 2)"),
        Line(
            T, worst, f"frequency of the worst token, {100 * (1 - delta):g} % stay below", POINTS, 1
        ),
        Line(T, bound, f"Hoeffding's bound (Lemma 18), δ = {delta:g}", DASHES, 1),
        Line(
            T,
            record.mixed_error.mean("draw"),
            "control: another distribution in every context",
            POINTS,
            2,
        ),
    ]
    return [
        Lines(
            "how fast finite contexts approach the limit",
            "T (tokens)",
            "error in a share",
            lines,
            "xy",
        )
    ]


EXPERIMENT = Experiment(
    "long-context-limit",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Blue: largest error of attention over tokens, mean over contexts (band: the middle 90 %), with a line of slope -1/2 "
        "through the longest contexts. Olive: the error in a token's frequency that all but delta of the contexts stay below, for "
        "the worst token; dashed: Hoeffding's bound. Green: the negative control, which does not converge."
    ),
    finding="the gradient formula matches finite differences to 1e-8; attention approaches its limit as T^{power of T*:.2f}",
    variables=VARIABLES,
    dynamics="none: gradients and contexts drawn at random",
    table=table,
)
