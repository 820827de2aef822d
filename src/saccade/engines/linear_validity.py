r"""How long the linear flow describes a flow near a critical point: both flows from the same
displacement.

[chen2026, Lemma 3.1] bounds their distance:

$$|\Delta(t) - e^{Jt}\Delta(0)| \le C\, |\Delta(0)|^2\, e^{2\mu t},$$

with $\mu$ the largest growth rate at the critical point. Where the velocity has no quadratic term,
at the origin of the embedded model say, it is smaller still. The displacement itself is integrated,
not the state, so that rounding does not swallow it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import expm

from saccade.engines.flat_flow import Velocity, integrate, no_loss
from saccade.engines.linearise import is_symmetric, jacobian, modes
from saccade.errors import InputError, checked_number
from saccade.later import jax, jnp
from saccade.models.system import Equations

_RTOL = 1e-12


class LinearValidity(NamedTuple):
    """Full and linear flow from one displacement.

    | field         | axes            | meaning                                                                     |
    |---------------|-----------------|-----------------------------------------------------------------------------|
    | `times`       | time            | from 0                                                                      |
    | `full`        | time, parameter | displacement in the full flow; NaN from where the solver could not go on    |
    | `linear`      | time, parameter | the same in the linear flow                                                 |
    | `error`       | time            | norm of their difference                                                    |
    | `relative`    | time            | `error` over the norm of `linear`                                           |
    | `growth_rate` |                 | mu: the largest real part of the Jacobian's eigenvalues                     |
    | `constant`    |                 | C of Lemma 3.1 as these times have it: the largest error / (eps^2 e^(2 mu t)) |
    | `valid_until` |                 | first time at which `relative` exceeds `fraction`; infinity if none does    |
    """

    times: NDArray[np.float64]
    full: NDArray[np.float64]
    linear: NDArray[np.float64]
    error: NDArray[np.float64]
    relative: NDArray[np.float64]
    growth_rate: float
    constant: float
    valid_until: float


def linear_validity(
    velocity: Velocity,
    state: Any,
    displacement: Any,
    setting: Any,
    times: ArrayLike,
    *,
    fraction: float = 0.1,
) -> LinearValidity:
    """Follow `displacement` from the critical point `state`; both are trees of the same shape,
    `times` rise from 0.
    """
    rising = np.asarray(times, dtype=np.float64)
    if (
        rising.ndim != 1
        or len(rising) < 2
        or rising[0] != 0
        or not (np.diff(rising) > 0).all()
        or not np.isfinite(rising).all()
    ):
        raise InputError(
            "`times` must be at least two finite numbers that start at 0 and increase."
        )
    times = rising
    fraction = checked_number("fraction", fraction, low=0.0, open_low=True)
    J = jacobian(velocity, state, setting)
    start = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(displacement)]).astype(
        np.float64
    )
    size = float(np.linalg.norm(start))
    if not 0 < size < np.inf:
        raise InputError(
            "`displacement` must be finite and not all zero: nothing moves at the critical point itself."
        )
    full = _displaced_flow(
        velocity, state, displacement, setting, times, rtol=_RTOL, atol=_RTOL * size
    )
    if is_symmetric(J):
        # Diagonalised once for all times; other Jacobians may have no basis of eigenvectors.
        values, vectors = modes(J)
        linear = (np.exp(np.outer(times, values)) * (vectors.T @ start)) @ vectors.T
    else:
        linear = np.stack([expm(J * t) @ start for t in times])
    error = np.linalg.norm(full - linear, axis=1)
    relative = error / np.linalg.norm(linear, axis=1)
    mu = float(modes(J)[0][0].real)
    bound = error / (size**2 * np.exp(2 * max(mu, 0.0) * times))
    return LinearValidity(
        times,
        full,
        linear,
        error,
        relative,
        mu,
        float(np.nanmax(bound)),
        _first_above(times, relative, fraction),
    )


def _displaced_flow(
    velocity: Velocity,
    state: Any,
    displacement: Any,
    setting: Any,
    times: NDArray,
    *,
    rtol: float,
    atol: float,
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
    return np.concatenate(
        [np.reshape(leaf, (len(times), -1)) for leaf in jax.tree.leaves(solution.states)], axis=1
    )


@lru_cache
def _around(velocity: Velocity) -> Velocity:
    """Velocity of a displacement; one function for each velocity, so that it is compiled once."""

    def displaced(displacement: Any, around: tuple[Any, Any]) -> Any:
        state, setting = around
        return velocity(jax.tree.map(jnp.add, state, displacement), setting)

    return displaced


def _first_above(times: NDArray, relative: NDArray, fraction: float) -> float:
    """Interpolated in the logarithm of the error, which grows exponentially."""
    above = np.nonzero(~(relative <= fraction))[0]
    if len(above) == 0:
        return float("inf")
    i = int(above[0])
    if i == 0 or not (np.isfinite(relative[i]) and relative[i - 1] > 0):
        return float(times[i])
    return float(np.interp(np.log(fraction), np.log(relative[i - 1 : i + 1]), times[i - 1 : i + 1]))
