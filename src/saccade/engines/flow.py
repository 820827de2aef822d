"""Gradient flow of any system: where it starts, when it is recorded, and the record.

Not here: the solver (`flat_flow.py`), what moves and how (`models/`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from saccade.engines.flat_flow import integrate
from saccade.engines.randomness import Purpose, checked_seeds, generator
from saccade.engines.trajectory import trajectory
from saccade.errors import InputError, checked_count, checked_list, checked_number
from saccade.later import jax, xr
from saccade.models.system import Solver, System, rates_by_leaf


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
    """From t = 0 to `t1`, recorded at 0 and at `n_times` log-spaced times, or at given `times`;
    arguments as in `saccade.flow`.
    """
    began = time.perf_counter()
    asked = _asked(system.solver, t1=t1, n_times=n_times, rtol=rtol, atol=atol)
    kept = system.kept(keep)
    if seeds is not None and seed is not None:
        raise InputError("`seed` is for one run and `seeds` for several: give one of them.")
    seeds = system.seeds if seeds is None and seed is None else seeds
    names = checked_seeds([0 if seed is None else seed] if seeds is None else seeds)
    runs = {} if seeds is None else {"seed": names}  # one `seed` makes no axis
    if start is None:
        starts = [system.start(generator(name, Purpose.INITIALISATION)) for name in names]
    elif len(names) > 1:
        raise InputError("`start` fixes the initial point: leave `seeds` at 1.")
    else:
        starts = [checked_parameters("start", system, start)]
    own_unit = _unit(system, starts[0])
    samples, unit = (
        _samples(asked, own_unit) if times is None else _given_samples(times, t1, n_times, own_unit)
    )
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
            on_progress=on_progress,
            part=(done, len(starts)),
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
        | {
            "seeds": names,
            "start": "its own" if start is None else "given",
            "solver": solutions[0].settings,
        },
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


def shared_times(
    systems: Iterable[System], t1: float | None = None, n_times: int | None = None
) -> np.ndarray:
    """The times at which a flow of the fastest of these systems is recorded, for all of them; each
    is looked at once.
    """
    found = [
        (
            _asked(system.solver, t1=t1, n_times=n_times),
            _unit(system, system.start(generator(0, Purpose.INITIALISATION))),
        )
        for system in systems
    ]
    return _samples(
        max((asked for asked, _ in found), key=lambda one: one.t1), min(unit for _, unit in found)
    )[0]


def _samples(asked: Solver, unit: float) -> tuple[np.ndarray, float]:
    """Zero and log-spaced times, and the unit of time."""
    unit = min(unit, asked.t1)
    return np.append(0.0, np.geomspace(unit / 10, asked.t1, asked.n_times)), unit


def _given_samples(
    times: Any, t1: float | None, n_times: int | None, unit: float
) -> tuple[np.ndarray, float]:
    """Zero and the times that were asked for."""
    if t1 is not None or n_times is not None:
        raise InputError("`times` says when to record: leave out `t1` and `n_times`.")
    listed = times.tolist() if isinstance(times, np.ndarray) else times
    asked = np.asarray(checked_list("times", listed, low=0.0, high=1e300))
    if not (np.diff(asked) > 0).all() or asked[-1] == 0:
        raise InputError("`times` must increase, and end after 0.")
    return asked if asked[0] == 0 else np.append(0.0, asked), min(unit, float(asked[-1]))


def times_around(
    *instants: float, until: float, n_times: int = 100, closest: float = 0.1
) -> np.ndarray:
    """Times for `flow(times=...)`, dense around instants at which something is predicted to happen.

    | argument   | meaning                                                                                                 |
    |------------|---------------------------------------------------------------------------------------------------------|
    | `instants` | when it should happen                                                                                   |
    | `until`    | end of the flow                                                                                         |
    | `n_times`  | samples on each side of each instant; their distances from it grow by a constant factor                 |
    | `closest`  | distance of the nearest ones; each instant is a sample itself                                           |

    Log-spaced times are about 1 % of t apart, too far to show a change that takes one unit of time
    at t = 10,000.
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
