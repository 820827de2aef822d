r"""How long the linear flow describes a flow near a critical point: both flows from the same displacement.

[chen2026, Lemma 3.1] bounds their distance:

$$|\Delta(t) - e^{Jt}\Delta(0)| \le C\, |\Delta(0)|^2\, e^{2\mu t},$$

with $\mu$ the largest growth rate at the critical point. Where the velocity has no quadratic term, at the origin of the embedded
model say, it is smaller still. The displacement itself is integrated, not the state, so that rounding does not swallow it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

from saccade.dynamics.flat_flow import Velocity, integrate, no_loss
from saccade.dynamics.linearise import is_symmetric, jacobian, modes
from saccade.later import jax, jnp
from saccade.model.system import Equations

_RTOL = 1e-12


class LinearValidity(NamedTuple):
    """Full and linear flow from one displacement.

    | field    | axes            | meaning                                                                  |
    |----------|-----------------|--------------------------------------------------------------------------|
    | `full`   | time, parameter | displacement in the full flow; NaN from where the solver could not go on |
    | `linear` | time, parameter | the same in the linear flow                                              |
    | `error`  | time            | norm of their difference                                                 |
    """

    full: NDArray[np.float64]
    linear: NDArray[np.float64]
    error: NDArray[np.float64]


def linear_validity(velocity: Velocity, state: Any, displacement: Any, setting: Any, times: NDArray[np.float64]) -> LinearValidity:
    """Follow `displacement` from the critical point `state`; both are trees of the same shape, `times` rise from 0."""
    start = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(displacement)]).astype(np.float64)
    full = _displaced_flow(velocity, state, displacement, setting, times, rtol=_RTOL, atol=_RTOL * float(np.linalg.norm(start)))
    linear = _linear_flow(jacobian(velocity, state, setting), start, times)
    return LinearValidity(full, linear, np.linalg.norm(full - linear, axis=1))


def _linear_flow(J: NDArray[np.float64], start: NDArray[np.float64], times: NDArray[np.float64]) -> NDArray[np.float64]:
    if is_symmetric(J):  # diagonalised once for all times; other Jacobians may have no basis of eigenvectors
        values, vectors = modes(J)
        return (np.exp(np.outer(times, values)) * (vectors.T @ start)) @ vectors.T
    return np.stack([expm(J * t) @ start for t in times])


def _displaced_flow(
    velocity: Velocity, state: Any, displacement: Any, setting: Any, times: NDArray, *, rtol: float, atol: float
) -> NDArray[np.float64]:
    solution = integrate(
        Equations(_around(velocity), no_loss, (state, setting)),
        displacement,
        times=times,
        unit=float(times[-1]),
        method="auto",
        most_for_lsoda=8000,
        rtol=rtol,
        atol=atol,
        on_progress=lambda fraction: None,
    )
    return np.concatenate([np.reshape(leaf, (len(times), -1)) for leaf in jax.tree.leaves(solution.states)], axis=1)


@lru_cache
def _around(velocity: Velocity) -> Velocity:
    """Velocity of a displacement; one function for each velocity, so that it is compiled once."""

    def displaced(displacement: Any, around: tuple[Any, Any]) -> Any:
        state, setting = around
        return velocity(jax.tree.map(jnp.add, state, displacement), setting)

    return displaced
