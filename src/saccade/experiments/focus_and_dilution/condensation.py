"""Before attention moves, embedding and projection grow along one direction, and the initial
weights alone predict when that ends.

Follows the population flow from small random starts until the embedding has half its norm at the
unigram point: the end of stage I. Attention rests while the embedding condenses, since the force on
queries is of fifth order in the weights; at the very end they do move, by up to a few tenths of a
percent however small the start. On chains with equally frequent rare tokens it then tests the
paper's passage from stage I to II: what stays at the size of the start, how long the linear flow is
accurate, when the unigram point is reached. The paper's n is 4 here, and δ a share of the distance
at the origin. Known to fail: arrival before the paper's T_d from starts that are not small enough.
"""

from __future__ import annotations

import re
from typing import Annotated as A
from typing import Any, NamedTuple

import numpy as np

import saccade
from saccade.engines.randomness import checked_seeds
from saccade.errors import InputError, checked_list
from saccade.experiments.focus_and_dilution import stage_fits as stages
from saccade.experiments.focus_and_dilution.named_laws import (
    FORMS,
    EqualLow,
    equal_low_chains,
    lazy_chains,
)
from saccade.lab.experiment import Lab, experiment
from saccade.lab.relation import centre
from saccade.lab.settings import Range
from saccade.measures import fits, singular_values, top_share
from saccade.measures.fits import Array
from saccade.panels import DASHES, POINTS, Line, Lines, family
from saccade.theories import focus_and_dilution as theory
from saccade.theories.condition import at_most
from saccade.theories.focus_and_dilution.statements import (
    ARRIVAL_FROM_THE_START,
    ATTENTION_AT_REST,
    CONDENSATION_FROM_THE_START,
    LEMMA_C_1,
    LEMMA_C_4,
    PROPOSITION_C_2,
    PROPOSITION_C_5,
    PROPOSITION_C_6,
    REMARK_C_3,
    SHARPER_ORDERS,
    THEOREM_3_2,
)

LARGE = 0.1  # a start with no time to choose a direction
CONDENSED = 0.999  # share of the first direction: the others have 3 % of its length
ORDER = 4  # the paper's n
SHARES = (0.1, 0.03, 0.01, 0.003)  # δ over π₁ - 1/d, where the model starts
N_TIMES = 2000  # samples of each passage, and within 1 % of each arrival
N_CLOSE = 400
WIDTH = 6  # of embedding, queries and keys in the passages
AFTER = EqualLow(0.75, 4, 0.8)  # a chain followed until long after stage II
LATE = 300.0
DELTA = 0.01  # δ of T_2 there, and the size of the start
LATE_SCALE = 1e-3
# Ours: how small a start must be for the paper's limits to be tested on it, compared with the share
# that token 0 lacks, and in its effect on the clock of the ray. Within these bounds eq. 111 is
# right to 1e-3. They were chosen after runs on 19 laws; on 34 other laws all claims inside hold.
SMALL = 0.0016
OFF_CLOCK = 0.03


class StageOne(NamedTuple):
    """Flows until the end of stage I, where directions are measured."""

    rate: Any  # growth rate of the embedding's first singular value
    end: Any
    tokens: Any  # |cos| of the embedding's first direction with π
    next_tokens: Any  # of the projection's with π - 1/d
    width: Any  # the lesser |cos| of both matrices' direction over the width with α
    moved_before: Any  # relative change of |W_Q| where the embedding is condensed
    moved: Any  # at the end


def stage_one(
    chain: saccade.MarkovChain, scale: float, seeds: list[int]
) -> tuple[StageOne, Array, Array]:
    """One field for all seeds; times in units of 1/μ₀, and the first seed's first singular value
    over its size at the unigram point. The linear flow passes that point ten times over.
    """
    pi = chain.stationary
    norm = theory.embedding_norm(stationary=chain.stationary)
    mu_0 = theory.condensation_rate(stationary=pi)
    model = saccade.models.Embedded(init_scale=scale)
    t1 = np.log(10 * norm / scale) / mu_0
    flowed = saccade.flow(
        chain,
        t1=t1,
        n_times=600,
        seeds=seeds,
        model=model,
    )
    t = flowed.time.values
    found = []
    for place in range(len(seeds)):
        run = flowed.isel(seed=place)
        W0, WQ, W1 = run.embedding.values, run.query_matrix.values, run.projection.values
        values = singular_values(W0)
        size = np.linalg.norm(W0, axis=(1, 2))
        end = fits.first_index(size, norm / 2)
        condensed = fits.first_index(top_share(values), CONDENSED)
        moved = np.abs(np.linalg.norm(WQ, axis=(1, 2)) / np.linalg.norm(WQ[0]) - 1)
        left, _, right = np.linalg.svd(W0[end])
        out_left, _, out_right = np.linalg.svd(W1[end])
        alpha = theory.condensed_direction(W0[0], W1[0], stationary=pi)
        centred = theory.centred_stationary(stationary=pi)
        window = stages.condensation_window(values[:, 0], pi)
        found.append(
            StageOne(
                rate=fits.growth_rate(t, values[:, 0], window),
                end=fits.reaching_time(t, size, norm / 2),
                tokens=abs(theory.alignment(left[:, 0], pi)),
                next_tokens=abs(theory.alignment(out_right[0], centred)),
                width=min(abs(theory.alignment(one, alpha)) for one in (right[0], out_left[:, 0])),
                moved_before=moved[condensed],
                moved=moved[end],
            )
        )
    curve = singular_values(flowed.embedding.values[0])[:, 0] / norm
    return StageOne(*np.transpose(found)), mu_0 * t, curve


class Passage(NamedTuple):
    """One flow from a small start until its last arrival, along the condensation ray.

    a and b are the amplitudes of embedding and projection, z = a·b, and R what is off the ray.
    """

    arrival: Array  # δ: T_2, when token 0 lacks the given share of π₁ - 1/d
    predicted: Array  # the same from the start alone
    duration: Array  # T_2 - T_p by the integral of eq. 111 from z(T_p) on
    linear_error: float  # |a - ã| + |b - b̃| at T_p, tildes for the linear flow
    attention_linear: float  # largest |W_Q| + |W_K| until T_p
    off_ray_linear: float  # largest |R_0| + |R_1| until T_p
    attention: float  # the same until the last arrival, or the end
    off_ray: float
    falls: bool  # whether z or |a|² + |b|² falls between T_p and the last arrival


def norm(matrices: Array) -> Array:
    return np.linalg.norm(matrices, axis=(-2, -1))


def passage(one: EqualLow, scale: float, seed: int) -> Passage:
    law = one.law
    start = stages.small_start(one.n_vocab, scale, seed, WIDTH)
    pi = theory.two_level_law(**law)
    shortfalls = np.array(SHARES) * (one.high - 1 / one.n_vocab)
    predicted = theory.arrival_time(
        start.embedding,
        start.projection,
        shortfall=shortfalls,
        query_0=start.query,
        key_0=start.key,
        stay=one.stay,
        **law,
    )
    t_p = float(theory.linear_stage_end(scale, order=ORDER, **law))
    # where attention takes over, its help of first order may exceed all of the time
    meant = predicted[predicted > 0]
    close = np.outer(np.linspace(0.99, 1.01, N_CLOSE), meant).ravel()
    whole = np.linspace(0, 1.05 * max([t_p, *meant]), N_TIMES)
    t = np.unique(np.concatenate([whole, [t_p], close]))
    path = stages.accurate_flow(one.chain, start, t, scale)
    a, b, *off = theory.ray_parts(path.embedding, path.projection, stationary=pi)
    z = np.sum(a * b, axis=1)
    both = np.sum(a**2 + b**2, axis=1)
    p = int(np.searchsorted(t, t_p))
    targets = [theory.arrival_overlap(shortfall=delta, **law) for delta in shortfalls]
    arrival = np.array([fits.reaching_time(t, z, target) for target in targets])
    end = fits.first_index(t, arrival[-1])  # all of the run where attention takes over before
    attention = norm(path.query) + norm(path.key)
    off_ray = norm(off[0]) + norm(off[1])
    later = slice(p, end)
    linear = theory.linear_weights(t_p, start.embedding, start.projection, stationary=pi)
    a_linear, b_linear, *_ = theory.ray_parts(*linear, stationary=pi)
    return Passage(
        arrival=arrival,
        predicted=predicted,
        duration=np.array([theory.ray_duration(z[p], target, **law) for target in targets]),
        linear_error=float(np.linalg.norm(a[p] - a_linear) + np.linalg.norm(b[p] - b_linear)),
        attention_linear=attention[: p + 1].max(),
        off_ray_linear=off_ray[: p + 1].max(),
        attention=attention[:end].max(),
        off_ray=off_ray[:end].max(),
        falls=bool(np.any((np.diff(z[later]) <= 0) | (np.diff(both[later]) <= 0))),
    )


def near_and_off() -> tuple[float, float, float]:
    """Long after stage II: when the ray's prediction is first nearer than δ, the same from the
    start alone, and when it is last off by δ, since attention takes it off again for good.
    """
    law = AFTER.law
    t = np.linspace(0, LATE, 4 * N_TIMES)
    start = stages.small_start(AFTER.n_vocab, LATE_SCALE, 0, WIDTH)
    path = stages.accurate_flow(AFTER.chain, start, t, LATE_SCALE)
    pi = theory.two_level_law(**law)
    a, b, *_ = theory.ray_parts(path.embedding, path.projection, stationary=pi)
    missing = theory.missing_share(np.sum(a * b, axis=1), **law)
    gap = np.abs(missing) * np.sqrt(AFTER.n_vocab / (AFTER.n_vocab - 1)) / DELTA
    predicted = theory.arrival_time(
        start.embedding,
        start.projection,
        shortfall=DELTA,
        **law,
    )
    return fits.reaching_time(t, -missing, -DELTA), float(predicted), float(t[gap >= 1][-1])


def with_theory(folds: Array, times: Array, predicted: Array, law: str) -> list[Line]:
    """Times of all seeds against the size of the start, and a line for the theory."""
    measured = Line(np.repeat(folds, times.shape[1]), times.ravel(), law, POINTS)
    return [measured, Line(folds, predicted, tone=None)]


def checked_sizes(name: str, sizes: tuple[float, ...], least: int) -> Array:
    found = np.sort(checked_list(name, sizes, low=1e-8, high=1e-2))[::-1]
    if len(found) < least:
        raise InputError(
            f"`{name}` must list at least {least} sizes: theory predicts how results change with "
            f"the size of the start; got {len(found)}."
        )
    return found


@experiment(
    "condensation",
    dynamics="B: population gradient flow, embedded model",
    time_unit=stages.STEPS,
)
def condensation(
    lab: Lab,
    laws: A[tuple[str, ...], "token frequencies of the chains of stage I: " + FORMS] = (
        "paper",
        "zipf-6",
    ),
    stays: A[tuple[float, ...], "chance of repeating the last token: each, or one for all"] = (
        0.3,
        0.5,
    ),
    init_scales: A[tuple[float, ...], "sizes of the start there, at least two"] = (
        1e-2,
        1e-3,
        1e-4,
        1e-5,
    ),
    seeds: A[int | tuple[int, ...], "number of random starts of each size, or a list of seeds"] = 5,
    equal_laws: A[tuple[str, ...], "chains with equal rare tokens, followed until arrival"] = (
        "0.6 of 4",
        "0.75 of 4",
        "0.4 of 3",
    ),
    equal_stays: A[tuple[float, ...], Range(0.0, 0.99), "chance of repeating in these"] = (
        0.5,
        0.8,
        0.5,
    ),
    equal_scales: A[tuple[float, ...], "sizes of the start there, at least three"] = (
        1e-2,
        1e-3,
        1e-4,
        1e-6,
    ),
    equal_seeds: A[int | tuple[int, ...], "number of starts there, or a list of seeds"] = 3,
) -> str:
    """Do embeddings condense onto one direction before attention moves?"""
    sizes = checked_sizes("init_scales", init_scales, 2)
    small = checked_sizes("equal_scales", equal_scales, 3)
    starts = checked_seeds(seeds)
    equal_starts = checked_seeds(equal_seeds)
    chains = lazy_chains(laws, stays)
    try:
        equal = equal_low_chains(equal_laws, equal_stays)
    except InputError as error:  # it names the settings of stage I
        message = re.sub("`(laws|stays)`", r"`equal_\1`", str(error))
        raise InputError(message) from None
    growth = list[Line]()
    ends = list[Line]()
    arrivals = list[Line]()
    main = []
    off = []
    cosines = []
    moved = []
    passages = list[list[list[Passage]]]()
    folds = np.log(1 / sizes)
    for law, chain in lab.each([*chains.items(), *equal.items()]):
        if isinstance(chain, EqualLow):
            passages.append(
                [[passage(chain, size, seed) for seed in equal_starts] for size in lab.each(small)]
            )
            continue

        # stage I: rate, length, directions, queries
        runs = [stage_one(chain, size, starts) for size in lab.each((*sizes, LARGE))]
        found = [run for run, _, _ in runs[:-1]]
        large = runs[-1][0]
        mu_0 = theory.condensation_rate(stationary=chain.stationary)
        case, rough = (
            lab.case(*stages.conditions(chain, ("I",), size), law=law) for size in (sizes[1], LARGE)
        )
        end = case.but(at="end of stage I")
        later = np.array([one.end for one in found])
        condensed = case.but(at=f"{CONDENSED:.1%} condensed").after_trial_runs
        cosine = "|cos| of the embedding's token direction with π"
        main += [
            case.near(
                THEOREM_3_2,
                "growth rate of the embedding's first singular value",
                found[-1].rate,
                mu_0,
                relative=0.005,
            ),
            condensed.at_most(THEOREM_3_2, "relative change of |W_Q|", found[1].moved_before, 1e-5),
        ]
        main += [
            end.at_least(statement, title, values, 1 - 1e-4)
            for statement, title, values in (
                (THEOREM_3_2, cosine, found[1].tokens),
                (
                    THEOREM_3_2,
                    "|cos| of the projection's token direction with π - 1/d",
                    found[1].next_tokens,
                ),
                (
                    CONDENSATION_FROM_THE_START,
                    "|cos| of the width direction with α",
                    found[1].width,
                ),
            )
        ]
        case.near(
            CONDENSATION_FROM_THE_START,
            "how much later stage I ends per e-fold of a smaller start",
            [fits.slope(folds, one) for one in later.T],
            theory.condensation_slope(stationary=chain.stationary),
            relative=0.02,
        )
        rough.but(start="large").breaking("stage I, small start").at_least(
            THEOREM_3_2, cosine, large.tokens, 1 - 1e-4
        )
        end.at_most(ATTENTION_AT_REST, "relative change of |W_Q|", found[1].moved, 1e-5)
        off.append(np.abs(found[-1].rate / mu_0 - 1).max())
        cosines.append(found[1].tokens.min())
        moved.append(found[1].moved.max())
        for seed, times in zip(starts, later.T, strict=True):
            lab.keep(
                "end_of_stage_one",
                times,
                "size",
                unit="time",
                law=law,
                seed=seed,
            )
        growth += [
            line._replace(style=DASHES if growth else "line")
            for line in family(
                [times for _, times, _ in runs[:-1]],
                [curve for _, _, curve in runs[:-1]],
                [f"{law}, {size:g}" for size in sizes],
            )
        ]
        ends += with_theory(folds, later, later.mean() + (folds - folds.mean()) / mu_0, law)

    # the passage: law, size of the start, seed, and δ for times of arrival
    of = {
        name: np.array([[[getattr(run, name) for run in row] for row in rows] for rows in passages])
        for name in Passage._fields
    }

    def power(name: str) -> Array:
        """Of the start's size, between the two smallest: orders are limits."""
        return np.apply_along_axis(lambda y: fits.power(small[-2:], y), 1, of[name][:, -2:])

    arrival = of["arrival"]
    predicted = of["predicted"]
    duration = of["duration"]
    t_p, deadline = (
        np.array([clock(small, order=ORDER, **one.law) for one in equal.values()])[..., None, None]
        for clock in (theory.linear_stage_end, theory.arrival_deadline)
    )
    room = min(one.high - 1 / one.n_vocab for one in equal.values())
    clock = np.abs(np.diff(predicted) / np.diff(duration) - 1).max()
    early = lab.case(
        at_most("ε² small compared with π₁ - 1/d", small[0] ** 2 / room, SMALL, "ε² / (π₁ - 1/d)")
    )
    late = early.but(
        given=[
            *early.given,
            at_most(
                "the ray keeps its clock until T_2",
                clock,
                OFF_CLOCK,
                "share by which attention and weights off the ray change it, predicted",
            ),
        ]
    )
    early.near(
        LEMMA_C_1,
        "power of ε in |W_Q| + |W_K| and in |R_0| + |R_1|, until T_p",
        [power("attention_linear"), power("off_ray_linear")],
        1,
        within=0.02,
    )
    linear_order = power("linear_error")
    title = "power of ε in the linear flow's error at T_p"
    early.at_least(PROPOSITION_C_2, title, linear_order, 2 / ORDER)
    early.near(SHARPER_ORDERS, title, linear_order, 3 / ORDER, within=0.05)
    early.at_least(
        REMARK_C_3,
        "power of ε in |R_0| + |R_1| at T_p, above the 2/n of Lemma 3.1",
        power("off_ray_linear") - 2 / ORDER,
        0,
        strict=True,
    )
    for statement, words, name in (
        (SHARPER_ORDERS, "|W_Q| + |W_K|", "attention"),
        (LEMMA_C_4, "|R_0| + |R_1|", "off_ray"),
    ):
        late.near(statement, f"power of ε in {words}, until T_2", power(name), 1, within=0.02)
    late.none(PROPOSITION_C_5, "z and |a|² + |b|² grow from T_p to T_2", of["falls"])
    took = arrival - t_p
    late.at_most(
        PROPOSITION_C_6,
        "T_2 - T_p against the integral of eq. 111, but for the largest start",
        np.abs(took - duration)[:, 1:],
        1e-3,
    )
    too_late = ~(arrival <= deadline)  # a flow that never arrives is late
    late.none(PROPOSITION_C_6, "T_2 ≤ T_d, smallest start and largest δ", too_late[:, -1, :, 0])
    late.none(PROPOSITION_C_6, "T_2 ≤ T_d, every start and δ", too_late)
    first = late.at_most(
        ARRIVAL_FROM_THE_START,
        f"arrival within {SHARES[0]:g} to {SHARES[-1]:g} of π₁ - 1/d, "
        "against the start alone: largest gap at the second size",
        np.abs(arrival - predicted)[:, 1],
        2e-4 * (small[1] / 1e-3) ** 2,
    )
    near, meant, last_off = near_and_off()
    lab.case().erratum(
        PROPOSITION_C_6,
        "T_2, which eq. 113 estimates: last time with |π - p_sym| ≥ δ, or first with G ≤ δ",
        near,
        number="1.9",
        printed=last_off,
        corrected=meant,
        within=0.01,
    )

    for place, law in enumerate(equal):
        meant_times = predicted[place, ..., 0].mean(axis=1)
        arrivals += with_theory(np.log(1 / small), arrival[place, ..., 0], meant_times, law)
    size = "ln(1 / size of the start)"
    lab.draw(
        Lines(
            "stage I: the embedding grows as exp(μ₀ t)",
            "μ₀ t",
            "first singular value / norm at the unigram point",
            growth,
            "y",
        ),
        Lines("end of stage I", size, "time", ends, ylim=(0, None)),
        Lines("arrival, and its prediction", size, "time", arrivals, ylim=(0, None)),
        caption="Panel 1 shows the first singular value of the embedding, with time in units of "
        "1/μ₀. Panel 2 shows the end of stage I from all starts; lines have the predicted slope. "
        "Panel 3 shows when the prediction for token 0 is only a tenth as far from its frequency "
        "as at first; lines are predicted from the initial weights.",
    )
    return (
        f"{lab.yes_or_no()}: in the population flow on {len(chains)} chains, "
        f"embeddings grow at the predicted rate to {100 * max(off):.1g}%. Their direction is off "
        f"by 1 - |cos| = {1 - min(cosines):.0e} at most, and queries have moved by "
        f"{100 * max(moved):.1g}% when that stage ends. From a start of {small[1]:g}, the initial "
        f"weights predict the arrival at the unigram point to {centre(first.measured):.0e} steps."
    )
