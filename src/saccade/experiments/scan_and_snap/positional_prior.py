"""A positional prior multiplies token frequencies, so near tokens can overtake frequent ones.

Our theory: with scores z + b for token and position, Lemma 4 holds with P(l|n) times the mean of
e^b over the positions of l. Two classes of one query have tokens with positions: rare distinct
tokens are near, frequent ones far; one common token is everywhere, two others are near in one class
and far in the other. The prior falls linearly with distance. The plain flow (B) simulates the
positions, the theory's flow (C) uses the effective frequencies.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated as A
from typing import Any

import numpy as np
import xarray as xr
from scipy.optimize import brentq

import saccade
from saccade.errors import InputError
from saccade.experiments.scan_and_snap.placed_pairwise import PlacedPairwise
from saccade.experiments.scan_and_snap.unequal_tasks import plain_logits
from saccade.lab.experiment import Lab, experiment
from saccade.lab.settings import Range
from saccade.measures import fits
from saccade.measures.fits import Array
from saccade.panels import LINE, POINTS, Line, Lines
from saccade.theories import scan_and_snap as theory
from saccade.theories.condition import met
from saccade.theories.scan_and_snap.open_statements import PLAIN_MEMORY
from saccade.theories.scan_and_snap.statements import (
    PLAIN_ORDER,
    POSITIONAL_CLOCK,
    POSITIONAL_FATES,
    POSITIONAL_LEMMA_4,
    POSITIONAL_ORDER,
)

# Tokens: common everywhere; common, near in class 1; distinct of class 1, nearest first.
EVERYWHERE = 0
PLACED = 1
OWN = slice(3, 8)
N_DISTANCES = 8
APART = 2  # places between the distinct tokens of class 1 and those of class 2
LEFT_ALIKE = "the prior leaves classes alike"
COUNTED = "the prior is counted"
NO_POSITIONS = "no positions"
SLOPES = (0.0, 0.1, 0.15, 0.2, 0.25, 0.29, 0.31, 0.35, 0.5, 0.75)
SLOW = 0.01  # attention rate so low that only the decoder sets the pace
EARLY = 0.01  # of the time of fastest attention: velocities are still those of the start


@experiment(
    "positional-prior",
    dynamics="B: population gradient flow; C: reduced flow of the theory",
    time_unit="steps of SGD",
)
def positional_prior(
    lab: Lab,
    n_vocab: A[int, Range(20, 10_000), "tokens that may follow"] = 300,
    steps_up: A[float, "log frequency of a distinct token over the next nearer one"] = 0.3,
    slopes: A[
        tuple[float, ...], Range(0, 10, 3), "slopes of the prior, per token, with 0"
    ] = SLOPES,
    ratios: A[tuple[float, ...], "decoder rate over attention rate"] = (0.1, 1.0, 10.0, 100.0),
    t1: A[float, "end of the flows, steps of SGD"] = 1e6,
) -> str:
    """Can a positional prior reverse which tokens gain attention?"""
    slopes = tuple(sorted(set(slopes)))
    if slopes[0] > 0:
        raise InputError("`slopes` must list 0: other slopes are compared with no prior.")
    joint = placed_classes(steps_up)
    apart = placed_classes(steps_up, APART)
    steepest = slopes[-1]
    n_tokens = joint.shape[-1]
    clock: dict[str, Any] = {
        "n_vocab": n_vocab,
        "n_classes": 2,
        "lr_decoder": 1.0,
    }
    peak = theory.speed_peak(**clock).time
    effective = np.array([theory.effective_prob(joint, prior(slope)) for slope in slopes])

    def placed(joint: Array, slope: float, until: float = t1, **rates: float) -> Any:
        system = PlacedPairwise(
            joint,
            prior(slope),
            n_vocab=n_vocab,
            **rates,
        )
        return partial(saccade.flow, system, t1=until)

    plan: dict[Any, Any] = {}
    for slope, prob in zip(slopes, effective, strict=True):
        task = saccade.SequenceClasses(prob, n_vocab=n_vocab)
        slow_t1 = 20 * peak
        plan["placed", slope] = placed(joint, slope)
        plan["effective", slope] = partial(saccade.flow, task, t1=t1)
        plan["slow B", slope] = placed(joint, slope, slow_t1, lr_attention=SLOW)
        plan["slow C", slope] = partial(
            saccade.reduced_flow,
            task,
            t1=slow_t1,
            lr_attention=SLOW,
        )
    for ratio in ratios:
        plan["ratio", ratio] = placed(joint, steepest, lr_attention=1 / ratio)
    plan["apart"] = placed(apart, steepest, lr_attention=1 / min(ratios))
    runs = {name: run() for name, run in lab.each(plan.items())}
    paths = np.array([runs["placed", slope].attention_logits.values for slope in slopes])
    late = paths[:, -1]
    in_b = lab.case(flow="B")

    # The prior acts through effective frequencies alone.
    plain = [runs["effective", slope].attention_logits.values[:, 0, :n_tokens] for slope in slopes]
    gap = np.abs(paths - plain).max()
    main = [
        in_b.at_most(
            POSITIONAL_LEMMA_4,
            "logits with positions - logits with effective frequencies",
            gap,
            1e-5,
        )
    ]

    # Who gains, at every slope and, at the steepest, at every ratio of the rates.
    ended = np.array([runs["ratio", ratio].attention_logits.values[-1] for ratio in ratios])
    at_ratios = lab.case(
        flow="B",
        slope="the steepest",
        ratios="all",
    )
    for case, z, frequency in (
        (in_b, late, effective[:, 0]),
        (at_ratios, ended, effective[-1, 0]),
    ):
        wrong = np.concatenate([z[:, OWN] <= 0, z[:, [EVERYWHERE]] >= 0], axis=1)
        case.none(
            POSITIONAL_FATES,
            "distinct tokens gain attention, the common token that is everywhere loses it",
            wrong,
        )
        main.append(
            case.none(
                POSITIONAL_ORDER,
                "distinct tokens gain in the order of frequency × prior",
                misordered(z, frequency),
            )
        )
    times = runs["placed", steepest].time.values
    early = paths[:, np.abs(times - EARLY * peak).argmin()]
    in_b.none(
        POSITIONAL_FATES,
        "a placed common token first gains above its critical slope and loses below",
        (early[:, PLACED] > 0) != (np.array(slopes) > turning_slope(joint)),
    )

    # Positions that make classes unequal, under fast attention: as with unequal frequencies.
    uneven = runs["apart"].attention_logits.values[-1]
    case = lab.case(flow="B", **{"class 2": f"{APART} places further"})
    case.breaking(met(LEFT_ALIKE, False)).none(
        POSITIONAL_FATES, "distinct tokens gain attention", uneven[OWN.start :] <= 0
    )
    # Effective frequencies are exact. One mean feature a class is not, at this large an overlap.
    task = saccade.SequenceClasses(theory.effective_prob(apart, prior(steepest)), n_vocab=n_vocab)
    expected = plain_logits(task, [0.0, t1], lr_decoder=1.0, lr_attention=1 / min(ratios))[-1]
    case.at_most(
        PLAIN_MEMORY,
        "logits by plain-descent theory with effective frequencies, "
        "largest error over the largest logit",
        (np.abs(uneven - expected).max() / np.abs(uneven).max()),
        0.02,
    )

    # In which order distinct tokens gain.
    prob = joint.sum(axis=1)[0]
    # All pairs cross at one slope, since frequency rises by one factor a place.
    crossing = theory.crossing_slope(prob[OWN][1], prob[OWN][0], gap=1)
    follows = np.array([fits.rank_correlation(z[OWN], prob[OWN]) for z in late])
    turned = (follows < 0) != (np.array(slopes) > crossing)
    main.append(
        in_b.none(
            POSITIONAL_ORDER,
            "gain follows frequency below the crossing slope, nearness beyond it",
            turned,
        )
    )
    lab.case(flow="B", slope="the steepest").breaking(met(NO_POSITIONS, False)).none(
        PLAIN_ORDER,
        "of two distinct tokens the more frequent gains more",
        misordered(late[-1], prob),
    )

    # When attention is fastest, with attention so slow that features stay.
    slow = [
        fastest(runs["slow B", slope], runs["slow C", slope], one, clock)
        for slope, one in zip(slopes, effective, strict=True)
    ]
    in_plain, in_reduced, predicted = np.array(slow).T
    lab.case(flow="C").near(
        POSITIONAL_CLOCK,
        "time at which attention is fastest, at every slope",
        in_reduced,
        peak,
        relative=0.03,
    )
    in_b.at_most(
        POSITIONAL_CLOCK,
        "time of fastest attention against plain-descent theory, relative gap",
        np.abs(in_plain / predicted - 1),
        0.03,
    )
    in_b.breaking(met(COUNTED, False)).at_most(
        POSITIONAL_CLOCK,
        "time of fastest attention if the prior is left out, relative gap",
        np.abs(in_plain / predicted[0] - 1),
        0.03,
    )

    lab.keep("late", late, "slope token", "attention logits at the end of the plain flow (B)")
    share = late / late[:, OWN].max(axis=1, keepdims=True)
    x = "slope of the prior (per token)"
    order = [
        Line(slopes, share[:, 3 + k], f"distance {k + 2}, P = {prob[3 + k]:.2f}", LINE, k / 4)
        for k in range(5)
    ]
    when = [
        Line(slopes, in_reduced, "theory's flow (C)", POINTS, 0),
        Line(slopes, in_plain, "plain flow (B)", POINTS, 1),
        Line(slopes, predicted, "plain descent at that overlap", LINE, 1),
    ]
    lab.draw(
        Lines(
            "order of distinct tokens",
            x,
            "logit / the largest, at the end",
            order,
            marks={crossing: "predicted"},
        ),
        Lines(
            "when attention is fastest",
            x,
            "time (steps)",
            when,
            ylim=(0, None),
            levels={peak: "predicted (C)"},
        ),
        caption="Panel 1: logits of the distinct tokens of class 1 relative to the largest, light "
        "for near ones, which are rare. At the predicted slope the order reverses. Panel 2: when "
        "attention is fastest. The prior does not change this in the theory's flow (C), and "
        "changes it in the plain flow (B) through the overlap of classes.",
    )
    return (
        f"{lab.yes_or_no()}: in the plain flow, distinct tokens gain in the order of "
        f"frequency × prior, with {main[1].measured:.0f} exceptions. The predicted slope of "
        f"reversal is {crossing:.2g} per token, and {turned.sum()} slopes of {len(slopes)} "
        "disagree. Attention with positions and attention with the theory's effective "
        f"frequencies differ by {gap:.0e} in any logit."
    )


def placed_classes(steps_up: float, apart: int = 0) -> Array:
    """P(l, d|n) (class, distance, token). If `apart`, class 2 is that much further away, and placed
    common tokens are everywhere.
    """
    joint = np.zeros((2, N_DISTANCES, 13))
    share = np.exp(steps_up * np.arange(5))
    for n, own in enumerate((np.arange(3, 8), np.arange(8, 13))):
        joint[n, :, EVERYWHERE] = 0.2 / N_DISTANCES
        joint[n, :2, PLACED + n] = joint[n, -2:, PLACED + 1 - n] = 0.15 / 2
        if apart:
            joint[n, :, PLACED : PLACED + 2] = 0.15 / N_DISTANCES
        joint[n, np.arange(1, 6) + n * apart, own] = 0.5 * share / share.sum()
    return joint


def prior(slope: float) -> Array:
    return -slope * np.arange(N_DISTANCES, dtype=np.float64)


def turning_slope(joint: Array) -> float:
    """From which slope on the placed common token first gains, by theory."""

    def beyond(slope: float) -> float:
        f = theory.normalised_feature(theory.effective_prob(joint, prior(slope)))
        return f[1, PLACED] / f[0, PLACED] - theory.fate_ratio(f[0] @ f[1])

    return float(brentq(beyond, 0.0, 5.0))


def misordered(logits: Array, frequency: Array) -> Any:
    """Pairs of distinct tokens of which the less frequent gains more (leading axes, pair)."""
    z = logits[..., OWN]
    p = frequency[..., OWN]
    first, second = np.triu_indices(z.shape[-1], 1)
    return (z[..., first] - z[..., second]) * (p[..., first] - p[..., second]) <= 0


def fastest(placed: xr.Dataset, reduced: xr.Dataset, prob: Array, clock: Any) -> list[float]:
    """When the leading distinct token moves fastest: in (B), in (C), and by plain descent at the
    overlap that the prior leaves.
    """
    feature = theory.normalised_feature(prob)
    t = placed.time.values
    leader = OWN.start + int(np.argmax(feature[0, OWN]))
    in_b = placed.attention_logits[:, leader]
    in_c = reduced.attention_logits[:, 0, leader]
    coupling = theory.plain_backprop(t[1:], overlap=float(feature[0] @ feature[1]), **clock).other
    speeds = [*(np.gradient(z.values, t)[1:] for z in (in_b, in_c)), coupling]
    return [fits.peak_time(t[1:], speed, int(np.argmax(speed)) - 2) for speed in speeds]
