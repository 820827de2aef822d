"""Stage I, followed and foretold: the cubic flow to its end, and from it when stage I of a network is over."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import xarray as xr

import saccade
from saccade.data.labelled_sequences import LabelledSequences
from saccade.dynamics.randomness import Purpose, generator
from saccade.model.attention_classifier import AttentionClassifier
from saccade.model.cubic_flow import Factors, energy, size
from saccade.observe.fits import Array


class Path(NamedTuple):
    """The factors and their own time t, each (time, start, ...), E, the size R, and T* of each start: what is left of the time at
    size R is E^(-1/3), to a share of R^-2.
    """

    factors: Factors
    energy: Array
    size: Array
    end: Array


def cubic_path(system: saccade.CubicFlow, tau: float, step: float = 0.1) -> Path:
    names = [f"parameter_{name}" for name in Factors._fields]
    run = saccade.flow(system, times=np.arange(step, tau, step), method="DOP853", keep=names)
    factors = Factors(*(run[name].values for name in names))
    E = energy(factors)
    return Path(factors, E, size(factors), factors.clock[-1] + np.cbrt(E[-1]) ** -1)


class StageOne(NamedTuple):
    """`direction` v; `slope` g_0; `factors_time` T* in units of the initial scale."""

    direction: Array
    slope: float
    factors_time: float

    def time(self, eps: float) -> float:
        return self.factors_time / (eps * self.slope)


@lru_cache(maxsize=16)
def stage_one(data: LabelledSequences, seed: int) -> StageOne:
    """From the start alone, exponential loss; the same for every initial scale."""
    start = AttentionClassifier(data, init_scale=1.0).start(generator(seed, Purpose.INITIALISATION))
    pull = (data.weight * data.label) @ data.tokens.mean(axis=1)
    slope = float(np.linalg.norm(pull))
    factors = saccade.CubicFlow((pull / slope @ start.value)[None], start.hidden[None], start.readout[None])
    return StageOne(pull / slope, slope, float(cubic_path(factors, 18.0, 1.0).end[0]))


def followed(
    system: AttentionClassifier,
    seed: int,
    keep: Sequence[str],
    *,
    until: float,
    opens: float = 0.0,
    n_times: int = 60,
    near: float = 0.1,
) -> xr.Dataset:
    """A run with samples around the end of stage I, from which its time is counted, and around another instant."""
    end = stage_one(system.sequences, seed).time(system.init_scale)
    times = saccade.times_around(*{end, end + opens}, until=end + until, n_times=n_times, closest=near)
    run = saccade.flow(system, times=times, seed=seed, keep=keep)
    return run.assign_coords(time=run.time - end)
