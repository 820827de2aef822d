r"""Attention by the theory with one direction: the rank-one flow from a run's own start, laid
beside the run.

From the start's point on the manifold on, the theory's own equations are solved; nothing else of
the run is used. They hold until a second direction opens.
"""

from __future__ import annotations

import itertools

import numpy as np
import xarray as xr
from scipy.integrate import solve_ivp

from saccade.errors import InputError
from saccade.model.embedded import weights_of
from saccade.observe.fits import Array
from saccade.theory import focus_and_dilution as theory

CALLED = "theory with one direction"
MOST_EVALUATIONS = (
    50_000  # of the velocity: the default takes 2,000, a start that is not small may never end
)


def one_direction_attention(
    run: xr.Dataset, *, phi_scale: float, lr_attention: float, until: float
) -> Array:
    """Attention (time, query, token) at the times of a run; NaN after `until`, and where the theory
    has no direction to follow.
    """
    pi, t = run.stationary.values, run.time.values
    told = np.full((len(t), len(pi), len(pi)), np.nan)
    known = int(np.searchsorted(t, until, side="right"))
    settings = {
        "stationary": pi,
        "transition": run.transition.values,
        "phi_scale": phi_scale,
        "lr_attention": lr_attention,
    }
    try:
        start = theory.rank_one_start(
            *weights_of(run.isel(time=0)), stationary=pi, transition=run.transition.values
        ).state
    except InputError:  # equally frequent tokens: nothing condenses
        return told

    evaluations = itertools.count()

    def velocity(_: float, state: Array) -> Array:
        if next(evaluations) > MOST_EVALUATIONS:
            raise _TooFarError
        return np.hstack(theory.rank_one_velocity(_split(state), **settings))

    try:
        with np.errstate(all="ignore"):
            path = solve_ivp(
                velocity,
                (0, t[known - 1]),
                np.hstack(start),
                method="LSODA",
                t_eval=t[:known],
                rtol=1e-8,
                atol=1e-12,
            )
    except _TooFarError:
        return told
    for place, state in enumerate(path.y.T):
        told[place] = theory.rank_one_attention(_split(state), stationary=pi, phi_scale=phi_scale)
    return told


class _TooFarError(Exception):
    """The theory cannot be followed as far as the run."""


def _split(state: Array) -> theory.RankOneState:
    gamma, beta = np.split(state[:-2], 2)
    return theory.RankOneState(gamma, beta, float(state[-2]), float(state[-1]))
