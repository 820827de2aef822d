r"""Gradient flow of any system to times no step count could reach, in logarithmic time.

Time is stretched, $t = u (e^s - 1)$ with $u$ the inverse of the largest rate: starts at 0, and is smooth in $s$ to any $t$. Late in
training everything moves on the scale of $t$ itself, so in $s$ the pairwise model's flow is not even stiff: eigenvalues of its
Jacobian stay between about -10 and 0.5 to t = 1e12 (tests/dynamics/test_flow.py), and LSODA, which may switch to its stiff method
with JAX's Jacobian, hardly ever does. SciPy's solver, JAX's right-hand side and Jacobian, float64 whatever the caller's JAX is set
to. Not here: what moves and how (`model/`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import Array
from jax.flatten_util import ravel_pytree
from scipy.integrate import solve_ivp

from saccade.dynamics.randomness import Purpose, checked_seeds, generator
from saccade.dynamics.trajectory import trajectory
from saccade.errors import InputError, checked_choice, checked_count, checked_list, checked_number
from saccade.model.system import Equations, Solver, System, rates_by_leaf

_METHODS = ("auto", "LSODA", "BDF", "Radau", "DOP853")
_TIMES_AT_ONCE = 512  # numbers of times are rounded up to these, so that flows share compiled code
_MOST_UNKNOWNS_FOR_A_JACOBIAN = 8000  # its square in float64 is 0.5 GB; beyond it the explicit DOP853 serves


def flow(
    system: System,
    *,
    t1: float | None = None,
    n_times: int | None = None,
    times: Sequence[float] | np.ndarray | None = None,
    seeds: int | Sequence[int] | None = None,
    seed: int | None = None,
    start: Any = None,
    method: str = "auto",
    rtol: float | None = None,
    atol: float | None = None,
    keep: Sequence[str] | None = None,
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> xr.Dataset:
    """From t = 0 to `t1`, recorded at 0 and at `n_times` log-spaced times, or at given `times`; arguments as in `saccade.flow`."""
    began = time.perf_counter()
    asked = _asked(system.solver, t1=t1, n_times=n_times, rtol=rtol, atol=atol)
    kept = system.kept(keep)
    names, runs = _runs(system, seeds, seed)
    starts = _starts(system, names, start)
    own_unit = _unit(system, starts[0])
    samples, unit = _samples(asked, own_unit) if times is None else _given_samples(times, t1, n_times, own_unit)
    solutions = [
        integrate(
            system.equations(),
            first,
            times=samples,
            unit=unit,
            method=method,
            most_for_lsoda=asked.most_for_lsoda,
            rtol=asked.rtol,
            atol=asked.atol,
            on_progress=lambda fraction, done=done: on_progress((done + fraction) / len(starts)),  # type: ignore[misc]
        )
        for done, first in enumerate(starts)
    ]
    series = [system.observe_path(solution.states, kept) for solution in solutions]

    def joined(parts: Sequence[Any]) -> Any:
        return np.stack(parts) if runs else parts[0]

    return trajectory(
        system,
        dynamics=system.label("B: population gradient flow"),
        times=solutions[0].times,
        time_unit=system.time_unit,
        runs=runs,
        loss=joined([solution.loss for solution in solutions]),
        stop_reason=joined([solution.stop_reason for solution in solutions]),
        stop_time=joined([solution.stop_time for solution in solutions]),
        seen=jax.tree.map(lambda *parts: joined(parts), *series),
        config=system.config()
        | {"seeds": names, "start": "its own" if start is None else "given", "solver": solutions[0].settings},
        wall_time=time.perf_counter() - began,
    )


def _asked(usual: Solver, **given: float | None) -> Solver:
    """How the flow is followed: as the caller says, else as is usual for the system."""
    chosen = usual._asdict() | {name: value for name, value in given.items() if value is not None}
    return usual._replace(
        t1=checked_number("t1", chosen["t1"], low=0.0, high=1e300, open_low=True),
        n_times=checked_count("n_times", chosen["n_times"], low=2, high=1e6),
        rtol=checked_number("rtol", chosen["rtol"], low=1e-13, high=1e-1),
        atol=checked_number("atol", chosen["atol"], low=0.0, high=1e-1, open_low=True),
    )


def _unit(system: System, start: Any) -> float:
    """Time in which the fastest block moves as in a step of descent at rate 1."""
    return 1 / max(*jax.tree.leaves(rates_by_leaf(system, start)), 1e-30)


def shared_times(systems: Sequence[System], t1: float | None = None, n_times: int | None = None) -> np.ndarray:
    """The times at which a flow of the fastest of these systems is recorded, for all of them."""
    asked = [_asked(system.solver, t1=t1, n_times=n_times) for system in systems]
    unit = min(_unit(system, system.start(generator(0, Purpose.INITIALISATION))) for system in systems)
    return _samples(max(asked, key=lambda one: one.t1), unit)[0]


def _samples(asked: Solver, unit: float) -> tuple[np.ndarray, float]:
    """Zero and log-spaced times, and the unit of time."""
    unit = min(unit, asked.t1)
    return np.append(0.0, np.geomspace(unit / 10, asked.t1, asked.n_times)), unit


def _given_samples(times: Any, t1: float | None, n_times: int | None, unit: float) -> tuple[np.ndarray, float]:
    """Zero and the times that were asked for."""
    if t1 is not None or n_times is not None:
        raise InputError("`times` says when to record: leave out `t1` and `n_times`.")
    listed = times.tolist() if isinstance(times, np.ndarray) else times
    asked = np.asarray(checked_list("times", listed, low=0.0, high=1e300))
    if not (np.diff(asked) > 0).all() or asked[-1] == 0:
        raise InputError("`times` must rise from one to the next, and end after 0.")
    return asked if asked[0] == 0 else np.append(0.0, asked), min(unit, float(asked[-1]))


def times_around(*instants: float, until: float, n_times: int = 100, closest: float = 0.1) -> np.ndarray:
    """Times for `flow(times=...)` that crowd around instants at which something is predicted to happen.

    | argument   | meaning                                                                                                 |
    |------------|---------------------------------------------------------------------------------------------------------|
    | `instants` | when it should happen                                                                                   |
    | `until`    | end of the flow                                                                                         |
    | `n_times`  | samples on each side of each instant; their distances from it grow by a constant factor                 |
    | `closest`  | distance of the nearest ones; each instant is a sample itself                                           |

    Log-spaced times are as far apart as 1 % of t or so: of a change that takes one unit of time at t = 10,000 they show nothing.
    """
    end = checked_number("until", until, low=0.0, high=1e300, open_low=True)
    near = checked_number("closest", closest, low=0.0, high=end, open_low=True)
    count = checked_count("n_times", n_times, low=2, high=1e6)
    found = [np.array([end])]
    for instant in instants:
        at = checked_number("instants", instant, low=0.0, high=end, open_low=True)
        before = at - np.geomspace(min(near, at), at, count)
        after = at + np.geomspace(near, max(end - at, near), count)
        found.append(np.concatenate([before, [at], after]))
    every = np.unique(np.concatenate(found))
    return every[(every > 0) & (every <= end)]


def _runs(system: System, seeds: Any, seed: Any) -> tuple[list[int], dict[str, list[int]]]:
    """Seeds, and the axis they make: one `seed` makes none."""
    if seeds is not None and seed is not None:
        raise InputError("`seed` is for one run and `seeds` for several: give one of them.")
    seeds = system.seeds if seeds is None and seed is None else seeds
    if seeds is None:
        return checked_seeds([0 if seed is None else seed]), {}
    names = checked_seeds(seeds)
    return names, {"seed": names}


def _starts(system: System, seeds: list[int], start: Any) -> list[Any]:
    if start is None:
        return [system.start(generator(seed, Purpose.INITIALISATION)) for seed in seeds]
    if len(seeds) > 1:
        raise InputError("`start` gives the one place to begin from: leave `seeds` at 1.")
    return [checked_parameters("start", system, start)]


def checked_parameters(name: str, system: System, given: Any) -> Any:
    """`given` in float64, if it is parameters of the system."""
    wanted = system.start(generator(0, Purpose.INITIALISATION))
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(wanted)]
    try:
        leaves = [np.asarray(leaf, dtype=np.float64) for leaf in jax.tree.leaves(given)]
    except (TypeError, ValueError):
        leaves = []
    if [leaf.shape for leaf in leaves] != shapes:
        raise InputError(
            f"`{name}` must be a {type(wanted).__name__} of the shapes {shapes}; got {[leaf.shape for leaf in leaves]}."
        )
    if not all(np.isfinite(leaf).all() for leaf in leaves):
        raise InputError(f"`{name}` must be finite.")
    return jax.tree.unflatten(jax.tree.structure(wanted), leaves)


class Solution(NamedTuple):
    """States at `times` (leading axis), NaN after `stop_time` if the solver could not go on; until then the loss is finite too."""

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
        in_log_time, jacobian, looked_at = _compiled(equations.velocity, equations.loss)
        start, setting = jax.tree.map(jnp.asarray, (start, equations.setting))
        y0 = np.asarray(ravel_pytree(start)[0], dtype=np.float64)  # as SciPy gives it back, of a start in float32 too
        if equations.without_jax is not None:
            right_hand_side, looked_at = _in_numpy(equations.without_jax)
        else:
            right_hand_side = in_log_time.executable(0.0, y0, start, setting, unit)
        if method == "auto":
            stiff = "LSODA" if len(y0) <= most_for_lsoda else "BDF"
            method = stiff if len(y0) <= _MOST_UNKNOWNS_FOR_A_JACOBIAN else "DOP853"
        s_eval = np.log1p(times / unit)

        def watched(s: float, y: np.ndarray) -> np.ndarray:
            on_progress(s / s_eval[-1])
            return np.asarray(right_hand_side(float(s), y, start, setting, unit))

        if not np.isfinite(watched(0.0, y0)).all():  # explicit methods would look for a first step for ever
            raise InputError("the velocity is not a number at the start: `loss` must have a slope there.")
        with_jacobian = {} if method == "DOP853" else {"jac": lambda s, y: np.asarray(jacobian(float(s), y, start, setting, unit))}
        # SciPy's BDF subtracts memory it has not written yet, into memory it will write before it is used.
        with np.errstate(invalid="ignore", over="ignore"):
            solved = solve_ivp(watched, (0.0, s_eval[-1]), y0, method=method, t_eval=s_eval, rtol=rtol, atol=atol, **with_jacobian)
        path = _finite_part(solved.y.T, -(-len(times) // _TIMES_AT_ONCE) * _TIMES_AT_ONCE)
        states, losses = jax.tree.map(lambda part: np.asarray(part)[: len(times)], looked_at(path, start, setting))
    going = np.isfinite(path[: len(times)]).all(axis=1) & np.isfinite(losses)
    n_reached = int(np.logical_and.accumulate(going).sum())
    reason = "finished" if n_reached == len(times) else "diverged" if solved.success else "solver failed"
    settings = {"method": method, "rtol": rtol, "atol": atol, "n_unknowns": len(y0), "n_evaluations": int(solved.nfev)}
    return Solution(times, states, losses, reason, float(times[max(n_reached - 1, 0)]), settings)


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


@lru_cache
def _compiled(velocity: Callable[[Any, Any], Any], loss: Callable[[Any, Any], Any]) -> tuple[Compiled, Compiled, Any]:
    """Right-hand side, Jacobian, and states with their losses; `start` tells the shapes of a flat state."""

    def in_log_time(s: Array, y: Array, start: Any, setting: Any, unit: Array) -> Array:
        state = ravel_pytree(start)[1](y)
        return unit * jnp.exp(s) * ravel_pytree(velocity(state, setting))[0]

    def looked_at(path: Array, start: Any, setting: Any) -> tuple[Any, Array]:
        states = jax.vmap(ravel_pytree(start)[1])(path)
        return states, jax.vmap(lambda state: loss(state, setting))(states)

    return Compiled(in_log_time), Compiled(jax.jacfwd(in_log_time, argnums=1)), Compiled(looked_at)


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
