"""Formulas of Focus and Dilution, stages I and II: contexts, both critical points, first orders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import jax
import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax

import saccade
from saccade.engines.linearise import jacobian
from saccade.experiments.focus_and_dilution.embedded_gradients import (
    decoder_force,
    gradient_gaps,
    setting,
)
from saccade.experiments.focus_and_dilution.embedded_gradients import velocity as velocity_at
from saccade.experiments.focus_and_dilution.named_laws import EqualLow
from saccade.experiments.focus_and_dilution.stage_fits import focus_rate, small_start
from saccade.lab.formula import Formula
from saccade.measures import fits
from saccade.models.embedded import Weights, composite, context_attention, velocity
from saccade.theories import focus_and_dilution as theory
from saccade.theories.focus_and_dilution.statements import (
    ATTENTION_AT_REST,
    DEFINITION_2_1,
    DEFINITION_2_2,
    FINITE_CONTEXTS,
    FIRST_ORDER_ATTENTION,
    FROZEN_PARTS,
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
from saccade.theories.statement import Statement

LENGTH = 19  # of the paper's contexts
WIDTH = 5
KEY_WIDTH = 3
WIDTHS: dict[str, Any] = {"d_model": WIDTH, "d_key": KEY_WIDTH}
# rare tokens equally frequent, as in the paper's propositions, and any token frequencies
EQUAL = EqualLow(0.6, 4, 0.5), EqualLow(0.75, 4, 0.8), EqualLow(0.3, 6, 0.5)
CHAINS = [
    *(one.chain for one in EQUAL),
    saccade.MarkovChain.paper(0.8),
    saccade.MarkovChain.zipf(6, 0.5),
]


Row = tuple[Statement, str, float, Any, Any]  # what is found, and what it must equal


def joined(function: Callable[[], Iterator[Row | Formula]]) -> Callable[[], Iterator[Formula]]:
    """Rows of one statement and title are one row, with the largest gap."""

    @wraps(function)
    def formulas() -> Iterator[Formula]:
        gaps: dict[tuple[Statement, str, float], float] = defaultdict(float)
        for row in function():
            if isinstance(row, Formula):
                yield row
                continue
            statement, title, bound, found, right = row
            key = statement, title, bound
            # unlike max, np.maximum keeps a missing number
            gaps[key] = float(np.maximum(gaps[key], np.abs(np.asarray(found) - right).max()))
        for (statement, title, bound), gap in gaps.items():
            yield Formula(statement, title, gap, bound)

    return formulas


@joined
def contexts() -> Iterator[Row | Formula]:
    """Powers of P, the last token, and the model position by position."""
    for chain in CHAINS:
        pi, P = chain.stationary, chain.transition
        stay = theory.lazy_fit(stationary=pi, transition=P).stay
        powers = [np.linalg.matrix_power(P, t) for t in range(30)]
        closed = [theory.lazy_power(t, stationary=pi, stay=stay) for t in range(30)]
        lazy = stay * np.eye(len(pi)) + (1 - stay) * pi
        yield (DEFINITION_2_1, "P against λI + (1 - λ)1πᵀ", 1e-14, P, lazy)
        yield (
            PROPOSITION_B_1,
            "P^t against 1πᵀ + λ^t (I - 1πᵀ), t below 30",
            1e-13,
            powers,
            closed,
        )
        last = theory.last_token_law(LENGTH, stationary=pi, stay=stay)
        yield (
            FINITE_CONTEXTS,
            "distribution of the last of 19 tokens, largest gap",
            1e-14,
            powers[LENGTH - 1].mean(axis=0),
            last,
        )
        weights = small_start(chain.n_vocab, 0.7, 0, 5)
        for context in chain.sample(10, LENGTH, np.random.default_rng(0)):
            Z = weights.embedding[context]
            scores = Z @ weights.query @ weights.key.T @ Z.T
            output = softmax(scores, axis=1)[-1] @ Z @ weights.projection
            counts = np.bincount(context, minlength=chain.n_vocab)[None] * 1.0
            with jax.enable_x64(True):
                M, phi = composite(weights, 1.0)
                short = context_attention(phi, counts, context[-1:])[0] @ M
            yield (
                DEFINITION_2_2,
                "outputs position by position against counts, largest gap",
                1e-12,
                short,
                output,
            )


@joined
def first_orders() -> Iterator[Row | Formula]:
    """Gradients, forces at the origin, and powers of small weights."""
    for chain in CHAINS:
        pi = chain.stationary
        gaps = gradient_gaps(chain, 0)
        yield (
            PROPOSITION_2_3,
            "gradient against central differences, largest gap",
            1e-8,
            gaps.finite_difference,
            0,
        )
        yield (
            PROPOSITION_2_3,
            "gradient against the closed form, largest gap",
            1e-13,
            gaps.closed_form,
            0,
        )
        drive = theory.condensation_drive(stationary=pi)
        yield (
            THEOREM_3_2,
            "-dL/dM against π (π - 1/d)ᵀ at the origin, largest gap",
            1e-14,
            decoder_force(chain),
            drive,
        )

        drawn = small_start(chain.n_vocab, 1.0, 0, 5)
        sizes = np.array([1e-3, 5e-4])
        speeds = [np.linalg.norm(velocity_at([s * one for one in drawn], chain)[1]) for s in sizes]
        yield (
            ATTENTION_AT_REST,
            "power of the start's size in the first speed of the queries, against 5",
            0.05,
            fits.power(sizes, speeds),
            5,
        )
        moved = velocity_at(drawn, chain)[3]
        yield (FROZEN_PARTS, "velocity of W_1 1, largest entry", 1e-14, moved.sum(axis=1), 0)
        W0_dot, *_, W1_dot = velocity_at(drawn._replace(query=0 * drawn.query), chain)
        off = theory.ray_parts(W0_dot, W1_dot, stationary=pi).embedding_off
        yield (FROZEN_PARTS, "velocity of R_0 without attention, largest entry", 1e-14, off, 0)

        gamma = theory.unigram_point(stationary=pi).gamma
        errors = []
        for strength in sizes:
            tilted = theory.population_attention(strength * np.outer(gamma, gamma), stationary=pi)
            first = theory.first_order_attention(
                np.array([strength]),
                stationary=pi,
                gamma=gamma,
            )
            errors.append(np.abs(tilted - first[0]).max())
        yield (
            FIRST_ORDER_ATTENTION,
            "power of the strength in the error of first-order attention, against 2",
            0.05,
            fits.power(sizes, errors),
            2,
        )
        # a lead of 20 for token 0 over the next, for the rarest query, which tilts least
        scores = theory.focus_logits(20 / (gamma[-1] * (gamma[0] - gamma[1])), gamma=gamma)
        focused = theory.population_attention(scores, stationary=pi)[:, 0]
        yield (
            THEOREM_3_5,
            "attention on token 0, embeddings frozen, queries and keys large, against 1",
            1e-6,
            focused,
            1,
        )


@joined
def critical_points() -> Iterator[Row | Formula]:
    """Spectra of both critical points; Propositions 3.3, 3.4 and C.7 for equal rare tokens."""
    for place, chain in enumerate(CHAINS):
        pi = chain.stationary
        around = setting(chain)
        law: dict[str, Any] = {"stationary": pi, "transition": chain.transition}
        direction = np.arange(1.0, WIDTH + 1)
        point = Weights(
            *theory.unigram_weights(
                stationary=pi,
                direction=direction,
                d_key=KEY_WIDTH,
            )
        )
        nothing = Weights(*(0 * matrix for matrix in point))
        J, at_origin = (jacobian(velocity, at, around) for at in (point, nothing))
        mask = np.zeros(len(J), bool)
        mask[point.embedding.size : -point.projection.size] = True
        outer, inner, origin = (
            np.linalg.eigvalsh(one)[::-1]
            for one in (J[np.ix_(~mask, ~mask)], J[np.ix_(mask, mask)], at_origin)
        )
        for moved in velocity_at(point, chain):
            yield (
                UNIGRAM_POINT,
                "largest entry of the velocity at the unigram point",
                1e-14,
                moved,
                0,
            )
        for title, found, closed in (
            ("J_out", outer, theory.outer_spectrum(stationary=pi, d_model=WIDTH)),
            ("J_att: c, -c and zeros", inner, theory.attention_spectrum(**law, **WIDTHS)),
            ("origin: μ₀, -μ₀ and zeros", origin, theory.origin_spectrum(stationary=pi, **WIDTHS)),
        ):
            yield (SPECTRA, f"{title}, largest gap of a rate", 1e-8, found, closed)
        for s in (0.25, 3.0):
            scaled = np.linalg.eigvalsh(jacobian(velocity, point, around._replace(phi_scale=s)))
            yield (
                LOGIT_SCALE,
                "growth rate of attention with logits times s, over c, against s",
                1e-8,
                scaled[-1] / focus_rate(chain),
                s,
            )
        if place >= len(EQUAL):
            continue

        one = EQUAL[place]
        start = Weights(*(matrix * 1.05 for matrix in point))
        near = saccade.critical_point(saccade.models.Embedded(chain, **WIDTHS), near=start).state
        amplitude = np.linalg.norm(near.embedding) * np.linalg.norm(near.projection)
        target = theory.overlap_target(**one.law)
        c = theory.two_level_focus_rate(stay=one.stay, **one.law)
        yield (
            PROPOSITION_3_3,
            "κ₁² at the critical point that Newton's method finds, largest gap",
            1e-10,
            amplitude,
            target,
        )
        slope = theory.composite_gradients(*point, **law).attention_logits
        printed = theory.unigram_logit_gradient(stay=one.stay, **one.law)
        yield (PROPOSITION_C_7, "∂L/∂Φ against eq. 129, largest gap", 1e-14, slope, printed)
        yield (
            PROPOSITION_3_4,
            "coupling of J_out and J_att, largest entry",
            1e-14,
            J[np.ix_(mask, ~mask)],
            0,
        )
        yield (
            PROPOSITION_3_4,
            "largest eigenvalues of J_out and J_att, against 0 and c",
            1e-8,
            [outer[0], inner[0]],
            [0, c],
        )
        if place:
            continue

        # the exponents of eq. 127 would make it the root of |π|² κ² (π₁ - π_l) = ln(π₁ / π_l)
        misprint = brentq(lambda k, pi=pi: softmax(k * (pi @ pi) * pi)[0] - pi[0], 0.0, 1e3)
        modes = int(np.sum(outer > 1e-9) + np.sum(inner > 1e-9))
        for statement, title, number, value, wrong, right, within in (
            (PROPOSITION_3_3, "κ₁² of eq. 127", "1.8", amplitude, misprint, target, 1e-6),
            (PROPOSITION_3_4, "smallest eigenvalue of J_att", "1.1", inner[-1], 0.0, -c, 1e-8),
            (PROPOSITION_3_4, "growing modes, key width 3", "1.2", modes, 1, KEY_WIDTH, 0.0),
            (
                THEOREM_3_2,
                "growing modes at the origin, width 5",
                "1.2",
                np.sum(origin > 1e-9),
                1,
                WIDTH,
                0.0,
            ),
        ):
            yield Formula.erratum(
                statement,
                title,
                float(value),
                number=number,
                printed=wrong,
                corrected=right,
                within=within,
            )


FORMULAS = [contexts, first_orders, critical_points]
