"""How long a context must be for its attention to be that of an infinite one.

Draws contexts of every length from 2⁴ to 2¹⁴, for the limit of Lemma 2 and the rate of Lemma 18.
Expect a slope of -1/2, and at most a share δ of contexts outside Hoeffding's bound. As a control
each context gets a token distribution of its own, so that its tokens are not independent draws from
one: attention then has no common limit.

The gradient of Lemma 1 is in the table of formulas.
"""

from __future__ import annotations

from typing import Annotated as A

import numpy as np
from numpy.typing import NDArray

from saccade.errors import checked_count
from saccade.lab.experiment import Lab, experiment
from saccade.lab.settings import Range
from saccade.measures import fits
from saccade.panels import DASHES, POINTS, Line, Lines
from saccade.theories import scan_and_snap as theory
from saccade.theories.scan_and_snap.statements import LEMMA_2, LEMMA_18


@experiment("long-contexts", dynamics="none: contexts drawn at random")
def long_contexts(
    lab: Lab,
    n_tokens: A[int, Range(2, 1e6), "vocabulary; token l has probability proportional to 1/l"] = 20,
    shortest: A[int, "the shortest context has 2^shortest tokens, query included"] = 4,
    longest: A[int, "the longest context has 2^longest tokens, query included", Range(3, 20)] = 14,
    draws: A[int, Range(2, 1e6), "contexts of each length"] = 200,
    failure_prob: A[float, Range(1e-9, 1.0), "δ, the failure probability of the bound"] = 0.05,
    seed: A[int, "seed of the contexts"] = 0,
) -> str:
    """Does attention approach its limit of infinite contexts as 1/√T?"""
    checked_count("longest", longest, low=shortest + 2)
    rng = np.random.default_rng(seed)
    other = np.random.default_rng([seed, 1])
    prob = 1 / np.arange(1.0, n_tokens + 1)
    prob = prob / prob.sum()
    logits = rng.normal(size=n_tokens)
    for exponent in lab.each(range(shortest, longest + 1)):
        n_context = 2**exponent - 1
        place = {"length": 2**exponent}
        error, gap = strayed([prob] * draws, prob, logits, n_context, rng)
        bound = theory.frequency_bound(n_context, failure_prob=failure_prob)
        lab.keep("attention_error", error, "draw", "largest over tokens", **place)
        lab.keep("exceeded", (gap > bound).mean(axis=0), "token", "outside the bound", **place)
        quantile = np.quantile(gap, 1 - failure_prob, axis=0)
        lab.keep("frequency_error", quantile, "token", "all but δ stay below", **place)
        own = list(other.dirichlet(prob * n_tokens, draws))
        mixed, _ = strayed(own, prob, logits, n_context, other)
        lab.keep("mixed_error", mixed, "draw", "every context has its own distribution", **place)

    found = lab.kept()
    T = found.length.values
    error = found.attention_error.mean("draw").values
    mixed = found.mixed_error.mean("draw").values
    case = lab.case()
    title = "power of T in the distance of attention from its limit"
    slope = case.near(
        LEMMA_2,
        title,
        fits.power(T, error),
        -0.5,
        within=0.05,
        sentence="A context four times as long brings attention twice as close to its limit.",
    )
    title_18 = "share of contexts outside Hoeffding's bound, worst token and length"
    outside = case.at_most(LEMMA_18, title_18, found.exceeded, failure_prob)
    control = case.breaking("independent context tokens")
    control.near(LEMMA_2, title, fits.power(T, mixed), -0.5, within=0.05)

    bounds = theory.frequency_bound(T - 1, failure_prob=failure_prob)
    lines = [
        Line(T, error, "attention, mean of the largest error", POINTS, 0),
        Line(T, error[-1] * np.sqrt(T[-1] / T), "slope -1/2 (Lemma 2)"),
        Line(T, found.frequency_error.max("token"), "frequency of the worst token", POINTS, 1),
        Line(T, bounds, f"Hoeffding's bound (Lemma 18), δ = {failure_prob:g}", DASHES, 1),
        Line(T, mixed, "control: another distribution in every context", POINTS, 2),
    ]
    lab.draw(
        Lines("finite contexts approach the limit", "T (tokens)", "error in a share", lines, "xy"),
        caption="Blue: largest error of attention over tokens, mean over contexts, "
        "with a line of slope -1/2 through the longest contexts. Olive: the error of "
        "a token's frequency that all but δ of the contexts stay below; dashed: Hoeffding's "
        "bound. Green: the control does not converge.",
    )
    return (
        f"{lab.yes_or_no(slope, outside)}: the distance of attention from its limit falls "
        f"as T^{slope.measured:.2f}, over {len(T)} lengths of context. At most "
        f"{outside.measured:.1%} of contexts are outside a bound that allows {failure_prob:.0%}."
    )


def strayed(
    distributions: list[NDArray],
    prob: NDArray,
    logits: NDArray,
    n_context: int,
    rng: np.random.Generator,
) -> tuple[NDArray, NDArray]:
    """A context from each distribution: how far its attention is from the limit for `prob`, and its
    frequencies (context, token).
    """
    limit = theory.limit_attention(prob, logits)
    n = len(prob)
    attention, frequency = np.zeros((2, len(distributions), n))
    for i, distribution in enumerate(distributions):
        context = rng.choice(n, n_context, p=distribution)
        weight = np.exp(logits[context])
        attention[i] = np.bincount(context, weight / weight.sum(), minlength=n)
        frequency[i] = np.bincount(context, minlength=n) / n_context
    return np.abs(attention - limit).max(axis=1), np.abs(frequency - prob)
