"""Before attention moves, embedding and projection grow along one direction, at a rate set by token
frequencies alone.

Follows the population gradient flow from small random starts of several sizes, on the paper's chain
and on one with six tokens of Zipf frequencies, until the embedding has half its norm at the unigram
point: the end of stage I. Expect: growth at the rate μ₀ = |π| |π - 1/d|; directions π, π - 1/d and
α; an end later by 1/μ₀ for each e-fold of a smaller start. Attention is at rest while the embedding
condenses: the force on queries is of fifth order in the weights. At the very end of the stage they
do move, by up to a few tenths of a percent however small the start: that they do not is claimed,
and expected to fail. Tolerances were set with the derivations, before any run; where to read the
queries (a share of 0.999) was added after.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

import saccade
from saccade.dynamics.randomness import checked_seeds
from saccade.errors import InputError, checked_list
from saccade.experiments.focus_and_dilution import stage_fits as stages
from saccade.experiments.focus_and_dilution.embedded_gradients import decoder_force, velocity
from saccade.experiments.focus_and_dilution.named_laws import lazy_chains
from saccade.experiments.focus_and_dilution.stage_fits import STEPS
from saccade.lab.claim import CALCULUS, FAILS, Case, Claim
from saccade.lab.panel import DASHES, DOTS, LINE, POINTS, RINGS, Layout, Line, Lines
from saccade.lab.protocol import (
    Experiment,
    Measured,
    Progress,
    Variable,
    by_cell,
    cell_rows,
    grid,
)
from saccade.observe import fits
from saccade.observe.fits import Array
from saccade.observe.measures import effective_rank, singular_values, top_share
from saccade.theory import focus_and_dilution as theory
from saccade.theory.focus_and_dilution.statements import (
    ATTENTION_AT_REST,
    CONDENSATION_FROM_THE_START,
    THEOREM_3_2,
)

LARGE = 0.1  # a start that is not small: the linear flow has no time to choose a direction
CONDENSED = 0.999  # share of the first direction: the others together have 3 % of its length
CELL = "law init_scale seed"
VARIABLES = {
    "decoder_gap": Variable("law", "1", "largest entry of -dL/dM at the origin less π (π - 1/d)ᵀ"),
    "rate_predicted": Variable("law", "1/time", "μ₀"),
    "rate": Variable(
        CELL,
        "1/time",
        "growth rate of the embedding's first singular value, over the condensation window",
    ),
    "end_time": Variable(CELL, STEPS, "when the embedding has half its norm at the unigram point"),
    "embedding_cosine": Variable(
        CELL, "1", "|cos| of the embedding's first direction over tokens with π, at the end"
    ),
    "projection_cosine": Variable(
        CELL, "1", "|cos| of the projection's first direction over tokens with π - 1/d, at the end"
    ),
    "direction_cosine": Variable(
        CELL, "1", "the lesser |cos| of both matrices' direction over the width with α, at the end"
    ),
    "top_share": Variable(
        CELL, "1", "the lesser share of the first direction in both matrices, at the end"
    ),
    "growth_condensed": Variable(
        CELL, "1", "|W_Q| / |W_Q(0)| - 1 when the embedding's first direction has a share of 0.999"
    ),
    "growth_end": Variable(CELL, "1", "|W_Q| / |W_Q(0)| - 1 at the end"),
    "rank_start": Variable(CELL, "1", "effective rank of W_Q W_Kᵀ at the start"),
    "rank_condensed": Variable(
        CELL,
        "1",
        "effective rank of W_Q W_Kᵀ when the embedding's first direction has a share of 0.999",
    ),
    "start_speed": Variable(
        CELL, "1/time", "norm of the velocity of the query matrix at the start"
    ),
    "large_cosine": Variable(
        "law seed",
        "1",
        f"|cos| of the embedding's first direction with π, at the end, start of {LARGE:g}",
    ),
    "curve": Variable(
        "law init_scale sample", "1", "the embedding's first singular value, first seed"
    ),
    "curve_time": Variable("law init_scale sample", STEPS, "times of the curve"),
}


@dataclass(frozen=True)
class Settings:
    laws: tuple[str, ...] = ("paper", "zipf-6")
    """token frequencies of the chains: paper, zipf-6, '0.6 of 4' (0.6 for the first of four
    tokens), or numbers: 0.5,0.3,0.2
    """
    stays: tuple[float, ...] = (0.3, 0.5)
    """chance of repeating the last token in each, or one for all"""
    init_scales: tuple[float, ...] = (1e-2, 1e-3, 1e-4, 1e-5)
    """sizes of the start, at least two"""
    looked_at: float = 1e-3
    """initial scale at which directions and attention are measured, one of `init_scales`"""
    seeds: int | tuple[int, ...] = 5
    """number of random starts of each size (seeds 0, 1, 2, ...), or a list of seeds"""
    n_times: int = 600
    """samples of each flow, log-spaced"""


def measure(settings: Settings, on_progress: Progress) -> Measured:
    scales, seeds, laws = (
        _checked_scales(settings),
        checked_seeds(settings.seeds),
        lazy_chains(settings.laws, settings.stays),
    )
    found = grid(_at_origin, law=laws)
    found |= grid(
        partial(_from_random, seeds=seeds, n=settings.n_times),
        on_progress,
        law=laws,
        init_scale=scales,
    )
    found |= grid(partial(_from_large, seeds=seeds, n=settings.n_times), law=laws)
    return Measured(found, {"law": list(laws), "init_scale": scales, "seed": seeds})


def _checked_scales(settings: Settings) -> list[float]:
    scales = sorted(
        checked_list("init_scales", settings.init_scales, low=1e-8, high=1e-2), reverse=True
    )
    if len(scales) < 2:
        raise InputError(
            "`init_scales` must list at least two sizes: the end of the stage is compared between them."
        )
    if settings.looked_at not in scales:
        raise InputError(
            f"`looked_at` must be one of `init_scales`, {scales}; got {settings.looked_at:g}."
        )
    return scales


def _at_origin(chain: saccade.MarkovChain) -> dict[str, float]:
    pi = chain.stationary
    return {
        "decoder_gap": np.abs(
            decoder_force(chain) - theory.condensation_drive(stationary=pi)
        ).max(),
        "rate_predicted": theory.condensation_rate(stationary=pi),
    }


def _from_random(
    chain: saccade.MarkovChain, scale: float, *, seeds: list[int], n: int
) -> dict[str, Any]:
    """Long enough for the linear flow to pass the unigram point ten times over."""
    size, rate = (
        theory.embedding_norm(stationary=chain.stationary),
        theory.condensation_rate(stationary=chain.stationary),
    )
    model, t1 = saccade.Embedded(init_scale=scale), np.log(10 * size / scale) / rate
    flowed = saccade.flow(chain, t1=t1, n_times=n, seeds=seeds, model=model)
    curve = {
        "curve_time": flowed.time.values,
        "curve": singular_values(flowed.embedding.values[0])[:, 0],
    }
    return (
        grid(lambda place: _of_seed(flowed.isel(seed=place), chain), seed=range(len(seeds))) | curve
    )


def _from_large(chain: saccade.MarkovChain, *, seeds: list[int], n: int) -> dict[str, Any]:
    return {"large_cosine": _from_random(chain, LARGE, seeds=seeds, n=n)["embedding_cosine"]}


def _of_seed(run: xr.Dataset, chain: saccade.MarkovChain) -> dict[str, float]:
    pi, half = chain.stationary, theory.embedding_norm(stationary=chain.stationary) / 2
    W0, WQ, WK, W1 = (
        run[name].values for name in ("embedding", "query_matrix", "key_matrix", "projection")
    )
    t, values, norm = run.time.values, singular_values(W0), np.linalg.norm(W0, axis=(1, 2))
    end, condensed = fits.first_index(norm, half), fits.first_index(top_share(values), CONDENSED)
    growth = np.linalg.norm(WQ, axis=(1, 2)) / np.linalg.norm(WQ[0]) - 1
    rank = effective_rank(
        singular_values(WQ[[0, condensed]] @ np.swapaxes(WK[[0, condensed]], 1, 2))
    )
    return {
        "rate": fits.growth_rate(t, values[:, 0], stages.condensation_window(values[:, 0], pi)),
        "end_time": fits.reaching_time(t, norm, half),
        **_directions(
            W0[end], W1[end], theory.condensed_direction(W0[0], W1[0], stationary=pi), pi
        ),
        "growth_condensed": growth[condensed],
        "growth_end": growth[end],
        "rank_start": rank[0],
        "rank_condensed": rank[1],
        "start_speed": float(np.linalg.norm(velocity((W0[0], WQ[0], WK[0], W1[0]), chain)[1])),
    }


def _directions(
    embedding: Array, projection: Array, alpha: Array, stationary: Array
) -> dict[str, float]:
    (left, sizes, right), (out_left, out_sizes, out_right) = (
        np.linalg.svd(embedding),
        np.linalg.svd(projection),
    )
    centred = theory.centred_stationary(stationary=stationary)
    return {
        "embedding_cosine": abs(float(theory.alignment(left[:, 0], stationary))),
        "projection_cosine": abs(float(theory.alignment(out_right[0], centred))),
        "direction_cosine": min(
            abs(float(theory.alignment(vector, alpha))) for vector in (right[0], out_left[:, 0])
        ),
        "top_share": min(float(top_share(values)) for values in (sizes, out_sizes)),
    }


def claims(record: xr.Dataset) -> Iterator[Claim]:
    settings = EXPERIMENT.settings_of(record)
    for law, chain in lazy_chains(settings.laws, settings.stays).items():
        at, case = (
            record.sel(law=law),
            Case({"law": law}, stages.conditions(chain, ("I",), settings.looked_at)),
        )
        large = case.but(stages.conditions(chain, ("I",), LARGE), start=LARGE, at="end of stage I")
        yield from _growth_claims(at, case, large, chain.stationary, settings.looked_at)
        yield from _attention_claims(at, case, settings.looked_at)


def _growth_claims(
    at: xr.Dataset, case: Case, large: Case, stationary: Array, scale: float
) -> Iterator[Claim]:
    small, read, end = (
        at.isel(init_scale=-1),
        at.sel(init_scale=scale),
        case.but(start=scale, at="end of stage I"),
    )
    mu_0, per_fold = (
        theory.condensation_rate(stationary=stationary),
        theory.condensation_slope(stationary=stationary),
    )
    delays = [fits.slope(np.log(1 / at.init_scale), at.end_time.sel(seed=seed)) for seed in at.seed]
    later, first = (
        "how much later stage I ends per e-fold of a smaller start",
        case.but(start=float(small.init_scale)),
    )
    yield first.near(
        THEOREM_3_2,
        "growth rate of the embedding's first singular value",
        small.rate,
        mu_0,
        relative=0.005,
        sentence="From a small start the embedding grows at a rate that the token frequencies alone decide.",
    )
    yield case.near(CONDENSATION_FROM_THE_START, later, delays, per_fold, relative=0.02)
    yield end.at_least(
        THEOREM_3_2,
        "|cos| of the embedding's token direction with π",
        read.embedding_cosine,
        1 - 1e-4,
    )
    yield large.breaking("stage I, small start").at_least(
        THEOREM_3_2, "|cos| of the embedding's token direction with π", at.large_cosine, 1 - 1e-4
    )
    yield end.at_least(
        THEOREM_3_2,
        "|cos| of the projection's token direction with π - 1/d",
        read.projection_cosine,
        1 - 1e-4,
    )
    yield end.at_least(
        CONDENSATION_FROM_THE_START,
        "|cos| of the width direction with α",
        read.direction_cosine,
        1 - 1e-4,
        sentence="The random initial weights decide along which direction the weights will grow.",
    )
    yield end.at_least(
        THEOREM_3_2,
        "share of the first direction in embedding and projection",
        read.top_share,
        1 - 1e-3,
    )


def _attention_claims(at: xr.Dataset, case: Case, scale: float) -> Iterator[Claim]:
    read, changed = at.sel(init_scale=scale), "relative change of |W_Q|"
    condensed, end = (
        case.but(start=scale, at=moment)
        for moment in (f"{CONDENSED:.1%} condensed", "end of stage I")
    )
    powers = [fits.power(at.init_scale, at.start_speed.sel(seed=seed)) for seed in at.seed]
    turned, exact = np.abs(read.rank_condensed - read.rank_start), case.but(against=CALCULUS)
    yield exact.at_most(
        THEOREM_3_2,
        "largest entry of -dL/dM minus π (π - 1/d)ᵀ at the origin",
        at.decoder_gap,
        1e-14,
    )
    yield exact.near(
        ATTENTION_AT_REST,
        "power of the start's size in the first speed of the queries",
        powers,
        5,
        within=0.05,
    )
    yield condensed.at_most(THEOREM_3_2, changed, np.abs(read.growth_condensed), 1e-5)
    yield end.at_most(ATTENTION_AT_REST, changed, np.abs(read.growth_end), 1e-5, expected=FAILS)
    yield condensed.at_most(
        ATTENTION_AT_REST, "change of the effective rank of W_Q W_Kᵀ", turned, 0.05
    )


def headlines(record: xr.Dataset) -> dict[str, float]:
    """By law, mean over seeds: the rate at the smallest start; end of the stage and growth of
    queries at the start `looked_at`.
    """
    rate, at = (
        record.rate.isel(init_scale=-1),
        record.sel(init_scale=EXPERIMENT.settings_of(record).looked_at),
    )
    found = {"rate": rate, "rate_over_predicted": rate / record.rate_predicted}
    return by_cell(
        found | {name: at[name] for name in ("end_time", "growth_condensed", "growth_end")},
        {"law": record.law.values},
    )


def panels(record: xr.Dataset) -> Layout:
    growth, directions, ends = [], [], []
    sizes, n = record.init_scale.values, record.sizes["init_scale"]
    folds, cosines = (
        np.log(1 / sizes),
        {"embedding": "π", "projection": "π - 1/d", "direction": "α"},
    )
    settings = EXPERIMENT.settings_of(record)
    for i, (law, chain) in enumerate(lazy_chains(settings.laws, settings.stays).items()):
        at, norm, mu_0 = (
            record.sel(law=law),
            theory.embedding_norm(stationary=chain.stationary),
            float(record.rate_predicted[i]),
        )
        for j, (time, curve) in enumerate(zip(at.curve_time, at.curve, strict=True)):
            label = "" if i else f"start {sizes[j]:g}"
            growth.append(
                Line(mu_0 * time, curve / norm, label, (LINE, DASHES)[i % 2], j / max(1, n - 1))
            )
        for tone, (name, target) in enumerate(cosines.items()):
            missing = np.maximum(1 - at[f"{name}_cosine"].values, 1e-16)
            x = np.repeat(sizes, missing.shape[1]) * (0.8, 1.25)[i % 2]
            directions.append(
                Line(
                    x,
                    missing.ravel(),
                    "" if i else f"{name} with {target}",
                    (POINTS, RINGS)[i % 2],
                    tone,
                )
            )
        found = at.end_time.values
        ends += [
            Line(np.repeat(folds, found.shape[1]), found.ravel(), "", POINTS, i),
            Line(
                folds,
                found.mean() + (folds - folds.mean()) / mu_0,
                f"{law}: 1/μ₀ = {1 / mu_0:.4g}",
                tone=i,
            ),
        ]
    guide, other = (
        np.array([3.0, 8.0]),
        f" ({{}}: {record.law.values[1]})" if record.sizes["law"] == 2 else "",
    )
    growth.append(Line(guide, 3e-6 * np.exp(guide - guide[0]), "slope μ₀", DOTS, None))
    return [
        Lines(
            f"growth{other.format('dashed')}",
            "μ₀ t",
            "first singular value / norm at the unigram point",
            growth,
            "y",
        ),
        Lines(
            f"directions{other.format('rings')}",
            "size of the start",
            "1 - |cos| at the end of stage I",
            directions,
            "xy",
            levels={1e-4: "tolerance"},
        ),
        Lines(
            "end of the stage", "ln(1 / size of the start)", "end of stage I", ends, ylim=(0, None)
        ),
    ]


EXPERIMENT = Experiment(
    "condensation",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Panel 1: the first singular value of the embedding, relative to its norm at the unigram point, one line per size of the "
        "start; time in units of 1/μ₀. Dotted: the predicted slope. Panel 2: how far the directions are from the predicted ones at "
        "the end of the stage, all seeds. Panel 3: end of the stage against the size of the start, all seeds; lines have the "
        "predicted slope."
    ),
    finding=(
        "embeddings grow at rate {growth rate*law paper*:.3f} (μ₀ within 0.5 %) along the predicted directions (to 1e-4); a start "
        "smaller by a factor e delays the end of the stage by {how much later*law paper*:.2f}"
    ),
    table=cell_rows,
    variables=VARIABLES,
    dynamics="B: population gradient flow, embedded model",
    time_unit=STEPS,
    headlines=headlines,
)
