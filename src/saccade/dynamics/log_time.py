"""A stiff solver in logarithmic time: any flow on a pytree of parameters, from t = 0 to 1e12 and beyond.

SciPy's solver, JAX's right-hand side and Jacobian, float64 whatever the caller's JAX is set to.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from scipy.integrate import solve_ivp

from saccade.errors import checked_choice, checked_count, checked_number

_METHODS = ("auto", "LSODA", "BDF", "Radau", "DOP853")
_MOST_UNKNOWNS_FOR_A_JACOBIAN = 8000  # its square in float64 is 0.5 GB; beyond it the explicit DOP853 serves


class Solution(NamedTuple):
    """States at `times` (leading axis), NaN after `stop_time` if the solver could not go on."""

    times: np.ndarray
    states: Any
    loss: np.ndarray
    stop_reason: str
    stop_time: float
    settings: dict[str, Any]


def checked_rates(lr_decoder: float, lr_attention: float) -> tuple[float, float]:
    return (
        checked_number("lr_decoder", lr_decoder, low=0.0, high=1e30),
        checked_number("lr_attention", lr_attention, low=0.0, high=1e30),
    )


def solve(
    velocity: Callable[[Any, Any], Any],
    loss: Callable[[Any, Any], Any],
    start: Any,
    setting: Any,
    *,
    t1: float,
    n_times: int,
    rates: tuple[float, float],
    method: str,
    rtol: float,
    atol: float,
    on_progress: Callable[[float], None],
) -> Solution:
    """A user's settings, checked: from 0 to `t1`, looked at 0 and at `n_times` log-spaced times, in units of the larger rate."""
    end = checked_number("t1", t1, low=0.0, high=1e300, open_low=True)
    unit = min(1 / max(*rates, 1e-30), end)
    return integrate(
        velocity,
        loss,
        start,
        setting,
        times=np.append(0.0, np.geomspace(unit / 10, end, checked_count("n_times", n_times, low=2, high=1e6))),
        unit=unit,
        method=method,
        rtol=checked_number("rtol", rtol, low=1e-13, high=1e-1),
        atol=checked_number("atol", atol, low=0.0, high=1e-1, open_low=True),
        on_progress=on_progress,
    )


def integrate(
    velocity: Callable[[Any, Any], Any],
    loss: Callable[[Any, Any], Any],
    start: Any,
    setting: Any,
    *,
    times: np.ndarray,
    unit: float,
    method: str,
    rtol: float,
    atol: float,
    on_progress: Callable[[float], None],
) -> Solution:
    """Follow `velocity(state, setting)` from `start` at times[0] = 0 through `times`; t = unit (e^s - 1).

    Compiled code is kept for each pair of functions, so pass the same ones for another setting of the same shape.
    """
    checked_choice("`method`", method, _METHODS)
    with jax.enable_x64(True):
        right_hand_side, jacobian, looked_at = _compiled(velocity, loss)
        start, setting = jax.tree.map(jnp.asarray, (start, setting))
        y0 = np.asarray(ravel_pytree(start)[0])
        if method == "auto":
            method = "LSODA" if len(y0) <= _MOST_UNKNOWNS_FOR_A_JACOBIAN else "DOP853"
        s_eval = np.log1p(times / unit)

        def watched(s: float, y: np.ndarray) -> np.ndarray:
            on_progress(s / s_eval[-1])
            return np.asarray(right_hand_side(s, y, start, setting, unit))

        with_jacobian = {} if method == "DOP853" else {"jac": lambda s, y: np.asarray(jacobian(s, y, start, setting, unit))}
        # SciPy's BDF subtracts memory it has not written yet, into memory it will write before it is used.
        with np.errstate(invalid="ignore", over="ignore"):
            solved = solve_ivp(watched, (0.0, s_eval[-1]), y0, method=method, t_eval=s_eval, rtol=rtol, atol=atol, **with_jacobian)
        path = _finite_part(solved.y.T, len(times))
        states, losses = jax.tree.map(np.asarray, looked_at(path, start, setting))
    n_reached = int(np.isfinite(path).all(axis=1).sum())
    reason = "finished" if n_reached == len(times) else "diverged" if solved.success else "solver failed"
    settings = {"method": method, "rtol": rtol, "atol": atol, "n_unknowns": len(y0), "n_evaluations": int(solved.nfev)}
    return Solution(times, states, losses, reason, float(times[n_reached - 1]), settings)


@lru_cache
def _compiled(velocity: Callable[[Any, Any], Any], loss: Callable[[Any, Any], Any]) -> tuple[Any, Any, Any]:
    """Right-hand side, Jacobian, and states with their losses; `start` tells the shapes of a flat state."""

    def in_log_time(s: Array, y: Array, start: Any, setting: Any, unit: Array) -> Array:
        state = ravel_pytree(start)[1](y)
        return unit * jnp.exp(s) * ravel_pytree(velocity(state, setting))[0]

    def looked_at(path: Array, start: Any, setting: Any) -> tuple[Any, Array]:
        states = jax.vmap(ravel_pytree(start)[1])(path)
        return states, jax.vmap(lambda state: loss(state, setting))(states)

    return jax.jit(in_log_time), jax.jit(jax.jacfwd(in_log_time, argnums=1)), jax.jit(looked_at)


def _finite_part(path: np.ndarray, n_times: int) -> np.ndarray:
    """All rows up to the first that is missing or not finite; NaN from there on."""
    whole = np.full((n_times, path.shape[1]), np.nan)
    good = np.logical_and.accumulate(np.isfinite(path).all(axis=1))
    whole[: len(path)][good] = path[good]
    return whole
