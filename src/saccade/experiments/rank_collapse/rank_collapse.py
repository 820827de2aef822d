"""On the plateau attention grows at rate s₁(F) along the top singular pair of F, and opens with a
rank that the gap of F predicts.

Follows networks on noisy sequences (`stage_one.teacher_data`), on the two-clue task and on the
paper's anchor function through stage II, and measures orders at β*. Tolerances were set before the
run. After it, orders are measured at weights of .02 to .005 (at .05 to .0125 they were 1.96 and
.974), the quietest moment is sampled more finely, and the rate is that of the amplitude: with
turned keys that of |W_Q| was 1 % off from one of three starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import xarray as xr

import saccade
from saccade.data.labelled_sequences import LabelledSequences
from saccade.dynamics.linearise import jacobian
from saccade.experiments.rank_collapse.stage_one import (
    STEPS,
    apart,
    followed,
    stage_one,
    teacher_data,
)
from saccade.lab.claim import CALCULUS, Case, Claim
from saccade.lab.panel import DASHES, POINTS, Layout, Line, Lines, family, power_law
from saccade.lab.protocol import Experiment, Measured, Progress, Variable, grid, stretch
from saccade.lab.settings import Range
from saccade.model.attention_classifier import AttentionClassifier, Weights
from saccade.observe import fits
from saccade.observe.fits import Array, power
from saccade.theory import rank_collapse as theory
from saccade.theory.condition import above, at_least, met
from saccade.theory.rank_collapse import statements as stated

LEVEL = 0.1  # norm of W_Q at which attention counts as open; at it logits are of order .01
WINDOW = (1e-3, 2e-2)  # amplitudes between which the rate is fitted
DELTAS = (0.02, 0.01, 0.005)  # sizes of W_Q and W_K at which orders are measured
TWO_CLUE = theory.TwoClue(0.9, 0.9, 0.5)
ANGLES = (1.0, 0.5)  # of two pairs of key coordinates
DRIVEN, PLAIN, FIXED, LINEAR = (
    "F ≠ 0",
    "plain gradient flow",
    "keys that do not turn with position",
    "linear activation",
)
ALIGNED, APART = "u₁ᵀW_Q(0) + v₁ᵀW_K(0) ≠ 0", "labels not separated by the mean token"
CONSTANT, BOTH = (
    "constant directions of the outer weights",
    "the second pair of F grows too, s₂ t > 2",
)
ADAM_RATE, ADAM_STEPS = 2e-3, 400
COORDS: dict[str, Any] = {
    "delta": list(DELTAS),
    "quantity": ["outer", "attention", "equation"],
    "pair": ["value", "query", "key", "common"],
    "restless": ["separable", "sure clues"],
}

VARIABLES = {
    "separable": Variable("run", "1", "1 if the mean token separates the labels"),
    "drive_values": Variable(
        "run rank",
        "1/time",
        "singular values of F at beta*, by eq. 15; of the winning M if keys turn",
    ),
    "rate": Variable("run", "1/time", "growth rate of the amplitude |u_1 W_Q + v_1 W_K| / 2"),
    "cosine": Variable(
        "run pair",
        "1",
        "|cos| of W_V and v at its best; of W_Q and u_1, W_K and v_1, both r, at opening",
    ),
    "residual": Variable("run", "1", "s_2 / s_1 of W_Q when attention opens"),
    "residual_told": Variable("run", "1", "the same in the limit of small scales, from u_1"),
    "third": Variable("run", "1", "s_3 / s_1 of W_Q when attention opens"),
    "depth": Variable("run", "1", "smallest outer gradient on the plateau"),
    "wait": Variable("run", STEPS, "time from the end of stage I until |W_Q| is 0.1"),
    "end_loss": Variable("run", "1", "loss at the end"),
    "plateau_loss": Variable("run", "1", "loss when the outer gradient is smallest"),
    "curve_time": Variable("run sample", STEPS, "time since the end of stage I"),
    "curve_query": Variable("run sample", "1", "|W_Q|"),
    "drive_error": Variable(
        "task", "1", "largest difference of F by eq. 15 and by differentiation at beta*"
    ),
    "any_loss_error": Variable(
        "identity", "1", "largest relative error of -dL/dW = F W of query and key at random weights"
    ),
    "orders": Variable(
        "quantity delta",
        "1",
        "outer gradient, attention gradient, relative error of eq. 14 at beta*",
    ),
    "relaxation": Variable("", "1/time", "slowest relaxation of the outer weights at beta*"),
    "missed": Variable(
        "top",
        "1",
        "|cos| of W_Q and u_1, u_2 by the solution of eq. 14, from a start that misses u_1",
    ),
    "restless_power": Variable(
        "restless",
        "1",
        "power of the outer gradient in the root of -dL/dt, differences of the loss",
    ),
    "restless_fall": Variable(
        "restless", "1", "smallest outer gradient after stage I over that when |W_Q| is 0.1"
    ),
    "restless_cosine": Variable(
        "restless", "1", "least |cos| of W_V's top left vector and the last one in between"
    ),
    "restless_separable": Variable("restless", "1", "1 if the mean token separates the labels"),
    "still": Variable(
        "equal",
        "1",
        "where F = 0: s_1 of F; at the end s_2 / s_1 of W_Q, and |W_Q| over that at the start",
    ),
    "adam_cosine": Variable(
        "", "1", "|cos| of W_Q's top left vector and u_1 under Adam, |W_Q| = 0.1"
    ),
}


@dataclass(frozen=True)
class Settings:
    scales: Annotated[tuple[float, ...], Range(1e-8, 1e-2, least=2)] = (1e-4, 1e-5, 1e-6)
    """initial scales, falling; the two tasks and the run with turned keys use the last"""
    seed: int = 0
    """seed of the random start"""


def measure(settings: Settings, on_progress: Progress) -> Measured:
    teacher, last = teacher_data(), settings.scales[-1]
    # the anchor function's seed was chosen for the gap of its F; the paper's embedding has 640
    # coordinates
    clue, anchor = (
        LabelledSequences.two_clue(TWO_CLUE.first, TWO_CLUE.second, TWO_CLUE.share),
        LabelledSequences.anchor(200, 4),
    )
    runs = [("teacher", AttentionClassifier(teacher, eps)) for eps in settings.scales]
    runs += [
        ("tanh", AttentionClassifier(teacher, eps, activation="tanh")) for eps in settings.scales
    ]
    runs += [
        ("two-clue", AttentionClassifier(clue, last)),
        ("anchor", AttentionClassifier(anchor, last)),
    ]
    runs += [("turned keys", AttentionClassifier(teacher, last, angles=ANGLES))]
    systems = [system for _, system in runs]
    values = grid(
        lambda system: _stage_two(system, settings.seed), stretch(on_progress, 0, 0.7), run=systems
    )
    restless = teacher_data(noise=0.0), LabelledSequences.two_clue(1.0, 1.0)
    values |= grid(
        lambda data: _restless(data, settings.seed),
        stretch(on_progress, 0.7, 0.9),
        restless=restless,
    )
    values |= (
        _at_the_plateau((teacher, clue, anchor), settings.seed)
        | _still(teacher, settings)
        | _adam(teacher, settings)
    )
    return Measured(
        values,
        {
            "run": [name for name, _ in runs],
            "scale": ("run", [each.init_scale for each in systems]),
            **COORDS,
        },
    )


def _drive(system: AttentionClassifier) -> tuple[Any, Array, Any, Any]:
    """Top left vector, singular values and top right vector, conjugate, of what drives attention on
    the plateau, and the columns of W_Q and W_K that it drives; of the winning pair of key
    coordinates, as one column of complex numbers, if keys turn.
    """
    star, F = theory.plateau(*system.sequences.given)
    U, s, Vt = np.linalg.svd(
        theory.rotary_drive(star, *system.sequences.given, system.angles)
        if system.angles
        else F[None]
    )
    winner = int(s[:, 0].argmax())
    columns = np.kron(np.eye(len(s))[winner], [1, 1j])[:, None] if system.angles else np.eye(len(F))
    return U[winner, :, 0], s[winner], Vt[winner, 0], columns


def _stage_two(system: AttentionClassifier, seed: int) -> dict[str, Any]:
    """A run from the start until attention has opened, with samples around the predicted ends of
    both stages.
    """
    data, eps, (u, s, v, columns) = system.sequences, system.init_scale, _drive(system)
    opens, keep = (
        np.log(LEVEL / eps) / s[0],
        ["parameter_query", "parameter_key", "parameter_value", "outer_gradient"],
    )
    # 60 samples each would do but for the quietest moment: at 1.6 units apart they miss its depth
    # by up to a fifth
    run = followed(system, seed, keep, opens=opens, until=opens + 10 / s[0], n=200)
    (Q, K, V, outer), time = (run[name].values for name in keep), run.time.values
    norm, amplitude = (
        np.linalg.norm(Q, axis=(1, 2)),
        np.linalg.norm(u.conj() @ (Q @ columns) + v @ (K @ columns), axis=1) / 2,
    )
    at = fits.first_index(norm, LEVEL)
    (left, values, right), (key_left, _, key_right) = np.linalg.svd(Q[at]), np.linalg.svd(K[at])
    pairs, to_v = (
        ((left[:, 0], u), (key_left[:, 0], v), (right[0], key_right[0])),
        _top(V) @ stage_one(data, seed).direction,
    )
    quiet = int(np.argmin(np.where((time > 0) & (np.arange(len(time)) <= at), outer, np.inf)))
    return {
        "separable": float(theory.is_separable(*data.given)),
        "drive_values": s,
        "rate": fits.growth_rate(
            time, amplitude, fits.between(amplitude, max(WINDOW[0], 10 * eps), WINDOW[1])
        ),
        "cosine": np.abs([to_v[np.abs(to_v).argmax()], *(one @ other for one, other in pairs)]),
        "residual": values[1] / values[0],
        "residual_told": theory.rotary_residual(u),
        "third": values[2] / values[0],
        "depth": outer[quiet],
        "wait": fits.reaching_time(time, np.log(norm), np.log(LEVEL)),
        "end_loss": run.loss.values[-1],
        "plateau_loss": run.loss.values[quiet],
        "curve_time": time,
        "curve_query": norm,
    }


def _at_the_plateau(tasks: tuple[LabelledSequences, ...], seed: int) -> dict[str, Any]:
    """Identities and orders at beta*, by differentiation; orders on the first task."""
    rng, (teacher, clue, _), drives = (
        np.random.default_rng(seed),
        tasks,
        [theory.plateau(*data.given) for data in tasks],
    )
    points = [
        Weights(*theory.rank_one_factors(star, rng), *np.zeros((2, len(star), len(star))))
        for star, _ in drives
    ]
    Q, K = rng.standard_normal((2, 4, 4))
    system, (_, F), orders = AttentionClassifier(teacher), drives[0], []
    odd = AttentionClassifier(
        clue, init_scale=1.0, d_key=3, d_hidden=7, activation="tanh", loss_kind="logistic"
    )
    weights = odd.start(rng)
    found = [
        AttentionClassifier(data).downhill(point)[1]
        for data, point in zip(tasks, points, strict=True)
    ]
    slope, drive = odd.downhill(weights)
    for delta in DELTAS:
        speed = system.downhill(points[0]._replace(query=delta * Q, key=delta * K))[0]
        parts = [np.sqrt(sum(np.sum(part**2) for part in each)) for each in (speed[:3], speed[3:])]
        orders.append([*parts, apart(speed.query, delta * F @ K)])
    J = jacobian(system.equations().velocity, points[0], system.equations().setting)
    n_outer = sum(part.size for part in points[0][:3])
    relaxing, (U, s, Vt) = -np.linalg.eigvalsh((J + J.T)[:n_outer, :n_outer] / 2), np.linalg.svd(F)
    # Theorem 3's own solution from a start without a share of the top pair
    missed = theory.stage_two(12 / s[1], F, Q, K - np.outer(Vt[0], Vt[0] @ K + U[:, 0] @ Q)).query
    return {
        "drive_error": np.array(
            [np.abs(one - F).max() for one, (_, F) in zip(found, drives, strict=True)]
        ),
        "any_loss_error": np.array(
            [apart(slope.query, drive @ weights.key), apart(slope.key, drive.T @ weights.query)]
        ),
        "orders": np.array(orders).T,
        "relaxation": relaxing[relaxing > 1e-9].min(),
        "missed": np.abs(np.linalg.svd(missed)[0][:, 0] @ U[:, :2]),
    }


def _top(matrices: Array) -> Array:
    """Top left vector of each."""
    return np.linalg.svd(matrices)[0][..., 0]


def _restless(data: LabelledSequences, seed: int) -> dict[str, Any]:
    """Outer weights that grow for ever, between stage I and the opening of attention: the loss has
    no least value.
    """
    keep = ["outer_gradient", "parameter_query", "parameter_value"]
    run = followed(AttentionClassifier(data, init_scale=1e-6), seed, keep, until=100, n=200)
    is_open = np.linalg.norm(run.parameter_query.values, axis=(1, 2)) >= LEVEL
    inside = (run.time.values > 2) & ~np.logical_or.accumulate(is_open)
    outer, delta = (
        run.outer_gradient.values[inside],
        np.sqrt(-np.gradient(run.loss.values, run.time.values)[inside]),
    )
    top = _top(run.parameter_value.values[inside])
    return {
        "restless_power": power(delta, outer),
        "restless_fall": float(
            outer.min() / outer[-1]
        ),  # a minimum in between, not at the last sample, would be a plateau
        "restless_cosine": np.abs(top @ top[-1]).min(),
        "restless_separable": float(theory.is_separable(*data.given)),
    }


def _still(data: LabelledSequences, settings: Settings) -> dict[str, Array]:
    """Sequences whose tokens are all the same: attention has nothing to choose from, and F = 0."""
    same = LabelledSequences(
        np.repeat(data.tokens.mean(axis=1, keepdims=True), 4, axis=1), data.label
    )
    Q = followed(
        AttentionClassifier(same), settings.seed, ["parameter_query"], until=200, n=20
    ).parameter_query.values
    drive, values = np.linalg.norm(theory.plateau(*same.given)[1], 2), np.linalg.svd(Q[-1])[1]
    return {
        "still": np.array(
            [drive, values[1] / values[0], np.linalg.norm(Q[-1]) / np.linalg.norm(Q[0])]
        )
    }


def _adam(data: LabelledSequences, settings: Settings) -> dict[str, float]:
    """The same under Adam."""
    system = AttentionClassifier(data, init_scale=1e-4, lr_outer=ADAM_RATE, lr_attention=ADAM_RATE)
    every = list(range(0, ADAM_STEPS + 1, 5))
    run = saccade.train(
        system,
        steps=every[-1],
        optimiser="adam",
        save=every,
        seeds=[settings.seed],
        keep=["parameter_query"],
    )
    Q = run.parameter_query.values[0]
    norm = np.linalg.norm(Q, axis=(1, 2))
    return {"adam_cosine": abs(float(_top(Q[fits.first_index(norm, LEVEL)]) @ _drive(system)[0]))}


def runs_of(record: xr.Dataset, name: str) -> xr.Dataset:
    """The runs with this name, one for each initial scale."""
    return record.isel(run=np.flatnonzero(record.run.values == name))


def claims(record: xr.Dataset) -> Iterator[Claim]:
    yield from _of_the_plateau(record)
    for name in ("teacher", "two-clue", "anchor"):
        yield from _of_opening(*_case(record, name))
    clue, case = _case(record, "two-clue")
    yield case.near(
        stated.ASSUMPTION_2, "loss on the plateau", clue.plateau_loss, TWO_CLUE.plateau, within=1e-3
    )
    title = "loss at the end, closed form of the best attention"
    yield case.near(stated.OPENING, title, clue.end_loss, TWO_CLUE.final_loss, within=5e-3)
    yield from _of_exponents(record)
    yield from _of_turned_keys(*_case(record, "turned keys"))
    yield from _controls(record)


def _case(record: xr.Dataset, name: str) -> tuple[xr.Dataset, Case]:
    """Runs with what they assume."""
    runs = runs_of(record, name)
    return runs, Case(
        {"data": name},
        [above(DRIVEN, runs.drive_values[0, 0], 1e-9), met(APART, not runs.separable.any())],
    )


def _of_the_plateau(record: xr.Dataset) -> Iterator[Claim]:
    exact = Case(against=CALCULUS)
    yield exact.at_most(
        stated.PROPOSITION_3,
        "F of eq. 15 against differentiation, all data",
        record.drive_error,
        1e-14,
    )
    title = "-dL/dW = F W with tanh and logistic loss, relative error"
    yield exact.at_most(stated.DRIVE_ANY_LOSS, title, record.any_loss_error, 1e-13)
    at, one_percent = (
        _case(record, "teacher")[1].but(against=CALCULUS),
        np.log2(1.01),
    )  # over a factor of two in δ
    for quantity, what, order, within in (
        ("outer", "the outer gradients in δ, at β*", 2.0, one_percent),
        ("attention", "the attention gradients in δ, at β*", 1.0, one_percent),
        ("equation", "the relative error of eq. 14 in δ", 2.0, 0.02),
    ):
        found = power(record.delta, record.orders.sel(quantity=quantity))
        yield at.near(stated.PROPOSITION_3, f"order of {what}", found, order, within=within)


def _of_opening(runs: xr.Dataset, case: Case) -> Iterator[Claim]:
    late, bound = (
        runs.isel(run=slice(-2, None)),
        1 - 1e-3,
    )  # the least scales: rates are read where the outer weights have settled
    s1 = float(late.drive_values[0, 0])
    yield case.at_least(
        stated.THEOREM_2,
        "cos of W_V's top direction and v, at its best",
        late.cosine.sel(pair="value"),
        bound,
    )
    yield case.near(
        stated.OPENING, "growth rate of attention, s₁(F)", late.rate, s1, relative=0.005
    )
    for i, eps in enumerate(late.scale.values.tolist()):
        run, at = late.isel(run=i), case.but(ε=eps)
        for pair, statement, what in (
            ("query", stated.THEOREM_3, "W_Q's top direction and u₁, at opening"),
            ("key", stated.THEOREM_3, "W_K's top direction and v₁, at opening"),
            ("common", stated.OPENING, "the common right directions r"),
        ):
            yield at.at_least(statement, f"|cos| of {what}", run.cosine.sel(pair=pair), bound)
        yield at.at_most(stated.DEFINITION_2, "s₂/s₁ of W_Q at opening", run.residual, 0.1)


def _of_exponents(record: xr.Dataset) -> Iterator[Claim]:
    runs, case = _case(record, "teacher")
    s, scale = runs.drive_values[0].values, runs.scale.values
    logs, share = np.log(LEVEL / scale), (runs.wait * runs.scale).values  # stage I takes T*/(ε g₀)
    found, told = power(scale, runs.residual), theory.residual_rank_power(s)
    grown = case.but(given=[*case.given, above(BOTH, s[1] / s[0] * logs.min(), 2.0)])
    yield grown.near(
        stated.RESIDUAL_RANK, "power of ε in s₂/s₁ of W_Q at opening", found, told, within=0.02
    )
    waits = np.diff(runs.wait) / np.diff(logs)
    yield case.near(
        stated.OPENING, "wait for each factor e of 1/ε, 1/s₁", waits, 1 / s[0], relative=0.01
    )
    told = scale[-1] * logs[-1] / (scale[0] * logs[0])
    yield case.near(
        stated.WAITING_TIMES,
        "stage II over stage I, last ε against first",
        share[-1] / share[0],
        told,
        relative=0.1,
    )
    title, depth = (
        "power of ε in the smallest outer gradient",
        theory.plateau_depth_power(float(record.relaxation), s[0]),
    )
    yield case.near(stated.PLATEAU_DEPTH, title, power(scale, runs.depth), depth, within=0.03)
    bent, case = power(scale, runs_of(record, "tanh").depth), case.but(activation="tanh")
    yield case.erratum(stated.ASSUMPTION_2, title, bent, printed=depth, corrected=0.0, within=0.1)
    sure = record.sel(restless="sure clues")
    case = Case(
        {"data": "two-clue, clues never wrong"},
        [at_least(CONSTANT, sure.restless_cosine, 1 - 1e-3)],
    )
    title = "power of the outer gradient in δ, -dL/dt = δ²"
    yield case.erratum(
        stated.ASSUMPTION_2_STAR,
        title,
        sure.restless_power,
        printed=2.0,
        corrected=1.0,
        within=0.05,
    )


def _of_turned_keys(runs: xr.Dataset, case: Case) -> Iterator[Claim]:
    s1, residual = float(runs.drive_values[0, 0]), float(runs.residual_told[0])
    yield case.near(
        stated.TURNED_KEYS, "growth rate of attention, s₁(M)", runs.rate, s1, relative=0.005
    )
    yield case.near(
        stated.TURNED_KEYS, "s₂/s₁ of W_Q at opening", runs.residual, residual, relative=0.05
    )
    yield case.at_most(stated.TURNED_KEYS, "s₃/s₁ of W_Q at opening", runs.third, 0.1)
    broken = case.but(given=[*case.given, met(FIXED, False)]).breaking(FIXED)
    yield broken.at_most(
        stated.THEOREM_3, "s₂/s₁ of W_Q at opening, as without positions", runs.residual, 0.1
    )


def _controls(record: xr.Dataset) -> Iterator[Claim]:
    clean, teacher = record.sel(restless="separable"), _case(record, "teacher")[1]
    apart = Case({"data": "separable"}, [met(APART, not clean.restless_separable)]).breaking(APART)
    title, cosines = (
        "smallest outer gradient over the one when attention opens",
        "|cos| of W_Q's top direction and u₁, at opening",
    )
    yield apart.at_most(stated.ASSUMPTION_2, title, clean.restless_fall, 0.5)
    drive, ratio, growth = record.still.values.tolist()
    still = Case({"data": "equal tokens"}, [above(DRIVEN, drive, 1e-9)]).breaking(DRIVEN)
    yield still.at_most(stated.THEOREM_3, "s₂/s₁ of W_Q at the end", ratio, 0.1)
    yield still.at_least(
        stated.OPENING, "growth of |W_Q| over 200 units of the plateau", growth, 2.0
    )
    exact, (first, second) = teacher.but(against=CALCULUS), record.missed.values
    missing = exact.but(given=[met(ALIGNED, False)]).breaking(ALIGNED)
    yield missing.at_least(
        stated.THEOREM_3, "|cos| of W_Q and u₁ in the solution of eq. 14", first, 1 - 1e-3
    )
    yield exact.at_least(
        stated.THEOREM_3, "|cos| of W_Q and u₂ from a start that misses u₁", second, 1 - 1e-3
    )
    adam = teacher.but(given=[met(PLAIN, False)], optimiser="Adam").breaking(PLAIN)
    yield adam.at_least(stated.THEOREM_3, cosines, record.adam_cosine, 1 - 1e-3)


def panels(record: xr.Dataset) -> Layout:
    runs = runs_of(record, "teacher")
    scale, s = runs.scale.values, runs.drive_values[0].values
    gap, deep = (
        theory.residual_rank_power(s),
        theory.plateau_depth_power(float(record.relaxation), s[0]),
    )
    ranks = [Line(scale, runs.residual, "measured", POINTS, 0)]
    ranks += [power_law(scale, runs.residual, gap, f"slope 1 - s₂/s₁ of F = {gap:.2f}")]
    drawn = {LINEAR: runs.depth, "tanh": runs_of(record, "tanh").depth}
    depths = [Line(scale, depth, name, POINTS) for name, depth in drawn.items()]
    depths += [power_law(scale, runs.depth, deep, f"slope {deep:.2f}, predicted")]
    growth, last = (
        family(runs.curve_time, runs.curve_query, [f"ε = {eps:g}" for eps in scale]),
        float(runs.wait[-1]),
    )
    growth += [
        Line([last - 25, last], [LEVEL * np.exp(-25 * s[0]), LEVEL], "slope s₁(F)", DASHES, None)
    ]
    limits: Any = {"log": "y", "xlim": (-20, last + 15), "levels": {LEVEL: "open"}}
    return [
        Lines("attention opens at the rate s₁(F)", "t - T*/(ε g₀)", "|W_Q|", growth, **limits),
        Lines("rank left when attention opens", "initial scale ε", "s₂/s₁ of W_Q", ranks, log="xy"),
        Lines(
            "how close to rest the outer weights come",
            "initial scale ε",
            "smallest outer gradient",
            depths,
            log="xy",
        ),
    ]


EXPERIMENT = Experiment(
    "rank-collapse",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Panel 1: norm of W_Q since the end of stage I, for three initial scales. Panel 2: how far from rank one W_Q is when it "
        "opens, and the power of ε that the gap of F predicts. Panel 3: the smallest gradient of the outer weights before that."
    ),
    finding=(
        "attention grows at rate {growth rate of attention, s₁(F) (data teacher):.4f} (s₁ of F within 0.5 %); when it opens, W_Q "
        "is of rank one up to ε^{power of ε in s₂/s₁*:.2f}, but of rank two with rotary positions (s₂/s₁ = {s₂/s₁ of W_Q at "
        "opening (data turned keys):.2f}); the gradients of the outer weights fall to ε^{power of ε in the smallest outer "
        "gradient (data teacher):.2f}, with tanh they never vanish; Adam opens another direction"
    ),
    variables=VARIABLES,
    dynamics="B: population gradient flow, attention classifier",
    time_unit=STEPS,
)
