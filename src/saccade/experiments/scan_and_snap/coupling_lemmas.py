"""Lemmas 13 to 17 on random classes: what weak overlaps E allow the couplings E' to be. Part of `backprop-gradient`.

These are theorems of linear algebra: the claims check the theory's own E' and its bounds, not a simulation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from saccade.records.claim import Claim
from saccade.theory import scan_and_snap as theory

if TYPE_CHECKING:
    import xarray as xr

DEFINITIONS = {
    "random_overlap": ("1", "E of random classes whose largest eigenvalue is below 1/K"),
    "random_coupling": ("1", "E' of the same classes"),
}


def paired_features(overlap: NDArray[np.float64]) -> NDArray[np.float64]:
    """Classes with a common token for every two of them and a distinct token each, so that f_n . f_n' is `overlap`."""
    n_classes = len(overlap)
    first, second = np.triu_indices(n_classes, 1)
    feature = np.zeros((n_classes, len(first) + n_classes))
    for pair, (n, m) in enumerate(zip(first, second, strict=True)):
        feature[[n, m], pair] = np.sqrt(overlap[n, m])
    feature[:, len(first) :] = np.diag(np.sqrt(1 - overlap.sum(axis=1)))
    return feature


def random_couplings(n_sets: int, n_classes: int, rng: np.random.Generator) -> dict[str, Any]:
    """Overlaps and couplings of random classes, as variables of a record."""
    overlap = np.triu(rng.random((n_sets, n_classes, n_classes)), 1)
    overlap += np.swapaxes(overlap, 1, 2)
    size = np.abs(np.linalg.eigvalsh(overlap)).max(axis=1)
    overlap *= (rng.uniform(0.1, 0.99, n_sets) / (n_classes * size))[:, None, None]
    measured = [theory.class_overlap(paired_features(one)) for one in overlap]
    axes = ("set", "random_class", "other_random_class")
    return {
        "random_overlap": (axes, np.stack(measured)),
        "random_coupling": (axes, np.stack([theory.class_coupling(one) for one in measured])),
    }


def coupling_claims(record: xr.Dataset) -> list[Claim]:
    E, coupling = record.random_overlap.values, record.random_coupling.values
    values, vectors = np.linalg.eigh(E)
    own = np.diagonal(coupling, axis1=1, axis2=2)
    largest = np.abs(values).max(axis=1)
    eigen_gap = np.linalg.eigvalsh(coupling) - values / (1 + values)
    second_order = np.where(np.eye(E.shape[1], dtype=bool), 0.0, np.abs(coupling - E)).max(axis=(1, 2))
    from_eigenpairs = (vectors**2 * (values**2 / (1 + values))[:, None, :]).sum(axis=2)
    checks = (
        ("largest overlap over |lambda_1|, at most 1", (E.max(axis=(1, 2)) / largest).max(), 1.0 + 1e-12),
        ("eigenvalues of E' against lambda/(1 + lambda): largest gap", np.abs(eigen_gap).max(), 1e-12),
        (
            "largest eigenvalue of E' over |lambda_1|/(1 - |lambda_1|), at most 1",
            (np.abs(np.linalg.eigvalsh(coupling)).max(axis=1) * (1 - largest) / largest).max(),
            1.0 + 1e-12,
        ),
        ("classes that overlap another but have E'_nn >= 0: how many", int(np.sum(own >= 0)), 0),
        (
            "largest |E'_nn' - E_nn'| over lambda_1^2/(1 - |lambda_1|), at most 1",
            (second_order * (1 - largest) / largest**2).max(),
            1.0,
        ),
        (
            "-E'_nn is the sum of E_nk E'_nk over k and of lambda^2 u^2/(1 + lambda): largest gap",
            max(np.abs((E * coupling).sum(axis=2) + own).max(), np.abs(from_eigenpairs + own).max()),
            1e-12,
        ),
    )
    return [
        Claim(
            statement=f"{what}, {len(E)} random sets of {E.shape[1]} classes",
            source="[tian2023, Theorem 1], Lemmas 13 to 17",
            assumptions={"2 largest eigenvalue": bool((largest < 1 / E.shape[1]).all())},
            predicted=0.0,
            measured=float(measured),
            tolerance=tolerance,
        )
        for what, measured, tolerance in checks
    ]
