"""Low tokens of equal frequency stall the flow for good; an asymmetry frees it in a time inverse to it, a long stay breaks the tie.

Follows the flow on one frequent token and (nearly) equal low ones, finds the critical points that hold it, the rates at which it
leaves them, across the rank-one manifold and along it, and the stay at which exact symmetry breaks by itself. Expect: no escape at
exact symmetry; transverse rates as the asymmetry, tangential ones as its square at the symmetric point and none at the point that
takes its place. Tolerances come from theory: 0.05 on powers, 1 % on growth rates in a flow, 0.5 % on a closed form. Escape takes
1 / asymmetry times a logarithm, growth from the start until s₂² is of the order of the asymmetry: its power of the asymmetry is -1
plus about 1 / (2 ln(1 / start)), and is held to twice that; the time per e-fold of the start has no such term and is held to 2 %.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

import saccade
from saccade.errors import InputError, checked_count, checked_list, checked_number
from saccade.experiments.focus_and_dilution import degenerate_points as points
from saccade.experiments.focus_and_dilution import stage_fits
from saccade.lab.claim import Case, Claim
from saccade.lab.experiment import Experiment, Measured, Progress, Variable, grid, stretch
from saccade.lab.panel import DASHES, DOTS, POINTS, Layout, Line, Lines
from saccade.observe import fits
from saccade.observe.fits import Array
from saccade.theory import focus_and_dilution as theory
from saccade.theory.condition import above, below
from saccade.theory.focus_and_dilution.statements import CRITICAL_STAY, DEGENERATE_POINT, ESCAPE_TIME, THEOREM_3_9

ESCAPED = 0.2  # s2 / s1 of the embedding at which the flow counts as having left
PARTING = 1e-3  # spread of the low tokens at which its growth is measured: far above the start 1e-5, far below their size of 0.5
NEARNESS = (1 / 3, 2 / 3)  # two of the degenerate points; the critical stay is the same at each

STEPS = "steps of gradient descent at rate 1"
VARIABLES = {
    "escape_time": Variable("asymmetry init_scale", STEPS, f"when s2 / s1 of the embedding rises through {ESCAPED:g}"),
    "escape_rate": Variable("asymmetry", "1/time", "s1(B) at the rank-one critical point of the chain"),
    "curve_time": Variable("curve sample", STEPS, "times of the curves"),
    "curve_ratio": Variable("curve sample", "1", "s2 / s1 of the embedding"),
    "curve_loss": Variable("curve sample", "nats", "loss above the optimum"),
    "parting_rate": Variable("", "1/time", "growth rate of the spread of low tokens at exact symmetry, above the critical stay"),
    "parting_predicted": Variable("", "1/time", "the same from the Hessian of the degenerate point that the flow is at"),
    "decoder_gradient": Variable("", "1", "|dL/dM| at the degenerate point"),
    "logit_gradient": Variable("", "1", "|dL/dPhi| at the degenerate point"),
    "transverse": Variable("point_asymmetry point", "1/time", "s1(B): how fast a second direction opens"),
    "tangential": Variable("point_asymmetry point", "1/time", "largest growth rate on the rank-one manifold"),
    "transverse_predicted": Variable(
        "point_asymmetry", "1/time", "transverse rate at the perturbed point to first order in the asymmetry"
    ),
    "critical_stay": Variable(
        "tokens mass nearness", "1", "stay at which the largest rate of moves that sum to zero over low tokens is zero"
    ),
    "critical_residual": Variable("tokens mass nearness", "1/time", "norm of the velocity there"),
}


@dataclass(frozen=True)
class Settings:
    n_vocab: int = 4
    """tokens"""
    high: float = 0.6
    """mass of token 0"""
    stays: tuple[float, float, float] = (0.5, 0.3, 0.9)
    """chance of repeating the last token: of the flows, of the critical points, and above the critical one"""
    asymmetries: tuple[float, ...] = (0.04, 0.02, 0.01, 0.005, 0.0025)
    """differences of low tokens' masses in the flows, at least two"""
    point_asymmetries: tuple[float, ...] = (1e-2, 1e-3, 1e-4, 1e-5)
    """the same for critical points, at least two"""
    init_scales: tuple[float, float] = (1e-3, 1e-5)
    """sizes of the random start, a larger and a smaller one"""
    t1: float = 2e4
    """end of the flows at exact symmetry, steps"""
    n_times: int = 600
    """samples of each flow, log-spaced"""
    masses: tuple[float, ...] = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    """masses of token 0 in the diagram"""
    tokens: tuple[int, ...] = (3, 4, 6, 10, 20)
    """numbers of tokens in the diagram"""
    seed: int = 0
    """names the random start"""

    def chain(self, stay: float, asymmetry: float = 0.0) -> saccade.MarkovChain:
        return saccade.MarkovChain.two_level(self.n_vocab, self.high, asymmetry, stay)

    def degenerate_point(self, stay: float, high_attention: float) -> theory.DegeneratePoint:
        return theory.degenerate_point(high=self.high, n_vocab=self.n_vocab, stay=stay, high_attention=high_attention)


def measure(settings: Settings, on_progress: Progress) -> Measured:
    _check(settings)
    found = _escapes(settings, stretch(on_progress, 0.0, 0.7)) | _points(settings)
    diagram = {"tokens": settings.tokens, "mass": settings.masses, "nearness": NEARNESS}
    found |= grid(points.critical_stay_found, stretch(on_progress, 0.8, 1.0), **diagram)
    curves = [*(f"asymmetry {asymmetry:g}" for asymmetry in settings.asymmetries), "symmetric", "symmetric, long stay"]
    coords = {
        "asymmetry": list(settings.asymmetries),
        "init_scale": list(settings.init_scales),
        "point_asymmetry": list(settings.point_asymmetries),
        "point": ["symmetric", "perturbed"],
        "curve": curves,
    }
    return Measured(found, coords | {name: list(values) for name, values in diagram.items()})


def _check(settings: Settings) -> None:
    for name in ("asymmetries", "point_asymmetries", "init_scales"):
        if len(checked_list(name, getattr(settings, name), low=1e-8, high=0.1)) < 2:
            raise InputError(f"`{name}` must list at least two values: a power is fitted to them.")
    for stay in settings.stays:
        checked_number("stays", stay, low=0.0, high=1.0, open_low=True)
    checked_count("n_vocab", settings.n_vocab, low=3)
    checked_count("n_times", settings.n_times, low=10)
    for n_vocab in settings.tokens:
        checked_count("tokens", n_vocab, low=3, high=64)
    for high in settings.masses:
        checked_number("masses", high, low=1 / min(settings.tokens), high=0.95, open_low=True)


class Escape(NamedTuple):
    """One flow. `ratio` is s2 / s1 of the embedding, `spread` the standard deviation of low tokens along its first direction."""

    escape_time: float  # infinite if it did not leave
    time: Array
    ratio: Array
    spread: Array
    loss_gap: Array
    self_attention: Array


def _escape(settings: Settings, chain: saccade.MarkovChain, init_scale: float, t1: float) -> Escape:
    model = saccade.Embedded(init_scale=init_scale)
    run = saccade.flow(chain, t1=t1, n_times=settings.n_times, model=model, seeds=[settings.seed]).isel(seed=0)
    embedding, time = run.embedding.values, run.time.values
    _, values, directions = np.linalg.svd(embedding, full_matrices=False)
    ratio, along = values[:, 1] / values[:, 0], np.einsum("tiw,tw->ti", embedding, directions[:, 0])
    # Before condensation all directions are alike, which is no escape: the ratio must have been below.
    i = fits.rise_index(ratio, ESCAPED)
    left = np.inf if i is None else float(np.interp(ESCAPED, ratio[i - 1 : i + 1], time[i - 1 : i + 1]))
    attention = run.attention.values[:, 0, 0]
    return Escape(left, time, ratio, along[:, 1:].std(axis=1), run.loss.values - chain.optimal_loss, attention)


def _escapes(settings: Settings, on_progress: Progress) -> dict[str, Any]:
    """Flows with each asymmetry from each start, then at exact symmetry below and above the critical stay."""
    stay, _, above_critical = settings.stays
    larger, *_, smaller = settings.init_scales
    chains = [settings.chain(stay, asymmetry) for asymmetry in settings.asymmetries]
    rates = [points.transverse_rate(chain, points.rank_one_point(chain)) for chain in chains]
    runs: list[list[Escape]] = []
    for i, (chain, rate) in enumerate(zip(chains, rates, strict=True)):
        per_fold = _time_per_fold(chain, rate)
        runs.append([_escape(settings, chain, scale, (np.log(1 / scale) + 1) * per_fold) for scale in settings.init_scales])
        on_progress((i + 1) / (len(chains) + 1))
    stalled, broken = (_escape(settings, settings.chain(s), larger, settings.t1) for s in (stay, above_critical))
    slow = _escape(settings, settings.chain(above_critical), smaller, settings.t1)
    curves = [*(of_chain[0] for of_chain in runs), stalled, broken]
    return {
        "escape_time": [[one.escape_time for one in of_chain] for of_chain in runs],
        "escape_rate": rates,
        "curve_time": [one.time for one in curves],
        "curve_ratio": [one.ratio for one in curves],
        "curve_loss": [one.loss_gap for one in curves],
        **_parting(slow, settings),
    }


def _time_per_fold(chain: saccade.MarkovChain, rate: float) -> float:
    """How much later a flow leaves per e-fold of a smaller start: each of its three stages starts from smaller weights."""
    first = theory.condensation_slope(stationary=chain.stationary)
    return first + theory.focus_slope(rate=stage_fits.focus_rate(chain)) + 1 / rate


def _parting(run: Escape, settings: Settings) -> dict[str, float]:
    """Growth of the spread of low tokens where it rises through `PARTING` after it was smallest, and what theory says there."""
    settled = int(np.argmax(run.ratio < ESCAPED))
    lowest = settled + int(np.argmin(run.spread[settled:]))
    risen = np.flatnonzero((run.spread >= PARTING) & (np.arange(len(run.spread)) > lowest))
    if not len(risen) or risen[0] + 1 >= len(run.time):
        return {"parting_rate": np.nan, "parting_predicted": np.nan}
    i = int(risen[0])
    near, point = slice(i - 1, i + 2), settings.degenerate_point(settings.stays[2], float(run.self_attention[i]))
    return {
        "parting_rate": float(np.gradient(np.log(run.spread[near]), run.time[near])[1]),
        "parting_predicted": -float(np.linalg.eigvalsh(theory.symmetry_hessian(point))[0]),
    }


def _points(settings: Settings) -> dict[str, Any]:
    """Rates at the symmetric point, in chains that are not symmetric, and at the critical point that takes its place there."""
    stay = settings.stays[1]
    even, chains = settings.chain(stay), [settings.chain(stay, asymmetry) for asymmetry in settings.point_asymmetries]
    symmetric = points.rank_one_point(even)
    pairs = [(chain, (symmetric, points.rank_one_point(chain))) for chain in chains]
    decoder, logits = points.gradients_at(even, symmetric)
    ideal = settings.degenerate_point(stay, points.self_attention(even, symmetric))
    return {
        "decoder_gradient": decoder,
        "logit_gradient": logits,
        "transverse": [[points.transverse_rate(chain, at) for at in pair] for chain, pair in pairs],
        "tangential": [[points.tangential_rate(chain, at) for at in pair] for chain, pair in pairs],
        "transverse_predicted": [
            theory.transverse_rate(ideal, asymmetry=chain.stationary[1:] - even.stationary[1:]) for chain in chains
        ],
    }


def claims(record: xr.Dataset) -> Iterator[Claim]:
    settings = EXPERIMENT.settings_of(record)
    limit = theory.critical_stay(settings.high, settings.n_vocab)
    flows, at_points, long = settings.stays
    stalls = Case({}, [below("IV stay below the critical one", flows, limit)])
    yield from _of_stall(record, settings, stalls)
    yield from _of_points(record, Case({}, [below("IV stay below the critical one", at_points, limit)]))
    yield from _of_escapes(record, settings, stalls)
    yield from _of_breaking(record, settings, Case({}, [above("IV stay above the critical one", long, limit)]))
    yield from _of_diagram(record)


def _of_stall(record: xr.Dataset, settings: Settings, case: Case) -> Iterator[Claim]:
    stay = settings.stays[0]
    chain, middle = settings.chain(stay), settings.degenerate_point(stay, (1 + settings.high) / 2)
    stuck = theory.rank_one_loss(middle.state, stationary=chain.stationary, transition=chain.transition) - chain.optimal_loss
    end, case = record.sel(curve="symmetric").isel(sample=-1), case.but(t=settings.t1, stay=stay)
    yield case.near(ESCAPE_TIME, "loss above the optimum, equal low tokens", end.curve_loss, stuck, within=5e-4)
    yield case.at_most(ESCAPE_TIME, "s₂ / s₁ of the embedding, equal low tokens", end.curve_ratio, ESCAPED)
    yield Case().at_most(DEGENERATE_POINT, "|∂L/∂M| at the degenerate point", record.decoder_gradient, 1e-12)
    yield Case().at_most(DEGENERATE_POINT, "|∂L/∂Φ| at the degenerate point", record.logit_gradient, 1e-12)


def power(asymmetry: ArrayLike, values: ArrayLike) -> float:
    """p in values ~ asymmetry^p; NaN where a flow did not escape or a rate is not positive."""
    usable = np.isfinite(values).all() and np.all(np.asarray(values) > 0)
    return fits.power(asymmetry, values) if usable else np.nan


def _of_points(record: xr.Dataset, case: Case) -> Iterator[Claim]:
    asymmetry, transverse = record.point_asymmetry, "power of the asymmetry in the transverse rate"
    symmetric, perturbed = (record.sel(point=name) for name in ("symmetric", "perturbed"))
    at_symmetric, at_perturbed = case.but(point="symmetric"), case.but(point="perturbed")
    smallest = perturbed.isel(point_asymmetry=int(np.argmin(asymmetry.values)))
    yield at_perturbed.near(THEOREM_3_9, transverse, power(asymmetry, perturbed.transverse), 1, within=0.05)
    yield at_perturbed.but(asymmetry=smallest.point_asymmetry.item()).near(
        DEGENERATE_POINT, "transverse rate", smallest.transverse, float(smallest.transverse_predicted), relative=0.005
    )
    yield at_perturbed.at_most(DEGENERATE_POINT, "largest tangential rate", np.abs(perturbed.tangential), 1e-12)
    yield at_symmetric.near(THEOREM_3_9, transverse, power(asymmetry, symmetric.transverse), 1, within=0.05)
    yield at_symmetric.near(
        THEOREM_3_9, "power of the asymmetry in the tangential rate", power(asymmetry, symmetric.tangential), 2, within=0.05
    )


def _of_escapes(record: xr.Dataset, settings: Settings, case: Case) -> Iterator[Claim]:
    asymmetry, (larger, smaller) = record.asymmetry.values, record.init_scale.values
    for scale in record.init_scale.values:
        found = power(asymmetry, record.escape_time.sel(init_scale=scale))
        yield case.but(start=scale).near(
            ESCAPE_TIME, "power of the asymmetry in the escape time", found, -1, within=1 / np.log(1 / scale)
        )
    later = record.escape_time.sel(init_scale=smaller) - record.escape_time.sel(init_scale=larger)
    per_fold, rates = later.values / np.log(larger / smaller), record.escape_rate.values
    chains = [settings.chain(settings.stays[0], one) for one in asymmetry.tolist()]
    predicted = np.array([_time_per_fold(chain, rate) for chain, rate in zip(chains, rates, strict=True)])
    yield case.near(
        ESCAPE_TIME,
        "escape time per e-fold of a smaller start, over 1/μ₀ + 1/c + 1/s₁(B)",
        per_fold / predicted,
        1,
        within=0.02,
        sentence="A start smaller by a factor e delays the escape by the e-folding times of all three stages.",
    )
    of_opening = per_fold - (predicted - 1 / rates)
    yield case.near(
        ESCAPE_TIME, "power of the asymmetry in the part of it that is the opening's", power(asymmetry, of_opening), -1, within=0.05
    )


def _of_breaking(record: xr.Dataset, settings: Settings, case: Case) -> Iterator[Claim]:
    run, case = record.sel(curve="symmetric, long stay"), case.but(stay=settings.stays[2])
    title, rate = "growth rate of the spread of low tokens, equal low tokens", float(record.parting_predicted)
    yield case.but(t=settings.t1).at_most(
        CRITICAL_STAY, "loss above the optimum, equal low tokens", np.abs(run.curve_loss[-1]), 1e-6
    )
    yield case.near(CRITICAL_STAY, title, record.parting_rate, rate, relative=0.01)


def _of_diagram(record: xr.Dataset) -> Iterator[Claim]:
    predicted = np.array([[theory.critical_stay(float(mass), int(n)) for mass in record.mass] for n in record.tokens])
    gap, case = record.critical_stay.values - predicted[..., None], Case({"points": record.critical_stay.size})
    yield case.at_most(CRITICAL_STAY, "critical stay against the Jacobian's, largest gap", np.abs(gap), 1e-6)
    yield case.at_most(CRITICAL_STAY, "largest velocity at these points", record.critical_residual, 1e-12)


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    """A row for each escape, each critical point and each cell of the diagram."""
    rows = [
        _row("escape", f"start {scale:g}", asymmetry, record.escape_time.sel(asymmetry=asymmetry, init_scale=scale))
        for asymmetry in record.asymmetry.values
        for scale in record.init_scale.values
    ]
    rows += [
        _row(f"{kind} rate", f"{point} point", asymmetry, record[kind].sel(point_asymmetry=asymmetry, point=point))
        for kind in ("transverse", "tangential")
        for point in record.point.values
        for asymmetry in record.point_asymmetry.values
    ]
    stays = record.critical_stay.mean("nearness")
    cells = [(n, mass) for n in record.tokens.values for mass in record.mass.values]
    return rows + [_row("critical stay", f"{n} tokens", mass, stays.sel(tokens=n, mass=mass)) for n, mass in cells]


def _row(what: str, where: str, at: float, value: Any) -> dict[str, Any]:
    return {"what": what, "where": where, "asymmetry_or_mass": float(at), "value": float(value)}


def panels(record: xr.Dataset) -> Layout:
    return [[_curves(record), _times(record)], [_rates(record), _diagram(record)]]


def _curves(record: xr.Dataset) -> Lines:
    n = record.sizes["curve"] - 2
    looks: list[Any] = [("line", i / max(1, n - 1)) for i in range(n)] + [("line", None), (DASHES, 1)]
    at = [record.sel(curve=name) for name in record.curve.values]
    lines = [Line(one.curve_time, one.curve_ratio, one.curve.item(), *look) for one, look in zip(at, looks, strict=True)]
    title = f"stall and escape, start {record.init_scale.values[0]:g}"
    return Lines(title, "time", "s₂ / s₁ of the embedding", lines, "xy", ylim=(1e-3, 1.2))


def _times(record: xr.Dataset) -> Lines:
    asymmetry, lines = record.asymmetry.values, []
    for i, scale in enumerate(record.init_scale.values):
        times = record.escape_time.sel(init_scale=scale).values
        scaled = np.exp(np.mean(np.log(times * asymmetry)))
        lines += [
            Line(asymmetry, times, f"start {scale:g}", POINTS, i),
            Line(asymmetry, scaled / asymmetry, "~ 1 / asymmetry", DASHES, i),
        ]
    ticks = {value: f"{value:g}" for value in asymmetry}
    return Lines("when the flow leaves", "asymmetry of the low tokens", "escape time", lines, "xy", ticks=ticks)


def _rates(record: xr.Dataset) -> Lines:
    asymmetry, lines = record.point_asymmetry.values, []
    smallest, kinds = (
        int(np.argmin(asymmetry)),
        (("transverse", "symmetric"), ("transverse", "perturbed"), ("tangential", "symmetric")),
    )
    for i, (kind, point) in enumerate(kinds):
        values, order = record[kind].sel(point=point).values, 1 if kind == "transverse" else 2
        line = values[smallest] * (asymmetry / asymmetry[smallest]) ** order
        lines += [Line(asymmetry, values, f"{kind}, {point} point", POINTS, i), Line(asymmetry, line, f"power {order}", tone=i)]
    lines.append(Line(asymmetry, record.transverse_predicted, "theory, perturbed point", DOTS, None))
    return Lines("rates at the critical points", "asymmetry of the low tokens", "growth rate", lines, "xy")


def _diagram(record: xr.Dataset) -> Lines:
    masses, lines = record.mass.values, []
    for i, n in enumerate(record.tokens.values):
        tone = i / max(1, record.sizes["tokens"] - 1)
        fine = np.linspace(max(masses[0] - 0.05, 1 / n + 0.005), masses[-1] + 0.04, 80)
        predicted = [theory.critical_stay(float(mass), int(n)) for mass in fine]
        lines += [
            Line(fine, predicted, f"{n} tokens", tone=tone),
            Line(masses, record.critical_stay.sel(tokens=n).mean("nearness"), "", POINTS, tone),
        ]
    title = "above it equal tokens part by themselves"
    return Lines(title, "mass of the frequent token", "critical stay", lines, ylim=(0, 1))


EXPERIMENT = Experiment(
    "degenerate-stall",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Panel 1: second over first singular value of the embedding. At exact symmetry it stays where the start left it, with an "
        "asymmetry it grows, and above the critical stay it grows without any. Panel 2: escape time against asymmetry; lines go "
        "as 1 / asymmetry. Panel 3: growth rates of moves off the rank-one manifold and along it, at the symmetric point and at "
        "the critical point that takes its place, where the tangential rate is zero; dotted: theory. Panel 4: the stay above "
        "which exact symmetry breaks by itself, from theory (lines) and from the Jacobian (points)."
    ),
    finding=(
        "loss stalls {loss above the optimum*stay 0.5):.3f} above the optimum; rates as the asymmetry to the power {*transverse "
        "rate (point symmetric):.2f} off the rank-one manifold, {*tangential rate (point symmetric):.2f} along it; critical stay "
        "to 1e-6"
    ),
    variables=VARIABLES,
    dynamics="B: population gradient flow, embedded model",
    time_unit=STEPS,
    table=table,
)
