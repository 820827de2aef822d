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

from saccade.errors import checked_choice
from saccade.model.system import Equations

_METHODS = ("auto", "LSODA", "BDF", "Radau", "DOP853")
_TIMES_AT_ONCE = 512  # numbers of times are rounded up to these, so that flows share compiled code
_MOST_UNKNOWNS_FOR_A_JACOBIAN = 8000  # its square in float64 is 0.5 GB; beyond it the explicit DOP853 serves


class Solution(NamedTuple):
    """States at `times` (leading axis), NaN after `stop_time` if the solver could not go on."""

    times: np.ndarray
    states: Any
    loss: np.ndarray
    stop_reason: str
    stop_time: float
    settings: dict[str, Any]


def integrate(
    equations: Equations,
    start: Any,
    *,
    times: np.ndarray,
    unit: float,
    method: str,
    most_for_lsoda: int,
    rtol: float,
    atol: float,
    on_progress: Callable[[float], None],
) -> Solution:
    """Follow the equations from `start` at times[0] = 0 through `times`; t = unit (e^s - 1).

    Compiled code is kept for each pair of functions, so pass the same ones for another setting of the same shape.
    """
    checked_choice("`method`", method, _METHODS)
    with jax.enable_x64(True):
        right_hand_side, jacobian, looked_at = _compiled(equations.velocity, equations.loss)
        if equations.without_jax is not None:
            right_hand_side, looked_at = _in_numpy(equations.without_jax)
        start, setting = jax.tree.map(jnp.asarray, (start, equations.setting))
        y0 = np.asarray(ravel_pytree(start)[0])
        if method == "auto":
            stiff = "LSODA" if len(y0) <= most_for_lsoda else "BDF"
            method = stiff if len(y0) <= _MOST_UNKNOWNS_FOR_A_JACOBIAN else "DOP853"
        s_eval = np.log1p(times / unit)

        def watched(s: float, y: np.ndarray) -> np.ndarray:
            on_progress(s / s_eval[-1])
            return np.asarray(right_hand_side(s, y, start, setting, unit))

        with_jacobian = {} if method == "DOP853" else {"jac": lambda s, y: np.asarray(jacobian(s, y, start, setting, unit))}
        # SciPy's BDF subtracts memory it has not written yet, into memory it will write before it is used.
        with np.errstate(invalid="ignore", over="ignore"):
            solved = solve_ivp(watched, (0.0, s_eval[-1]), y0, method=method, t_eval=s_eval, rtol=rtol, atol=atol, **with_jacobian)
        path = _finite_part(solved.y.T, -(-len(times) // _TIMES_AT_ONCE) * _TIMES_AT_ONCE)
        states, losses = jax.tree.map(lambda part: np.asarray(part)[: len(times)], looked_at(path, start, setting))
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


def _in_numpy(step: Callable[[Any], tuple[float, Any]]) -> tuple[Any, Any]:
    """Right-hand side, and states with their losses, from a function that gives loss and velocity in NumPy."""

    def in_log_time(s: float, y: np.ndarray, start: Any, setting: Any, unit: float) -> np.ndarray:
        velocity = step(_tree(y, start))[1]
        return unit * np.exp(s) * np.concatenate([np.ravel(part) for part in jax.tree.leaves(velocity)])

    def looked_at(path: np.ndarray, start: Any, setting: Any) -> tuple[Any, np.ndarray]:
        states = [_tree(y, start) for y in path]
        losses = [step(state)[0] if np.isfinite(y).all() else np.nan for state, y in zip(states, path, strict=True)]
        return jax.tree.map(lambda *parts: np.stack(parts), *states), np.array(losses)

    return in_log_time, looked_at


def _tree(y: np.ndarray, like: Any) -> Any:
    """A flat state, in the order of `ravel_pytree`, in the shapes of another."""
    leaves, structure = jax.tree.flatten(like)
    ends = np.cumsum([leaf.size for leaf in leaves])[:-1]
    return jax.tree.unflatten(structure, [part.reshape(leaf.shape) for part, leaf in zip(np.split(y, ends), leaves, strict=True)])


def _finite_part(path: np.ndarray, n_times: int) -> np.ndarray:
    """All rows up to the first that is missing or not finite; NaN from there on."""
    whole = np.full((n_times, path.shape[1]), np.nan)
    good = np.logical_and.accumulate(np.isfinite(path).all(axis=1))
    whole[: len(path)][good] = path[good]
    return whole
