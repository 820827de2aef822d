"""Stage I of a network from its start alone: the cubic flow of three factors until it is infinite.

Its blow-up time T* and the direction v of the data give the end of stage I, T*/(ε g₀). Runs of
the network are sampled around that instant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

import saccade
from saccade.data.labelled_sequences import LabelledSequences
from saccade.engines.randomness import Purpose, generator
from saccade.measures.fits import Array
from saccade.models.attention_classifier import AttentionClassifier
from saccade.models.cubic_flow import Factors, energy, size

STEPS = "steps of gradient descent at rate 1"


def teacher_data(noise: float = 0.6) -> LabelledSequences:
    """Noisy sequences whose v and beta* differ (cosine 0.79), with a plateau that is quiet before
    attention opens.
    """
    return LabelledSequences.noisy_teacher(
        120,
        (1.5, 1.0, 0.7, 0.7),
        noise=noise,
        seed=1,
    )


def cubic_path(
    system: saccade.models.CubicFlow, tau: float, step: float = 0.1
) -> tuple[Factors, Array, Array, Array]:
    """The factors with their time t, each (time, start, ...), E, the size R, and T* = t + E^(-1/3),
    at the end right to R^-2.
    """
    names = [f"parameter_{name}" for name in Factors._fields]
    run = saccade.flow(
        system,
        times=np.arange(step, tau, step),
        method="DOP853",
        keep=names,
    )
    factors = Factors(*(run[name].values for name in names))
    E = energy(factors)
    return factors, E, size(factors), factors.clock[-1] + np.cbrt(E[-1]) ** -1


class StageOne(NamedTuple):
    """v, when stage I ends at an initial scale of one, T*/g₀, and for half of that time the same
    time and w.
    """

    direction: Array
    end: float
    half: float
    along: Array


def stage_one(data: LabelledSequences, seed: int) -> StageOne:
    """From the start alone, exponential loss."""
    start = AttentionClassifier(data, init_scale=1.0).start(generator(seed, Purpose.INITIALISATION))
    pull = (data.weight * data.label) @ data.tokens.mean(axis=1)
    slope = float(np.linalg.norm(pull))
    factors = saccade.models.CubicFlow(
        (pull / slope @ start.value)[None], start.hidden[None], start.readout[None]
    )
    path, _, _, end = cubic_path(factors, 18.0, 1.0)
    half = int(np.argmin(np.abs(path.clock[:, 0] - end / 2)))
    return StageOne(
        pull / slope, float(end[0]) / slope, float(path.clock[half, 0]) / slope, path.along[half, 0]
    )


def followed(
    system: AttentionClassifier,
    seed: int,
    keep: Sequence[str],
    until: float,
    opens: float = 0.0,
    n: int = 60,
    near: float = 0.1,
) -> xr.Dataset:
    """A run with `n` samples around the end of stage I, from which its time is counted, and as many
    around another instant.
    """
    end = stage_one(system.sequences, seed).end / system.init_scale
    times = saccade.engines.times_around(
        *{end, end + opens},
        until=end + until,
        n_times=n,
        closest=near,
    )
    run = saccade.flow(
        system,
        times=times,
        seed=seed,
        keep=keep,
    )
    return run.assign_coords(time=run.time - end)


def apart(one: Array, other: Array) -> float:
    """Relative distance."""
    return float(np.linalg.norm(one - other) / np.linalg.norm(other))
