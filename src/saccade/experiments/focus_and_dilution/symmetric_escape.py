"""Equal rare tokens separate by themselves above a critical chance of repeating, λ_c.

Follows the flow on one frequent token and exactly equal rare ones above and below λ_c. Expect:
above it the rare tokens separate on the rank-one manifold, at the rate of the Hessian at the stall,
and then a second direction opens; below it no escape to the end of the run.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated as A
from typing import Any, NamedTuple

import numpy as np

import saccade
from saccade.engines.randomness import checked_seeds
from saccade.errors import InputError
from saccade.experiments.focus_and_dilution import stage_fits as stages
from saccade.lab.experiment import Lab, experiment
from saccade.lab.settings import Range
from saccade.measures import fits
from saccade.measures.fits import Array
from saccade.panels import DASHES, RINGS, Line, Lines
from saccade.theories import focus_and_dilution as theory
from saccade.theories.condition import above, below
from saccade.theories.focus_and_dilution.stage_four import (
    CRITICAL_STAY,
    ESCAPE_TIME,
    PROPOSITION_3_8,
    PROPOSITION_D_1,
)

APART = 0.1  # spread at which rare tokens count as separated
OPEN = 0.2  # s₂ / s₁ of the embedding at which the flow counts as having left
# Spreads between which the growth is fitted: far above the start, far below the tokens' own 0.5.
PARTING = (1e-3, 5e-3)  # 2e-3 and 2e-2 before runs on other chains
BELOW = "stage IV, stay below the critical one"
ABOVE = "stage IV, stay above the critical one"
FOLDS = 5.0  # of the decay of differences between rare tokens, whose square is what the loss sees


class Separation(NamedTuple):
    """One flow on a chain with equal rare tokens."""

    time: Array
    spread: Array  # of rare tokens along the first direction
    ratio: Array  # s₂ / s₁ of the embedding
    loss_gap: Array  # above the optimum
    rate: float  # growth rate of the spread
    parted: int  # sample at which rare tokens have separated
    left: float  # when the flow leaves; NaN: never
    imbalance: float  # |W₀|² - |W₁|² at the end
    attention: float  # of token 0 on itself at the end

    def has_left(self) -> bool:
        return bool(np.isfinite(self.left))


def separation(
    chain: saccade.MarkovChain, model: saccade.models.Embedded, seed: int, t1: float, n_times: int
) -> Separation:
    # Half evenly spaced: rare tokens separate within a few units of time, long after the start.
    even = np.linspace(t1 / n_times, t1, n_times // 2)
    times = np.union1d(np.geomspace(0.1, t1, n_times // 2), even)
    run = saccade.flow(
        chain,
        times=times,
        model=model,
        seeds=[seed],
    )
    run = run.isel(seed=0, time=slice(1, None))
    time = run.time.values
    embedding = run.embedding.values
    _, values, directions = np.linalg.svd(embedding, full_matrices=False)
    ratio = values[:, 1] / values[:, 0]
    spread = np.einsum("tiw,tw->ti", embedding, directions[:, 0])[:, 1:].std(axis=1)
    # Before condensation all directions are alike, which is no escape.
    settled = int(np.argmax(ratio < OPEN))
    least = settled + int(np.argmin(spread[settled : fits.first_index(spread, APART)]))
    risen = np.arange(len(time)) > least
    inside = risen & fits.between(spread, *PARTING)
    inside &= np.cumsum(risen & (spread > PARTING[1])) == 0
    # On a straight line in the spread to zero: with three or more rare tokens the next order is
    # linear in it, and near λ_c, where the rate itself is small, it is not small beside it.
    rates = np.gradient(np.log(spread), time)
    rate = np.polyfit(spread[inside], rates[inside], 1)[1] if inside.sum() > 2 else np.nan
    parted = fits.first_index(np.where(risen, spread, 0.0), APART)
    opened = fits.rise_index(ratio, OPEN)
    return Separation(
        time,
        spread,
        ratio,
        run.loss.values - chain.optimal_loss,
        float(rate),
        parted,
        np.nan if opened is None else time[opened],
        np.sum(embedding[-1] ** 2) - np.sum(run.projection.values[-1] ** 2),
        run.attention.values[-1, 0, 0],
    )


@experiment(
    "symmetric-escape",
    dynamics="B: population gradient flow, embedded model",
    time_unit=stages.STEPS,
    caveat="Below the critical λ a longer run could still leave.",
)
def symmetric_escape(
    lab: Lab,
    n_vocabs: A[tuple[int, ...], Range(3, 64), "tokens in each flow"] = (4, 3, 4, 3),
    highs: A[tuple[float, ...], "frequency of token 0 in each"] = (0.75, 0.75, 0.75, 0.6),
    stays: A[
        tuple[float, ...], "chance of repeating the last token in each; the paper's is 0.8"
    ] = (0.8, 0.8, 0.69, 0.5),
    seeds: A[
        int | tuple[int, ...], "number of random starts (seeds 0, 1, 2, ...), or a list of seeds"
    ] = 3,
    init_scale: A[float, Range(1e-8, 1e-3), "size of the random start"] = 1e-4,
    t1: A[float, "end of the flows below the critical λ, steps; slower ones run longer"] = 2e4,
    n_times: A[int, Range(50, 1e5), "samples of each flow, half of them log-spaced"] = 500,
) -> str:
    """Can exactly equal rare tokens separate?"""
    if len({len(n_vocabs), len(highs), len(stays)}) > 1:
        raise InputError("`n_vocabs`, `highs` and `stays` must have one value for each flow.")
    model = saccade.models.Embedded(init_scale=init_scale)
    numbers = checked_seeds(seeds)
    curves = list[Line]()
    grown = list[float]()
    early = list[float]()
    held = list[float]()
    flows = list(zip(n_vocabs, highs, stays, strict=True))
    for tone, (n_vocab, high, stay) in enumerate(lab.each(flows)):
        chain = saccade.MarkovChain.two_level(n_vocab, high, stay=stay)
        of_chain: Any = {"stationary": chain.stationary, "transition": chain.transition}
        law: Any = {
            "high": high,
            "n_vocab": n_vocab,
            "stay": stay,
        }
        point = theory.stall_point(**law)
        limit = theory.critical_stay(high, n_vocab)
        rate = theory.parting_rate(point)
        label = f"d {n_vocab}, π₁ {high:g}, λ {stay:g}"
        case = lab.case(
            **{
                "d": n_vocab,
                "π₁": high,
                "λ": stay,
            }
        )
        stalls = case.but(given=[below(BELOW, stay, limit)])
        follow = [partial(separation, chain, model, seed) for seed in numbers]

        if stay > limit:  # rare tokens separate, then a direction opens
            mu_0 = theory.condensation_rate(stationary=chain.stationary)
            opening = theory.parted_opening_rate(point)
            of_stages = [mu_0, stages.focus_rate(chain), rate, opening]
            due = stages.escape_time(of_stages, init_scale, OPEN)
            latest = stages.ON_TIME[1] * due
            found = [
                stages.until_left(one, Separation.has_left, due, n_times, latest)
                for one in lab.each(follow)
            ]
            case = case.but(given=[above(ABOVE, stay, limit)])
            rates = [one.rate for one in found]
            fitted = case.after_trial_runs
            fitted.near(
                CRITICAL_STAY,
                "growth rate of the spread, predicted from π₁, d and λ alone",
                rates,
                rate,
                relative=0.01,
            )
            fitted.erratum(
                PROPOSITION_3_8,
                "rate on the manifold, equal rare tokens",
                float(np.mean(rates)),
                number="2.2",
                printed=0.0,
                corrected=rate,
                within=0.01 * rate,
            )
            ratios = [one.ratio[one.parted] for one in found]
            case.at_most(CRITICAL_STAY, "s₂ / s₁ when rare tokens have separated", ratios, 0.01)
            times = np.array([one.left for one in found]) / due
            case.between(
                CRITICAL_STAY,
                "time at which the flow leaves / that predicted from the rates",
                times,
                *stages.ON_TIME,
            )
            control = stalls.breaking(BELOW)
            ends = [one.ratio[-1] for one in found]
            control.at_most(ESCAPE_TIME, "s₂ / s₁ at the end", ends, OPEN)
            grown += [one / rate for one in rates]
            early += ratios
        else:
            end = max(t1, -FOLDS / rate)
            found = [one(end, n_times) for one in lab.each(follow)]
            ends = [one.ratio[-1] for one in found]
            stalls.at_most(ESCAPE_TIME, "s₂ / s₁ at the end", ends, OPEN)
            held += ends
            middle = theory.degenerate_point(**law, high_attention=(1 + high) / 2).state
            stuck = theory.rank_one_loss(middle, **of_chain) - chain.optimal_loss
            gaps = [one.loss_gap[-1] for one in found]
            stalls.near(ESCAPE_TIME, "loss above the optimum at the end", gaps, stuck, within=1e-6)
            sizes = [
                theory.degenerate_point(**law, high_attention=min(one.attention, 1 - 1e-12))
                for one in found
            ]
            stalls.erratum(
                PROPOSITION_D_1,
                "|γ|² - |β|² at the end",
                float(np.mean([one.imbalance for one in found])),
                number="2.5",
                printed=0.0,
                corrected=float(np.mean([2 * one.state.query_scale**2 for one in sizes])),
                within=1e-4,
            )
        curves.append(Line(found[0].time, found[0].loss_gap, label, tone=tone))
        for seed, one in zip(numbers, found, strict=True):
            place: Any = {"flow": label, "seed": seed}
            lab.keep(
                "path_time",
                one.time,
                "sample",
                unit=stages.STEPS,
                **place,
            )
            lab.keep("spread", one.spread, "sample", "of rare tokens", **place)
        if tone == 0:
            one = found[0]
            near = np.linspace(-5, 0, 20)
            guide = one.time[one.parted] + near / abs(rate)
            until = one.left if one.has_left() else None
            first = [
                Line(one.time, one.spread, "spread of the rare tokens", tone=0),
                Line(guide, APART * np.exp(near * np.sign(rate)), "predicted", DASHES, None),
                Line(one.time, one.ratio, "s₂ / s₁ of the embedding", tone=1),
            ]

    limits = list[Line]()
    for tone, n_vocab in enumerate(sorted(set(n_vocabs))):
        masses = np.linspace(1 / n_vocab + 0.01, 0.97, 80)
        critical = [theory.critical_stay(mass, n_vocab) for mass in masses.tolist()]
        highest, stayed = np.array([one[1:] for one in flows if one[0] == n_vocab]).T
        limits.append(Line(masses, critical, f"critical λ, d = {n_vocab}", tone=tone))
        limits.append(Line(highest, stayed, "", RINGS, tone))
    lab.draw(
        Lines(
            f"the first flow, λ = {stays[0]:g}", "time", "size", first, "y", (100, until), (1e-5, 2)
        ),
        Lines(
            "equal rare tokens: escape or stall",
            "time",
            "loss above the optimum",
            curves,
            "x",
            (10, None),
        ),
        Lines("the flows", "frequency π₁ of token 0", "stay λ", limits),
        caption="Panel 1 shows that rare tokens separate at the predicted rate, and that the "
        "second direction of the embedding opens only then. "
        "Panel 2 shows that the loss falls above the critical λ and stays below it. "
        "Panel 3 shows the flows as rings.",
    )
    if not grown:
        return "Undecided: λ is below its critical value in every flow."
    below_it = f", and {max(held):.1g} at the end of flows below it" if held else ""
    return (
        f"{lab.yes_or_no()}: in the population flow they separate above a critical λ, at "
        f"{fits.furthest(grown, 1):.3f} times the rate of theory. The embedding's s₂ / s₁ is "
        f"{max(early):.1g} by then{below_it}."
    )
