"""The gradient is exact at any length and blind to order, and attention nears its limit as one over the root of T.

Random matrices and short sequences for the gradient of Lemma 1: against finite differences, from sequences, from counts, and
from the engine. Then 200 contexts of every length from 2^4 to 2^14 for the limit of Lemma 2 and the rate of Lemma 18. Expected:
differences of 1e-8 and 1e-13, row sums of 1e-14, slope -0.5 +- .05, and no more than delta outside Hoeffding's bound. About 4 s.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from saccade.errors import checked_count, checked_number
from saccade.experiments.scan_and_snap.gradient_checks import gradient_errors
from saccade.records.claim import Claim
from saccade.theory import scan_and_snap as theory

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

SECONDS = 4
WHAT = "Lemmas 1, 2, 18"
EXPECTED = "gradient equals central differences to 1e-8; attention nears its limit as T^{attention nears*:.2f}"
CAPTION = (
    "How fast a finite context becomes its law. Blue: largest error of attention over tokens, mean over contexts (band: the middle "
    "90 %), with a line of slope -1/2 through the longest contexts. Orange: the error in a token's frequency that all but delta "
    "of the contexts stay below, for the worst token, under Hoeffding's bound for the same delta (dashed). Look at the common "
    "slope, and at the orange dots staying below their line."
)

_DEFINITIONS = {
    "difference_error": ("1", "largest gap between Lemma 1 and central differences of the objective, both matrices"),
    "row_sum": ("1", "largest sum of a row of either gradient"),
    "count_error": ("1", "largest gap between the gradient from the sequence and from its token counts"),
    "engine_error": ("1", "largest gap between the engine's gradient and Lemma 1 summed over a batch of sequences"),
    "order_error": ("1", "largest entry of X^T diag(b) X - diag(X^T b)"),
    "attention_error": ("1", "largest gap over tokens between attention X^T b of a finite context and its limit c"),
    "exceeded": ("1", "share of contexts in which a token's frequency is further from its law than Hoeffding's bound"),
    "frequency_error": ("1", "gap between frequency and law that all but delta of the contexts stay below, for each token"),
    "token_prob": ("1", "P(l|n): chance of each context token"),
    "logits": ("1", "z_m: how much the query seeks each token"),
}


@dataclass(frozen=True)
class Config:
    """Settings; the defaults are small enough for central differences in float64."""

    n_samples: int = 20
    """random matrices and sequences for Lemma 1"""
    n_tokens: int = 20
    """tokens in the law of the long contexts; token l has chance 1/l, scaled"""
    shortest: int = 4
    """the shortest context has 2^shortest tokens, query included"""
    longest: int = 14
    """the longest context has 2^longest tokens, query included"""
    draws: int = 200
    """contexts of each length"""
    failure_prob: float = 0.05
    """delta: the chance at which Hoeffding's bound is taken"""
    seed: int = 0
    """of matrices, sequences and contexts"""


def run(config: Config, on_progress: Callable[[float], None] = lambda fraction: None) -> xr.Dataset:
    from saccade.records.schema import make_record

    started = time.perf_counter()
    checked_number("failure_prob", config.failure_prob, low=0.0, high=1.0, open_low=True)
    rng = np.random.default_rng(config.seed)
    prob = 1 / np.arange(1.0, checked_count("n_tokens", config.n_tokens, low=2) + 1)
    prob, logits = prob / prob.sum(), rng.normal(size=config.n_tokens)
    exponents = range(
        checked_count("shortest", config.shortest), checked_count("longest", config.longest, low=config.shortest + 2) + 1
    )
    n_draws = checked_count("draws", config.draws, low=2)
    contexts = []
    for i, exponent in enumerate(exponents):
        contexts.append(_context_errors(prob, logits, 2**exponent - 1, n_draws, config.failure_prob, rng))
        on_progress((i + 1) / (len(exponents) + 1))
    attention, frequency = (np.stack(errors) for errors in zip(*contexts, strict=True))
    record = make_record(
        dynamics="none: gradients and contexts drawn at random",
        variables={
            **{name: (("sample",), errors) for name, errors in gradient_errors(config.n_samples, rng).items()},
            "attention_error": (("length", "draw"), attention),
            "exceeded": (("length", "token"), frequency[:, 0]),
            "frequency_error": (("length", "token"), frequency[:, 1]),
            "token_prob": (("token",), prob),
            "logits": (("token",), logits),
        },
        coords={"length": [2**exponent for exponent in exponents]},
        time_unit="",
        config={},
        wall_time=time.perf_counter() - started,
        definitions=_DEFINITIONS,
    )
    record.attrs["settings"] = json.dumps(asdict(config))
    return record


def _context_errors(
    prob: NDArray[np.float64],
    logits: NDArray[np.float64],
    n_context: int,
    n_draws: int,
    failure_prob: float,
    rng: np.random.Generator,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Attention error of each draw, and for each token how often and how far its frequency strays (2, token)."""
    limit = theory.limit_attention(prob, logits)
    attention, frequency = np.zeros((2, n_draws, len(prob)))
    for i in range(n_draws):
        context = rng.choice(len(prob), n_context, p=prob)
        weight = np.exp(logits[context])
        attention[i] = np.bincount(context, weight / weight.sum(), minlength=len(prob))
        frequency[i] = np.bincount(context, minlength=len(prob)) / n_context
    gap = np.abs(frequency - prob)
    exceeded = (gap > theory.frequency_bound(n_context, failure_prob=failure_prob)).mean(axis=0)
    return np.abs(attention - limit).max(axis=1), np.stack([exceeded, np.quantile(gap, 1 - failure_prob, axis=0)])


def claims(record: xr.Dataset) -> list[Claim]:
    return _gradient_claims(record) + _limit_claims(record)


def _gradient_claims(record: xr.Dataset) -> list[Claim]:
    n_samples = record.sizes["sample"]
    checks = (
        ("difference_error", "gradient against central differences of the objective", "Lemma 1", 1e-8),
        ("row_sum", "rows of both gradients sum to zero", "Lemma 1", 1e-14),
        ("count_error", "gradient from token counts against gradient from the sequence", "Lemma 1", 1e-13),
        ("engine_error", "the engine's gradient of a batch against the sum of Lemma 1 over its sequences", "Lemma 1", 1e-13),
        ("order_error", "X^T diag(b) X is diagonal at any length", "Lemma 18", 1e-15),
    )
    return [
        Claim(
            statement=f"{what}: largest gap in {n_samples} samples",
            source=f"[tian2023, {lemma}]",
            predicted=0.0,
            measured=float(record[name].max()),
            tolerance=tolerance,
        )
        for name, what, lemma, tolerance in checks
    ]


def _limit_claims(record: xr.Dataset) -> list[Claim]:
    delta = json.loads(record.attrs["settings"])["failure_prob"]
    return [
        Claim(
            statement="attention nears its limit: slope of ln(mean largest error) against ln T",
            source="[tian2023, Lemma 2]",
            predicted=-0.5,
            measured=_slope(record),
            tolerance=0.05,
        ),
        Claim(
            statement=f"frequency outside Hoeffding's bound: share of contexts, worst token and length, at most delta = {delta:g}",
            source="[tian2023, Lemma 18]",
            predicted=0.0,
            measured=float(record.exceeded.max()),
            tolerance=delta,
        ),
    ]


def _slope(record: xr.Dataset) -> float:
    return float(np.polyfit(np.log(record.length), np.log(record.attention_error.mean("draw")), 1)[0])


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    delta = json.loads(record.attrs["settings"])["failure_prob"]
    return [
        {
            "length": int(at.length),
            "attention_error_mean": float(at.attention_error.mean()),
            "attention_error_p05": float(at.attention_error.quantile(0.05)),
            "attention_error_p95": float(at.attention_error.quantile(0.95)),
            "frequency_error_worst_token": float(at.frequency_error.max()),
            "hoeffding_bound": float(theory.frequency_bound(int(at.length) - 1, failure_prob=delta)),
            "share_exceeding_worst_token": float(at.exceeded.max()),
        }
        for at in (record.isel(length=i) for i in range(record.sizes["length"]))
    ]


def figure(record: xr.Dataset) -> Figure:
    from saccade.report.style import categorical, new_figure

    delta, length = json.loads(record.attrs["settings"])["failure_prob"], record.length.values
    error = record.attention_error
    mean = error.mean("draw").values
    drawing = new_figure(width=7.2, height=5.0)
    axes = drawing.subplots()
    axes.fill_between(length, error.quantile(0.05, "draw"), error.quantile(0.95, "draw"), color=categorical(0), alpha=0.2, lw=0)
    axes.plot(length, mean[-1] * np.sqrt(length[-1] / length), color=categorical(0), label="slope $-1/2$ (Lemma 2)")
    measured = rf"measured: mean of max$_l\,|(X^\top b)_l - c_l|$, fitted slope {_slope(record):.3f}"
    axes.plot(length, mean, "o", color=categorical(0), label=measured)
    bound = theory.frequency_bound(length - 1, failure_prob=delta)
    axes.plot(length, bound, "--", color=categorical(1), label=rf"Hoeffding's bound (Lemma 18), $\delta$ = {delta:g}")
    worst = record.frequency_error.max("token")
    axes.plot(
        length, worst, "s", color=categorical(1), label=rf"measured: {100 * (1 - delta):g} % of $|q_l - P(l|m,n)|$, worst token"
    )
    axes.set(xscale="log", yscale="log", xlabel="$T$ (context length, tokens)", ylabel="error in a share (unitless)")
    axes.set_xscale("log", base=2)
    axes.legend(loc="lower left")
    return drawing
