"""What theory says of one case of scan-then-snap, with the case's numbers filled in."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import cumulative_trapezoid

from saccade.experiments.scan_and_snap.log_growth import entropy_at
from saccade.theory import scan_and_snap as theory

if TYPE_CHECKING:
    import xarray as xr


DEPTH = 10.0  # how far above 1 the argument of growth's logarithm must be by t0' for growth to have been logarithmic at all


@dataclass(frozen=True)
class CaseTheory:
    """One task at one pair of rates. Where nothing overlaps, every curve is missing."""

    n_classes: int
    n_vocab: int
    lr_decoder: float
    lr_attention: float
    normaliser: float
    concentration: float

    @classmethod
    def of(cls, record: xr.Dataset, case: int) -> CaseTheory:
        return cls(**{name: record[name].values[case].item() for name in cls.__dataclass_fields__})

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

    def depth_at(self, t: float) -> float:
        """The argument of growth's logarithm, less 1: well above 1 growth is logarithmic, below it is still linear in Gamma."""
        kappa = self.n_classes + self.concentration
        return float(np.expm1(4 * kappa * theory.self_consistent_growth_bound(t, **self._settings)))

    @property
    def depth(self) -> float:
        """The same at t0': attention that has not left its linear start by then freezes before it has moved."""
        return self.depth_at(self.scan_time)

    def printed_growth(self, t: ArrayLike) -> NDArray[np.float64]:
        """Theorem 4's B. Its rate is eta_Z / K, as training steps count it, so that only its own factor K is in question."""
        constant = theory.overlap_constant(self.normaliser, n_classes=self.n_classes)
        return theory.growth_bound(t, **self.clock, lr_attention=self.lr_attention / self.n_classes, overlap_constant=constant)

    def plain_growth(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        """B under plain descent while the overlap is still what it was at the start; t starts at 0."""
        K, rho = self.n_classes, self.normaliser**-2
        coupling = theory.plain_backprop(t, overlap=rho, **self.clock).other
        return cumulative_trapezoid(self.lr_attention / K * (K - 1) * rho * coupling, t, initial=0.0)

    def log_height(self, t: ArrayLike) -> NDArray[np.float64]:
        """ln ln(M eta_Y t / K), in which late growth is to be linear."""
        return np.log(np.log(self.n_vocab * self.lr_decoder * np.asarray(t, float) / self.n_classes))

    def entropy_lost(self, t: float, record: xr.Dataset) -> float:
        """By Theorem 2 from `growth`, among the distinct tokens of the leader's class."""
        growth = np.array([0.0, float(self.growth(t))])
        start, end = entropy_at(growth, token_prob=_class_table(record))
        return float(start - end)

    @staticmethod
    def n_distinct(record: xr.Dataset) -> int:
        """Distinct tokens of the leader's class."""
        return int(theory.distinct_tokens(_class_table(record))[0].sum())


def _class_table(record: xr.Dataset) -> NDArray[np.float64]:
    return np.array(json.loads(record.attrs["token_prob"]))
