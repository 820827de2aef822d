"""Flows of a chain with one frequent token out of its degenerate point: when a second direction is there, how low tokens part."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import saccade
from saccade.experiments.focus_and_dilution import openings
from saccade.theory import focus_and_dilution as theory

Array = NDArray[np.float64]
ESCAPED = 0.2  # s2 / s1 at which the flow counts as having left
_PARTING = 1e-3  # spread of the low tokens at which its growth is looked at: far above the start 1e-5, far below their size of 0.5


class Escape(NamedTuple):
    """One flow. `ratio` is s2 / s1 of the embedding, `spread` the standard deviation of low tokens along its first direction."""

    escape_time: float  # infinite if it did not leave
    time: Array
    ratio: Array
    spread: Array
    loss_gap: Array
    self_attention: Array


def escape(chain: saccade.MarkovChain, *, init_scale: float, seed: int, t1: float, n_times: int) -> Escape:
    model = saccade.Embedded(init_scale=init_scale)
    run = saccade.flow(chain, t1=t1, n_times=n_times, model=model, seeds=[seed]).isel(seed=0)
    path = openings.path_of(run)
    along = np.einsum("tiw,tw->ti", path.weights[0], path.directions[:, 0])
    return Escape(
        escape_time=_rise_time(path),
        time=path.time,
        ratio=openings.relative_size(path, 1),
        spread=along[:, 1:].std(axis=1),
        loss_gap=run.loss.values - chain.optimal_loss,
        self_attention=run.attention.values[:, 0, 0],
    )


def _rise_time(path: openings.Path) -> float:
    """Interpolated between samples; before condensation all directions are alike, which is no escape."""
    i = openings.opening_index(path, 1, ESCAPED)
    if i is None:
        return float("inf")
    two = slice(i - 1, i + 1)
    return float(np.interp(ESCAPED, openings.relative_size(path, 1)[two], path.time[two]))


def patience(chain: saccade.MarkovChain, *, rate: float, init_scale: float) -> float:
    """An end that leaves time for all stages to grow from the start to size one, and an e-fold more."""
    return (np.log(1 / init_scale) + 1) * time_per_fold(chain, rate=rate)


def time_per_fold(chain: saccade.MarkovChain, *, rate: float) -> float:
    """How much later a flow leaves per e-fold of a smaller start: each of its three stages starts from smaller weights."""
    first = theory.condensation_slope(stationary=chain.stationary)
    second = theory.focus_slope(rate=theory.focus_rate(stationary=chain.stationary, transition=chain.transition))
    return first + second + 1 / rate


class Parting(NamedTuple):
    """Growth rate of the spread of low tokens, and what theory says for the degenerate point the flow is at."""

    rate: float
    predicted: float


def parting(run: Escape, *, high: float, n_vocab: int, stay: float) -> Parting:
    """Where the spread rises through `_PARTING` after it was smallest; NaN where it does not."""
    settled = int(np.argmax(run.ratio < ESCAPED))
    lowest = settled + int(np.argmin(run.spread[settled:]))
    risen = np.flatnonzero((run.spread >= _PARTING) & (np.arange(len(run.spread)) > lowest))
    if not len(risen) or risen[0] + 1 >= len(run.time):
        return Parting(np.nan, np.nan)
    i = int(risen[0])
    near = slice(i - 1, i + 2)
    point = theory.degenerate_point(high=high, n_vocab=n_vocab, stay=stay, high_attention=float(run.self_attention[i]))
    return Parting(
        rate=float(np.gradient(np.log(run.spread[near]), run.time[near])[1]),
        predicted=-float(np.linalg.eigvalsh(theory.symmetry_hessian(point))[0]),
    )
