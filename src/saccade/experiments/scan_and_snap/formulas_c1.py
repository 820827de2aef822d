"""Formulas of Scan and Snap on gradients, the decoder's height and speed, and coupled classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar

from saccade.experiments.scan_and_snap.decoder_descent import paired_features
from saccade.lab.formula import Formula
from saccade.theory import scan_and_snap as theory
from saccade.theory.scan_and_snap.statements import (
    LEMMA_1,
    LEMMA_6,
    LEMMA_8,
    LEMMAS_13_TO_17,
    SPEED_PEAK,
    THEOREM_4,
)

VOCABULARIES = (100, 1_000, 10_000, 100_000, 1_000_000)


def gradients() -> Iterator[Formula]:
    """Lemma 1 on twenty random matrices and sequences of up to 11 tokens."""
    rng, gaps = np.random.default_rng(0), []
    for _ in range(20):
        Y, Z = rng.normal(size=(2, 10, 10))
        context = rng.integers(8, size=rng.integers(1, 12))
        query, label = (int(token) for token in rng.integers(10, size=2))

        def objective(
            Y: Any, Z: Any, context: Any = context, m: int = query, x: int = label
        ) -> Any:
            """Log-probability of the next token, position by position."""
            attention = jax.nn.softmax(Z[m, context]) @ jnp.eye(10)[context]
            return jax.nn.log_softmax(attention / jnp.linalg.norm(attention) @ Y)[x]

        options = {"query": query, "label": label, "lr_decoder": 1.0, "lr_attention": 1.0}
        with jax.enable_x64(True):
            exact = np.stack(jax.grad(objective, argnums=(0, 1))(Y, Z))
        whole = np.stack(theory.gradient_from_sequence(Y, Z, context, **options))
        counts = np.bincount(context, minlength=10)
        counted = np.stack(theory.gradient_from_counts(Y, Z, counts, **options))
        gaps.append(
            [np.abs(each).max() for each in (whole - exact, whole.sum(-1), whole - counted)]
        )
    titles = ("gradient against JAX", "rows of both gradients", "gradient from counts and sequence")
    for title, gap, bound in zip(titles, np.max(gaps, axis=0), (1e-13, 1e-14, 1e-13), strict=True):
        yield Formula(LEMMA_1, f"{title}, largest gap", gap, bound)


def heights() -> Iterator[Formula]:
    """Lemmas 6 and 8, the peak of the speed and its integral: the worst of five vocabularies."""
    found = []
    for M in VOCABULARIES:
        letters = {"n_vocab": M, "n_classes": 3, "lr_decoder": 0.7}
        draws = np.geomspace(1e-3, 1e12, 200)
        x = M * theory.decoder_height(draws, n_vocab=M, lr_decoder=0.7)
        right = M * 0.7 * draws

        def excess(log_x: float, M: int = M) -> float:
            return np.exp(log_x) - log_x - np.log(M - 1)

        low, high = brentq(excess, -2 * np.log(M), 0, xtol=1e-15), brentq(excess, 0, 5, xtol=1e-15)
        omega = theory.regime_exponents(n_vocab=M)
        omega_0 = 1 + low / np.log(M)

        def speed(s: float, letters: Any = letters) -> float:
            return float(theory.speed(np.exp(s), **letters))

        peak, unit = theory.speed_peak(**letters), np.log(theory.scan_time(**letters))
        top = minimize_scalar(lambda s: -speed(s), bounds=(unit - 2, unit + 2), method="bounded")
        area, _ = quad(lambda s: speed(s) * np.exp(s), -15, unit + 2, epsabs=0, epsrel=1e-10)
        found.append(
            [
                np.abs((np.expm1(x) + (M - 1) * x - right) / right).max(),
                np.exp(high) / np.log(M) - 1 - omega.omega_1,
                omega_0 / omega.omega_0 - 1,
                omega_0 * M**0.99 * np.log(M),
                -top.fun / peak.value - 1,
                np.exp(top.x) / peak.time - 1,
                area / float(theory.speed_integral(np.exp(unit + 2), **letters)) - 1,
            ]
        )
    rows = (
        (LEMMA_6, "e^(Mh) + (M-1) M h = M η_Y t + 1, largest relative gap", 1e-12),
        (LEMMA_8, "ω_1: from (1 + ω_1) ln M/M on the exponential is larger, largest gap", 1e-9),
        (LEMMA_8, "ω_0: from M^(ω_0 - 2) on the linear term is larger, relative gap", 1e-6),
        (LEMMA_8, "ω_0 in units of 1/(M^0.99 ln M), at most 2", 2.0),
        (SPEED_PEAK, "highest speed, largest relative gap", 1e-5),
        (SPEED_PEAK, "time of the highest speed, largest relative gap", 1e-3),
        (THEOREM_4, "Γ/η_Z, the integral of the speed, largest relative gap", 1e-6),
    )
    for (statement, title, bound), gap in zip(rows, np.abs(found).max(axis=0), strict=True):
        yield Formula(statement, title, gap, bound)


def couplings() -> Iterator[Formula]:
    """Lemmas 13 to 17 on a hundred random sets of five classes, with K |λ_1| below 1."""
    rng, found = np.random.default_rng(0), []
    for size in rng.uniform(0.1, 0.99, 100) / 5:
        E = np.triu(rng.random((5, 5)), 1)
        E += E.T
        E = theory.class_overlap(paired_features(E * size / np.abs(np.linalg.eigvalsh(E)).max()))
        E1, (values, vectors) = theory.class_coupling(E), np.linalg.eigh(E)
        largest, spectrum = np.abs(values).max(), np.linalg.eigvalsh(E1)
        own, off = np.diag(E1), E1 - E - np.diag(np.diag(E1))
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
    rows = (
        ("largest overlap over |λ_1|, at most 1", 1 + 1e-12),
        ("eigenvalues of E' against λ/(1 + λ), largest gap", 1e-12),
        ("largest eigenvalue of E' over |λ_1|/(1 - |λ_1|), at most 1", 1 + 1e-12),
        ("classes that overlap another and have E'_nn ≥ 0", 0.0),
        ("largest |E'_nn' - E_nn'| over λ_1²/(1 - |λ_1|), at most 1", 1.0),
        ("-E'_nn against Σ E_nk E'_nk and Σ λ² u²/(1 + λ), largest gap", 1e-12),
    )
    for (title, bound), gap in zip(rows, np.max(found, axis=0), strict=True):
        yield Formula(LEMMAS_13_TO_17, title, float(gap), bound)


FORMULAS = [gradients, heights, couplings]
