"""When stage I of a network is over, predicted from its start: the blow-up time of the cubic flow in the network's own time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

import saccade
from saccade.dynamics.randomness import Purpose, generator
from saccade.model.attention_classifier import AttentionClassifier
from saccade.observe.fits import Array

_SLOPE_AT_ZERO = {"exponential": 1.0, "logistic": 0.5}


class StageOne(NamedTuple):
    """`direction` v; `slope` g_0; `factors_time` T* in units of the initial scale; `time` T* / (eps g_0)."""

    direction: Array
    slope: float
    factors_time: float
    time: float


def stage_one(system: AttentionClassifier, seed: int) -> StageOne:
    data, start, eps = system.sequences, system.start(generator(seed, Purpose.INITIALISATION)), system.init_scale
    pull = (data.weight * data.label) @ data.tokens.mean(axis=1) * _SLOPE_AT_ZERO[system.loss_kind]
    slope = float(np.linalg.norm(pull))
    end = blow_up_time((pull / slope) @ start.value / eps, start.hidden / eps, start.readout / eps)
    return StageOne(pull / slope, slope, end, end / (eps * slope))


def followed(
    system: AttentionClassifier, seed: int, keep: Sequence[str], *, until: float, opens: float | None = None, n_times: int = 60
) -> tuple[xr.Dataset, StageOne]:
    """A run with samples around the end of stage I, from which its time is counted, and around a later instant."""
    first = stage_one(system, seed)
    instants = [first.time] if opens is None else [first.time, first.time + opens]
    times = saccade.times_around(*instants, until=first.time + until, n_times=n_times)
    run = saccade.flow(system, times=times, seed=seed, keep=keep)
    return run.assign_coords(time=run.time - first.time), first


def blow_up_time(along: Array, hidden: Array, readout: Array) -> float:
    """T* of one start of the cubic flow: what is left at size R is E^(-1/3), to a share of R^-2."""
    factors = saccade.CubicFlow(*(np.asarray(part)[None] for part in (along, hidden, readout)))
    run = saccade.flow(factors, times=np.arange(1.0, 18.0), method="DOP853", keep=["parameter_clock", "energy"])
    return float(run.parameter_clock[-1, 0]) + float(np.cbrt(run.energy[-1, 0])) ** -1
