"""Exactly equal rare tokens do escape at the paper's λ: they separate on the rank-one manifold,
then a new direction opens.

Follows the flow on one frequent token and equal low ones above and below the critical stay, and
finds that stay from the Jacobian over numbers of tokens and masses, with the domain (1 - λ)π₁ < 1/d
in which the saturated point exists. Expect: above it growth of the spread of rare tokens within 1 %
of the Hessian at the point the flow has reached, then a second direction, between a half and one
and a half times the sum of the stages' predicted times, and a flow that has not left by then fails;
below it no escape to the end of the run. The growth is fitted far above the start and far below the
tokens' own size of 0.5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import xarray as xr

import saccade
from saccade.dynamics.linearise import speed
from saccade.dynamics.randomness import checked_seeds
from saccade.errors import InputError, checked_number
from saccade.experiments.focus_and_dilution import degenerate_points as points
from saccade.experiments.focus_and_dilution.embedded_gradients import setting
from saccade.experiments.focus_and_dilution.stage_fits import (
    ON_TIME,
    escape_time,
    focus_rate,
    until_left,
)
from saccade.lab.claim import CALCULUS, Case, Claim
from saccade.lab.panel import DASHES, POINTS, RINGS, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress, Variable, grid, padded, stretch
from saccade.lab.settings import Range
from saccade.model.rank_one import RankOne, velocity
from saccade.observe import fits
from saccade.observe.fits import Array
from saccade.theory import focus_and_dilution as theory
from saccade.theory.condition import above, below, met
from saccade.theory.focus_and_dilution.stage_four import (
    CRITICAL_STAY,
    ESCAPE_TIME,
    PROPOSITION_3_8,
    PROPOSITION_D_1,
)

APART = 0.1  # spread at which rare tokens count as parted
OPEN = 0.2  # s2 / s1 of the embedding at which the flow counts as having left
PARTING = (
    1e-3,
    5e-3,
)  # spreads between which its growth is fitted, on a line to zero; 2e-3 to 2e-2 before runs on other laws
NEARNESS = (1 / 3, 2 / 3)  # two of the degenerate points; the critical stay is the same at each
GRID_STAYS = tuple(np.linspace(0.03, 0.98, 20).tolist())
STRONG = 60.0  # exponent by which attention between token 0 and the others is suppressed: e^-60 is below rounding
BELOW = "stage IV, stay below the critical one"
FOLDS = 5.0  # of the decay of differences between rare tokens, whose square is what the loss sees

STEPS = "steps of gradient descent at rate 1"
VARIABLES = {
    "parting_rate": Variable(
        "flow seed", "1/time", "growth rate of the spread of rare tokens along the first direction"
    ),
    "parting_predicted": Variable(
        "flow seed",
        "1/time",
        "the same from the Hessian of the degenerate point that the flow is at",
    ),
    "parting_time": Variable(
        "flow seed", STEPS, f"when that spread rises through {APART:g}; NaN: never"
    ),
    "parting_ratio": Variable("flow seed", "1", "s2 / s1 of the embedding then"),
    "opening_time": Variable(
        "flow seed", STEPS, f"when s2 / s1 of the embedding rises through {OPEN:g}; NaN: never"
    ),
    "escape_predicted": Variable(
        "flow",
        STEPS,
        "e-folds from the start of each stage: μ₀, c, parting, opening; NaN: no escape",
    ),
    "last_ratio": Variable("flow seed", "1", "s2 / s1 at the end"),
    "last_gap": Variable("flow seed", "nats", "loss above the optimum at the end"),
    "stuck_gap": Variable("flow", "nats", "the same at a degenerate point"),
    "imbalance": Variable("flow seed", "1", "|W0|^2 - |W1|^2 at the end"),
    "attention_size": Variable(
        "flow seed", "1", "2η of the degenerate point with the attention of the end"
    ),
    "curve_time": Variable("flow sample", STEPS, "times of the curves, first seed"),
    "curve_spread": Variable("flow sample", "1", "spread of rare tokens"),
    "curve_ratio": Variable("flow sample", "1", "s2 / s1 of the embedding"),
    "curve_gap": Variable("flow sample", "nats", "loss above the optimum"),
    "critical_stay": Variable(
        "tokens mass nearness",
        "1",
        "stay at which the largest rate of moves that sum to zero is zero",
    ),
    "critical_residual": Variable("tokens mass nearness", "1/time", "norm of the velocity there"),
    "exists": Variable(
        "tokens mass stay", "1", "1 where strong attention makes the saturated point critical"
    ),
}


@dataclass(frozen=True)
class Settings:
    n_vocabs: Annotated[tuple[int, ...], Range(3, 64)] = (4, 3, 4, 3)
    """tokens in each flow"""
    highs: tuple[float, ...] = (0.75, 0.75, 0.75, 0.6)
    """frequency of token 0 in each"""
    stays: tuple[float, ...] = (0.8, 0.8, 0.69, 0.5)
    """chance of repeating the last token in each; the paper's is 0.8"""
    seeds: int | tuple[int, ...] = 3
    """number of random starts of each flow (seeds 0, 1, 2, ...), or a list of seeds"""
    init_scale: Annotated[float, Range(1e-8, 1e-3)] = 1e-4
    """size of the random start"""
    t1: float = 2e4
    """end of the flows below the critical stay, steps; they run longer where rare tokens converge
    more slowly
    """
    n_times: Annotated[int, Range(50, 1e5)] = 500
    """samples of each flow, half of them log-spaced, half evenly"""
    tokens: Annotated[tuple[int, ...], Range(3, 64)] = (3, 4, 6)
    """numbers of tokens in the diagram"""
    masses: tuple[float, ...] = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    """frequencies of token 0 in the diagram"""

    @property
    def flows(self) -> list[tuple[int, float, float]]:
        return list(zip(self.n_vocabs, self.highs, self.stays, strict=True))


def measure(settings: Settings, on_progress: Progress) -> Measured:
    for high in settings.masses:
        checked_number("masses", high, low=1 / min(settings.tokens), high=0.95, open_low=True)
    if len({len(settings.n_vocabs), len(settings.highs), len(settings.stays)}) > 1:
        raise InputError("`n_vocabs`, `highs` and `stays` must have one value for each flow.")
    flows = []
    for done, one in enumerate(settings.flows, 1):
        flows.append(_flow(settings, *one))
        on_progress(0.7 * done / len(settings.flows))
    values = {name: padded([of_flow[name] for of_flow in flows]) for name in flows[0]}
    diagram = {"tokens": settings.tokens, "mass": settings.masses}
    values |= grid(
        points.critical_stay_found, stretch(on_progress, 0.7, 0.9), **diagram, nearness=NEARNESS
    )
    values |= grid(_exists, stretch(on_progress, 0.9, 1.0), **diagram, stay=GRID_STAYS)
    names = [f"d {n}, π₁ {high:g}, λ {stay:g}" for n, high, stay in settings.flows]
    axes = {name: list(axis) for name, axis in diagram.items()} | {
        "nearness": list(NEARNESS),
        "stay": list(GRID_STAYS),
    }
    return Measured(values, {"flow": names, "seed": checked_seeds(settings.seeds), **axes})


def _flow(settings: Settings, n_vocab: int, high: float, stay: float) -> dict[str, Any]:
    chain, model = (
        saccade.MarkovChain.two_level(n_vocab, high, stay=stay),
        saccade.Embedded(init_scale=settings.init_scale),
    )
    point, predicted = theory.stall_point(high=high, n_vocab=n_vocab, stay=stay), np.nan
    rate = theory.parting_rate(point)
    if rate > 0:
        rates = theory.condensation_rate(stationary=chain.stationary), focus_rate(chain), rate
        opening = theory.parted_opening_rate(point)
        predicted = escape_time([*rates, opening], settings.init_scale, OPEN)

    def followed(seed: int) -> dict[str, Any]:
        def run(t1: float, n_times: int) -> dict[str, Any]:
            # half of them evenly spaced: rare tokens part within a few units of time, long after
            # the start
            times = np.union1d(
                np.geomspace(0.1, t1, n_times // 2), np.linspace(t1 / n_times, t1, n_times // 2)
            )
            flowed = saccade.flow(chain, times=times, model=model, seeds=[seed])
            return _run(flowed.isel(seed=0, time=slice(1, None)), chain, stay)

        if rate < 0:
            return run(max(settings.t1, -FOLDS / rate), settings.n_times)
        return until_left(run, _has_left, predicted, settings.n_times, ON_TIME[1] * predicted)

    found = [followed(seed) for seed in checked_seeds(settings.seeds)]
    state = theory.degenerate_point(
        high=high, n_vocab=n_vocab, stay=stay, high_attention=(1 + high) / 2
    ).state
    stuck = (
        theory.rank_one_loss(state, stationary=chain.stationary, transition=chain.transition)
        - chain.optimal_loss
    )
    curves = {name: found[0].pop(name) for name in list(found[0]) if name.startswith("curve")}
    return (
        curves
        | {name: [one[name] for one in found] for name in found[0]}
        | {"stuck_gap": stuck, "escape_predicted": predicted}
    )


def _has_left(found: dict[str, Any]) -> bool:
    return bool(np.isfinite(found["opening_time"]))


def _run(run: xr.Dataset, chain: saccade.MarkovChain, stay: float) -> dict[str, Any]:
    time, embedding, attention = (
        run.time.values,
        run.embedding.values,
        run.attention.values[:, 0, 0],
    )
    _, values, directions = np.linalg.svd(embedding, full_matrices=False)
    ratio, spread = (
        values[:, 1] / values[:, 0],
        np.einsum("tiw,tw->ti", embedding, directions[:, 0])[:, 1:].std(axis=1),
    )
    settled = int(
        np.argmax(ratio < OPEN)
    )  # before condensation all directions are alike, which is no escape
    risen = np.arange(len(time)) > settled + int(
        np.argmin(spread[settled : fits.first_index(spread, APART)])
    )
    inside = (
        risen & fits.between(spread, *PARTING) & (np.cumsum(risen & (spread > PARTING[1])) == 0)
    )
    parted, opened = (
        fits.first_index(np.where(risen, spread, 0.0), APART),
        fits.rise_index(ratio, OPEN),
    )
    at = _point(
        chain, stay, attention[np.argmax(inside)] if inside.any() else (1 + chain.stationary[0]) / 2
    )
    return {
        "parting_rate": _growth_at_rest(time, spread, inside),
        "parting_predicted": theory.parting_rate(at),
        "parting_time": time[parted] if spread[parted] >= APART else np.nan,
        "parting_ratio": ratio[parted],
        "opening_time": np.nan if opened is None else time[opened],
        "last_ratio": ratio[-1],
        "last_gap": run.loss.values[-1] - chain.optimal_loss,
        "imbalance": np.sum(embedding[-1] ** 2) - np.sum(run.projection.values[-1] ** 2),
        "attention_size": 2 * _point(chain, stay, attention[-1]).state.query_scale ** 2,
        "curve_time": time,
        "curve_spread": spread,
        "curve_ratio": ratio,
        "curve_gap": run.loss.values - chain.optimal_loss,
    }


def _growth_at_rest(time: Array, spread: Array, inside: Array) -> float:
    """d ln(spread) / dt, on a straight line in the spread to zero: with three or more rare tokens
    the next order is linear in it, and near the critical stay, where the rate itself is small, it
    is not small beside it.
    """
    rates = np.gradient(np.log(spread), time)
    return float(np.polyfit(spread[inside], rates[inside], 1)[1]) if inside.sum() > 2 else np.nan


def _point(chain: saccade.MarkovChain, stay: float, attention: float) -> theory.DegeneratePoint:
    """The degenerate point with this attention of token 0 on itself."""
    high = float(chain.stationary[0])
    return theory.degenerate_point(
        high=high, n_vocab=chain.n_vocab, stay=stay, high_attention=min(attention, 1 - 1e-12)
    )


def _exists(n_vocab: int, high: float, stay: float) -> dict[str, float]:
    """Whether the best fit of two rows is critical for the embedded model when attention is strong."""
    chain = saccade.MarkovChain.two_level(n_vocab, high, stay=stay)
    gamma, beta, *_ = theory.two_group_point(
        stationary=chain.stationary, transition=chain.transition
    )
    scale = np.sqrt(STRONG / abs(gamma[1] * (gamma[0] - gamma[1])))
    return {
        "exists": float(speed(velocity, RankOne(gamma, beta, scale, scale), setting(chain)) < 1e-8)
    }


def claims(record: xr.Dataset) -> Iterator[Claim]:
    settings = EXPERIMENT.settings_of(record)
    for name, (n_vocab, high, stay) in zip(record.flow.values, settings.flows, strict=True):
        run, limit, case = (
            record.sel(flow=name),
            theory.critical_stay(high, n_vocab),
            Case({"d": n_vocab, "π₁": high, "λ": stay}),
        )
        stuck = case.but(given=[below(BELOW, stay, limit)])
        if stay > limit:
            escapes = case.but(given=[above("stage IV, stay above the critical one", stay, limit)])
            yield from _of_escape(run, escapes)
            rate = theory.parting_rate(theory.stall_point(high=high, n_vocab=n_vocab, stay=stay))
            title = "growth rate of the spread, predicted from π₁, d and λ alone"
            yield escapes.near(CRITICAL_STAY, title, run.parting_rate, rate, relative=0.01)
            yield stuck.breaking(BELOW).at_most(
                ESCAPE_TIME, "s₂ / s₁ at the end", run.last_ratio, OPEN
            )
        else:
            yield from _of_stall(run, stuck.but(t=round(float(run.curve_time.max()), 6)))
    yield from _of_diagram(record)


def _of_escape(run: xr.Dataset, case: Case) -> Iterator[Claim]:
    rate, title = (
        float(run.parting_predicted.mean()),
        "growth rate of the spread of equal rare tokens",
    )
    sentence = "Above the critical λ equal rare tokens separate on the rank-one manifold, at the rate given by the Hessian."
    yield case.near(CRITICAL_STAY, title, run.parting_rate, rate, relative=0.01, sentence=sentence)
    forms: Any = {"number": "2.2", "printed": 0.0, "corrected": rate, "within": 0.01 * rate}
    yield case.erratum(
        PROPOSITION_3_8,
        "rate on the manifold, equal rare tokens",
        float(run.parting_rate.mean()),
        **forms,
    )
    times = np.stack([run.parting_time, run.opening_time], axis=-1)
    yield case.in_order(CRITICAL_STAY, "rare tokens separate before a direction opens", times)
    yield case.at_most(
        CRITICAL_STAY, "s₂ / s₁ when rare tokens have separated", run.parting_ratio, 0.01
    )
    title, late = (
        "time at which the flow leaves / that predicted from the rates",
        run.opening_time / run.escape_predicted,
    )
    sentence = "Equal rare tokens do leave, between a half and one and a half times the sum of the predicted times of all stages."
    yield case.between(CRITICAL_STAY, title, late, *ON_TIME, sentence=sentence)


def _of_stall(run: xr.Dataset, case: Case) -> Iterator[Claim]:
    yield case.at_most(ESCAPE_TIME, "s₂ / s₁ at the end", run.last_ratio, OPEN)
    yield case.near(
        ESCAPE_TIME,
        "loss above the optimum at the end",
        run.last_gap,
        float(run.stuck_gap),
        within=1e-6,
    )
    forms: Any = {
        "number": "2.5",
        "printed": 0.0,
        "corrected": float(run.attention_size.mean()),
        "within": 1e-4,
    }
    yield case.erratum(
        PROPOSITION_D_1, "|γ|² - |β|² at the end", float(run.imbalance.mean()), **forms
    )


def _of_diagram(record: xr.Dataset) -> Iterator[Claim]:
    critical, least = (
        _limits(record, theory.critical_stay),
        _limits(record, theory.least_saturated_stay),
    )
    found, n = record.critical_stay, record.exists.size
    gap, case = found.values - critical[..., None], Case({"points": found.size}, against=CALCULUS)
    yield case.at_most(
        CRITICAL_STAY, "critical stay against the Jacobian's, largest gap", np.abs(gap), 1e-6
    )
    yield case.at_most(
        CRITICAL_STAY,
        "largest velocity where the critical stay was found",
        record.critical_residual,
        1e-12,
    )
    inside = float((record.stay.values > least[..., None]).sum())
    forms: Any = {"number": "2.1", "printed": n, "corrected": inside, "within": 0.5}
    yield Case({"chains": n}, against=CALCULUS).erratum(
        PROPOSITION_3_8, "chains with a saturated point", float(record.exists.sum()), **forms
    )
    outside = record.exists.values[record.stay.values <= least[..., None]]
    control = Case({"chains": outside.size}, against=CALCULUS).breaking(
        met("(1 - λ)π₁ < 1/d", False)
    )
    yield control.none(PROPOSITION_3_8, "the saturated point is critical", outside == 0)
    for i, n_vocab in enumerate(record.tokens.values):
        case = Case({"d": int(n_vocab), "masses": record.sizes["mass"]}, against=CALCULUS)
        excluded, title = (
            found.isel(tokens=i).max("nearness") <= least[i],
            "masses for which the saturated point is never both there and stable",
        )
        sentence = "For so many masses of token 0 no λ lets the saturated point exist and be stable at finite strength."
        yield case.near(
            CRITICAL_STAY,
            title,
            excluded.sum(),
            np.sum(critical[i] <= least[i]),
            within=0,
            sentence=sentence,
        )


def _limits(record: xr.Dataset, limit: Callable[[float, int], float]) -> Array:
    return np.array(
        [
            [limit(mass, n_vocab) for mass in record.mass.values.tolist()]
            for n_vocab in record.tokens.values.tolist()
        ]
    )


def table(record: xr.Dataset) -> list[dict[str, Any]]:
    """A row for each flow and seed: its tokens, mass and stay, the critical stay, and what was
    measured of it.
    """
    numbers = [name for name, each in VARIABLES.items() if each.axes == "flow seed"]
    return [
        {
            "d": n_vocab,
            "mass": high,
            "stay": stay,
            "critical_stay": theory.critical_stay(high, n_vocab),
            "seed": one.seed.item(),
        }
        | {name: one[name].item() for name in numbers}
        for name, (n_vocab, high, stay) in zip(
            record.flow.values, EXPERIMENT.settings_of(record).flows, strict=True
        )
        for one in (record.sel(flow=name, seed=seed) for seed in record.seed.values)
    ]


def files(record: xr.Dataset) -> dict[str, tuple[list[str], list[dict[str, Any]]]]:
    """The diagram: the critical stay by the Jacobian at two points and in closed form, and the
    least stay of a saturated point.
    """
    rows = [
        {
            "d": n_vocab,
            "mass": mass,
            "nearness": near,
            "critical_stay_found": found.sel(nearness=near).item(),
        }
        | {
            "critical_stay": theory.critical_stay(mass, n_vocab),
            "least_saturated_stay": theory.least_saturated_stay(mass, n_vocab),
        }
        for n_vocab in record.tokens.values.tolist()
        for mass in record.mass.values.tolist()
        for found in [record.critical_stay.sel(tokens=n_vocab, mass=mass)]
        for near in record.nearness.values.tolist()
    ]
    return {"diagram.csv": (list(rows[0]), rows)}


def panels(record: xr.Dataset) -> Layout:
    return [
        [_parting(record), _losses(record)],
        [_diagram(record, int(n)) for n in record.tokens.values],
    ]


def _parting(record: xr.Dataset) -> Lines:
    run = record.isel(flow=0)
    rate, parted, opened = (
        float(run[name][0]) for name in ("parting_predicted", "parting_time", "opening_time")
    )
    near = np.linspace(parted - 5 / rate, parted, 20)
    lines = [
        Line(run.curve_time, run.curve_spread, "spread of the rare tokens", tone=0),
        Line(near, APART * np.exp(rate * (near - parted)), "slope predicted", DASHES, None),
        Line(run.curve_time, run.curve_ratio, "s₂ / s₁ of the embedding", tone=1),
    ]
    return Lines(
        "tokens separate, then a direction opens",
        "time",
        "size",
        lines,
        "y",
        (100, opened if opened > 100 else None),
        (1e-5, 2),
    )


def _losses(record: xr.Dataset) -> Lines:
    runs = [record.isel(flow=i) for i in range(record.sizes["flow"])]
    lines = [
        Line(one.curve_time, one.curve_gap, one.flow.item(), tone=i) for i, one in enumerate(runs)
    ]
    return Lines(
        "equal rare tokens: escape or stall",
        "time",
        "loss above the optimum",
        lines,
        "x",
        (10, None),
    )


def _diagram(record: xr.Dataset, n_vocab: int) -> Lines:
    masses, flows = np.linspace(1 / n_vocab + 0.01, 0.97, 80), EXPERIMENT.settings_of(record).flows
    critical = np.array([theory.critical_stay(mass, n_vocab) for mass in masses.tolist()])
    least = np.array([theory.least_saturated_stay(mass, n_vocab) for mass in masses.tolist()])
    shown = np.array([[high, stay] for n, high, stay in flows if n == n_vocab]).reshape(-1, 2)
    lines = [
        Line(masses, critical, "equal tokens separate above λ_c", tone=0),
        Line(
            record.mass,
            record.critical_stay.sel(tokens=n_vocab).mean("nearness"),
            "λ_c from the Jacobian",
            POINTS,
            0,
        ),
        Line(
            masses,
            least,
            "saturated above 1 - 1/(dπ₁); shaded: stable",
            DASHES,
            1,
            low=least,
            high=np.maximum(least, critical),
        ),
        Line(shown[:, 0], shown[:, 1], "flows", RINGS, None),
    ]
    return Lines(
        f"stability, d = {n_vocab}",
        "frequency π₁ of token 0",
        "stay λ",
        lines,
        xlim=(0.2, 1),
        ylim=(0, 1),
    )


EXPERIMENT = Experiment(
    "symmetric-escape",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Panel 1: four tokens at the paper's stay; the spread of equal rare tokens along the one direction of the embedding grows "
        "at the predicted rate, the second direction only later. Panel 2: loss above the optimum; above the critical stay it "
        "falls, below it stays. Other panels: the stay above which equal tokens separate by themselves, and the one above which "
        "the saturated point exists; shaded: it exists and is stable at finite strength. Where the dashed line is on top, the two "
        "exclude each other. Rings: the flows."
    ),
    finding=(
        "at λ = 0.8 equal tokens separate at rate {growth rate of the spread of*(d 4, π₁ 0.75, λ 0.8):.4f}, within 1 % of the "
        "Hessian's, and then a direction opens; below the critical λ the flow stays {loss above*(d 4, π₁ 0.75, λ 0.69*:.3f} above "
        "the optimum"
    ),
    variables=VARIABLES,
    dynamics="B: population gradient flow, embedded model",
    time_unit=STEPS,
    table=table,
    files=files,
)
