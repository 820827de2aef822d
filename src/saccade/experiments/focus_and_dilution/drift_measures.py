"""What is read off the paths of `dilution_drift`: how fast and how far the embedding drifts, and where focus turns.

A token's embedding drifts from where it was on the plateau; in a random start it is not exactly at the stationary law there,
since nothing pulls it. Displacement and strength are both counted from the plateau on. Amplitudes are compared in the upper half
of the attention window (strength above the geometric mean of its ends), where the strength at the start no longer counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

import saccade
from saccade.experiments.focus_and_dilution import stage_fits as fits
from saccade.experiments.focus_and_dilution.stage_fits import Array
from saccade.theory import focus_and_dilution as theory

if TYPE_CHECKING:
    import xarray as xr


class Turning(NamedTuple):
    """For each token as a query: when its attention on token 0 peaks, its embedding then over the one at the unigram point, when
    that embedding crosses zero, and the strength then over the predicted one. NaN where it does not happen.
    """

    peak_time: Array
    gamma_at_peak: Array
    crossing_time: Array
    strength_over_predicted: Array


@dataclass(frozen=True)
class Case:
    """One path."""

    law: str
    start: str
    chain: saccade.MarkovChain
    time: Array
    gamma: Array  # time, token
    strength: Array
    query_size: Array
    largest_logit: Array
    on_frequent: Array  # time, query
    plateau: int

    @property
    def rate(self) -> float:
        """Predicted rate c."""
        return fits.focus_rate(self.chain)

    @property
    def window(self) -> NDArray[np.bool_]:
        return fits.attention_window(self.query_size, self.largest_logit, self.plateau)

    @property
    def window_end(self) -> int:
        """The first sample past the linear regime; the last one if it is never left."""
        return fits.first_index(self.largest_logit, fits.LINEAR)

    @property
    def upper_half(self) -> NDArray[np.bool_]:
        inside, size = self.window, np.abs(self.strength)
        ends = size[inside][[0, -1]] if inside.any() else np.array([np.nan, np.nan])
        return inside & (size >= np.sqrt(ends.prod()))

    def displacement(self) -> Array:
        """Embedding off the stationary law, less that on the plateau (time, token)."""
        off = theory.off_stationary(self.gamma, stationary=self.chain.stationary)
        return off - off[self.plateau]

    def predicted_displacement(self) -> Array:
        grown = self.strength - self.strength[self.plateau]
        pi, P = self.chain.stationary, self.chain.transition
        return theory.drift_displacement(grown, stationary=pi, transition=P)

    def exponent(self) -> float:
        """Growth rate of the displacement's norm."""
        return fits.growth_rate(self.time, np.linalg.norm(self.displacement(), axis=1), self.window)

    def combination_exponents(self) -> Array:
        """Growth rates of the paper's measure of drift, for each low token."""
        measure = np.abs(theory.two_level_combination(self.gamma, high=self.chain.stationary[0]))
        return np.array([fits.growth_rate(self.time, values, self.window) for values in measure.T])

    def amplitude_gap(self) -> float:
        """Largest relative difference between a token's displacement and the predicted one; NaN where there is no window."""
        inside = self.upper_half
        if not inside.any():
            return np.nan
        return float(np.abs(self.displacement()[inside] / self.predicted_displacement()[inside] - 1).max())

    def turning(self) -> Turning:
        """Token 0 itself keeps its focus, so its entries are NaN."""
        n, at = self.chain.n_vocab, unigram_gamma(self.chain)
        crossing = theory.crossing_strength(stationary=self.chain.stationary, transition=self.chain.transition)
        found = np.full((4, n), np.nan)
        for i in range(1, n):
            peak = fits.first_turn(self.time, np.sign(self.rate) * self.on_frequent[:, i], self.window_end)
            cross = self._crossing_time(i)
            share = np.interp(peak, self.time, self.gamma[:, i]) / at[i]
            found[:, i] = peak, share, cross, np.interp(cross, self.time, self.strength) / crossing[i]
        return Turning(*found)

    def _crossing_time(self, token: int) -> float:
        later = slice(self.window_end, None)
        return fits.reaching_time(self.time[later], -self.gamma[later, token], 0.0)


def unigram_gamma(chain: saccade.MarkovChain) -> Array:
    return theory.unigram_point(stationary=chain.stationary).gamma


def law_chains(stays: Sequence[float], high: float) -> dict[str, saccade.MarkovChain]:
    """The two laws of all stages, the two-level law, for which the paper has its own measure of drift, and a longer Zipf's law."""
    more = {
        "two-level": saccade.MarkovChain.two_level(4, high, stay=stays[0]),
        "zipf-10": saccade.MarkovChain.zipf(10, stays[1]),
    }
    return fits.chains(stays) | more


def cases(record: xr.Dataset) -> Iterator[Case]:
    settings = json.loads(record.attrs["settings"])
    chains = law_chains(settings["stays"], settings["high"])
    for i in range(record.sizes["case"]):
        one, law = record.isel(case=i), str(record.law.values[i])
        chain, n = chains[law], chains[law].n_vocab
        yield Case(
            law=law,
            start=str(one.start.item()),
            chain=chain,
            time=one.path_time.values,
            gamma=one.gamma.values[:, :n],
            strength=one.strength.values,
            query_size=one.query_size.values,
            largest_logit=one.largest_logit.values,
            on_frequent=one.on_frequent.values[:, :n],
            plateau=int(one.plateau),
        )


def case_of(record: xr.Dataset, law: str, start: str) -> Case:
    return next(case for case in cases(record) if (case.law, case.start) == (law, start))
