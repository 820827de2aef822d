"""Formulas of Scan and Snap on gradients, the decoder's height and speed, and coupled classes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from saccade.experiments.scan_and_snap.decoder_descent import paired_features
from saccade.lab.formula import Formula
from saccade.theories import scan_and_snap as theory
from saccade.theories.scan_and_snap.statements import (
    LEMMA_1,
    LEMMA_6,
    LEMMA_7,
    LEMMA_8,
    LEMMAS_13_TO_17,
    SPEED_PEAK,
    STEPS_TO_ERROR,
    THEOREM_4,
)
from saccade.theories.statement import Statement


def rows(found: Any, *columns: tuple[Statement, str, float]) -> Iterator[Formula]:
    """A row for each column of numbers, with the largest of it."""
    for (statement, title, bound), gap in zip(columns, np.max(found, axis=0), strict=True):
        yield Formula(statement, title, float(gap), bound)


def objective(Y: Any, Z: Any, context: Any, query: int, label: int) -> Any:
    """Log-probability of the next token, position by position."""
    attention = jax.nn.softmax(Z[query, context]) @ jnp.eye(10)[context]
    return jax.nn.log_softmax(attention / jnp.linalg.norm(attention) @ Y)[label]


def gradients() -> Iterator[Formula]:
    """Lemma 1 on random matrices and sequences of 11 tokens."""
    rng = np.random.default_rng(0)
    gaps = []
    slope = jax.jit(jax.grad(objective, argnums=(0, 1)))
    for _ in range(20):
        Y, Z = rng.normal(size=(2, 10, 10))
        context, (query, label) = rng.integers(8, size=11), rng.integers(10, size=2)
        with jax.enable_x64(True):
            exact = np.stack(slope(Y, Z, context, query, label))
        options = {
            "query": query,
            "label": label,
            "lr_decoder": 1.0,
            "lr_attention": 1.0,
        }
        whole = np.stack(theory.gradient_from_sequence(Y, Z, context, **options))
        counts = np.bincount(context, minlength=10)
        counted = np.stack(theory.gradient_from_counts(Y, Z, counts, **options))
        gaps.append([np.abs(one).max() for one in (whole - exact, whole.sum(-1), whole - counted)])
    yield from rows(
        gaps,
        (LEMMA_1, "gradient against JAX, largest gap", 1e-13),
        (LEMMA_1, "rows of both gradients, largest sum", 1e-14),
        (LEMMA_1, "gradient from counts and sequence, largest gap", 1e-13),
    )


def heights() -> Iterator[Formula]:
    """Lemmas 6 and 8, the peak of the speed and its integral: the worst of five vocabularies."""
    found = []
    for M in (100, 1_000, 10_000, 100_000, 1_000_000):
        letters: dict[str, Any] = {
            "n_vocab": M,
            "n_classes": 3,
            "lr_decoder": 0.7,
        }
        t = theory.scan_time(**letters) * np.geomspace(1e-6, 100, 20_001)
        x = M * theory.decoder_height(t, n_vocab=M, lr_decoder=0.7)
        right = M * 0.7 * t
        targets = np.array([0.5, 0.2, 0.1, 0.05, 0.02])
        steps = theory.steps_to_error(targets, **letters)
        height = theory.decoder_height(steps / 3, n_vocab=M, lr_decoder=0.7)
        errors = theory.class_error(height, n_vocab=M) * np.sqrt(M / (M - 1))
        omega_0, omega_1 = theory.regime_exponents(n_vocab=M)
        ends = np.array([M ** (omega_0 - 1), (1 + omega_1) * np.log(M)])
        speed = theory.speed(t, **letters)
        peak = theory.speed_peak(**letters)
        area = np.trapezoid(speed * t, np.log(t)) / theory.speed_integral(t[-1], **letters)
        found.append(
            [
                np.abs((np.expm1(x) + (M - 1) * x - right) / right).max(),
                np.abs(np.exp(ends) / ((M - 1) * ends) - 1).max(),
                omega_0 * M**0.99 * np.log(M),
                speed.max() / peak.value - 1,
                t[speed.argmax()] / peak.time - 1,
                area - 1,
                np.abs(errors / targets - 1).max(),
            ]
        )
    yield from rows(
        np.abs(found),
        (LEMMA_6, "e^(Mh) + (M-1) M h = M η_Y t + 1, largest relative gap", 1e-12),
        (LEMMA_8, "e^x = (M-1) x at M^(ω_0 - 1) and (1 + ω_1) ln M, largest relative gap", 1e-9),
        (LEMMA_8, "ω_0 in units of 1/(M^0.99 ln M), at most 2", 2.0),
        (SPEED_PEAK, "highest speed, largest relative gap", 1e-5),
        (SPEED_PEAK, "time of the highest speed, largest relative gap", 1e-3),
        (THEOREM_4, "Γ/η_Z, the integral of the speed, largest relative gap", 1e-6),
        (STEPS_TO_ERROR, "output error after the steps that reach it, largest relative gap", 1e-9),
    )


def leads() -> Iterator[Formula]:
    """Lemma 7 at the rates and vocabularies of Fig. 8."""
    s = np.arange(201)
    found = []
    for M, rate in product((50, 1000), (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)):
        letters: dict[str, Any] = {"n_vocab": M, "lr_decoder": rate}
        height = theory.decoder_height_discrete(200, **letters)
        lead = np.asarray(height) - theory.decoder_height(s, **letters)
        ahead = (theory.draws_to_height(height, **letters) - s)[s * rate <= np.log(M)]
        found.append([-lead.min(), lead.max() * M / (2 * rate), ahead.max()])
    yield from rows(
        found,
        (LEMMA_7, "largest shortfall of h* below the continuous h", 1e-15),
        (LEMMA_7, "largest lead h* - h, in units of 2 η_Y/M", 1.0),
        (LEMMA_7, "largest lead of h* over h in the first ln M/η_Y draws, in draws", 1.0),
    )


def couplings() -> Iterator[Formula]:
    """Lemmas 13 to 17 on a hundred random sets of five classes, with K |λ_1| below 1."""
    rng = np.random.default_rng(0)
    found = []
    for size in rng.uniform(0.1, 0.99, 100) / 5:
        E = np.triu(rng.random((5, 5)), 1)
        E += E.T
        E = theory.class_overlap(paired_features(E * size / np.abs(np.linalg.eigvalsh(E)).max()))
        E1, (values, vectors) = theory.class_coupling(E), np.linalg.eigh(E)
        largest = np.abs(values).max()
        spectrum = np.linalg.eigvalsh(E1)
        own = np.diag(E1)
        off = E1 - E - np.diag(np.diag(E1))
        sums = vectors**2 @ (values**2 / (1 + values))
        found.append(
            [
                E.max() / largest,
                np.abs(spectrum - values / (1 + values)).max(),
                np.abs(spectrum).max() * (1 - largest) / largest,
                np.sum(own >= 0),
                np.abs(off).max() * (1 - largest) / largest**2,
                np.abs([(E * E1).sum(axis=1) + own, sums + own]).max(),
            ]
        )
    yield from rows(
        found,
        (LEMMAS_13_TO_17, "largest overlap over |λ_1|, at most 1", 1 + 1e-12),
        (LEMMAS_13_TO_17, "eigenvalues of E' against λ/(1 + λ), largest gap", 1e-12),
        (LEMMAS_13_TO_17, "largest eigenvalue of E' over |λ_1|/(1 - |λ_1|), at most 1", 1 + 1e-12),
        (LEMMAS_13_TO_17, "classes that overlap another and have E'_nn ≥ 0", 0.0),
        (LEMMAS_13_TO_17, "largest |E'_nn' - E_nn'| over λ_1²/(1 - |λ_1|), at most 1", 1.0),
        (LEMMAS_13_TO_17, "-E'_nn against Σ E_nk E'_nk and Σ λ² u²/(1 + λ), largest gap", 1e-12),
    )


FORMULAS = [gradients, heights, leads, couplings]
