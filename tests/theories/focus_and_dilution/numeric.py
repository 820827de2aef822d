"""Numerical truth for the closed forms: Jacobians by differences and flows by integration, of
velocities tested on their own.
"""

import numpy as np
from scipy.integrate import solve_ivp

from saccade.theories.focus_and_dilution import RankOneState, rank_one_velocity, weight_velocities

STEP = 1e-5
NUMERIC = 1e-9  # a central difference at this step: truncation 1e-10 times third derivatives of about 1, rounding 1e-11


def flatten(parts):
    return np.concatenate([np.ravel(part) for part in parts])


def unflatten(flat, like):
    cuts = np.cumsum([np.size(part) for part in like])[:-1]
    return [
        part.reshape(np.shape(old)) for part, old in zip(np.split(flat, cuts), like, strict=True)
    ]


def jacobian(function, point):
    """Of a vector function, column by column of the flat point."""
    moves = STEP * np.eye(len(point))
    return np.stack(
        [(function(point + move) - function(point - move)) / (2 * STEP) for move in moves], axis=1
    )


def _flow(velocity, start, times):
    path = solve_ivp(
        lambda _t, flat: flatten(velocity(unflatten(flat, start))),
        (0, times[-1]),
        flatten(start),
        t_eval=times,
        method="LSODA",
        rtol=1e-11,
        atol=1e-15,
    )
    return [unflatten(flat, start) for flat in path.y.T]


def weight_flow(weights, times, **settings):
    """The population flow at increasing times, as lists of the four matrices."""
    return _flow(lambda w: weight_velocities(*w, **settings), list(weights), times)


def rank_one_flow(state, times, **settings):
    """The reduced flow at increasing times, as states."""
    path = _flow(lambda s: rank_one_velocity(RankOneState(*s), **settings), list(state), times)
    return [RankOneState(gamma, beta, float(l_q), float(l_k)) for gamma, beta, l_q, l_k in path]
