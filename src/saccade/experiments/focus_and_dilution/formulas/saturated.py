"""Formulas of stages III and IV and of Appendix D, against derivatives of the models by JAX.

Each is checked at a handful of chains; the largest gap counts. Expect rounding: at the perturbed
saturated point eq. 24 allows a gradient of order δ³ and eq. 173 gives rates of order δ², but both
are zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any

import numpy as np

import saccade
from saccade.engines.linearise import jacobian, speed
from saccade.experiments.focus_and_dilution import degenerate_points as points
from saccade.experiments.focus_and_dilution import embedded_gradients as gradients
from saccade.experiments.focus_and_dilution import saturated_jets as jets
from saccade.experiments.focus_and_dilution.embedded_gradients import setting
from saccade.experiments.focus_and_dilution.saturated_jets import Triple
from saccade.lab.formula import Formula
from saccade.measures import fits
from saccade.measures.fits import Array
from saccade.models.embedded import Weights
from saccade.models.rank_one import RankOne, velocity
from saccade.theories import focus_and_dilution as theory
from saccade.theories.focus_and_dilution import stage_four as stated
from saccade.theories.focus_and_dilution.statements import PROPOSITION_3_6

ROUNDING = 1e-13
TRIPLES = [Triple(0.6, 0.6, 6.0), Triple(0.75, 0.8, 6.0), Triple(0.5, 0.5, 20.0)]
TRIPLES += [Triple(0.6, 0.5, 6.0)]
ASYMMETRIES = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4)  # half the difference of two rare tokens, δ
STRONG = 60.0  # exponent by which attention between token 0 and the others is suppressed


def unequal_scales() -> Iterator[Formula]:
    chain, (query, key) = saccade.MarkovChain.two_level(4, 0.6, stay=0.5), (0.19, 0.37)
    state = theory.RankOneState(*theory.unigram_point(stationary=chain.stationary), query, key)
    weights = points.weights_of(RankOne(*state))
    slope = theory.composite_gradients(*weights, **_of(chain)).attention_logits
    pull = float(-state.gamma @ slope @ state.gamma)
    _, query_moves, key_moves, _ = gradients.velocity(weights, chain)
    yield Formula.erratum(
        PROPOSITION_3_6,
        "velocity of η where queries and keys differ in size",
        (query_moves * key + key_moves * query).item(),
        number="1.10",
        printed=2 * query * key * pull,
        corrected=(query**2 + key**2) * pull,
        within=1e-12,
    )


def degenerate_point() -> Iterator[Formula]:
    chain = saccade.MarkovChain.two_level(4, 0.6, stay=0.3)
    gap = max(points.gradients_at(chain, points.rank_one_point(chain)))
    yield Formula(
        stated.DEGENERATE_POINT, "|∂L/∂M| and |∂L/∂Φ| at the degenerate point", gap, 1e-12
    )
    title = "|(P_i - p_i) · β| of every query and |∂L/∂Φ| at the critical point"
    gaps = []
    for asymmetry in (1e-2, 1e-3, 1e-4, 1e-5):
        chain = saccade.MarkovChain.two_level(4, 0.6, asymmetry, 0.3)
        point = points.rank_one_point(chain)
        gaps += [points.query_error(chain, point), points.gradients_at(chain, point)[1]]
    yield Formula(stated.AVERAGES, title, max(gaps), 1e-12)


def saturated_domain() -> Iterator[Formula]:
    """Where strong attention makes the best fit of two rows critical."""
    there = []
    inside = []
    masses = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    stays = np.linspace(0.03, 0.98, 20).tolist()
    for n_vocab, high, stay in product((3, 4, 6), masses, stays):
        chain = saccade.MarkovChain.two_level(n_vocab, high, stay=stay)
        gamma, beta, *_ = theory.two_group_point(**_of(chain))
        scale = np.sqrt(STRONG / abs(gamma[1] * (gamma[0] - gamma[1])))
        at = RankOne(gamma, beta, scale, scale)
        there.append(speed(velocity, at, setting(chain)) < 1e-8)
        inside.append(stay > theory.least_saturated_stay(high, n_vocab))
    yield Formula.erratum(
        stated.PROPOSITION_3_8,
        "chains with a saturated point",
        float(sum(there)),
        number="2.1",
        printed=len(there),
        corrected=float(sum(inside)),
        within=0.5,
    )


def appendix_d() -> Iterator[Formula]:
    """At the saturated point of three tokens, whatever |γ| and |β| where a second span is used."""
    gaps: dict[str, list[Array]] = {}
    spread = []
    for triple in TRIPLES:
        at, other = (
            theory.saturated_triple(triple.high, triple.stay, **span)
            for span in ({}, {"span": 1.0})
        )
        base = np.append(at.gamma, at.beta)
        here, elsewhere = (jets.jet(triple, np.append(one.gamma, one.beta)) for one in (at, other))
        J0 = here.slope[:6, :6]
        f1 = here.slope[:6, 6]
        f2 = here.bend[:6, 6, 6]
        B = here.bend[:6, :6, :6]
        J1 = here.bend[:6, :6, 6]
        K = theory.kernel_basis(at)
        K_other = theory.kernel_basis(other)
        R = theory.range_basis(at)
        R_other = theory.range_basis(other)
        (force, stiffness), q2 = theory.force_and_stiffness(at), R[:, 1]
        value, slope = jets.variations(triple, base)
        H1 = B @ theory.range_response(at) + J1
        rates = np.linalg.eigvalsh(J0)
        spread.append(np.abs(rates).max() / np.sort(np.abs(rates))[3])
        low = value.attention[1]
        signs = np.array([0.0, 1.0, -1.0])
        moved = np.outer(signs, np.append(signs, np.zeros(3)))
        dA = triple.strength * at.gamma[1] / 4 * np.stack([0 * moved, moved, moved])
        for name, found in {
            "D_4": [value.decoder_gradient, value.logit_gradient],
            "D_5": [slope.attention[..., :6] - dA, slope.logit_gradient[..., :6]],
            "D_6": [J0 - theory.rest_jacobian(at)],
            "kernel": [J0 @ K, elsewhere.slope[:6, :6] @ K_other, K.T @ R, K_other.T @ R_other],
            "D_7": [
                f1 - theory.asymmetry_force(at),
                slope.decoder_gradient[..., 6] - theory.resampling_gradient(at),
            ],
            "D_8": [(R.T @ J0 @ R)[1] - [0, -stiffness, 0]],
            "D_9": [J1 - theory.mixed_jacobian(at)],
            "D_10": [K.T @ J1 @ q2 + [0, 0, np.sqrt(2) * force / np.linalg.norm(base)]],
            "D_11": [B - theory.second_differential(at, strength=triple.strength)],
            "D_12": [
                np.diag(move) - np.outer(move, low) - np.outer(low, move)
                for move in slope.attention[1].T[:6]
            ],
            "D_13": [K.T @ (B @ q2 @ q2) / 2 - theory.curvature_force(at)],
            "D_14": [f2],
            "D_15": [H1 - theory.hessian_slope(at)],
            "D_16": [K.T @ H1 @ K],
        }.items():
            gaps.setdefault(name, []).extend(found)
    for name, title in {
        "D_4": "|∂L/∂M| and |∂L/∂Φ| at the saturated point",
        "D_5": "dA and d ∂L/∂Φ, largest gap",
        "D_6": "J₀, largest gap",
        "D_7": "f₁ and ∂/∂δ of ∂L/∂M, largest gap",
        "D_8": "second row of J₀ on its range, largest gap",
        "D_9": "J₁, largest gap",
        "D_10": "kernel part of J₁q₂, largest gap",
        "D_12": "|d Var(A_l)|",
        "D_13": "kernel part of B(q₂, q₂)/2, largest gap",
        "D_14": "|f₂|",
        "D_15": "H₁/δ, largest gap",
        "D_16": "H₁/δ on the kernel, largest entry",
    }.items():
        yield Formula(getattr(stated, f"LEMMA_{name}"), title, _largest(gaps[name]), ROUNDING)
    yield Formula(
        stated.LEMMA_D_11,
        "third derivatives of the loss, largest gap",
        _largest(gaps["D_11"]),
        1e-12,
    )
    yield Formula(
        stated.PROPOSITION_D_1,
        "|J₀k| on the kernel, and range against kernel, whatever |γ| and |β|",
        _largest(gaps["kernel"]),
        ROUNDING,
    )
    yield Formula(
        stated.PROPOSITION_D_1,
        "the kernel has no fourth direction: largest rate of J₀ over its next",
        max(spread),
        1e3,
    )


def perturbed_point() -> Iterator[Formula]:
    """The exact critical point θ(δ) that takes its place where two rare tokens differ by 2δ."""
    forces = []
    kernel = []
    logits = []
    powers = []
    closed = []
    for triple in TRIPLES:
        at = theory.saturated_triple(triple.high, triple.stay)
        base = np.append(at.gamma, at.beta)
        R = theory.range_basis(at)
        thetas = [jets.solved(triple, R, base, delta) for delta in ASYMMETRIES]
        firsts = [base + delta * theory.range_response(at) for delta in ASYMMETRIES]
        powers.append(fits.power(ASYMMETRIES, np.linalg.norm(np.subtract(thetas, firsts), axis=1)))
        for theta, delta in zip(thetas, ASYMMETRIES, strict=True):
            here = jets.jet(triple, theta, delta)
            forces.append(np.linalg.norm(here.force[:6]))
            kernel.append(np.sort(np.abs(np.linalg.eigvalsh(here.slope[:6, :6])))[2])
            value, _ = jets.variations(triple, theta, delta)
            logits.append(value.logit_gradient)
        rate = np.linalg.norm(value.decoder_gradient, 2) / delta
        law: Any = {
            "high": triple.high,
            "n_vocab": 3,
            "stay": triple.stay,
        }
        closed.append(rate / theory.saturated_opening_rate(**law, asymmetry=[1.0, -1.0]) - 1)
    yield Formula(
        stated.THEOREM_3_9,
        "tangential rates at θ(δ), where order δ² is allowed",
        _largest(kernel),
        ROUNDING,
    )
    yield Formula(
        stated.PROPOSITION_D_2,
        "power of δ in |θ(δ) - δζ|, less 2",
        _largest(np.subtract(powers, 2)),
        0.05,
    )
    yield Formula(
        stated.LEMMA_D_17, "|∂L/∂Φ| at θ(δ), where order δ² is allowed", _largest(logits), ROUNDING
    )
    yield Formula(
        stated.SATURATED_RATE,
        f"opening rate / closed form at δ = {ASYMMETRIES[-1]:g}, less 1",
        _largest(closed),
        1e-6,
    )
    largest = ASYMMETRIES[0]
    yield Formula.erratum(
        stated.THEOREM_3_9,
        f"largest |∇L| at θ(δ) for δ = {largest:g}, printed as of order δ³",
        float(max(forces[:: len(ASYMMETRIES)])),
        number="2.7",
        printed=largest**3,
        corrected=0.0,
        within=ROUNDING,
    )
    at = theory.saturated_triple(TRIPLES[0].high, TRIPLES[0].stay)
    yield Formula.erratum(
        stated.THEOREM_D_3,
        f"largest kernel rate / δ² at δ = {largest:g}",
        float(kernel[0]) / largest**2,
        number="2.3",
        printed=float(np.linalg.eigvalsh(theory.printed_kernel_block(at))[-1]),
        corrected=0.0,
        within=1e-8,
    )
    grid = product(np.linspace(0.34, 0.99, 66).tolist(), np.linspace(0.01, 0.99, 99).tolist())
    inside = [cell for cell in grid if cell[1] > theory.least_saturated_stay(cell[0], 3)]
    found = max(theory.mild_condition(theory.saturated_triple(*cell)) for cell in inside)
    least = min(
        theory.opening_force(
            high=high,
            n_vocab=3,
            stay=stay,
        )
        for high, stay in inside
    )
    yield Formula.erratum(
        stated.LEMMA_D_17,
        "largest left side - right side of eq. 230, which the paper allows to be 0",
        found,
        number="2.8",
        printed=0.0,
        corrected=-least,
        within=1e-12,
    )


def sixth_order() -> Iterator[Formula]:
    """The loss as equal rare tokens separate, above the critical stay."""
    skewed = 0.03 * np.array([2.0, -1.0, -1.0]) / np.sqrt(6)  # x and -x differ by 8 %
    found = []
    law = dict[str, Any](high=0.75, stay=0.8)
    for contrast in (skewed, -skewed, np.array([0.01, -0.01])):
        n_vocab = len(contrast) + 1
        chain = saccade.MarkovChain.two_level(n_vocab, law["high"], stay=law["stay"])
        state = theory.saturated_point(
            n_vocab=n_vocab,
            strength=6.0,
            **law,
        )
        predicted = theory.saturated_descent(state, contrast=contrast, **law)
        found.append((jets.descent(chain, state, contrast), predicted))
    gap = _largest(change / predicted - 1 for change, predicted in found[:2])
    yield Formula(
        stated.SATURATED_DESCENT,
        "change of the loss, three rare tokens apart along ±(2, -1, -1), relative gap",
        gap,
        0.002,
    )
    yield Formula.erratum(
        stated.LEMMA_D_6,
        "change of the loss as two rare tokens separate",
        found[-1][0],
        number="2.4",
        printed=0.0,
        corrected=found[-1][1],
        within=0.02 * abs(found[-1][1]),
    )


def two_groups() -> Iterator[Formula]:
    """A chain whose rare tokens have random frequencies, at a point of the whole model."""
    low = np.random.default_rng(0).dirichlet(np.full(5, 20.0)) * 0.5
    chain = saccade.MarkovChain.lazy(np.append(0.5, low), 0.8)
    state = theory.two_group_point(**_of(chain))
    widths = {"direction": np.eye(4)[0], "key_direction": np.eye(3)[0]}
    weights = Weights(*theory.rank_one_weights(state, **widths))
    system = saccade.models.SaturatedEmbedded(chain, saccade.models.Embedded(d_model=4, d_key=3))
    moves, _, around, *_ = system.equations()
    rates = np.linalg.eigvalsh(jacobian(moves, weights, around))[::-1]
    yield Formula(
        stated.TWO_GROUP_POINT,
        "speed at the two-group point, random rare tokens",
        speed(moves, weights, around),
        ROUNDING,
    )
    gap = _largest(rates[:3] / theory.two_group_rate(state, **_of(chain)) - 1)
    yield Formula(
        stated.TWO_GROUP_POINT, "d_model - 1 opening rates / closed form, less 1", gap, 1e-10
    )
    yield Formula(
        stated.TWO_GROUP_POINT,
        "largest other rate, along the manifold or across it",
        rates[3],
        ROUNDING,
    )


def _of(chain: saccade.MarkovChain) -> dict[str, Any]:
    """As functions of theory take it."""
    return {"stationary": chain.stationary, "transition": chain.transition}


def _largest(gaps: Iterable[Any]) -> float:
    return max(float(np.abs(gap).max()) for gap in gaps)


FORMULAS: list[Callable[[], Iterator[Formula]]] = [
    unequal_scales,
    degenerate_point,
    saturated_domain,
    appendix_d,
    perturbed_point,
    sixth_order,
    two_groups,
]
