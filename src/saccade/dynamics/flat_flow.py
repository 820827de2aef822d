r"""A flow on flat states: what the driver of flows, Newton's method and spectra all evaluate, compiled once for all of them.

A flow is a pair of functions of (state, setting) on a tree of parameters, velocity and loss; here a state is one vector, in the
order of `ravel_pytree`. Float64 whatever the caller's JAX is set to. Not here: what is done with it (`flow.py`, `linearise.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from saccade.model.system import Equations

Velocity = Callable[[Any, Any], Any]


class Compiled:
    """A function compiled for every shape of its arguments that it meets; executables are kept, traces are not.

    As long as a trace lives, JAX knows a NumPy array that is a constant in it by the precision of the trace, whatever its switch
    says: behind `jax.jit`, a `loss` that reads a table would fail as soon as someone called it in another precision.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._executables: dict[Any, Callable[..., Any]] = {}

    def __len__(self) -> int:
        return len(self._executables)

    def __call__(self, *arguments: Any) -> Any:
        return self.executable(*arguments)(*arguments)

    def executable(self, *arguments: Any) -> Callable[..., Any]:
        """For arguments of these shapes, in the precision that JAX is set to."""
        leaves, structure = jax.tree.flatten(arguments)
        kinds = tuple((np.shape(leaf), getattr(leaf, "dtype", type(leaf))) for leaf in leaves)
        if (key := (structure, kinds, jnp.result_type(float))) not in self._executables:
            traced_once = jax.jit(lambda *given: self._function(*given))  # another function each time: its traces end with it
            self._executables[key] = traced_once.lower(*arguments).compile()
        return self._executables[key]


class FlatFlow:
    """Velocity, loss and Jacobian of flat states like `state`. Another setting of the same shapes does not compile again."""

    def __init__(self, equations: Equations, state: Any) -> None:
        self._equations = equations
        state = jax.tree.map(lambda leaf: np.asarray(leaf, dtype=np.float64), state)
        leaves, self._structure = jax.tree.flatten(state)
        self._shapes = [leaf.shape for leaf in leaves]
        # NumPy, not `ravel_pytree`: outside compiled code JAX would compile every reshape by itself
        self.start: NDArray[np.float64] = np.concatenate([leaf.ravel() for leaf in leaves])
        with jax.enable_x64(True):
            self._around = jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf)), (state, equations.setting))

    def evaluated(self, point: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Velocity and loss."""
        if self._equations.without_jax is not None:
            loss, parts = self._equations.without_jax(self.tree(point))
            return np.concatenate([np.ravel(part) for part in jax.tree.leaves(parts)]), loss
        with jax.enable_x64(True):
            velocity, loss = self._moving(point, *self._around)
            return np.asarray(velocity), float(loss)

    def velocity(self, point: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.evaluated(point)[0]

    def jacobian(self, point: NDArray[np.float64]) -> NDArray[np.float64]:
        with jax.enable_x64(True):
            return np.asarray(self._bending(point, *self._around))

    @cached_property
    def _moving(self) -> Callable[..., Any]:
        return moving(self._equations.velocity, self._equations.loss).executable(self.start, *self._around)

    @cached_property
    def _bending(self) -> Callable[..., Any]:
        return bending(self._equations.velocity).executable(self.start, *self._around)

    def speed(self, point: NDArray[np.float64]) -> float:
        return float(np.linalg.norm(self.velocity(point)))

    def tree(self, points: NDArray[np.float64]) -> Any:
        """Parameters of one point, or of many along leading axes."""
        ends = np.cumsum([math.prod(shape) for shape in self._shapes])[:-1]
        parts = np.split(points, ends, axis=-1)
        leaves = [part.reshape(points.shape[:-1] + shape) for part, shape in zip(parts, self._shapes, strict=True)]
        return jax.tree.unflatten(self._structure, leaves)


def no_loss(state: Any, setting: Any) -> float:
    """Of a flow that is not downhill on anything, or whose loss nobody asks for."""
    return 0.0


@lru_cache
def moving(velocity: Velocity, loss: Callable[[Any, Any], Any]) -> Compiled:
    """Both at once: they share most of their work, and a flow then needs no other program to know its losses."""

    def evaluated(point: Array, state: Any, setting: Any) -> tuple[Array, Any]:
        parameters = ravel_pytree(state)[1](point)
        return ravel_pytree(velocity(parameters, setting))[0], loss(parameters, setting)

    return Compiled(evaluated)


@lru_cache
def bending(velocity: Velocity) -> Compiled:
    """The Jacobian."""

    def moved(point: Array, state: Any, setting: Any) -> Array:
        return ravel_pytree(velocity(ravel_pytree(state)[1](point), setting))[0]

    return Compiled(jax.jacfwd(moved))
