"""On the plateau attention grows at the rate s₁(F), towards the top pair of F, and opens with a rank that its gap predicts.

Follows networks on noisy Gaussian sequences (`escape_clock.teacher_data`) and on the two-clue task through stage II, for several
initial scales, and measures orders at β* itself. Expect: F to 1e-14, rate within 0.5 %, directions to 1e-3, exponents of the
residual rank within .02 and of the plateau's depth within .03. Controls: tanh, separable labels, F = 0, a start that misses the
top pair, Adam. After a first run orders are measured at weights of .02 to .005 (at .05 to .0125 they were 1.96 and .974),
directions at the last sample and to .99, and the quietest moment is sampled more finely; the other tolerances were set before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import xarray as xr

import saccade
from saccade.data.labelled_sequences import LabelledSequences
from saccade.dynamics.linearise import jacobian
from saccade.errors import InputError
from saccade.experiments.rank_collapse.escape_clock import teacher_data
from saccade.experiments.rank_collapse.stage_one import followed
from saccade.lab.claim import CALCULUS, Case, Claim
from saccade.lab.experiment import Experiment, Measured, Progress, Variable, padded
from saccade.lab.panel import DASHES, POINTS, Layout, Line, Lines
from saccade.model.attention_classifier import AttentionClassifier, Weights
from saccade.observe import fits
from saccade.observe.fits import Array, power
from saccade.theory import rank_collapse as theory
from saccade.theory.condition import above, met
from saccade.theory.rank_collapse import statements as stated

LEVEL = 0.1  # norm of W_Q at which attention counts as open; at it logits are of order .01
WINDOW = (1e-3, 2e-2)  # amplitudes between which the rate is fitted
DELTAS = (0.02, 0.01, 0.005)  # sizes of W_Q and W_K at which orders are measured
TWO_CLUE = (0.9, 0.9, 0.5)
DRIVEN, ALIGNED, PLAIN, APART = (
    "F ≠ 0",
    "u₁ᵀW_Q(0) + v₁ᵀW_K(0) ≠ 0",
    "plain gradient flow",
    "labels not separated by the mean token",
)
ADAM_RATE = 2e-3

STEPS = "steps of gradient descent at rate 1"
VARIABLES = {
    "drive_values": Variable("data direction", "1/time", "singular values of F at beta*, by eq. 15; data: teacher, two-clue"),
    "drive_error": Variable("data", "1", "largest difference of F by eq. 15 and by differentiation at beta*"),
    "any_loss_error": Variable("identity", "1", "largest relative error of -dL/dW_Q = F W_K at random weights"),
    "orders": Variable("quantity delta", "1", "outer gradient, attention gradient, relative error of eq. 14 at beta*"),
    "relaxation": Variable("", "1/time", "slowest relaxation of the outer weights at beta*"),
    "rate": Variable("data scale", "1/time", "growth rate of the amplitude along the top pair of F"),
    "query_cosine": Variable("data scale", "1", "|cos| of W_Q's top left vector and u_1 when attention opens"),
    "key_cosine": Variable("data scale", "1", "the same of W_K and v_1"),
    "common_cosine": Variable("data scale", "1", "|cos| of the right vectors of W_Q and W_K"),
    "residual": Variable("data scale", "1", "s_2 / s_1 of W_Q when attention opens"),
    "depth": Variable("data scale", "1", "smallest outer gradient on the plateau"),
    "wait": Variable("data scale", STEPS, "time from the end of stage I until |W_Q| is 0.1"),
    "end_loss": Variable("data scale", "1", "loss at the end"),
    "plateau_loss": Variable("data scale", "1", "loss when the outer gradient is smallest"),
    "tanh_depth": Variable("scale", "1", "smallest outer gradient with tanh, after stage I"),
    "separable_power": Variable("", "1", "power of the outer gradient in the root of -dL/dt, labels separated by the mean token"),
    "separable_fall": Variable(
        "", "1", "largest over smallest outer gradient after stage I and before |W_Q| is 0.1, the same data"
    ),
    "still_growth": Variable("", "1", "|W_Q| at the end over the start where F = 0"),
    "still_ratio": Variable("", "1", "s_2 / s_1 of W_Q then"),
    "missed": Variable("top", "1", "|cos| of W_Q and u_1, u_2 by the solution of eq. 14, from a start that misses u_1"),
    "adam_cosine": Variable("", "1", "|cos| of W_Q's top left vector and u_1 under Adam, |W_Q| = 0.1"),
    "curve_time": Variable("scale sample", STEPS, "time since the end of stage I, teacher"),
    "curve_query": Variable("scale sample", "1", "|W_Q|"),
}


@dataclass(frozen=True)
class Settings:
    scales: tuple[float, ...] = (1e-4, 1e-5, 1e-6)
    """initial scales"""
    seed: int = 0
    """seed of the random start"""
    teacher_seed: int = 1
    """seed of the noisy sequences"""
    adam_steps: int = 400
    """updates of the run under Adam"""


def measure(settings: Settings, on_progress: Progress) -> Measured:
    if len(settings.scales) < 2 or not all(1e-8 <= scale <= 1e-2 for scale in settings.scales):
        raise InputError("`scales` must list at least two initial scales from 1e-8 to 0.01.")
    teacher, clue = teacher_data(settings.teacher_seed), LabelledSequences.two_clue(*TWO_CLUE)
    runs: list[list[dict[str, Any]]] = []
    for part, data in enumerate((teacher, clue)):
        scales = settings.scales if data is teacher else settings.scales[:1]
        runs.append([_stage_two(data, eps, settings.seed) for eps in scales])
        on_progress(0.3 * (part + 1))
    curves = {name: padded([run[name] for run in runs[0]]) for name in runs[0][0] if name.startswith("curve")}
    plain = {name: padded([[run[name] for run in each] for each in runs]) for name in runs[0][0] if not name.startswith("curve")}
    values = curves | plain | _at_the_plateau(teacher, clue, settings.seed)
    on_progress(0.7)
    values |= {"tanh_depth": np.array([_quiet(teacher, eps, settings.seed) for eps in settings.scales])}
    values |= _separable(settings) | _still(settings) | _missed(teacher) | _adam(teacher, settings)
    coords = {"data": ["teacher", "two-clue"], "scale": list(settings.scales), "delta": list(DELTAS)}
    return Measured(values, coords | {"quantity": ["outer", "attention", "equation"], "top": [1, 2], "identity": ["query", "key"]})


def drive_of(data: LabelledSequences) -> tuple[Array, Array]:
    """beta*, and F there."""
    given = data.tokens, data.label, data.weight
    star = theory.uniform_optimum(*given)
    return star, theory.attention_drive(star, *given)


def _stage_two(data: LabelledSequences, eps: float, seed: int) -> dict[str, Any]:
    """A run from the start until attention has opened, with samples around the predicted ends of both stages."""
    U, s, Vt = np.linalg.svd(drive_of(data)[1])
    opens = np.log(LEVEL / eps) / s[0]
    keep = ["parameter_query", "parameter_key", "outer_gradient"]
    # 60 samples each would do but for the quietest moment: at 1.6 units apart they miss its depth by up to a fifth
    run, _ = followed(AttentionClassifier(data, init_scale=eps), seed, keep, opens=opens, until=opens + 25 / s[0], n_times=200)
    Q, K, time = run.parameter_query.values, run.parameter_key.values, run.time.values
    amplitude, norm = np.linalg.norm(U[:, 0] @ Q + Vt[0] @ K, axis=-1) / 2, np.linalg.norm(Q, axis=(1, 2))
    at = int(np.argmax(norm >= LEVEL))
    left, values, right = np.linalg.svd(Q)
    key_left, _, key_right = np.linalg.svd(K[at])
    plateau = (time > 0) & (np.arange(len(time)) <= at)
    quiet = int(np.argmin(np.where(plateau, run.outer_gradient.values, np.inf)))
    return {
        "rate": fits.growth_rate(time, amplitude, fits.between(amplitude, max(WINDOW[0], 10 * eps), WINDOW[1])),
        "query_cosine": abs(left[at, :, 0] @ U[:, 0]),
        "key_cosine": abs(key_left[:, 0] @ Vt[0]),
        "common_cosine": abs(right[at, 0] @ key_right[0]),
        "residual": values[at, 1] / values[at, 0],
        "depth": run.outer_gradient.values[quiet],
        "wait": fits.reaching_time(time, np.log(norm), np.log(LEVEL)),
        "end_loss": run.loss.values[-1],
        "plateau_loss": run.loss.values[quiet],
        "curve_time": time,
        "curve_query": norm,
    }


def rank_one_outer(star: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Value, hidden and readout of rank one and of one size whose product is beta*."""
    size, d = np.linalg.norm(star), len(star)
    a, c = (part / np.linalg.norm(part) for part in rng.standard_normal((2, d)))
    r = np.cbrt(size)
    return r * np.outer(star / size, a), r * np.outer(a, c), r * c


def _at_the_plateau(teacher: LabelledSequences, clue: LabelledSequences, seed: int) -> dict[str, Any]:
    """Identities and orders at beta*, by differentiation."""
    errors, values = [], []
    rng = np.random.default_rng(seed)
    with jax.enable_x64(True):
        for data in (teacher, clue):
            star, F = drive_of(data)
            zero = np.zeros((data.width, data.width))
            found = np.asarray(AttentionClassifier(data).drive(Weights(*rank_one_outer(star, rng), zero, zero)))
            errors.append(np.abs(found - F).max())
            values.append(np.linalg.svd(F)[1])
        star, F = drive_of(teacher)
        outer, (Q, K) = rank_one_outer(star, rng), rng.standard_normal((2, 4, 4))
        system, orders = AttentionClassifier(teacher), []
        for delta in DELTAS:
            speed = jax.tree.map(np.asarray, system.velocity(Weights(*outer, delta * Q, delta * K)))
            told = delta * F @ K, delta * F.T @ Q
            parts = [np.sqrt(sum(np.sum(part**2) for part in each)) for each in (speed[:3], speed[3:])]
            orders.append([*parts, np.linalg.norm(speed.query - told[0]) / np.linalg.norm(told[0])])
        odd = AttentionClassifier(clue, init_scale=1.0, d_key=3, d_hidden=7, activation="tanh", loss_kind="logistic")
        weights = odd.start(rng)
        slope, drive = jax.grad(odd.loss)(weights), np.asarray(odd.drive(weights))
        pairs = ((-slope.query, drive @ weights.key), (-slope.key, drive.T @ weights.query))
        any_loss = [float(np.linalg.norm(one - other) / np.linalg.norm(other)) for one, other in pairs]
    J = jacobian(system.equations().velocity, Weights(*outer, 0 * Q, 0 * K), system.equations().setting)
    n_outer = sum(part.size for part in outer)
    relaxing = -np.linalg.eigvalsh((J + J.T)[:n_outer, :n_outer] / 2)
    return {
        "drive_values": padded(values),
        "drive_error": np.array(errors),
        "any_loss_error": np.array(any_loss),
        "orders": np.array(orders).T,
        "relaxation": relaxing[relaxing > 1e-9].min(),
    }


def _quiet(data: LabelledSequences, eps: float, seed: int) -> float:
    """The smallest outer gradient with tanh between the end of stage I and the opening of attention."""
    system, s1 = AttentionClassifier(data, init_scale=eps, activation="tanh"), np.linalg.norm(drive_of(data)[1], 2)
    opens = np.log(LEVEL / eps) / s1
    run, _ = followed(system, seed, ["outer_gradient", "parameter_query"], opens=opens, until=opens + 20, n_times=40)
    small = np.linalg.norm(run.parameter_query.values, axis=(1, 2)) < LEVEL
    return float(np.where((run.time.values > 0) & small, run.outer_gradient.values, np.inf).min())


def _separable(settings: Settings) -> dict[str, float]:
    """Labels without noise: no plateau, the outer weights grow for ever."""
    data = LabelledSequences.noisy_teacher(20, (1.0, 1.0, 1.0, 1.0), noise=0.0, seed=settings.teacher_seed)
    if not theory.is_separable(data.tokens, data.label):
        raise AssertionError("labels without noise must be separable")
    keep = ["outer_gradient", "attention_gradient", "parameter_query"]
    run, _ = followed(AttentionClassifier(data, init_scale=1e-6), settings.seed, keep, until=100)
    is_open = np.linalg.norm(run.parameter_query.values, axis=(1, 2)) >= LEVEL
    inside = (run.time.values > 2) & ~np.logical_or.accumulate(is_open)
    outer = run.outer_gradient.values[inside]
    falls = np.sqrt(outer**2 + run.attention_gradient.values[inside] ** 2)  # the root of -dL/dt
    # a minimum in between, not at the last sample, would be a plateau
    return {"separable_power": power(falls, outer), "separable_fall": float(outer.min() / outer[-1])}


def _still(settings: Settings) -> dict[str, float]:
    """Sequences whose tokens are all the same: attention has nothing to choose from, and F = 0."""
    rng = np.random.default_rng(settings.teacher_seed)
    tokens = np.repeat(rng.standard_normal((40, 1, 4)), 3, axis=1)
    data = LabelledSequences(tokens, np.where(tokens[:, 0, 0] + 0.7 * rng.standard_normal(40) > 0, 1, -1))
    run, _ = followed(AttentionClassifier(data, init_scale=1e-3), settings.seed, ["parameter_query"], until=200, n_times=20)
    Q = run.parameter_query.values
    values = np.linalg.svd(Q[-1])[1]
    return {"still_growth": float(np.linalg.norm(Q[-1]) / np.linalg.norm(Q[0])), "still_ratio": float(values[1] / values[0])}


def _missed(data: LabelledSequences) -> dict[str, Array]:
    """Theorem 3's own solution from a start without a share of the top pair."""
    _, F = drive_of(data)
    U, s, Vt = np.linalg.svd(F)
    rng = np.random.default_rng(3)
    Q, K = rng.standard_normal((2, 4, 4))
    K = K - np.outer(Vt[0], Vt[0] @ K + U[:, 0] @ Q)
    grown = theory.stage_two(12 / s[1], F, Q, K).query
    return {"missed": np.abs(np.linalg.svd(grown)[0][:, 0] @ U[:, :2])}


def _adam(data: LabelledSequences, settings: Settings) -> dict[str, float]:
    """The same under Adam."""
    system = AttentionClassifier(data, init_scale=1e-4, lr_outer=ADAM_RATE, lr_attention=ADAM_RATE)
    every = list(range(0, settings.adam_steps + 1, 5))
    run = saccade.train(system, steps=every[-1], optimiser="adam", save=every, seeds=[settings.seed], keep=["parameter_query"])
    Q = run.parameter_query.values[0]
    norm = np.linalg.norm(Q, axis=(1, 2))
    opening = np.linalg.svd(Q[int(np.argmax(norm >= LEVEL))])[0][:, 0]
    top = np.linalg.svd(drive_of(data)[1])[0][:, 0]
    return {"adam_cosine": float(abs(opening @ top)) if norm.max() >= LEVEL else np.nan}


def claims(record: xr.Dataset) -> Iterator[Claim]:
    yield from _of_the_plateau(record)
    for data in record.data.values:
        yield from _of_opening(record.sel(data=data).dropna("scale", subset=["rate"]), Case({"data": str(data)}))
    clue, runs = theory.TwoClue(*TWO_CLUE), record.sel(data="two-clue").dropna("scale", subset=["rate"])
    case = Case({"data": "two-clue"})
    yield case.near(stated.ASSUMPTION_2, "loss on the plateau", runs.plateau_loss, clue.plateau, within=1e-3)
    yield case.near(
        stated.OPENING, "loss at the end, closed form of the best attention", runs.end_loss, clue.final_loss, within=5e-3
    )
    yield from _of_exponents(record)
    yield from _controls(record)


def _of_the_plateau(record: xr.Dataset) -> Iterator[Claim]:
    exact, scale = Case(against=CALCULUS), record.delta.values
    yield exact.at_most(stated.PROPOSITION_3, "F of eq. 15 against differentiation, both data", record.drive_error, 1e-14)
    yield exact.at_most(
        stated.DRIVE_ANY_LOSS, "-dL/dW = F W with tanh and logistic loss, relative error", record.any_loss_error, 1e-13
    )
    at = Case({"data": "teacher"}, given=[met("linear activation", True), met(APART, True)])
    orders = [power(scale, record.orders.sel(quantity=name)) for name in ("outer", "attention", "equation")]
    yield at.near(stated.PROPOSITION_3, "order of the outer gradients in δ, at β*", orders[0], 2.0, within=0.02)
    yield at.near(stated.PROPOSITION_3, "order of the attention gradients in δ, at β*", orders[1], 1.0, within=0.02)
    yield at.near(stated.PROPOSITION_3, "order of the relative error of eq. 14 in δ", orders[2], 2.0, within=0.02)


def _of_opening(record: xr.Dataset, case: Case) -> Iterator[Claim]:
    s = record.drive_values.values
    late = record.isel(scale=slice(-2, None))  # the least scales: rates are read where the outer weights have settled
    given = [above(DRIVEN, s[0], 1e-9), met(PLAIN, True)]
    case = case.but(given=given)
    yield case.near(stated.OPENING, "growth rate of attention, s₁(F)", late.rate, s[0], relative=0.005)
    for scale in late.scale.values.tolist():
        run, at = late.sel(scale=scale), case.but(ε=scale)
        bound = 1 - 1e-3
        yield at.at_least(stated.THEOREM_3, "|cos| of W_Q's top direction and u₁, at opening", float(run.query_cosine), bound)
        yield at.at_least(stated.THEOREM_3, "|cos| of W_K's top direction and v₁, at opening", float(run.key_cosine), bound)
        yield at.at_least(stated.OPENING, "|cos| of the common right directions r", float(run.common_cosine), bound)
        yield at.at_most(stated.DEFINITION_2, "s₂/s₁ of W_Q at opening", float(run.residual), 0.1)


def _of_exponents(record: xr.Dataset) -> Iterator[Claim]:
    runs, case = record.sel(data="teacher"), Case({"data": "teacher"})
    s, scale = runs.drive_values.values, runs.scale.values
    found, told = power(scale, runs.residual), theory.residual_rank_power(s)
    yield case.near(stated.RESIDUAL_RANK, "power of ε in s₂/s₁ of W_Q at opening", found, told, within=0.02)
    waits = np.diff(runs.wait) / np.diff(np.log(1 / scale))
    yield case.near(stated.OPENING, "wait for each factor e of 1/ε, 1/s₁", waits, 1 / s[0], relative=0.01)
    depth = theory.plateau_depth_power(float(record.relaxation), s[0])
    yield case.near(stated.PLATEAU_DEPTH, "power of ε in the smallest outer gradient", power(scale, runs.depth), depth, within=0.03)
    forms: Any = {"number": "3.8", "printed": depth, "corrected": 0.0, "within": 0.1}
    bent = power(scale, record.tanh_depth)
    yield case.but(activation="tanh").erratum(stated.ASSUMPTION_2, "power of ε in the smallest outer gradient", bent, **forms)
    forms = {"number": "3.9", "printed": 2.0, "corrected": 1.0, "within": 0.05}
    title = "power of the outer gradient in δ, -dL/dt = δ²"
    yield Case({"data": "separable"}).erratum(stated.ASSUMPTION_2_STAR, title, float(record.separable_power), **forms)


def _controls(record: xr.Dataset) -> Iterator[Claim]:
    apart = Case({"data": "separable"}, given=[met(APART, False)]).breaking(APART)
    yield apart.at_most(
        stated.ASSUMPTION_2, "smallest outer gradient over the one when attention opens", float(record.separable_fall), 0.5
    )
    still = Case({"data": "equal tokens"}, given=[above(DRIVEN, 0.0, 1e-9)]).breaking(DRIVEN)
    yield still.at_most(stated.THEOREM_3, "s₂/s₁ of W_Q at the end", float(record.still_ratio), 0.1)
    yield still.at_least(stated.OPENING, "growth of |W_Q| over 200 units of the plateau", float(record.still_growth), 2.0)
    missing = Case({"data": "teacher"}, given=[met(ALIGNED, False)], against=CALCULUS).breaking(ALIGNED)
    yield missing.at_least(stated.THEOREM_3, "|cos| of W_Q and u₁ in the solution of eq. 14", float(record.missed[0]), 1 - 1e-3)
    title = "|cos| of W_Q and u₂ from a start that misses u₁"
    yield Case({"data": "teacher"}, against=CALCULUS).at_least(stated.THEOREM_3, title, float(record.missed[1]), 1 - 1e-3)
    adam = Case({"data": "teacher", "optimiser": "Adam"}, given=[met(PLAIN, False)]).breaking(PLAIN)
    yield adam.at_least(stated.THEOREM_3, "|cos| of W_Q's top direction and u₁, at opening", float(record.adam_cosine), 1 - 1e-3)


def panels(record: xr.Dataset) -> Layout:
    return [_growth(record), _rank(record), _depth(record)]


def _growth(record: xr.Dataset) -> Lines:
    n, s = record.sizes["scale"], float(record.drive_values.sel(data="teacher")[0])
    lines = [
        Line(record.curve_time[i], record.curve_query[i], f"ε = {float(eps):g}", tone=(i + 1) / n)
        for i, eps in enumerate(record.scale)
    ]
    last = float(record.wait.sel(data="teacher")[-1])
    t = np.array([last - 25, last])
    lines.append(Line(t, LEVEL * np.exp(s * (t - last)), "slope s₁(F)", DASHES, None))
    return Lines(
        "attention opens at the rate s₁(F)", "t - T*/(ε g₀)", "|W_Q|", lines, log="y", xlim=(-20, last + 15), levels={LEVEL: "open"}
    )


def _rank(record: xr.Dataset) -> Lines:
    runs, scale = record.sel(data="teacher"), record.scale.values
    told = theory.residual_rank_power(runs.drive_values.values)
    line = float(runs.residual[-1]) * (scale / scale[-1]) ** told
    lines = [
        Line(scale, runs.residual, "measured", POINTS, 0),
        Line(scale, line, f"slope 1 - s₂/s₁ of F = {told:.2f}", DASHES, None),
    ]
    return Lines("rank left when attention opens", "initial scale ε", "s₂/s₁ of W_Q", lines, log="xy")


def _depth(record: xr.Dataset) -> Lines:
    runs, scale = record.sel(data="teacher"), record.scale.values
    told = theory.plateau_depth_power(float(record.relaxation), float(runs.drive_values[0]))
    line = float(runs.depth[-1]) * (scale / scale[-1]) ** told
    lines = [
        Line(scale, runs.depth, "linear activation", POINTS, 0),
        Line(scale, line, f"slope {told:.2f}, predicted", DASHES, None),
        Line(scale, record.tanh_depth, "tanh", POINTS, 1),
    ]
    return Lines("how nearly the outer weights rest", "initial scale ε", "smallest outer gradient", lines, log="xy")


EXPERIMENT = Experiment(
    "rank-collapse",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Panel 1: norm of W_Q since the end of stage I, for three initial scales; it grows at the rate of the largest singular "
        "value of F. Panel 2: how far from rank one W_Q is when it opens, against the power of ε that the gap of F predicts. "
        "Panel 3: the smallest gradient of the outer weights before that; with tanh they never rest."
    ),
    finding=(
        "attention grows at {growth rate of attention, s₁(F) (data teacher):.4f}, s₁ of F within 0.5 %; when it opens s₂/s₁ of "
        "W_Q is ε^{power of ε in s₂/s₁*:.2f}; the outer weights rest to ε^{power of ε in the smallest outer gradient (data "
        "teacher):.2f}, with tanh never; Adam opens another direction"
    ),
    variables=VARIABLES,
    dynamics="B: population gradient flow, attention classifier",
    time_unit=STEPS,
)
