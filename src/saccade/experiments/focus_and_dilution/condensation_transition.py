"""The initial weights alone predict when condensation ends: one number obeys a closed equation all
the way to the unigram point.

Follows the flow from small random starts on chains with equally frequent rare tokens, and tests
every step of the paper's passage from stage I to stage II: what stays at the size of the start
(Lemmas C.1 and C.4), how long the linear flow is accurate (Proposition C.2), that both amplitudes
grow (Proposition C.5), when the critical point is reached (Proposition C.6). Expect: arrival as
predicted from the start alone, with an error of the square of its size; orders at least those
printed, mostly better. The paper's n is 4 here, δ a share of the distance at the origin. 2e-4 for
arrival at size 1e-3 was set before any run; powers 0.02, 0.05 where they are limits. Known to fail:
arrival before the paper's T_d from starts that are not small enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import xarray as xr

import saccade
from saccade.dynamics.randomness import checked_seeds
from saccade.errors import InputError, checked_list
from saccade.experiments.focus_and_dilution.embedded_gradients import velocity
from saccade.experiments.focus_and_dilution.named_laws import EqualLow, equal_low_chains
from saccade.experiments.focus_and_dilution.stage_fits import STEPS, accurate_flow, small_start
from saccade.lab.claim import CALCULUS, FAILS, Case, Claim
from saccade.lab.panel import DASHES, POINTS, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress, Variable, grid, stretch
from saccade.lab.settings import Range
from saccade.model.embedded import Weights
from saccade.observe import fits
from saccade.observe.fits import Array
from saccade.theory import focus_and_dilution as theory
from saccade.theory.condition import Condition, above, at_least, at_most
from saccade.theory.focus_and_dilution.statements import (
    ARRIVAL_FROM_THE_START,
    FROZEN_PARTS,
    LEMMA_C_1,
    LEMMA_C_4,
    PROPOSITION_C_2,
    PROPOSITION_C_5,
    PROPOSITION_C_6,
    REMARK_C_3,
    SHARPER_ORDERS,
)

TERMS, AFTER = (
    EqualLow(0.6, 4, 0.5),
    EqualLow(0.75, 4, 0.8),
)  # chains of single questions: powers of terms, long after
ORDER = 4  # the paper's n
SHARES = (0.1, 0.03, 0.01, 0.003)  # δ over π₁ - 1/d, where the model starts
N_TIMES, N_CLOSE, SHOWN = (
    2000,
    400,
    18,
)  # samples of each flow, and within 1 % of each arrival; every so many are kept
LATE = 300.0  # long after stage II on the paper's own settings
DELTA, LATE_SCALE = 0.01, 1e-3  # δ of T_2 there, and the size of the start
# Ours: how small a start must be for the paper's limits to be asked of it, beside the share that
# token 0 lacks and in what it does to the clock of the ray. The bounds are those within which eq.
# 111 serves to 1e-3: chosen after runs on 19 laws had been seen. On 34 other laws (2 to 20 tokens,
# other seeds, two widths) all claims inside hold. The further conditions, below and of powers until
# T_2, were added for what was missed there: six claims on the first 18 laws, one on the next 16.
BESIDE, OFF_CLOCK = 0.0016, 0.03
OFF_LIMIT = 0.02  # share by which the ray's own time between the two smallest δ may be off its limit for δ → 0
RESOLVED = (
    1e3 * np.finfo(float).eps
)  # share of a velocity below which what is left over of it is rounding
BLOCKS = {
    "∂Φ W₀ W_QKᵀ": (3, 2),
    "W₀ᵀ ∂Φ W₀ W_K": (4, 1),
    "∂M minus its value without attention": (2, 2),
}

CELL = "law init_scale seed"
VARIABLES = {
    "linear_end": Variable("law init_scale", STEPS, "T_p"),
    "deadline": Variable("law init_scale", STEPS, "T_d"),
    "arrival": Variable(
        f"{CELL} shortfall", STEPS, "T_2: when token 0 lacks the given share of π₁ - 1/d"
    ),
    "arrival_predicted": Variable(f"{CELL} shortfall", STEPS, "the same from the start alone"),
    "duration": Variable(f"{CELL} shortfall", STEPS, "T_2 - T_p by the integral from z(T_p) on"),
    "weights_then": Variable(CELL, "1", "larger of |W_0| and |W_1| at T_p"),
    "linear_error": Variable(CELL, "1", "|a - ã| + |b - b̃| at T_p, tildes for the linear flow"),
    "attention_linear": Variable(CELL, "1", "largest |W_Q| + |W_K| until T_p"),
    "off_ray_linear": Variable(CELL, "1", "largest |R_0| + |R_1| until T_p"),
    "attention": Variable(CELL, "1", "largest |W_Q| + |W_K| until the last arrival, or the end"),
    "off_ray": Variable(CELL, "1", "largest |R_0| + |R_1| until the last arrival, or the end"),
    "falls": Variable(
        CELL, "1", "share of samples from T_p to the last arrival at which z or |a|² + |b|² falls"
    ),
    "imbalance": Variable(CELL, "1", "largest 1 - 2z / (|a|² + |b|²) there"),
    "clock_gap": Variable(CELL, "1", "largest |z' / (c_π z G) - 2| there"),
    "left_over": Variable(
        CELL,
        "1",
        "largest (|E_a| + |E_b|) / (W_out² (W_in² + |R_0| + |R_1|)) until the last arrival, or the end",
    ),
    "row_sum_speed": Variable(
        CELL, "1/time", "largest entry of d(W_1 1)/dt along the flow, by automatic differentiation"
    ),
    "curve_time": Variable(f"{CELL} sample", STEPS, "times of z"),
    "curve": Variable(f"{CELL} sample", "1", "z over its value at the unigram point"),
    "frozen_drift": Variable("law", "1", "largest change of R_0 over |R_0| with W_Q = W_K = 0"),
    "outer_power": Variable("block", "1", "power of W_out in a term of the flow"),
    "inner_power": Variable("block", "1", "power of W_in in it"),
    "late_gap": Variable("", "1", f"|π - p_sym| over {DELTA:g} at t = {LATE:g}, second law"),
    "last_time_off": Variable(
        "", STEPS, f"last time until t = {LATE:g} at which |π - p_sym| is at least {DELTA:g} there"
    ),
    "first_time_near": Variable("", STEPS, f"first time at which G is below {DELTA:g} there"),
    "near_predicted": Variable("", STEPS, "the same from the start alone"),
}


@dataclass(frozen=True)
class Settings:
    laws: tuple[str, ...] = ("0.6 of 4", "0.75 of 4", "0.4 of 3")
    """token frequencies of the chains, equal except for the first token: '0.6 of 4' means 0.6 for
    the first of four
    """
    stays: Annotated[tuple[float, ...], Range(0.0, 0.99)] = (0.5, 0.8, 0.5)
    """chance of repeating the last token in each, or one for all"""
    init_scales: tuple[float, ...] = (1e-2, 1e-3, 1e-4, 1e-6)
    """sizes of the start, at least three"""
    seeds: int | tuple[int, ...] = 3
    """number of random starts of each size (seeds 0, 1, 2, ...), or a list of seeds"""
    d_model: int = 6
    """width of embedding, queries and keys"""

    @property
    def chains(self) -> dict[str, EqualLow]:
        return equal_low_chains(self.laws, self.stays)


def measure(settings: Settings, on_progress: Progress) -> Measured:
    scales = sorted(
        checked_list("init_scales", settings.init_scales, low=1e-8, high=1e-2), reverse=True
    )
    if len(scales) < 3:
        raise InputError(
            "`init_scales` must list at least three sizes: powers of the size are compared with theory."
        )
    seeds, width, laws = checked_seeds(settings.seeds), settings.d_model, settings.chains
    of_law = partial(_passage, width=width)
    found = grid(of_law, stretch(on_progress, 0.0, 0.8), law=laws, init_scale=scales, seed=seeds)
    ends = {name: found.pop(name)[:, :, 0] for name in ("linear_end", "deadline")}
    found |= (
        ends | grid(partial(_frozen, width=width), law=laws) | grid(_powers, block=BLOCKS.keys())
    )
    coords = {
        "law": list(laws),
        "init_scale": scales,
        "seed": seeds,
        "shortfall": list(SHARES),
        "block": list(BLOCKS),
    }
    return Measured(found | _long_after(width), coords)


def _passage(law: EqualLow, scale: float, seed: int, *, width: int) -> dict[str, Any]:
    """From the start until the last arrival, and a little beyond."""
    two_level, n_vocab = law.law, law.n_vocab
    start, shortfalls = (
        small_start(n_vocab, scale, seed, width),
        np.array(SHARES) * (law.high - 1 / n_vocab),
    )
    predicted = theory.arrival_time(
        start.embedding,
        start.projection,
        shortfall=shortfalls,
        query_0=start.query,
        key_0=start.key,
        stay=law.stay,
        **two_level,
    )
    t_p = float(theory.linear_stage_end(scale, order=ORDER, **two_level))
    meant = predicted[
        predicted > 0
    ]  # where attention takes over, its help of first order may exceed all of the time
    close = np.outer(np.linspace(0.99, 1.01, N_CLOSE), meant).ravel()
    t = np.unique(
        np.concatenate([np.linspace(0, 1.05 * max([t_p, *meant]), N_TIMES), [t_p], close])
    )
    path = accurate_flow(law.chain, start, t, scale)
    a, b, *off = parts = theory.ray_parts(
        path.embedding, path.projection, stationary=theory.two_level_law(**two_level)
    )
    z, both, p = np.sum(a * b, axis=1), np.sum(a**2 + b**2, axis=1), int(np.searchsorted(t, t_p))
    targets = [theory.arrival_overlap(shortfall=delta, **two_level) for delta in shortfalls]
    arrival = np.array([fits.reaching_time(t, z, target) for target in targets])
    end = fits.first_index(t, arrival[-1])  # all of the run where attention takes over before
    until, later = slice(end), slice(p, end)
    attention, off_ray = (_norm(one) + _norm(other) for one, other in ((path.query, path.key), off))
    speed = 2 * theory.missing_share(z, **two_level) * theory.overlap_constant(**two_level) * z
    return {
        "linear_end": t_p,
        "deadline": float(theory.arrival_deadline(scale, order=ORDER, **two_level)),
        "arrival": arrival,
        "arrival_predicted": predicted,
        "duration": np.array(
            [theory.ray_duration(z[p], target, **two_level) for target in targets]
        ),
        "weights_then": max(_norm(path.embedding)[p], _norm(path.projection)[p]),
        "linear_error": _linear_error(parts, start, t_p, p, two_level),
        "attention_linear": attention[: p + 1].max(),
        "off_ray_linear": off_ray[: p + 1].max(),
        "attention": attention[until].max(),
        "off_ray": off_ray[until].max(),
        "falls": np.mean((np.diff(z[later]) <= 0) | (np.diff(both[later]) <= 0)),
        "imbalance": np.max(1 - 2 * z[later] / both[later]),
        "clock_gap": np.max(np.abs(2 * np.gradient(z, t)[later] / speed[later] - 2)),
        "left_over": _left_over(Weights(*(part[1:end] for part in path)), law),
        "row_sum_speed": _row_sum_speed(path, law.chain),
        "curve_time": t[::SHOWN],
        "curve": z[::SHOWN] / theory.overlap_target(**two_level),
    }


def _left_over(path: Weights, law: EqualLow) -> float:
    """What a' = g b + E_a and b' = g a + E_b leave over, against its bound in eq. 83; at a dozen
    states.
    """
    every = Weights(*(part[:: len(path.embedding) // 12] for part in path))
    moving = Weights(
        *map(
            np.stack,
            zip(*(velocity(at, law.chain) for at in zip(*every, strict=True)), strict=True),
        )
    )
    split = partial(theory.ray_parts, stationary=theory.two_level_law(**law.law))
    (a, b, *off), (a_dot, b_dot, *_) = (
        split(weights.embedding, weights.projection) for weights in (every, moving)
    )
    g = theory.missing_share(np.sum(a * b, axis=1), **law.law) * theory.overlap_constant(**law.law)
    left = np.linalg.norm(a_dot - g[:, None] * b, axis=1) + np.linalg.norm(
        b_dot - g[:, None] * a, axis=1
    )
    outer, inner, rest = (
        _norm(one) + _norm(other)
        for one, other in ((every.embedding, every.projection), every[1:3], off)
    )
    whole = np.linalg.norm(a_dot, axis=1) + np.linalg.norm(b_dot, axis=1)
    return float(
        np.max(np.where(left > RESOLVED * whole, left, 0.0) / (outer**2 * (inner**2 + rest)))
    )


def _row_sum_speed(path: Weights, chain: saccade.MarkovChain) -> float:
    """Of the gradient at a dozen states: the solver holds row sums by itself, so their change along
    the path would tell nothing.
    """
    every = len(path.projection) // 12
    return max(
        float(np.abs(velocity(at, chain)[-1].sum(axis=1)).max())
        for at in zip(*(part[::every] for part in path), strict=True)
    )


def _linear_error(
    parts: theory.RayParts, start: Weights, t_p: float, p: int, two_level: dict[str, Any]
) -> float:
    pi = theory.two_level_law(**two_level)
    linear = theory.ray_parts(
        *theory.linear_weights(t_p, start.embedding, start.projection, stationary=pi), stationary=pi
    )
    return sum(
        float(np.linalg.norm(ours[p] - theirs))
        for ours, theirs in zip(parts[:2], linear[:2], strict=True)
    )


def _norm(matrices: Array) -> Array:
    return np.linalg.norm(matrices, axis=(-2, -1))


def _frozen(law: EqualLow, *, width: int) -> dict[str, float]:
    """The flow without attention from a start of size 0.1, whose nonlinear terms are not small."""
    chain, drawn = law.chain, small_start(law.n_vocab, 0.1, 0, width)
    start = drawn._replace(query=0 * drawn.query, key=0 * drawn.key)
    path = accurate_flow(chain, start, np.linspace(0, 20, 50), 0.1)
    off = theory.ray_parts(
        path.embedding, path.projection, stationary=chain.stationary
    ).embedding_off
    return {"frozen_drift": np.abs(off - off[0]).max() / np.linalg.norm(off[0])}


def _powers(block: str) -> dict[str, float]:
    """How a term of the flow falls with the size of embedding and projection, and of queries and
    keys, at random weights.
    """
    chain, sizes = TERMS.chain, np.array([1e-2, 5e-3])
    outer = [_term(block, chain, size, 0.1) for size in sizes]
    inner = [_term(block, chain, 0.1, size) for size in sizes]
    return {"outer_power": fits.power(sizes, outer), "inner_power": fits.power(sizes, inner)}


def _term(block: str, chain: saccade.MarkovChain, outer: float, inner: float) -> float:
    W0, WQ, WK, W1 = small_start(chain.n_vocab, 1.0, 0, 5)
    W0, WQ, WK, W1 = outer * W0, inner * WQ, inner * WK, outer * W1
    of_chain: dict[str, Any] = {"stationary": chain.stationary, "transition": chain.transition}
    slope, bare = (
        theory.composite_gradients(W0, factor * WQ, WK, W1, **of_chain) for factor in (1, 0)
    )
    phi = slope.attention_logits
    terms = phi @ W0 @ WK @ WQ.T, W0.T @ phi @ W0 @ WK, slope.decoder - bare.decoder
    return float(np.linalg.norm(dict(zip(BLOCKS, terms, strict=True))[block]))


def _long_after(width: int) -> dict[str, float]:
    """The paper's T_2 is the last time at which the ray's prediction is off by δ; attention takes
    it off again for good.
    """
    (high, n_vocab, _), scale, delta = AFTER, LATE_SCALE, DELTA
    t, start = np.linspace(0, LATE, 4 * N_TIMES), small_start(n_vocab, scale, 0, width)
    path = accurate_flow(AFTER.chain, start, t, scale)
    a, b, *_ = theory.ray_parts(
        path.embedding, path.projection, stationary=theory.two_level_law(high=high, n_vocab=n_vocab)
    )
    missing = theory.missing_share(np.sum(a * b, axis=1), high=high, n_vocab=n_vocab)
    gap = np.abs(missing) * np.sqrt(n_vocab / (n_vocab - 1)) / delta
    predicted = theory.arrival_time(
        start.embedding, start.projection, high=high, n_vocab=n_vocab, shortfall=delta
    )
    return {
        "late_gap": gap[-1],
        "last_time_off": t[gap >= 1][-1],
        "first_time_near": fits.reaching_time(t, -missing, -delta),
        "near_predicted": predicted,
    }


def claims(record: xr.Dataset) -> Iterator[Claim]:
    for law, one in EXPERIMENT.settings_of(record).chains.items():
        case, at = Case(one.case), record.sel(law=law)
        beside, slow = _small_enough(at, one)
        yield from _of_orders(at, case, one)
        yield from _of_frozen(at, case)
        yield from _of_ray(at, case.but(given=[beside, slow]))
        yield from _of_arrival(at, case.but(given=[beside, slow]), one.law)
    for block, powers in BLOCKS.items():
        found, case = record.sel(block=block), Case({"term": block}, (), CALCULUS)
        for name, power, expected in zip(
            ("W_out", "W_in"), (found.outer_power, found.inner_power), powers, strict=True
        ):
            yield case.near(LEMMA_C_1, f"power of {name}", power, expected, within=0.02)
    late = Case(
        {"π₁": AFTER.high, "d": AFTER.n_vocab, "λ": AFTER.stay, "ε": LATE_SCALE, "δ": DELTA}
    )
    yield late.but(**{"end of the run": LATE}).erratum(
        PROPOSITION_C_6,
        "T_2, which eq. 113 estimates: last time with |π - p_sym| ≥ δ, or first with G ≤ δ",
        float(record.first_time_near),
        number="1.9",
        printed=float(record.last_time_off),
        corrected=float(record.near_predicted),
        within=0.01,
    )
    yield late.but(t=LATE).at_least(
        PROPOSITION_C_6,
        "|π - p_sym| over δ long after",
        record.late_gap,
        1,
        sentence="Attention later moves the prediction away from π again, so the supremum of eq. 88 is not reached by then.",
    )


def _small_enough(at: xr.Dataset, law: EqualLow) -> tuple[Condition, Condition]:
    """Both of the starts and their predictions alone. Between two arrivals the ray by itself takes
    the difference of `duration`.
    """
    clock = at.arrival_predicted.diff("shortfall") / at.duration.diff("shortfall")
    beside = float(at.init_scale.max()) ** 2 / (law.high - 1 / law.n_vocab)
    return (
        at_most("ε² small compared with π₁ - 1/d", beside, BESIDE, "largest ε² / (π₁ - 1/d)"),
        at_most(
            "the ray keeps its clock until T_2",
            np.abs(clock - 1).max(skipna=False),
            OFF_CLOCK,
            "share by which attention and weights off the ray change it, predicted",
        ),
    )


def _powers_of(at: xr.Dataset, name: str) -> list[float]:
    """Between the two smallest starts: orders are limits."""
    return [fits.power(at.init_scale[-2:], at[name].sel(seed=seed)[-2:]) for seed in at.seed]


def _of_orders(at: xr.Dataset, case: Case, law: EqualLow) -> Iterator[Claim]:
    """Until T_p no clock is asked; until T_2 that of the two starts between which a power is read."""
    beside, _ = _small_enough(at, law)
    power, rest = "power of ε in {}", case.but(given=[beside], n=ORDER)
    late = case.but(given=_small_enough(at.isel(init_scale=slice(-2, None)), law))
    seen = above(
        "more is left over than rounding",
        at.left_over[-2:].min(),
        0.0,
        "least of the two smallest starts",
    )
    yield case.near(
        LEMMA_C_1,
        power.format("|W_Q| + |W_K|, until T_p"),
        _powers_of(at, "attention_linear"),
        1,
        within=0.02,
    )
    yield case.near(
        LEMMA_C_1,
        power.format("|R_0| + |R_1|, until T_p"),
        _powers_of(at, "off_ray_linear"),
        1,
        within=0.02,
    )
    title = power.format("(|E_a| + |E_b|) over its bound, eq. 83, until T_2")
    yield late.but(given=[*late.given, seen]).at_least(
        PROPOSITION_C_2, title, _powers_of(at, "left_over"), -0.02
    )
    yield rest.near(
        PROPOSITION_C_2,
        power.format("the weights at T_p"),
        _powers_of(at, "weights_then"),
        1 / ORDER,
        within=0.02,
    )
    error = _powers_of(at, "linear_error")
    yield rest.at_least(
        PROPOSITION_C_2, power.format("the linear flow's error at T_p"), error, 2 / ORDER
    )
    yield rest.near(
        SHARPER_ORDERS,
        power.format("the linear flow's error at T_p"),
        error,
        3 / ORDER,
        within=0.05,
    )
    yield rest.at_least(
        REMARK_C_3,
        power.format("|R_0| + |R_1| at T_p, above the 2/n of Lemma 3.1"),
        np.array(_powers_of(at, "off_ray_linear")) - 2 / ORDER,
        0,
        strict=True,
    )
    attention = _powers_of(at, "attention")
    yield late.at_least(LEMMA_C_4, power.format("|W_Q| + |W_K|, until T_2"), attention, 2 / 3)
    yield late.near(
        SHARPER_ORDERS, power.format("|W_Q| + |W_K|, until T_2"), attention, 1, within=0.02
    )
    yield late.near(
        LEMMA_C_4,
        power.format("|R_0| + |R_1|, until T_2"),
        _powers_of(at, "off_ray"),
        1,
        within=0.02,
    )


def _of_ray(at: xr.Dataset, case: Case) -> Iterator[Claim]:
    small = at.init_scale ** (1 / ORDER)
    yield case.none(PROPOSITION_C_5, "z and |a|² + |b|² grow from T_p to T_2", at.falls.values > 0)
    yield case.at_most(
        PROPOSITION_C_5, "1 - 2z / (|a|² + |b|²) over its bound ε^(1/n)", at.imbalance / small, 1
    )
    yield case.at_most(
        PROPOSITION_C_6,
        "|z' / (c_π z G) - 2| over its bound ε^(1/2n)",
        at.clock_gap / np.sqrt(small),
        1,
    )


def _of_frozen(at: xr.Dataset, case: Case) -> Iterator[Claim]:
    identity = case.but(against=CALCULUS)
    yield identity.at_most(
        FROZEN_PARTS, "largest entry of d(W_1 1)/dt along the flow", at.row_sum_speed, 1e-14
    )
    yield case.at_most(
        FROZEN_PARTS, "change of R_0 without attention, over |R_0|", at.frozen_drift, 1e-9
    )


def _of_arrival(at: xr.Dataset, case: Case, two_level: dict[str, Any]) -> Iterator[Claim]:
    per_fold, per_shortfall = theory.arrival_slope(order=ORDER, **two_level)
    took, first, smallest = at.arrival - at.linear_end, at.isel(shortfall=0), at.isel(init_scale=-1)
    folds, gap = np.log(1 / at.init_scale), np.abs(first.arrival - first.arrival_predicted)
    slopes = [fits.slope(folds, took.sel(seed=seed).isel(shortfall=0)) for seed in at.seed]
    last = [
        fits.slope(np.log(1 / at.shortfall[-2:]), smallest.arrival.sel(seed=seed)[-2:])
        for seed in at.seed
    ]
    off, title = (
        np.abs(took - at.duration)[1:],
        "T_2 - T_p against the integral of eq. 111, but for the largest start",
    )
    yield case.at_most(PROPOSITION_C_6, title, off, 1e-3)
    yield case.near(
        PROPOSITION_C_6, "T_2 - T_p per e-fold of a smaller start", slopes, per_fold, relative=0.005
    )
    yield case.but(given=[*case.given, _small_shortfall(smallest, per_shortfall)]).near(
        PROPOSITION_C_6, "T_2 per e-fold of a smaller δ", last, per_shortfall, relative=0.03
    )
    late = ~(at.arrival <= at.deadline).values  # who never arrives is late
    yield case.none(PROPOSITION_C_6, "T_2 ≤ T_d, smallest start and largest δ", late[-1, :, 0])
    yield case.none(PROPOSITION_C_6, "T_2 ≤ T_d, every start and δ", late, expected=FAILS)
    if 1e-3 in at.init_scale:
        title = f"arrival within {SHARES[0]:g} to {SHARES[-1]:g} of π₁ - 1/d, against the start alone: largest gap"
        every = np.abs(at.arrival - at.arrival_predicted).sel(init_scale=1e-3)
        yield case.but(start=1e-3).at_most(ARRIVAL_FROM_THE_START, title, every, 2e-4)
    widest = gap.max(
        "seed", skipna=False
    )  # from the third start on it is below what samples tell, by the square of the size
    resolved = at_least(
        "gap of the arrival resolved",
        widest[1] / widest[2],
        1.0,
        "gap of the second start / of the third",
    )
    power = fits.power(at.init_scale[:2], widest[:2])
    yield case.but(given=[*case.given, resolved]).at_least(
        ARRIVAL_FROM_THE_START, "power of ε in the error of the arrival time", power, 1.8
    )


def _small_shortfall(at: xr.Dataset, per_fold: float) -> Condition:
    """Whether the two smallest δ are small enough for their limit, by eq. 111 alone: beside 1 - π₁
    they may not be.
    """
    by_itself = at.duration.diff("shortfall")[..., -1] / np.log(
        at.shortfall.values[-2] / at.shortfall.values[-1]
    )
    name, quantity = (
        "δ small enough for its limit",
        "share by which the integral of eq. 111 is off its limit",
    )
    return at_most(name, np.abs(by_itself / per_fold - 1).max(), OFF_LIMIT, quantity)


def panels(record: xr.Dataset) -> Layout:
    curves, arrivals, gaps = [], [], []
    for i, (law, (high, n_vocab, _)) in enumerate(EXPERIMENT.settings_of(record).chains.items()):
        at = record.sel(law=law)
        for j, scale in enumerate(record.init_scale.values):
            one = at.isel(seed=0, init_scale=j)
            folds = (
                theory.condensation_rate(
                    stationary=theory.two_level_law(high=high, n_vocab=n_vocab)
                )
                * one.curve_time
            )
            curves.append(
                Line(
                    folds,
                    one.curve,
                    "" if i else f"start {scale:g}",
                    tone=j / max(1, len(at.init_scale) - 1),
                )
            )
        folds, near = np.log(1 / at.init_scale), at.isel(shortfall=0)
        n = at.sizes["seed"]
        label = f"π₁ = {high:g}, d = {n_vocab}"
        arrivals += [
            Line(np.repeat(folds, n), near.arrival.values.ravel(), label, POINTS, i),
            Line(folds, near.arrival_predicted.mean("seed"), "", tone=i),
        ]
        gaps.append(
            Line(
                at.init_scale,
                np.abs(near.arrival - near.arrival_predicted).max("seed"),
                label,
                POINTS,
                i,
            )
        )
    sizes = record.init_scale.values
    gaps.append(Line(sizes[:2], 30 * sizes[:2] ** 2, "as ε²", DASHES, None))
    return [
        Lines(
            "z over time, all chains",
            "time in e-folds, μ₀ t",
            "z / its value at the unigram point",
            curves,
            "y",
            ylim=(1e-10, 3),
        ),
        Lines(
            "arrival, and its prediction",
            "ln(1 / size of the start)",
            "time of arrival",
            arrivals,
            ylim=(0, None),
        ),
        Lines("error of the prediction", "size of the start", "|arrival - prediction|", gaps, "xy"),
    ]


EXPERIMENT = Experiment(
    "condensation-transition",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Panel 1: z, the product of both amplitudes along the condensation ray, relative to its value at the unigram point, first "
        "seed; one line per chain, paler for larger starts. Panel 2: when the prediction for token 0 is only a tenth as far from "
        "its frequency as at first, all seeds; lines: predicted from the initial weights. Panel 3: error of that prediction; "
        "dashed: the square of the start's size. Below 1e-5 the spacing of the samples limits it."
    ),
    finding=(
        "arrival at the unigram point is predicted from the initial weights to within {arrival within*(π₁ 0.6*:.1g} at initial "
        "scale 1e-3; queries, keys and everything off the ray stay at the initial scale"
    ),
    variables=VARIABLES,
    dynamics="B: population gradient flow, embedded model",
    time_unit=STEPS,
)
