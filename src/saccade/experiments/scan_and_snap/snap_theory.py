"""What theory says of attention in one task at one pair of rates, with the numbers of that task filled in.

Three forms of the growth bound: Theorem 4 as printed; with the common token falling through all classes; and with the coupling's
floor of 1/M too. Not here: what flows do (`log_growth`), what is claimed about the two.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import cumulative_trapezoid, solve_ivp

import saccade
from saccade.experiments.scan_and_snap.log_growth import leader
from saccade.theory import scan_and_snap as theory

DEPTH = 10.0  # how far above 1 the argument of growth's logarithm must be by t0' for growth to have been logarithmic at all


@dataclass(frozen=True)
class SnapTheory:
    """One task at one pair of rates. Where nothing overlaps, every curve is missing."""

    n_classes: int
    n_vocab: int
    lr_decoder: float
    lr_attention: float
    normaliser: float
    concentration: float

    @classmethod
    def of_task(cls, task: saccade.SequenceClasses, lr_decoder: float, lr_attention: float) -> SnapTheory:
        """The normaliser is Theorem 4's: the leader's class overlaps others by 1 / rho_0^2."""
        prob, found = task.token_prob, leader(task.token_prob)
        n, feature = found.n if found else 0, theory.normalised_feature(prob)
        overlap = theory.class_overlap(feature)[n].sum() / max(1, task.n_classes - 1)
        rho_0 = float(overlap**-0.5) if overlap > 0 else np.nan
        s = float(np.sum(feature[n, theory.distinct_tokens(prob)[n]] ** 4))
        return cls(task.n_classes, task.n_vocab, lr_decoder, lr_attention, rho_0, s)

    @classmethod
    def of_record(cls, record: xr.Dataset, **rates: Any) -> SnapTheory:
        """From a record that keeps the numbers as scalars; rates that are given replace those it has."""
        return cls(**{each.name: rates.get(each.name) or record[each.name].item() for each in fields(cls)})

    @property
    def clock(self) -> dict[str, Any]:
        return {"n_vocab": self.n_vocab, "n_classes": self.n_classes, "lr_decoder": self.lr_decoder}

    @property
    def _settings(self) -> dict[str, Any]:
        rest = {"lr_attention": self.lr_attention, "normaliser": self.normaliser, "distinct_concentration": self.concentration}
        return self.clock | rest

    @property
    def scan_time(self) -> float:
        return theory.scan_time(**self.clock)

    @property
    def snap_time(self) -> float:
        """Missing for M < 4, where its omega_1 is not defined."""
        return theory.snap_time(**self.clock) if self.n_vocab >= 4 else float("nan")

    def growth(self, t: ArrayLike) -> NDArray[np.float64]:
        """B with the common token falling through all classes and the coupling's floor of 1/M."""
        return theory.floored_growth_bound(t, **self._settings)

    def growth_with_factor_only(self, t: ArrayLike) -> NDArray[np.float64]:
        """B with the common token falling through all classes and nothing else mended."""
        return theory.self_consistent_growth_bound(t, **(self._settings | {"distinct_concentration": 0.0}))

    def printed_growth(self, t: ArrayLike) -> NDArray[np.float64]:
        """Theorem 4's B. Its rate is eta_Z / K, as training steps count it, so that only its own factor K is in question."""
        constant = theory.overlap_constant(self.normaliser, n_classes=self.n_classes)
        return theory.growth_bound(t, **self.clock, lr_attention=self.lr_attention / self.n_classes, overlap_constant=constant)

    def plain_growth(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        """B under plain descent while the overlap is still what it was at the start; t starts at 0."""
        K, rho = self.n_classes, self.normaliser**-2
        coupling = theory.plain_backprop(t, overlap=rho, **self.clock).other
        return cumulative_trapezoid(self.lr_attention / K * (K - 1) * rho * coupling, t, initial=0.0)

    def depth_at(self, t: float) -> float:
        """The argument of growth's logarithm, less 1: well above 1 growth is logarithmic, below it is still linear in Gamma."""
        kappa = self.n_classes + self.concentration
        return float(np.expm1(4 * kappa * theory.self_consistent_growth_bound(t, **self._settings)))

    @property
    def depth(self) -> float:
        """The same at t0': attention that has not left its linear start by then freezes before it has moved."""
        return self.depth_at(self.scan_time)

    def log_height(self, t: ArrayLike) -> NDArray[np.float64]:
        """ln ln(M eta_Y t / K), in which late growth is to be linear."""
        return np.log(np.log(self.n_vocab * self.lr_decoder * np.asarray(t, float) / self.n_classes))

    def entropy_lost(self, t: float, token_prob: NDArray[np.float64]) -> float:
        """Among the distinct tokens of the leader's class (nats); `token_prob` (class, token)."""
        start, end = entropy_at(np.array([0.0, float(self.growth(t))]), token_prob)
        return float(start - end)


def entropy_at(log_growth: NDArray[np.float64], token_prob: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Entropy among the distinct tokens of the leader's class once its log growth is B, by Theorem 2 alone: $dz_l/dB = f_l^2$,
    $dz_c/dB = -K(1-f_c^2)$.

    Domain: one common token, one query, classes alike. `token_prob` (class, token).
    """
    found, K = leader(token_prob), len(token_prob)
    n = found.n if found else 0
    prob, distinct = token_prob[n], theory.distinct_tokens(token_prob)[n]

    def velocity(_: float, z: NDArray[np.float64]) -> NDArray[np.float64]:
        f_squared = theory.normalised_feature(theory.limit_attention(prob, z)) ** 2
        return np.where(distinct, f_squared, np.where(prob > 0, -K * (1 - f_squared), 0.0))

    order = np.argsort(log_growth)
    path = solve_ivp(velocity, (0, log_growth[order[-1]]), np.zeros(len(prob)), t_eval=log_growth[order], rtol=1e-10, atol=1e-12).y
    entropy = saccade.measures.distinct_entropy(theory.limit_attention(prob, path.T), distinct)
    return entropy[np.argsort(order)]
