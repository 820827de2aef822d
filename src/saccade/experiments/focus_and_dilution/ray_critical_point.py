"""Condensation ends at a critical point where only attention can grow, in as many directions as
queries and keys have.

Finds the second critical point by Newton's method, all of its growth rates and those of the origin
by JAX's Jacobian, and compares them with closed forms: Propositions 3.3, 3.4 and C.7 for equally
frequent rare tokens, our spectra for any law. Then follows flows from small starts past it. Expect:
rates to 1e-8, with their multiplicities; a block of attention with decaying modes as fast as the
growing ones; a flow that comes no closer than ε^(ρ/(ρ+c)), since attention grows while the rest
still relaxes; in the flow a loss that has fallen to the entropy of the token frequencies before
attention moves; under Adam it has not (`published-run`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import jax
import numpy as np
import xarray as xr
from scipy.optimize import brentq
from scipy.special import softmax

import saccade
from saccade.dynamics.linearise import jacobian
from saccade.errors import checked_count
from saccade.experiments.focus_and_dilution.embedded_gradients import setting, slope_at
from saccade.experiments.focus_and_dilution.embedded_gradients import velocity as velocity_at
from saccade.experiments.focus_and_dilution.named_laws import EqualLow, equal_low_among, lazy_chains
from saccade.experiments.focus_and_dilution.stage_fits import STEPS, accurate_flow, small_start
from saccade.lab.claim import CALCULUS, Case, Claim
from saccade.lab.panel import DASHES, DOTS, POINTS, RINGS, Layout, Line, Lines
from saccade.lab.protocol import Experiment, Measured, Progress, Variable, grid, stretch
from saccade.lab.settings import Range
from saccade.model.embedded import Composite, Setting, Weights, velocity
from saccade.observe import fits
from saccade.observe.fits import Array
from saccade.theory import focus_and_dilution as theory
from saccade.theory.focus_and_dilution.statements import (
    LOGIT_SCALE,
    PROPOSITION_3_3,
    PROPOSITION_3_4,
    PROPOSITION_C_7,
    SPECTRA,
    THEOREM_3_2,
    THEOREM_3_5,
    UNIGRAM_POINT,
)

STARTS = (1e-3, 1e-5, 1e-7, 1e-9, 1e-11)  # sizes of the starts whose closest approach is measured
PASSED = EqualLow(0.75, 4, 0.8)  # by these flows
MISPRINTED = EqualLow(0.6, 4, 0.5)  # on which eq. 127 is decided
LOGIT_SCALES = (0.25, 3.0)  # below and above the paper's 1
PAPER_STAY = 0.8  # the λ of the paper's experiments
_STEP = 1e-4  # of a central difference

VARIABLES = {
    "amplitude": Variable(
        "law", "1", "κ₁²: |W_0|² at the critical point that Newton's method finds"
    ),
    "residual": Variable("law", "1/time", "largest entry of the velocity at the closed-form point"),
    "prediction_gap": Variable("law", "1", "largest |p_i - π| at the second critical point"),
    "logit_gradient_gap": Variable("law", "1", "largest entry of ∂L/∂Φ less eq. 129 there"),
    "curvature_gap": Variable(
        "law", "1", "largest entry of the change of ∂L/∂M less eq. 130, for a random change of M"
    ),
    "logit_shape_gap": Variable(
        "law",
        "1",
        "largest entry of Φ / |Φ| less π πᵀ / |π|² there, for W_Q = W_K along the direction",
    ),
    "coupling": Variable("law", "1/time", "largest entry of the Jacobian between J_out and J_att"),
    "outer": Variable("law outer_mode", "1/time", "eigenvalues of J_out, largest first"),
    "outer_predicted": Variable("law outer_mode", "1/time", "closed form of them, any law"),
    "inner": Variable("law inner_mode", "1/time", "eigenvalues of J_att, largest first"),
    "inner_predicted": Variable("law inner_mode", "1/time", "closed form of them"),
    "origin_gap": Variable("law", "1/time", "largest gap of an eigenvalue at the origin to ±μ₀, 0"),
    "growing_origin": Variable("law", "1", "growing modes at the origin"),
    "growing": Variable("law", "1", "growing modes at the second critical point"),
    "scaled_rate": Variable(
        "law logit_scale", "1/time", "largest eigenvalue there with logits times this"
    ),
    "scale_gap": Variable(
        "law",
        "1/time",
        "largest entry by which the velocity differs from that of an attention rate instead",
    ),
    "closest": Variable("start", "1", "closest distance of the flow to the second critical point"),
    "time": Variable("sample", STEPS, "times of the flow on the paper's chain"),
    "loss": Variable("sample", "nats", "loss along it"),
    "queries": Variable("sample", "1", "|W_Q| over its start"),
}


# The power of the closest distance is a limit: 0.01, between starts of 1e-9 and 1e-11.
@dataclass(frozen=True)
class Settings:
    laws: tuple[str, ...] = ("0.6 of 4", "0.75 of 4", "0.3 of 6", "paper", "zipf-6")
    """token frequencies of the chains: paper, zipf-6, '0.6 of 4' (0.6 for the first of four
    tokens), or numbers: 0.5,0.3,0.2
    """
    stays: Annotated[tuple[float, ...], Range(1e-3, 0.99)] = (0.5, 0.8, 0.5, 0.8, 0.5)
    """chance of repeating the last token in each, or one for all"""
    d_model: int = 5
    """width of the embedding"""
    d_key: int = 3
    """width of queries and keys"""
    seed: int = 1
    """seed of the random starts of the flows"""

    @property
    def chains(self) -> dict[str, saccade.MarkovChain]:
        return lazy_chains(self.laws, self.stays)

    @property
    def equal_low(self) -> dict[str, EqualLow]:
        return equal_low_among(self.laws, self.stays)


def measure(settings: Settings, on_progress: Progress) -> Measured:
    width, key_width = (
        checked_count(name, getattr(settings, name), low=1, high=64)
        for name in ("d_model", "d_key")
    )
    found = grid(
        partial(_at_points, width=width, key_width=key_width),
        stretch(on_progress, 0.0, 0.4),
        law=settings.chains,
    )
    found |= grid(
        partial(_closest, seed=settings.seed), stretch(on_progress, 0.4, 0.9), start=STARTS
    )
    coords = {
        "law": list(settings.chains),
        "start": list(STARTS),
        "logit_scale": list(LOGIT_SCALES),
    }
    return Measured(found | _before_focus(settings.seed), coords)


def _at_points(chain: saccade.MarkovChain, *, width: int, key_width: int) -> dict[str, Any]:
    pi, P, around = chain.stationary, chain.transition, setting(chain)
    point = Weights(
        *theory.unigram_weights(stationary=pi, direction=np.arange(1.0, width + 1), d_key=key_width)
    )
    J, at_origin = (
        jacobian(velocity, at, around) for at in (point, Weights(*(0 * matrix for matrix in point)))
    )
    attention = np.zeros(len(J), bool)
    attention[point.embedding.size : -point.projection.size] = True
    outer, inner = (
        np.linalg.eigvalsh(J[np.ix_(mask, mask)])[::-1] for mask in (~attention, attention)
    )
    origin = np.linalg.eigvalsh(at_origin)[::-1]
    widths: dict[str, Any] = {"d_model": width, "d_key": key_width}
    near = saccade.critical_point(
        saccade.Embedded(chain, **widths), near=Weights(*(matrix * 1.05 for matrix in point))
    )
    gradients = theory.composite_gradients(*point, stationary=pi, transition=P)
    stay = theory.lazy_fit(stationary=pi, transition=P).stay
    along = (
        near.state.embedding @ np.linalg.svd(near.state.embedding)[2][0]
    )  # W_0 α; Φ = κ² W_0 α (W_0 α)ᵀ
    logit_gradient = theory.unigram_logit_gradient(high=pi[0], n_vocab=len(pi), stay=stay)
    return {
        "amplitude": np.linalg.norm(near.state.embedding) * np.linalg.norm(near.state.projection),
        "residual": max(np.abs(matrix).max() for matrix in velocity_at(point, chain)),
        "prediction_gap": np.abs(softmax(pi @ point.embedding @ point.projection) - pi).max(),
        "logit_gradient_gap": np.abs(gradients.attention_logits - logit_gradient).max(),
        "curvature_gap": _curvature_gap(point, chain),
        "logit_shape_gap": np.abs(
            np.outer(along, along) / (along @ along) - np.outer(pi, pi) / (pi @ pi)
        ).max(),
        "coupling": np.abs(J[np.ix_(attention, ~attention)]).max(),
        "outer": outer,
        "outer_predicted": theory.outer_spectrum(stationary=pi, d_model=width),
        "inner": inner,
        "inner_predicted": theory.attention_spectrum(stationary=pi, transition=P, **widths),
        "origin_gap": np.abs(origin - theory.origin_spectrum(stationary=pi, **widths)).max(),
        "growing_origin": np.sum(origin > 1e-9),
        "growing": np.sum(outer > 1e-9) + np.sum(inner > 1e-9),
        "scaled_rate": [
            np.linalg.eigvalsh(jacobian(velocity, point, around._replace(phi_scale=s)))[-1]
            for s in LOGIT_SCALES
        ],
        "scale_gap": max(_scale_gap(point, around, s) for s in LOGIT_SCALES),
    }


def _scale_gap(point: Weights, around: Setting, s: float) -> float:
    """At random weights: logits times s, against the attention rate s from queries and keys times
    the root of s.
    """
    rng, root = np.random.default_rng(0), np.sqrt(s)
    W0, WQ, WK, W1 = (rng.normal(size=matrix.shape) for matrix in point)
    with jax.enable_x64(True):
        scaled, faster = (
            [np.asarray(moved) for moved in jax.jit(velocity)(weights, here)]
            for weights, here in (
                (Weights(W0, WQ, WK, W1), around._replace(phi_scale=s)),
                (Weights(W0, root * WQ, root * WK, W1), around._replace(lr_attention=s)),
            )
        )
    return max(
        float(np.abs(by * one - other).max())
        for by, one, other in zip((1, root, root, 1), scaled, faster, strict=True)
    )


def _curvature_gap(point: Weights, chain: saccade.MarkovChain) -> float:
    """∂L/∂M along a random change of M, attention held, by a central difference of JAX's gradient."""
    pi, M = chain.stationary, point.embedding @ point.projection
    change = np.random.default_rng(0).normal(size=M.shape)
    with jax.enable_x64(True):
        up, down = (
            np.asarray(
                slope_at(Composite(M + sign * _STEP * change, 0 * M), setting(chain)).decoder
            )
            for sign in (1, -1)
        )
    return float(
        np.abs(
            (up - down) / (2 * _STEP) - np.outer(pi, pi @ change) @ (np.diag(pi) - np.outer(pi, pi))
        ).max()
    )


def _closest(scale: float, *, seed: int) -> dict[str, float]:
    """To the closed-form point in the direction that this start condenses to."""
    chain, start, two_level = PASSED.chain, small_start(PASSED.n_vocab, scale, seed, 3), PASSED.law
    pi = chain.stationary
    near = float(
        theory.arrival_time(start.embedding, start.projection, shortfall=0.01, **two_level)
    )
    relaxing = np.log(1 / scale) / theory.relaxation_rate(**two_level)
    path = accurate_flow(
        chain, start, np.append(0.0, np.linspace(near, near + 1.3 * relaxing + 10, 600)), scale
    )
    direction = theory.condensed_direction(start.embedding, start.projection, stationary=pi)
    point = theory.unigram_weights(stationary=pi, direction=direction, d_key=3)
    squares = [
        np.sum((matrix - at) ** 2, axis=(1, 2)) for matrix, at in zip(path, point, strict=True)
    ]
    return {"closest": float(np.sqrt(np.sum(squares, axis=0).min()))}


def _before_focus(seed: int) -> dict[str, Array]:
    """Loss and queries on the paper's chain, from a start of size 1e-3."""
    chain, t = saccade.MarkovChain.paper(PAPER_STAY), np.linspace(0, 80, 400)
    path = accurate_flow(chain, small_start(chain.n_vocab, 1e-3, seed, 8), t, 1e-3)
    queries = np.linalg.norm(path.query, axis=(1, 2))
    losses = theory.population_loss(*path, stationary=chain.stationary, transition=chain.transition)
    return {"time": t, "loss": losses, "queries": queries / queries[0]}


def claims(record: xr.Dataset) -> Iterator[Claim]:
    settings = EXPERIMENT.settings_of(record)
    equal = settings.equal_low
    for law, chain in settings.chains.items():
        at, case = (
            record.sel(law=law),
            Case(equal[law].case if law in equal else {"law": law}, against=CALCULUS),
        )
        if law in equal:
            yield from _of_the_paper(at, case, equal[law], settings)
        yield from _of_spectra(at, case)
        yield from _of_logit_scale(at, case, chain)
    yield from _of_flows(record)


def _of_the_paper(at: xr.Dataset, case: Case, one: EqualLow, settings: Settings) -> Iterator[Claim]:
    two_level = one.law
    c, target = (
        theory.two_level_focus_rate(stay=one.stay, **two_level),
        theory.overlap_target(**two_level),
    )
    yield case.near(
        PROPOSITION_3_3,
        "κ₁² at the critical point that Newton's method finds",
        at.amplitude,
        target,
        within=1e-10,
    )
    yield case.at_most(
        PROPOSITION_3_3,
        "largest entry of the velocity at the second critical point",
        at.residual,
        1e-14,
    )
    yield case.at_most(
        PROPOSITION_3_3, "largest |p_i - π| at the second critical point", at.prediction_gap, 1e-14
    )
    yield case.at_most(
        PROPOSITION_C_7, "∂L/∂Φ against eq. 129, largest gap", at.logit_gradient_gap, 1e-14
    )
    yield case.at_most(
        PROPOSITION_C_7, "change of ∂L/∂M against eq. 130, largest gap", at.curvature_gap, 1e-8
    )
    yield case.at_most(
        THEOREM_3_5,
        "Φ / |Φ| against π πᵀ / |π|² at the point, largest gap",
        at.logit_shape_gap,
        1e-12,
    )
    yield case.at_most(PROPOSITION_3_4, "coupling of J_out and J_att", at.coupling, 1e-14)
    yield case.at_most(PROPOSITION_3_4, "largest eigenvalue of J_out", at.outer.max(), 1e-12)
    yield case.near(
        PROPOSITION_3_4, "largest eigenvalue of J_att, against c", at.inner.max(), c, within=1e-8
    )
    known: dict[str, Any] = {"number": "1.1", "printed": 0.0, "corrected": -c, "within": 1e-8}
    yield case.erratum(
        PROPOSITION_3_4,
        "smallest eigenvalue of the block of attention",
        float(at.inner.min()),
        **known,
    )
    growing: dict[str, Any] = {"number": "1.2", "printed": 1, "within": 0.0}
    keys, width = case.but(**{"key width": settings.d_key}), case.but(width=settings.d_model)
    if settings.d_key > 1:  # else the printed number is the right one
        yield keys.erratum(
            PROPOSITION_3_4, "growing modes", float(at.growing), corrected=settings.d_key, **growing
        )
    if settings.d_model > 1:
        yield width.erratum(
            THEOREM_3_2,
            "growing modes at the origin",
            float(at.growing_origin),
            corrected=settings.d_model,
            **growing,
        )
    if one == MISPRINTED:
        forms: dict[str, Any] = {
            "number": "1.8",
            "printed": _printed_amplitude(**two_level),
            "corrected": target,
        }
        yield case.erratum(
            PROPOSITION_3_3, "κ₁² of eq. 127", float(at.amplitude), within=1e-6, **forms
        )
    equal = theory.two_level_outer_spectrum(d_model=settings.d_model, **two_level)
    yield case.at_most(
        SPECTRA,
        "J_out: -ρ, -κ₁² |π|² π_l and zeros, largest gap",
        np.abs(_present(at.outer) - equal),
        1e-8,
    )


def _printed_amplitude(*, high: float, n_vocab: int) -> float:
    """κ₁² if the exponents of eq. 127 were right: the root of |π|² κ² (π₁ - π_l) = ln(π₁ / π_l)."""
    pi = theory.two_level_law(high=high, n_vocab=n_vocab)
    return float(brentq(lambda amplitude: softmax(amplitude * (pi @ pi) * pi)[0] - high, 0.0, 1e3))


def _present(values: xr.DataArray) -> Array:
    """Without the places of modes that a smaller vocabulary does not have."""
    return values.values[np.isfinite(values.values)]


def _of_spectra(at: xr.Dataset, case: Case) -> Iterator[Claim]:
    yield case.at_most(
        SPECTRA,
        "J_out, any chain: largest gap of a rate",
        np.abs(_present(at.outer - at.outer_predicted)),
        1e-8,
    )
    yield case.at_most(
        SPECTRA,
        "J_att: c, -c and zeros, largest gap",
        np.abs(_present(at.inner - at.inner_predicted)),
        1e-8,
    )
    yield case.at_most(SPECTRA, "origin: μ₀, -μ₀ and zeros, largest gap", at.origin_gap, 1e-8)


def _of_logit_scale(at: xr.Dataset, case: Case, chain: saccade.MarkovChain) -> Iterator[Claim]:
    c = theory.focus_rate(stationary=chain.stationary, transition=chain.transition)
    for s in at.logit_scale.values.tolist():
        rate = at.scaled_rate.sel(logit_scale=s)
        yield case.but(s=s).near(
            LOGIT_SCALE,
            "growth rate of attention with logits times s, over c",
            rate / c,
            s,
            within=1e-8,
        )
    yield case.at_most(
        LOGIT_SCALE,
        "velocity: logits times s or attention rate s, largest gap",
        at.scale_gap,
        1e-13,
    )


def _of_flows(record: xr.Dataset) -> Iterator[Claim]:
    chain = saccade.MarkovChain.paper(PAPER_STAY)
    before = float(record.loss[fits.first_index(record.queries.values, 3.0)])
    yield Case(PASSED.case).erratum(
        THEOREM_3_5,
        f"power of ε in the closest distance to the critical point, {STARTS[-2]:g} to {STARTS[-1]:g}",
        fits.power(record.start[-2:], record.closest[-2:]),
        number="1.11",
        printed=1,
        corrected=_approach_power(),
        within=0.01,
    )
    yield Case({"law": "paper", "λ": PAPER_STAY}).near(
        UNIGRAM_POINT,
        "loss of the flow when |W_Q| has tripled",
        before,
        chain.unigram_loss,
        within=0.01,
        sentence="Along the flow the loss falls to the entropy of the token frequencies before attention moves.",
    )


def _approach_power() -> float:
    rho = theory.relaxation_rate(**PASSED.law)
    return rho / (rho + theory.two_level_focus_rate(stay=PASSED.stay, **PASSED.law))


def panels(record: xr.Dataset) -> Layout:
    rates, sizes, chain, settings = (
        [],
        record.start.values,
        saccade.MarkovChain.paper(PAPER_STAY),
        EXPERIMENT.settings_of(record),
    )
    labels = {
        law: f"π₁ = {one.high:g}, d = {one.n_vocab}" for law, one in settings.equal_low.items()
    }
    for i, law in enumerate(labels or settings.chains):
        at, label = record.sel(law=law), labels.get(law, law)
        found, closed = (
            np.sort(np.concatenate([_present(at[a]), _present(at[b])]))[::-1] for a, b in _PAIRS
        )
        found, closed = (values[np.abs(closed) > 1e-9] for values in (found, closed))
        rates += [
            Line(np.arange(len(found)), found, label, RINGS, i),
            Line(np.arange(len(found)), closed, "", DOTS, i),
        ]
    last = float(record.closest[-1])
    approach = [
        Line(sizes, record.closest, "flow", POINTS),
        Line(
            sizes,
            last * (sizes / sizes[-1]) ** _approach_power(),
            f"ε to the {_approach_power():.3f}, ρ/(ρ+c)",
            DASHES,
            1,
        ),
        Line(sizes, last * sizes / sizes[-1], "ε, as assumed", DOTS, None),
    ]
    tripled = float(record.time[fits.first_index(record.queries.values, 3.0)])
    return [
        Lines(
            "nonzero rates (dots: closed forms)",
            "mode",
            "rate at the second critical point",
            rates,
            levels={0: ""},
        ),
        Lines(
            "closest approach",
            "size of the start",
            "distance to the critical point",
            approach,
            "xy",
        ),
        Lines(
            "flow: the loss falls before attention moves",
            "time",
            "loss (nats)",
            [Line(record.time, record.loss, "")],
            ylim=(0, 1.6),
            levels={chain.unigram_loss: "entropy of π", float(np.log(chain.n_vocab)): "ln d"},
            marks={tripled: "|W_Q| has tripled"},
        ),
    ]


_PAIRS = ("outer", "inner"), ("outer_predicted", "inner_predicted")

EXPERIMENT = Experiment(
    "ray-critical-point",
    Settings,
    measure,
    claims,
    panels,
    caption=(
        "Panel 1: growth rates at the second critical point, without the many zeros, largest first; embedding and projection "
        "together with queries and keys. As many modes grow as queries have dimensions, and as many decay equally fast. Panel 2: "
        "how close flows from small starts come to it, with both powers of the size of the start. Panel 3: the loss along the flow "
        "on the paper's chain with λ = 0.8, from a start of 1e-3: it falls to the entropy of the token frequencies before queries "
        "have grown. Under Adam both happen together."
    ),
    finding=(
        "every growth rate at both critical points is right to 1e-8; {growing modes (π₁ 0.6*:.0f} directions grow where the paper "
        "states one; the closest approach scales as ε^{power of ε in the closest*:.3f}"
    ),
    variables=VARIABLES,
    dynamics="B: population gradient flow, embedded model",
    time_unit=STEPS,
)
