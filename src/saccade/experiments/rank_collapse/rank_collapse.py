"""On the plateau attention grows at rate s₁(F) along the top singular pair of F, and opens with a
rank that the gap of F predicts.

Follows networks on noisy sequences (`teacher_data`), on the two-clue task and on the paper's anchor
function through stage II. Tolerances were set before the runs. After them the quietest moment is
sampled more finely, and the rate is that of the amplitude: with turned keys that of |W_Q| was 1 %
off from one of three starts. Expect rank one for plain gradient flow only: keys that turn with
position open with rank two, and Adam opens another direction.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated as A
from typing import Any, NamedTuple

import numpy as np

import saccade
from saccade.data.labelled_sequences import LabelledSequences
from saccade.engines.linearise import jacobian
from saccade.experiments.rank_collapse.stage_one import STEPS, followed, teacher_data
from saccade.lab.experiment import Lab, experiment
from saccade.lab.settings import Range
from saccade.measures import fits
from saccade.measures.fits import Array, power
from saccade.models.attention_classifier import AttentionClassifier, Weights
from saccade.panels import DASHES, POINTS, Line, Lines, family, power_law
from saccade.theories import rank_collapse as theory
from saccade.theories.condition import above, at_least, met
from saccade.theories.rank_collapse import statements as stated

LEVEL = 0.1  # norm of W_Q at which attention counts as open; at it logits are of order 0.01
WINDOW = (1e-3, 2e-2)  # amplitudes between which the rate is fitted
ONE = 1 - 1e-3  # |cos| of directions that count as equal
TWO_CLUE = theory.TwoClue(0.9, 0.9, 0.5)
ANGLES = (1.0, 0.5)  # of two pairs of key coordinates
DRIVEN = "F ≠ 0"
APART = "labels not separated by the mean token"
PLAIN = "plain gradient flow"
FIXED = "keys that do not turn with position"
CONSTANT = "constant directions of the outer weights"
BOTH = "the second pair of F grows too, s₂ t > 2"


class Opening(NamedTuple):
    """Of one run, until attention has opened; W_Q and W_K are taken when it does."""

    drive: Array  # singular values of F at β*; of the winning M if keys turn
    is_apart: bool
    rate: float  # growth rate of the amplitude |u₁ᵀW_Q + v₁ᵀW_K| / 2
    cosines: Array  # |cos| of W_Q and u₁, of W_K and v₁
    ratios: Array  # s₂/s₁ and s₃/s₁ of W_Q
    rank_two: float  # s₂/s₁ in the limit of small scales if keys turn, from u₁
    depth: float  # smallest outer gradient on the plateau
    wait: float  # from the end of stage I
    plateau_loss: float
    end_loss: float
    time: Array  # since the end of stage I
    norm: Array  # |W_Q|


@experiment(
    "rank-collapse",
    dynamics="B: population gradient flow, attention classifier",
    time_unit=STEPS,
    caveat="Keys that turn with position open with rank two; under Adam another direction opens.",
)
def rank_collapse(
    lab: Lab,
    scales: A[
        tuple[float, ...],
        "initial scales, falling; all but the noisy sequences use the last alone",
        Range(1e-8, 1e-2, least=2),
    ] = (1e-4, 1e-5, 1e-6),
    seed: A[int, "seed of the random start"] = 0,
) -> str:
    """Does attention open with rank one, at the rate that F predicts?"""
    teacher = teacher_data()
    smallest = scales[-1]
    n = len(scales)
    clue = LabelledSequences.two_clue(TWO_CLUE.first, TWO_CLUE.second, TWO_CLUE.share)
    # the anchor function's seed was chosen for the gap of its F; the paper embeds in 640 dimensions
    anchor = LabelledSequences.anchor(200, 4)
    systems = [AttentionClassifier(teacher, eps) for eps in scales]
    systems += [AttentionClassifier(teacher, eps, activation="tanh") for eps in scales]
    systems += [AttentionClassifier(data, smallest) for data in (clue, anchor)]
    systems += [AttentionClassifier(teacher, smallest, angles=ANGLES)]
    jobs: list[Any] = [partial(opened, system, seed) for system in systems]
    endless = teacher_data(noise=0.0), LabelledSequences.two_clue(1.0, 1.0)
    jobs += [partial(never_at_rest, data, seed) for data in endless]
    found = [job() for job in lab.each(jobs)]
    runs, tanh, (on_clue, on_anchor, turned, separable, sure) = (
        found[:n],
        found[n : 2 * n],
        found[2 * n :],
    )
    for eps, run in zip(scales, runs, strict=True):
        lab.keep(
            "time_after_escape", run.time, "sample", "time since the end of stage I", scale=eps
        )
        lab.keep("query_norm", run.norm, "sample", "|W_Q|", scale=eps)

    # Directions, rate and rank, on all data; at the smallest scales the outer weights have settled.
    late = [*runs[-2:], on_clue, on_anchor]
    case = lab.case(*assumed(*late), data="noisy sequences, two-clue, anchor")
    ratios = [run.rate / run.drive[0] for run in late]
    rate = case.near(
        stated.OPENING, "growth rate of attention over s₁(F)", ratios, 1.0, relative=0.005
    )
    cosines = np.array([run.cosines for run in late])
    along = case.at_least(
        stated.THEOREM_3,
        "|cos| of W_Q's top direction and u₁, of W_K's and v₁, at opening",
        cosines,
        ONE,
    )
    ranks = [run.ratios[0] for run in late]
    rank = case.at_most(stated.DEFINITION_2, "s₂/s₁ of W_Q at opening", ranks, 0.1)
    at_clue = lab.case(*assumed(on_clue), data="two-clue")
    at_clue.near(
        stated.ASSUMPTION_2,
        "loss on the plateau",
        on_clue.plateau_loss,
        TWO_CLUE.plateau,
        within=1e-3,
    )
    at_clue.near(
        stated.OPENING,
        "loss at the end, closed form of the best attention",
        on_clue.end_loss,
        TWO_CLUE.final_loss,
        within=5e-3,
    )

    # How these depend on the initial scale.
    s = runs[0].drive
    scale = np.array(scales)
    case = lab.case(*assumed(*runs), data="teacher")
    logs = np.log(LEVEL / scale)
    waits = np.array([run.wait for run in runs])
    residual = np.array([run.ratios[0] for run in runs])
    gap = theory.residual_rank_power(s)
    grown = case.but(given=[*case.given, above(BOTH, s[1] / s[0] * logs.min(), 2.0)])
    falls = power(scale, residual)
    grown.near(
        stated.RESIDUAL_RANK, "power of ε in s₂/s₁ of W_Q at opening", falls, gap, within=0.02
    )
    each = np.diff(waits) / np.diff(logs)
    case.near(stated.OPENING, "wait for each factor e of 1/ε, 1/s₁", each, 1 / s[0], relative=0.01)
    depth, bent = (np.array([run.depth for run in several]) for several in (runs, tanh))
    fitted = power(scale, depth)
    deep = theory.plateau_depth_power(relaxation(teacher, seed), s[0])
    title = "power of ε in the smallest outer gradient"
    case.near(stated.PLATEAU_DEPTH, title, fitted, deep, within=0.03)
    case.but(activation="tanh").erratum(
        stated.ASSUMPTION_2, title, power(scale, bent), printed=deep, corrected=0.0, within=0.1
    )
    case = lab.case(at_least(CONSTANT, sure[2], ONE), data="two-clue, clues never wrong")
    case.erratum(
        stated.ASSUMPTION_2_STAR,
        "power of the outer gradient in δ, -dL/dt = δ²",
        sure[0],
        printed=2.0,
        corrected=1.0,
        within=0.05,
    )

    # Keys that turn with position: rank two.
    case, (second, third) = lab.case(*assumed(turned), data="turned keys"), turned.ratios
    case.near(
        stated.TURNED_KEYS,
        "growth rate of attention, s₁(M)",
        turned.rate,
        turned.drive[0],
        relative=0.005,
    )
    case.near(stated.TURNED_KEYS, "s₂/s₁ of W_Q at opening", second, turned.rank_two, relative=0.05)
    case.at_most(stated.TURNED_KEYS, "s₃/s₁ of W_Q at opening", third, 0.1)
    case.breaking(met(FIXED, False)).at_most(
        stated.THEOREM_3, "s₂/s₁ of W_Q at opening, as without positions", second, 0.1
    )

    # Controls: a loss without a least value, tokens that are all the same, Adam.
    case = lab.case(data="separable").breaking(
        met(APART, not theory.is_separable(*endless[0].given))
    )
    case.at_most(
        stated.ASSUMPTION_2,
        "smallest outer gradient over the one when attention opens",
        separable[1],
        0.5,
    )
    mean = np.repeat(teacher.tokens.mean(axis=1, keepdims=True), 4, axis=1)
    same = LabelledSequences(mean, teacher.label)
    still = followed(
        AttentionClassifier(same),
        seed,
        ["parameter_query"],
        until=200,
        n=20,
    )
    size = np.linalg.norm(still.parameter_query, axis=(1, 2))
    drive = float(np.linalg.norm(theory.plateau(*same.given)[1], 2))
    case = lab.case(data="equal tokens").breaking(above(DRIVEN, drive, 1e-9))
    case.at_least(
        stated.OPENING, "growth of |W_Q| over 200 units of the plateau", size[-1] / size[0], 2.0
    )
    system = AttentionClassifier(
        teacher,
        init_scale=1e-4,
        lr_outer=2e-3,
        lr_attention=2e-3,
    )
    every = list(range(0, 401, 5))
    run = saccade.train(
        system, steps=400, optimiser="adam", save=every, seeds=[seed], keep=["parameter_query"]
    )
    Q = run.parameter_query.values[0]
    left = np.linalg.svd(Q[fits.first_index(np.linalg.norm(Q, axis=(1, 2)), LEVEL)])[0]
    case = lab.case(*assumed(runs[0]), data="teacher", optimiser="Adam").breaking(met(PLAIN, False))
    case.at_least(
        stated.THEOREM_3,
        "|cos| of W_Q's top direction and u₁, at opening",
        abs(left[:, 0] @ driven(system)[0]),
        ONE,
    )

    growth = family(
        [run.time for run in runs], [run.norm for run in runs], [f"ε = {eps:g}" for eps in scales]
    )
    last = waits[-1]
    falling = LEVEL * np.exp(-25 * s[0])
    growth += [Line([last - 25, last], [falling, LEVEL], "slope s₁(F)", DASHES, None)]
    limits: Any = {
        "log": "y",
        "xlim": (-20, last + 15),
        "levels": {LEVEL: "open"},
    }
    points = Line(scale, residual, "measured", POINTS, 0)
    slope = power_law(scale, residual, gap, f"slope 1 - s₂/s₁ of F = {gap:.2f}")
    depths = [Line(scale, depth, "linear activation", POINTS), Line(scale, bent, "tanh", POINTS)]
    depths += [power_law(scale, depth, deep, f"slope {deep:.2f}, predicted")]
    x = "initial scale ε"
    y = "smallest outer gradient"
    lab.draw(
        Lines("attention opens at the rate s₁(F)", "t - T*/(ε g₀)", "|W_Q|", growth, **limits),
        Lines("rank left when attention opens", x, "s₂/s₁ of W_Q", [points, slope], "xy"),
        Lines("how close to rest the outer weights come", x, y, depths, "xy"),
        caption="Panel 1: norm of W_Q since the end of stage I, for falling initial scales. "
        "Panel 2: how far from rank one W_Q is when it opens, and the power of ε that the gap of F "
        "predicts. Panel 3: the smallest gradient of the outer weights before that.",
    )
    return (
        f"{lab.yes_or_no(rate, along, rank)}: under gradient flow from small weights, W_Q opens "
        f"with s₂/s₁ of at most {max(ranks):.2g}. On noisy sequences this falls as ε^{falls:.2f}. "
        f"There attention grows at rate {runs[-1].rate:.4f}, and s₁(F) is {s[0]:.4f}. "
        f"With rotary positions s₂/s₁ is {second:.2f} (predicted: {turned.rank_two:.2f})."
    )


def assumed(*runs: Opening) -> list[Any]:
    least = min(run.drive[0] for run in runs)
    return [above(DRIVEN, least, 1e-9), met(APART, all(run.is_apart for run in runs))]


def driven(system: AttentionClassifier) -> tuple[Any, Array, Any, Any]:
    """Top left vector, singular values and top right vector, conjugate, of what drives attention on
    the plateau, and the columns of W_Q and W_K that it drives; of the winning pair of key
    coordinates, as one column of complex numbers, if keys turn.
    """
    star, F = theory.plateau(*system.sequences.given)
    angles = system.angles
    drive = theory.rotary_drive(star, *system.sequences.given, angles) if angles else F[None]
    U, s, Vt = np.linalg.svd(drive)
    winner = int(s[:, 0].argmax())
    columns = np.kron(np.eye(len(s))[winner], [1, 1j])[:, None] if angles else np.eye(len(F))
    return U[winner, :, 0], s[winner], Vt[winner, 0], columns


def opened(system: AttentionClassifier, seed: int) -> Opening:
    """A run with samples around the predicted ends of both stages."""
    u, s, v, columns = driven(system)
    opens = np.log(LEVEL / system.init_scale) / s[0]
    keep = ["parameter_query", "parameter_key", "outer_gradient"]
    # 60 samples each would do but for the quietest moment: at 1.6 units apart they miss its depth
    # by up to a fifth
    run = followed(
        system,
        seed,
        keep,
        opens=opens,
        until=opens + 10 / s[0],
        n=200,
    )
    (Q, K, outer), time = (run[name].values for name in keep), run.time.values
    norm = np.linalg.norm(Q, axis=(1, 2))
    amplitude = np.linalg.norm(u.conj() @ (Q @ columns) + v @ (K @ columns), axis=1) / 2
    fitted = fits.between(amplitude, max(WINDOW[0], 10 * system.init_scale), WINDOW[1])
    at = fits.first_index(norm, LEVEL)
    (left, values, _), key_left = np.linalg.svd(Q[at]), np.linalg.svd(K[at])[0]
    quiet = int(np.argmin(np.where((time > 0) & (np.arange(len(time)) <= at), outer, np.inf)))
    return Opening(
        drive=s,
        is_apart=not theory.is_separable(*system.sequences.given),
        rate=fits.growth_rate(time, amplitude, fitted),
        cosines=np.abs([left[:, 0] @ u, key_left[:, 0] @ v]),
        ratios=values[1:3] / values[0],
        rank_two=theory.rotary_residual(u),
        depth=outer[quiet],
        wait=fits.reaching_time(time, np.log(norm), np.log(LEVEL)),
        plateau_loss=run.loss.values[quiet],
        end_loss=run.loss.values[-1],
        time=time,
        norm=norm,
    )


def relaxation(data: LabelledSequences, seed: int) -> float:
    """Slowest relaxation of the outer weights at β*."""
    star, _ = theory.plateau(*data.given)
    factors = theory.rank_one_factors(star, np.random.default_rng(seed))
    flow = AttentionClassifier(data).equations()
    point = Weights(*factors, *np.zeros((2, len(star), len(star))))
    J = jacobian(flow.velocity, point, flow.setting)
    n_outer = sum(part.size for part in factors)
    rates = -np.linalg.eigvalsh((J + J.T)[:n_outer, :n_outer] / 2)
    return float(rates[rates > 1e-9].min())


def never_at_rest(data: LabelledSequences, seed: int) -> tuple[float, float, float]:
    """Where the loss has no least value the outer weights grow for ever. Between stage I and the
    opening of attention: the power of their gradient in δ, the fall of it, and the least |cos| of
    W_V's top direction and its last one.
    """
    keep = ["outer_gradient", "parameter_query", "parameter_value"]
    run = followed(
        AttentionClassifier(data, init_scale=1e-6),
        seed,
        keep,
        until=100,
        n=200,
    )
    is_open = np.linalg.norm(run.parameter_query.values, axis=(1, 2)) >= LEVEL
    inside = (run.time.values > 2) & ~np.logical_or.accumulate(is_open)
    outer = run.outer_gradient.values[inside]
    delta = np.sqrt(-np.gradient(run.loss.values, run.time.values)[inside])
    left = np.linalg.svd(run.parameter_value.values[inside])[0][..., 0]
    # a minimum in between, not at the last sample, would be a plateau
    fall = float(outer.min() / outer[-1])
    return power(delta, outer), fall, np.abs(left @ left[-1]).min()
