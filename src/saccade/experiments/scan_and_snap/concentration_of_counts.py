"""Drawing classes at random keeps class counts and the decoder close to those of equally frequent
classes.

Batch-1 descent along the modified gradient on random sequences of classes, 100 runs: draws, heights
and output errors of each class against their bounds, the whole decoder against Theorem 5, and the
steps to reach a given error. Expect at most a share delta of the classes outside any bound, Theorem
5 to rounding, and steps to an error within 3 %.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from saccade.errors import checked_count, checked_number
from saccade.experiments.scan_and_snap.decoder_descent import descend, output_error, tied_features
from saccade.lab.claim import Case, Claim
from saccade.lab.panel import POINTS, RINGS, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress, Variable
from saccade.observe.fits import Array
from saccade.theory import scan_and_snap as theory
from saccade.theory.condition import met
from saccade.theory.scan_and_snap.statements import (
    COROLLARY_1,
    LEMMA_10,
    LEMMA_11,
    LEMMA_12,
    STEPS_TO_ERROR,
    THEOREM_5,
)

_LONG_RUN = 10  # N >> K^2 read as N >= 10 K^2, as in theory.check_assumptions
VARIABLES = {
    "draws": Variable(
        "n_steps run class", "1", "N_n: times each class was drawn in the first N steps"
    ),
    "height": Variable(
        "n_steps run class", "1", "logit of the class for its own next token, over M - 1, measured"
    ),
    "error": Variable(
        "n_steps run class",
        "1",
        "1 - alpha_nn: probability the right next token still lacks, measured",
    ),
    "decoder_error": Variable(
        "n_steps run", "1", "largest gap between Y and Theorem 5 with the discrete heights h*(N_n)"
    ),
    "continuous_error": Variable(
        "n_steps run", "1", "relative gap of Y and Theorem 5 with the continuous heights h(N_n)"
    ),
    "first_step": Variable(
        "target run class",
        "steps",
        "first step after which |e_n - alpha_n| of the class is at most `target`",
    ),
    "target": Variable(
        "target", "1", "epsilon: length of the output error e_n - alpha_n to be reached"
    ),
}


@dataclass(frozen=True)
class Settings:
    n_vocab: int = 100
    """vocabulary"""
    n_classes: int = 3
    """classes, equally likely"""
    overlap: float = 0.2
    """overlap of any two features, in [0, 1)"""
    lr_decoder: float = 0.1
    """decoder rate, per step"""
    shortest: int = 5
    """first measured after 2^shortest steps"""
    longest: int = 13
    """last measured after 2^longest steps"""
    runs: int = 100
    """random sequences of classes"""
    failure_prob: float = 0.05
    """delta, the failure probability of the bounds"""
    targets: tuple[float, ...] = (0.5, 0.2, 0.1, 0.05, 0.02)
    """output errors to be reached"""
    seed: int = 0
    """seed of the draws"""


def measure(settings: Settings, on_progress: Progress) -> Measured:
    checked_count("n_vocab", settings.n_vocab, low=max(4, settings.n_classes + 1))
    checked_count("runs", settings.runs)
    checked_number("lr_decoder", settings.lr_decoder, low=0.0, high=1e3, open_low=True)
    checked_number("failure_prob", settings.failure_prob, low=0.0, high=0.5, open_low=True)
    for target in settings.targets:
        checked_number(
            "targets", target, low=0.0, high=np.sqrt(1 - 1 / settings.n_vocab), open_low=True
        )
    n_classes, shortest = (
        checked_count("n_classes", settings.n_classes, low=2),
        checked_count("shortest", settings.shortest),
    )
    overlap = checked_number("overlap", settings.overlap, low=0.0, high=0.99)
    n_steps = [
        2**exponent
        for exponent in range(
            shortest, checked_count("longest", settings.longest, low=shortest) + 1
        )
    ]
    feature = tied_features(overlap, n_classes)
    draws = np.random.default_rng(settings.seed).integers(
        n_classes, size=(n_steps[-1], settings.runs)
    )
    first_step = np.full((len(settings.targets), settings.runs, n_classes), np.nan)
    seen: list[dict[str, Any]] = []
    path = descend(
        feature, draws, n_vocab=settings.n_vocab, lr_decoder=settings.lr_decoder, modified=True
    )
    for step, decoder in enumerate(path):
        error = _own_error(feature, decoder)
        length = error * np.sqrt(
            settings.n_vocab / (settings.n_vocab - 1)
        )  # |zeta_n|: e_n - alpha_n is along zeta_n
        first_step[np.isnan(first_step) & (length <= np.reshape(settings.targets, (-1, 1, 1)))] = (
            step
        )
        if step in n_steps:
            seen.append(_at_step(feature, decoder, draws[:step], error, settings))
            on_progress(step / n_steps[-1])
    values = {name: np.stack([one[name] for one in seen]) for name in seen[0]}
    return Measured(
        values | {"first_step": first_step}, {"n_steps": n_steps, "target": list(settings.targets)}
    )


def _own_error(feature: Array, decoder: Array) -> Array:
    """1 - alpha_nn (run, class)."""
    logits = feature @ decoder
    n_runs, n_classes, n_vocab = logits.shape
    label = np.tile(np.arange(n_classes), n_runs)
    error = output_error(logits.reshape(-1, n_vocab), label)
    return error[np.arange(len(label)), label].reshape(n_runs, n_classes)


def _at_step(
    feature: Array, decoder: Array, draws: NDArray[np.int64], error: Array, settings: Settings
) -> dict[str, Array]:
    """All that is recorded at one step: (run, class), and (run) for the decoder as a whole."""
    n_classes, n_tokens = feature.shape
    counts = np.stack([(draws == n).sum(axis=0) for n in range(n_classes)], axis=1)
    letters: dict[str, Any] = {"n_vocab": settings.n_vocab, "lr_decoder": settings.lr_decoder}
    discrete = theory.decoder_height_discrete(int(counts.max()), **letters)[counts]
    whole = np.pad(feature, ((0, 0), (0, settings.n_vocab - n_tokens)))

    def theorem_5(height: Array) -> Array:
        return np.stack([theory.decoder_from_heights(whole, row)[:n_tokens] for row in height])

    smooth = decoder - theorem_5(theory.decoder_height(counts, **letters))
    return {
        "draws": counts,
        "height": np.einsum("nt,rtn->rn", feature, decoder[..., :n_classes])
        / (settings.n_vocab - 1),
        "error": error,
        "decoder_error": np.abs(decoder - theorem_5(discrete)).max(axis=(1, 2)),
        "continuous_error": np.linalg.norm(smooth, axis=(1, 2))
        / np.linalg.norm(decoder, axis=(1, 2)),
    }


def _letters(record: xr.Dataset) -> dict[str, Any]:
    settings = EXPERIMENT.settings_of(record)
    return {name: getattr(settings, name) for name in ("n_vocab", "n_classes", "lr_decoder")}


def _strayed(record: xr.Dataset) -> dict[str, xr.DataArray]:
    """Relative distance of every class from one with exactly its share of draws."""
    letters = _letters(record)
    share = np.ceil(record.n_steps / letters["n_classes"])
    height = theory.decoder_height(
        share.values, n_vocab=letters["n_vocab"], lr_decoder=letters["lr_decoder"]
    )
    of_share = {
        "draws": share.values,
        "height": height,
        "error": theory.class_error(height, n_vocab=letters["n_vocab"]),
    }
    return {
        name: abs(record[name] / share.copy(data=values) - 1) for name, values in of_share.items()
    }


def _bounds(record: xr.Dataset) -> dict[str, xr.DataArray]:
    """The bound on each of them."""
    letters, delta, steps = (
        _letters(record),
        EXPERIMENT.settings_of(record).failure_prob,
        record.n_steps,
    )
    share = np.ceil(steps / letters["n_classes"])
    return {
        "draws": steps.copy(data=theory.draw_count_bound(steps.values, failure_prob=delta)) / share,
        "height": steps.copy(data=theory.draw_spread(steps.values, failure_prob=delta)) / share,
        "error": steps.copy(
            data=theory.error_deviation_bound(steps.values, **letters, failure_prob=delta)
        ),
    }


def claims(record: xr.Dataset) -> Iterator[Claim]:
    settings, strayed, bound, N = (
        EXPERIMENT.settings_of(record),
        _strayed(record),
        _bounds(record),
        record.n_steps,
    )
    delta, long_run, usual = (
        settings.failure_prob,
        _LONG_RUN * settings.n_classes**2 <= N,
        settings == Settings(),
    )
    snapped = theory.snap_time(**_letters(record)) <= N
    for name, kept, what, lemma, factor in (
        ("draws", N > 0, "draws further from N/K than sqrt(N/2 ln(2/δ)) + 1", LEMMA_10, 0.5),
        ("height", long_run, "heights further from h(N/K) than h(N/K) Δ/(N/K)", LEMMA_11, 0.3),
        (
            "error",
            ~snapped & long_run,
            "output errors off by more than η_Y Δ/3, N < t₀",
            LEMMA_12,
            0.25,
        ),
        (
            "error",
            snapped & long_run,
            "output errors off by more than Δ/(N/K), N ≥ t₀",
            COROLLARY_1,
            0.5,
        ),
    ):
        case, title = (
            Case(given=[met("some N is in this range", bool(kept.any()))]),
            f"share of classes with {what}",
        )
        for at, of in ((case, 1.0), (case.tightened(factor, usual), factor)):
            share = (strayed[name] > of * bound[name]).mean(("run", "class")).where(kept, 0.0)
            yield at.at_most(lemma, title, share, delta)
    gap = "decoder against F (FᵀF)⁻¹ W, largest gap"
    yield Case({"heights": "h*(N_n)"}).at_most(THEOREM_5, gap, record.decoder_error, 1e-12)
    late = Case(given=[met("N >> K^2", bool(long_run.any()))])
    smooth = record.continuous_error.where(long_run, 0.0)
    continuous = late.but(heights="h(N_n), continuous")
    yield continuous.at_most(
        THEOREM_5, "decoder against F (FᵀF)⁻¹ W, largest relative gap", smooth, 0.01
    )
    ratio = N.copy(
        data=theory.height_ratio_bound(N.values, n_classes=settings.n_classes, failure_prob=delta)
    )
    for at, of in ((late, 1.0), (late.tightened(0.3, usual), 0.3)):
        outside = (strayed["height"] > of * ratio).any("class").mean("run").where(long_run, 0.0)
        yield at.at_most(
            THEOREM_5, "share of runs with some θ_n above K sqrt(ln(K/δ)/N)", outside, delta
        )
    yield from _steps(record, settings)


def _steps(record: xr.Dataset, settings: Settings) -> Iterator[Claim]:
    """Steps until an output error is reached, mean over runs and classes."""
    target, steps = (
        record.target.values,
        record.first_step.mean(("run", "class"), skipna=False).values,
    )
    printed = (
        settings.n_classes / (target * settings.lr_decoder) * np.log(settings.n_vocab / target)
    )
    case = Case(
        given=[met("every class of every run reached every target", bool(np.isfinite(steps).all()))]
    )
    gap = np.abs(steps / theory.steps_to_error(target, **_letters(record)) - 1)
    yield case.at_most(
        STEPS_TO_ERROR, "steps to an output error against Lemma 6, largest relative gap", gap, 0.03
    )
    for at, of in ((case, 1.0), (case.tightened(0.5, settings == Settings()), 0.5)):
        yield at.at_most(
            COROLLARY_1,
            "steps to an output error over K/(ε η_Y) ln(M/ε), largest",
            steps / printed,
            of,
        )


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    bounds, delta = _bounds(record), EXPERIMENT.settings_of(record).failure_prob
    return [
        {
            "quantity": name,
            "n_steps": steps,
            "strayed_quantile": float(distance.sel(n_steps=steps).quantile(1 - delta)),
            "strayed_largest": float(distance.sel(n_steps=steps).max()),
            "bound": float(bounds[name].sel(n_steps=steps)),
        }
        for name, distance in _strayed(record).items()
        for steps in record.n_steps.values.tolist()
    ]


def panels(record: xr.Dataset) -> Layout:
    delta, bounds, N = EXPERIMENT.settings_of(record).failure_prob, _bounds(record), record.n_steps
    symbols = {
        "draws": ("draws (Lemma 10)", "|N_n/N̄ - 1|"),
        "height": ("height (Lemma 11, Theorem 5)", "|θ_n| = |h(N_n)/h(N̄) - 1|"),
        "error": ("output error (Lemma 12, Corollary 1)", "|σ_n|, relative change of 1 - α_nn"),
    }
    snap, everyone, drawn = float(theory.snap_time(**_letters(record))), ("run", "class"), []
    for i, (name, strayed) in enumerate(_strayed(record).items()):
        lines = [
            Line(N, bounds[name], f"bound, δ = {delta:g}", tone=None),
            Line(N, strayed.max(everyone), "largest", RINGS, i),
            Line(
                N,
                strayed.quantile(1 - delta, everyone),
                f"{100 * (1 - delta):g} % stay below",
                POINTS,
                i,
            ),
        ]
        drawn.append(
            Lines(symbols[name][0], "N (steps)", symbols[name][1], lines, "xy", marks={snap: "t₀"})
        )
    return drawn


EXPERIMENT = Experiment(
    "concentration-of-counts",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "How far a class is from its expected state after N steps: in its draws, in the height of its logits and in the error of "
        "its output, each relative to a class with exactly N/K draws. Filled dots: the value that all but a share delta of the "
        "classes stay below; rings: the largest over all runs. Lines: the bounds of Lemmas 10 to 12 and Corollary 1 at the same "
        "delta; the filled dots stay below them. The output error (panel 3) depends on the draws most near the snap, t₀, and "
        "hardly at all later."
    ),
    finding=(
        "{share of classes with draws*:.0%} of class counts and {share of classes with output errors*N ≥ t₀:.0%} of output errors "
        "lie outside their 95 % bounds"
    ),
    variables=VARIABLES,
    dynamics="A: batch 1, decoder only, modified gradient",
    table=table,
)
