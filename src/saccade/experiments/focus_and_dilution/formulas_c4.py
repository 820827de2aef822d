"""Formulas of Focus and Dilution, stages I and II: contexts, both critical points, first orders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax

import saccade
from saccade.dynamics.linearise import jacobian
from saccade.experiments.focus_and_dilution.embedded_gradients import (
    decoder_force,
    gradient_gaps,
    loss,
    setting,
    slope_at,
)
from saccade.experiments.focus_and_dilution.embedded_gradients import velocity as velocity_at
from saccade.experiments.focus_and_dilution.named_laws import EqualLow
from saccade.experiments.focus_and_dilution.stage_fits import focus_rate, near_unigram, small_start
from saccade.lab.formula import Formula
from saccade.model.embedded import Composite, Weights, composite, context_attention, velocity
from saccade.observe import fits
from saccade.observe.fits import Array
from saccade.theory import focus_and_dilution as theory
from saccade.theory.focus_and_dilution.statements import (
    ATTENTION_AT_REST,
    DEFINITION_2_2,
    FINITE_CONTEXTS,
    FIRST_ORDER_ATTENTION,
    FROZEN_PARTS,
    LEMMA_C_1,
    LOGIT_SCALE,
    PROPOSITION_2_3,
    PROPOSITION_3_3,
    PROPOSITION_3_4,
    PROPOSITION_B_1,
    PROPOSITION_C_7,
    SPECTRA,
    THEOREM_3_2,
    THEOREM_3_5,
    UNIGRAM_POINT,
)

LENGTH = 19  # of the paper's contexts
WIDTHS = {"d_model": 5, "d_key": 3}
# rare tokens equally frequent, as in the paper's propositions, and any token frequencies
EQUAL = EqualLow(0.6, 4, 0.5), EqualLow(0.75, 4, 0.8), EqualLow(0.3, 6, 0.5)
CHAINS = {one: one.chain for one in EQUAL} | {
    "paper": saccade.MarkovChain.paper(0.8),
    "zipf-6": saccade.MarkovChain.zipf(6, 0.5),
}


def law_of(chain: saccade.MarkovChain) -> dict[str, Array]:
    return {"stationary": chain.stationary, "transition": chain.transition}


def gap(found: Any, right: Any) -> float:
    return float(np.abs(np.asarray(found) - right).max())


def contexts() -> Iterator[Formula]:
    """Powers of P, times of return, and the model position by position."""
    powers, returns, last, outputs = [], [], [], []
    for chain in CHAINS.values():
        pi, P = chain.stationary, chain.transition
        stay = theory.lazy_fit(**law_of(chain)).stay
        found = [np.linalg.matrix_power(P, t) for t in range(30)]
        powers.append(
            gap(found, [theory.lazy_power(t, stationary=pi, stay=stay) for t in range(30)])
        )
        for i in range(len(pi)):
            # from the mean times to reach token i from every other one
            others = np.arange(len(pi)) != i
            away = np.eye(len(pi) - 1) - P[np.ix_(others, others)]
            reach = np.linalg.solve(away, np.ones(len(pi) - 1))
            returns.append(gap((1 + P[i, others] @ reach) * pi[i], 1))
        closed = theory.last_token_law(LENGTH, stationary=pi, stay=stay)
        last.append(gap(found[LENGTH - 1].mean(axis=0), closed))
        weights, one_hot = small_start(chain.n_vocab, 0.7, 0, 5), np.eye(chain.n_vocab)
        for context in chain.sample(10, LENGTH, np.random.default_rng(0)):
            Z = weights.embedding[context]
            scores = Z @ weights.query @ weights.key.T @ Z.T
            output = softmax(scores, axis=1) @ Z @ weights.projection
            with jax.enable_x64(True):
                M, phi = composite(weights, 1.0)
                counts = one_hot[context].sum(axis=0)[None]
                attention = np.asarray(context_attention(phi, counts, context[-1:]))
                outputs.append(gap(output[-1], attention[0] @ np.asarray(M)))
    title = "P^t against 1πᵀ + λ^t (I - 1πᵀ), t below 30"
    yield Formula(PROPOSITION_B_1, title, max(powers), 1e-13)
    title = "mean times of return against 1/π, relative gap"
    yield Formula(PROPOSITION_B_1, title, max(returns), 1e-10)
    title = "distribution of the last of 19 tokens, largest gap"
    yield Formula(FINITE_CONTEXTS, title, max(last), 1e-14)
    title = "outputs position by position against counts, largest gap"
    yield Formula(DEFINITION_2_2, title, max(outputs), 1e-12)


def first_orders() -> Iterator[Formula]:
    """Gradients, forces at the origin, and powers of small weights."""
    gaps = [gradient_gaps(chain, 0) for chain in CHAINS.values()]
    title = "gradient against central differences, largest gap"
    yield Formula(PROPOSITION_2_3, title, max(one.finite_difference for one in gaps), 1e-8)
    title = "gradient against the closed form, largest gap"
    yield Formula(PROPOSITION_2_3, title, max(one.closed_form for one in gaps), 1e-13)
    drives = [
        gap(decoder_force(chain), theory.condensation_drive(stationary=chain.stationary))
        for chain in CHAINS.values()
    ]
    title = "-dL/dM against π (π - 1/d)ᵀ at the origin, largest gap"
    yield Formula(THEOREM_3_2, title, max(drives), 1e-14)

    chain, sizes = EQUAL[0].chain, np.array([1e-2, 5e-3])
    drawn, pi = small_start(chain.n_vocab, 1.0, 0, 5), chain.stationary
    speeds = [np.linalg.norm(velocity_at([s * one for one in drawn], chain)[1]) for s in sizes / 10]
    title = "power of the start's size in the first speed of the queries, less 5"
    yield Formula(ATTENTION_AT_REST, title, gap(fits.power(sizes, speeds), 5), 0.05)

    def terms(outer: float, inner: float) -> list[float]:
        W0, WQ, WK, W1 = outer * drawn[0], inner * drawn[1], inner * drawn[2], outer * drawn[3]
        slope, bare = (
            theory.composite_gradients(W0, factor * WQ, WK, W1, **law_of(chain))
            for factor in (1, 0)
        )
        phi = slope.attention_logits
        found = phi @ W0 @ WK @ WQ.T, W0.T @ phi @ W0 @ WK, slope.decoder - bare.decoder
        return [float(np.linalg.norm(one)) for one in found]

    by_outer = np.array([terms(size, 0.1) for size in sizes]).T
    by_inner = np.array([terms(0.1, size) for size in sizes]).T
    powers = [[fits.power(sizes, one) for one in by] for by in (by_outer, by_inner)]
    title = "powers of W_out (3, 4, 2) and W_in (2, 1, 2) in three terms of the flow, largest gap"
    yield Formula(LEMMA_C_1, title, gap(powers, [[3, 4, 2], [2, 1, 2]]), 0.02)

    still = velocity_at(drawn, chain)[3].sum(axis=1)
    W0_dot, *_, W1_dot = velocity_at(drawn._replace(query=0 * drawn.query), chain)
    off = theory.ray_parts(W0_dot, W1_dot, stationary=pi).embedding_off
    title = "velocity of W_1 1, and of R_0 without attention, largest entry"
    yield Formula(FROZEN_PARTS, title, max(gap(still, 0), gap(off, 0)), 1e-14)

    gamma, strengths = theory.unigram_point(stationary=pi).gamma, np.array([1e-3, 1e-4])
    errors = [
        gap(
            theory.population_attention(k * np.outer(gamma, gamma), stationary=pi),
            theory.first_order_attention(np.array([k]), stationary=pi, gamma=gamma)[0],
        )
        for k in strengths
    ]
    title = "power of the strength in the error of first-order attention, less 2"
    yield Formula(FIRST_ORDER_ATTENTION, title, gap(fits.power(strengths, errors), 2), 0.05)


class Points:
    """Both critical points of a chain: closed forms, Jacobians, and what Newton's method finds."""

    def __init__(self, chain: saccade.MarkovChain) -> None:
        self.chain, pi = chain, chain.stationary
        direction = np.arange(1.0, WIDTHS["d_model"] + 1)
        closed = theory.unigram_weights(stationary=pi, direction=direction, d_key=WIDTHS["d_key"])
        self.point = Weights(*closed)
        J, at_origin = (
            jacobian(velocity, Weights(*(size * one for one in closed)), setting(chain))
            for size in (1, 0)
        )
        mask = np.zeros(len(J), bool)
        mask[self.point.embedding.size : -self.point.projection.size] = True
        self.outer, self.inner = (
            np.linalg.eigvalsh(J[np.ix_(own, own)])[::-1] for own in (~mask, mask)
        )
        self.coupling = J[np.ix_(mask, ~mask)]
        self.origin = np.linalg.eigvalsh(at_origin)[::-1]
        near = Weights(*(matrix * 1.05 for matrix in closed))
        self.found = saccade.critical_point(saccade.Embedded(chain, **WIDTHS), near=near).state
        self.amplitude = np.linalg.norm(self.found.embedding) * np.linalg.norm(
            self.found.projection
        )


def critical_points() -> Iterator[Formula]:
    """Propositions 3.3, 3.4 and C.7 for equally frequent rare tokens; spectra for any."""
    points = {name: Points(chain) for name, chain in CHAINS.items()}
    papers = {one: points[one] for one in EQUAL}
    still = [max(gap(one, 0) for one in velocity_at(at.point, at.chain)) for at in points.values()]
    title = "largest entry of the velocity at the unigram point"
    yield Formula(UNIGRAM_POINT, title, max(still), 1e-14)
    levels = [
        loss(near_unigram(chain, 0.0, 0), chain) - theory.unigram_loss(stationary=chain.stationary)
        for chain in CHAINS.values()
    ]
    yield Formula(UNIGRAM_POINT, "loss at the unigram point minus H(π)", gap(levels, 0), 1e-14)

    amplitudes = [at.amplitude - theory.overlap_target(**one.law) for one, at in papers.items()]
    title = "κ₁² at the critical point that Newton's method finds, largest gap"
    yield Formula(PROPOSITION_3_3, title, gap(amplitudes, 0), 1e-10)
    first, at = next(iter(papers.items()))
    pi = at.chain.stationary
    # the exponents of eq. 127 would make it the root of |π|² κ² (π₁ - π_l) = ln(π₁ / π_l)
    misprint = brentq(lambda size: softmax(size * (pi @ pi) * pi)[0] - first.high, 0.0, 1e3)
    yield Formula.erratum(
        PROPOSITION_3_3,
        "κ₁² of eq. 127",
        at.amplitude,
        number="1.8",
        printed=misprint,
        corrected=theory.overlap_target(**first.law),
        within=1e-6,
    )

    slopes, curvatures, shapes, rests = [], [], [], []
    for at in points.values():
        pi, point = at.chain.stationary, at.point
        along = at.found.embedding @ np.linalg.svd(at.found.embedding)[2][0]
        shapes.append(gap(np.outer(along, along) / (along @ along), np.outer(pi, pi) / (pi @ pi)))
        # a lead of 20 for token 0 over the next, for the rarest query, which tilts least
        gamma = theory.unigram_point(stationary=pi).gamma
        scores = theory.focus_logits(20 / (gamma[-1] * (gamma[0] - gamma[1])), gamma=gamma)
        rests.append(gap(theory.population_attention(scores, stationary=pi)[:, 0], 1))
    for one, at in papers.items():
        pi, point, M = at.chain.stationary, at.point, at.point.embedding @ at.point.projection
        slope = theory.composite_gradients(*point, **law_of(at.chain)).attention_logits
        law = {"high": pi[0], "n_vocab": len(pi), "stay": one.stay}
        slopes.append(gap(slope, theory.unigram_logit_gradient(**law)))
        change = np.random.default_rng(0).normal(size=M.shape)
        with jax.enable_x64(True):
            up, down = (
                np.asarray(slope_at(Composite(M + h * change, 0 * M), setting(at.chain)).decoder)
                for h in (1e-4, -1e-4)
            )
        curvature = np.outer(pi, pi @ change) @ (np.diag(pi) - np.outer(pi, pi))
        curvatures.append(gap((up - down) / 2e-4, curvature))
    yield Formula(PROPOSITION_C_7, "∂L/∂Φ against eq. 129, largest gap", max(slopes), 1e-14)
    title = "change of ∂L/∂M against eq. 130, largest gap"
    yield Formula(PROPOSITION_C_7, title, max(curvatures), 1e-8)
    title = "Φ / |Φ| against π πᵀ / |π|² at the point, largest gap"
    yield Formula(THEOREM_3_5, title, max(shapes), 1e-12)
    title = "attention off token 0, embeddings frozen, queries and keys large"
    yield Formula(THEOREM_3_5, title, max(rests), 1e-6)

    rates = [theory.two_level_focus_rate(stay=one.stay, **one.law) for one in EQUAL]
    title = "coupling of J_out and J_att, largest entry"
    yield Formula(PROPOSITION_3_4, title, max(gap(at.coupling, 0) for at in papers.values()), 1e-14)
    title = "largest eigenvalues: of J_out against 0, of J_att against c"
    tops = [[at.outer[0], at.inner[0] - c] for at, c in zip(papers.values(), rates, strict=True)]
    yield Formula(PROPOSITION_3_4, title, gap(tops, 0), 1e-8)
    at = papers[first]
    yield Formula.erratum(
        PROPOSITION_3_4,
        "smallest eigenvalue of the block of attention",
        at.inner[-1],
        number="1.1",
        printed=0.0,
        corrected=-rates[0],
        within=1e-8,
    )
    for statement, title, spectrum, width in (
        (PROPOSITION_3_4, "growing modes, key width 3", [*at.outer, *at.inner], "d_key"),
        (THEOREM_3_2, "growing modes at the origin, width 5", at.origin, "d_model"),
    ):
        yield Formula.erratum(
            statement,
            title,
            np.sum(np.array(spectrum) > 1e-9),
            number="1.2",
            printed=1,
            corrected=WIDTHS[width],
            within=0.0,
        )

    title = "J_out: -ρ, -κ₁² |π|² π_l and zeros, largest gap"
    found = [
        gap(at.outer, theory.two_level_outer_spectrum(d_model=WIDTHS["d_model"], **one.law))
        for one, at in papers.items()
    ]
    yield Formula(SPECTRA, title, max(found), 1e-8)
    outer, inner, origin, scaled, faster = [], [], [], [], []
    for at in points.values():
        pi, around = at.chain.stationary, setting(at.chain)
        outer.append(gap(at.outer, theory.outer_spectrum(stationary=pi, d_model=WIDTHS["d_model"])))
        inner.append(gap(at.inner, theory.attention_spectrum(**law_of(at.chain), **WIDTHS)))
        origin.append(gap(at.origin, theory.origin_spectrum(stationary=pi, **WIDTHS)))
        rng = np.random.default_rng(0)
        W0, WQ, WK, W1 = (rng.normal(size=matrix.shape) for matrix in at.point)
        for s in (0.25, 3.0):
            J = jacobian(velocity, at.point, around._replace(phi_scale=s))
            scaled.append(np.linalg.eigvalsh(J)[-1] / focus_rate(at.chain) - s)
            root, move = np.sqrt(s), jax.jit(velocity)
            with jax.enable_x64(True):
                one = move(Weights(W0, WQ, WK, W1), around._replace(phi_scale=s))
                rated = around._replace(lr_attention=s)
                other = move(Weights(W0, root * WQ, root * WK, W1), rated)
            faster += [
                gap(by * np.asarray(a), np.asarray(b))
                for by, a, b in zip((1, root, root, 1), one, other, strict=True)
            ]
    for title, gaps in (
        ("J_out, any chain: largest gap of a rate", outer),
        ("J_att: c, -c and zeros, largest gap", inner),
        ("origin: μ₀, -μ₀ and zeros, largest gap", origin),
    ):
        yield Formula(SPECTRA, title, max(gaps), 1e-8)
    title = "growth rate of attention with logits times s, over c, less s"
    yield Formula(LOGIT_SCALE, title, gap(scaled, 0), 1e-8)
    title = "velocity: logits times s or attention rate s, largest gap"
    yield Formula(LOGIT_SCALE, title, max(faster), 1e-13)


FORMULAS = [contexts, first_orders, critical_points]
