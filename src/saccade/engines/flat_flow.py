r"""A flow on flat states, followed to times no step count could reach; Newton's method and spectra
evaluate the same compiled code.

A flow is a pair of functions of (state, setting) on a tree of parameters, velocity and loss; here a
state is one vector, in the order of `ravel_pytree`. Time is stretched, $t = u (e^s - 1)$: it starts
at 0 and is smooth in $s$ to any $t$. Late in training everything moves on the scale of $t$ itself,
so in $s$ the pairwise model's flow is not even stiff: eigenvalues of its Jacobian stay between
about -10 and 0.5 to t = 1e12 (tests/engines/test_flow.py), and LSODA, which may switch to its
stiff method with JAX's Jacobian, hardly ever does. SciPy's solver, JAX's right-hand side and
Jacobian, float64 whatever the caller's JAX is set to; the embedded model, whose flow is stiff, has
a solver of its own (`Equations.compiled`). Not here: starts, sampling times and records (`flow.py`),
critical points (`linearise.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts load when they are used
from numpy.typing import NDArray

from saccade.errors import InputError, checked_choice
from saccade.later import Array, flatten_util, jax, jnp
from saccade.models.system import Equations

_METHODS = ("auto", "LSODA", "BDF", "Radau", "DOP853")
_MOST_UNKNOWNS_FOR_A_JACOBIAN = (
    8000  # its square in float64 is 0.5 GB; beyond it the explicit DOP853 serves
)

Velocity = Callable[[Any, Any], Any]
_MOST_KEPT = (
    32  # executables of one function: as many shapes of a model as one experiment goes through
)


class Compiled:
    """A function compiled for every shape of its arguments that it meets; the last executables are
    kept, traces are not.

    As long as a trace lives, JAX knows a NumPy array that is a constant in it by the precision of
    the trace, whatever its switch says: behind `jax.jit`, a `loss` that reads a table would fail as
    soon as someone called it in another precision.
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
        found = self._executables.pop(key := (structure, kinds, jnp.result_type(float)), None)
        if found is None:
            traced_once = jax.jit(
                lambda *given: self._function(*given)
            )  # another function each time: its traces end with it
            found = traced_once.lower(*arguments).compile()
        self._executables[key] = (
            found  # at the end: the first is the one that was not used for longest
        )
        if len(self._executables) > _MOST_KEPT:
            del self._executables[next(iter(self._executables))]
        return found


class FlatFlow:
    """Velocity, loss and Jacobian of flat states like `state`. Another setting of the same shapes
    does not compile again.
    """

    def __init__(self, equations: Equations, state: Any) -> None:
        self._equations = equations
        state = jax.tree.map(lambda leaf: np.asarray(leaf, dtype=np.float64), state)
        leaves, self._structure = jax.tree.flatten(state)
        self._shapes = [leaf.shape for leaf in leaves]
        # NumPy, not `ravel_pytree`: outside compiled code JAX would compile every reshape by itself
        self.start: NDArray[np.float64] = np.concatenate([leaf.ravel() for leaf in leaves])
        self._state = state

    @cached_property
    def _around(self) -> Any:
        """A state and the setting, where compiled code reads them."""
        with jax.enable_x64(True):
            return jax.tree.map(
                lambda leaf: jax.device_put(np.asarray(leaf)),
                (self._state, self._equations.setting),
            )

    def evaluated(self, point: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Velocity and loss."""
        if self._equations.without_jax is not None:
            loss, parts = self._equations.without_jax(self.tree(point))
            return np.concatenate([np.ravel(part) for part in jax.tree.leaves(parts)]), loss
        with jax.enable_x64(True):
            found = np.asarray(self._moving(point, *self._around))
            return found[:-1], float(found[-1])

    def velocity(self, point: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.evaluated(point)[0]

    def jacobian(self, point: NDArray[np.float64]) -> NDArray[np.float64]:
        with jax.enable_x64(True):
            return np.asarray(self._bending(point, *self._around))

    @cached_property
    def _moving(self) -> Callable[..., Any]:
        return moving(self._equations.velocity, self._equations.loss).executable(
            self.start, *self._around
        )

    @cached_property
    def _bending(self) -> Callable[..., Any]:
        return bending(self._equations.velocity).executable(self.start, *self._around)

    def speed(self, point: NDArray[np.float64]) -> float:
        return float(np.linalg.norm(self.velocity(point)))

    def tree(self, points: NDArray[np.float64]) -> Any:
        """Parameters of one point, or of many along leading axes."""
        ends = np.cumsum([math.prod(shape) for shape in self._shapes])[:-1]
        parts = np.split(points, ends, axis=-1)
        leaves = [
            part.reshape(points.shape[:-1] + shape)
            for part, shape in zip(parts, self._shapes, strict=True)
        ]
        return jax.tree.unflatten(self._structure, leaves)


def no_loss(state: Any, setting: Any) -> float:
    """Of a flow that is not downhill on anything, or whose loss nobody asks for."""
    return 0.0


@lru_cache
def moving(velocity: Velocity, loss: Callable[[Any, Any], Any]) -> Compiled:
    """Both at once: they share most of their work, and a flow then needs no other program to know
    its losses. One array with the loss last: to fetch a second one takes as long as to compute
    both.
    """

    def evaluated(point: Array, state: Any, setting: Any) -> Array:
        parameters = flatten_util.ravel_pytree(state)[1](point)
        return jnp.append(
            flatten_util.ravel_pytree(velocity(parameters, setting))[0], loss(parameters, setting)
        )

    return Compiled(evaluated)


@lru_cache
def bending(velocity: Velocity) -> Compiled:
    """The Jacobian."""

    def moved(point: Array, state: Any, setting: Any) -> Array:
        parameters = flatten_util.ravel_pytree(state)[1](point)
        return flatten_util.ravel_pytree(velocity(parameters, setting))[0]

    return Compiled(jax.jacfwd(moved))


class Solution(NamedTuple):
    """States at `times` (leading axis), NaN after `stop_time` if the solver could not go on.

    `stop_time` is where a solver failed, else the last of `times` at which state and loss are
    finite.
    """

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
    part: tuple[int, int] = (0, 1),
) -> Solution:
    """Follow the equations from `start` at times[0] = 0 through `times`; t = unit (e^s - 1).
    `part`: how many of how many flows are done already, for those who are told of progress.

    Compiled code is kept for each pair of functions, so pass the same ones for another setting of
    the same shape.
    """
    if method not in _METHODS:
        checked_choice("`method`", method, _METHODS)
    flat, s_eval = FlatFlow(equations, start), np.log1p(times / unit)
    n_unknowns = len(flat.start)

    def on_log_time(s: float) -> None:
        on_progress((part[0] + min(s / s_eval[-1], 1.0)) / part[1])

    followed = None
    if method == "auto" and equations.compiled is not None:
        followed = equations.compiled(
            equations.setting,
            start,
            times,
            rtol=rtol,
            atol=atol,
            on_time=lambda t: on_log_time(np.log1p(t / unit)),
        )
    if followed is not None:
        success, (method, path, losses, n_evaluations) = True, followed
    else:
        if method == "auto":
            stiff = "LSODA" if n_unknowns <= most_for_lsoda else "BDF"
            method = stiff if n_unknowns <= _MOST_UNKNOWNS_FOR_A_JACOBIAN else "DOP853"
        solved, s_reached = _solved(flat, s_eval, unit, method, rtol, atol, on_log_time)
        path, n_evaluations, success = (
            _finite_part(solved.y.T, len(times)),
            int(solved.nfev),
            solved.success,
        )
        losses = np.array([flat.evaluated(y)[1] if np.isfinite(y).all() else np.nan for y in path])
    going = np.isfinite(path).all(axis=1) & np.isfinite(losses)
    n_reached = int(np.logical_and.accumulate(going).sum())
    reason, stop_time = "finished", float(times[max(n_reached - 1, 0)])
    if not success:
        reason, stop_time = "solver failed", float(unit * np.expm1(s_reached))
    elif n_reached < len(times):
        reason = "diverged"
    settings = {
        "method": method,
        "rtol": rtol,
        "atol": atol,
        "n_unknowns": n_unknowns,
        "n_evaluations": n_evaluations,
    }
    return Solution(times, flat.tree(path), losses, reason, stop_time, settings)


def _solved(
    flat: FlatFlow,
    s_eval: np.ndarray,
    unit: float,
    method: str,
    rtol: float,
    atol: float,
    on_log_time: Callable[[float], None],
) -> tuple[Any, float]:
    """By SciPy, in the stretched time; and how far it came."""
    s_reached = 0.0

    def right_hand_side(s: float, y: np.ndarray) -> np.ndarray:
        nonlocal s_reached
        on_log_time(s_reached := s)
        return unit * np.exp(s) * flat.velocity(y)

    if not np.isfinite(
        right_hand_side(0.0, flat.start)
    ).all():  # explicit methods would look for a first step for ever
        raise InputError(
            "the velocity at the start is not a number: `loss` must have a gradient there."
        )
    with_jacobian = (
        {} if method == "DOP853" else {"jac": lambda s, y: unit * np.exp(s) * flat.jacobian(y)}
    )
    # SciPy's BDF subtracts memory it has not written yet, into memory it will write before it is
    # used.
    with np.errstate(invalid="ignore", over="ignore"):
        solved = scipy.integrate.solve_ivp(
            right_hand_side,
            (0.0, s_eval[-1]),
            flat.start,
            method=_lsoda() if method == "LSODA" else method,
            t_eval=s_eval,
            rtol=rtol,
            atol=atol,
            **with_jacobian,
        )
    return solved, s_reached


@lru_cache
def _lsoda() -> type:
    """SciPy's LSODA, which for ever takes steps of no length where a state reaches infinity; here
    it fails at the first, as SciPy's other solvers do.
    """

    class Lsoda(scipy.integrate.LSODA):
        def _step_impl(self) -> tuple[bool, str | None]:
            before = self.t
            success, message = super()._step_impl()
            return (success, message) if self.t > before else (False, self.TOO_SMALL_STEP)

    return Lsoda


def _finite_part(path: np.ndarray, n_times: int) -> np.ndarray:
    """All rows up to the first that is missing or not finite; NaN from there on."""
    whole = np.full((n_times, path.shape[1]), np.nan)
    good = np.logical_and.accumulate(np.isfinite(path).all(axis=1))
    whole[: len(path)][good] = path[good]
    return whole
