r"""Any flow near a critical point: where it is, which directions grow there and how fast, and how
long the linear flow holds.

A flow is a function `velocity(state, setting)` on a pytree of parameters, as in `flow.py`; with $J$
the Jacobian of it at a critical point $\theta^*$, a small displacement moves as $\dot\Delta =
J\Delta + O(|\Delta|^2)$. Everything here works on the dense Jacobian, float64 whatever the caller's
JAX is set to, so it is meant for some thousand parameters at most. Not here: the displaced flow
against the linear one (`linear_validity.py`), the embedded model's own rule (`next_direction.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.engines.flat_flow import FlatFlow, Velocity, no_loss
from saccade.errors import checked_choice, checked_count, checked_number
from saccade.later import jax
from saccade.models.system import Equations, leaf_name

_MOST_HALVINGS = (
    40  # of a step; 2^-40 of it is below what moves a state of size one by more than rounding
)
_MOST_SHOWN = 5  # growing modes that are printed
_ASYMMETRY = 1e-12  # of the largest entry; rounding leaves about 1e-15 of it in the Jacobian of a gradient flow


class CriticalPoint(NamedTuple):
    """Where a search ended; `residual` is the norm of the velocity there."""

    state: Any
    residual: float
    converged: bool
    n_steps: int
    stop_reason: str

    def __repr__(self) -> str:
        steps = "1 Newton step" if self.n_steps == 1 else f"{self.n_steps} Newton steps"
        return f"CriticalPoint: {self.stop_reason} ({steps}); the speed there is {self.residual:.3g}, the parameters are in `.state`"


class Spectrum(NamedTuple):
    """Modes of the Jacobian, fastest growing first.

    | field               | axes            | meaning                                                                  |
    |---------------------|-----------------|--------------------------------------------------------------------------|
    | `eigenvalues`       | mode            | complex in general, real for a gradient flow with one rate               |
    | `eigenvectors`      | parameter, mode | columns of norm one; parameters in the order of `ravel_pytree`           |
    | `shares`            | block: mode     | part of an eigenvector's squared norm in the block, from 0 to 1          |
    | `block_eigenvalues` | block: mode     | spectrum of the block's own part of the Jacobian, the others held fixed  |
    | `n_unstable`        |                 | how many modes grow faster than `tolerance`                              |
    """

    eigenvalues: NDArray
    eigenvectors: NDArray
    shares: dict[str, NDArray[np.float64]]
    block_eigenvalues: dict[str, NDArray]
    n_unstable: int

    def __repr__(self) -> str:
        growing = [self._told(mode) for mode in range(min(self.n_unstable, _MOST_SHOWN))]
        if left := self.n_unstable - len(growing):
            growing.append(f"  and {left} slower; all are in `.growth_rates`")
        heading = f"Spectrum: {self.n_unstable} of {len(self.eigenvalues)} modes grow"
        return "\n".join([heading, *growing])

    def _told(self, mode: int) -> str:
        """One growing mode: its rate and the blocks it lives in, largest share first."""
        value = self.eigenvalues[mode]
        turning = f" ± {abs(value.imag):.4g}i" if value.imag else ""
        shares = sorted(((share[mode], name) for name, share in self.shares.items()), reverse=True)
        seen = ", ".join(f"{name} {100 * share:.0f} %" for share, name in shares if share >= 0.005)
        return f"  rate {value.real:.4g}{turning}: {seen}"

    @property
    def growth_rates(self) -> NDArray[np.float64]:
        """Real parts of the unstable eigenvalues."""
        return self.eigenvalues[: self.n_unstable].real

    @property
    def unstable_subspace(self) -> NDArray[np.float64]:
        """An orthonormal real basis (parameter, direction) of what the unstable modes span."""
        growing = self.eigenvectors[:, : self.n_unstable]
        parts = np.concatenate(
            [growing.real, growing.imag], axis=1
        )  # conjugate pairs span the same plane twice
        basis, _, _ = np.linalg.svd(parts, full_matrices=False)
        return basis[:, : self.n_unstable]


def critical_point(
    velocity: Velocity, state: Any, setting: Any, *, tolerance: float = 1e-12, most_steps: int = 100
) -> CriticalPoint:
    r"""The critical point near `state`, a point on a trajectory say: Newton's method with steps of
    least norm.

    With v the velocity and $J = U \sigma V^\top$ the step is $-V \frac{\sigma}{\sigma^2 + |v|}
    U^\top v$. Some damp with $|v|^2$ (1), some with $|v|$ (2); both converge quadratically. We do
    (2): along a continuum of critical points the singular values of J are themselves of the order
    of $|v|$, and (1) would slide along it. A step that does not make the speed smaller is halved. A
    search that fails says so in `stop_reason` and returns the best point it had. `tolerance` is a
    speed; parameters of size one leave about 1e-15 of rounding in it.
    """
    tolerance = checked_number("tolerance", tolerance, low=0.0, high=1.0, open_low=True)
    most_steps = checked_count("most_steps", most_steps, low=0)
    flow = _flat(velocity, state, setting)
    point, n_steps = flow.start, 0
    while not (reason := _stop_reason(flow.velocity(point), tolerance, n_steps, most_steps)):
        v = flow.velocity(point)
        U, sigma, Vt = np.linalg.svd(flow.jacobian(point))
        nearer = _slower_point(
            flow, point, -Vt.T @ (sigma / (sigma**2 + np.linalg.norm(v)) * (U.T @ v))
        )
        if nearer is None:
            reason = "stuck: no part of the Newton step makes the speed smaller"
            break
        point, n_steps = nearer, n_steps + 1
    return CriticalPoint(
        flow.tree(point), flow.speed(point), reason == "converged", n_steps, reason
    )


def jacobian(velocity: Velocity, state: Any, setting: Any) -> NDArray[np.float64]:
    """d velocity / d state, dense, with parameters in the order of `ravel_pytree`."""
    flow = _flat(velocity, state, setting)
    return flow.jacobian(flow.start)


def speed(velocity: Velocity, state: Any, setting: Any) -> float:
    """Norm of the velocity: 0 at a critical point."""
    flow = _flat(velocity, state, setting)
    return flow.speed(flow.start)


def spectrum(
    velocity: Velocity,
    state: Any,
    setting: Any,
    *,
    blocks: Mapping[str, Sequence[str]] | None = None,
    tolerance: float = 1e-9,
) -> Spectrum:
    """Modes of the flow around `state`, and which of them live in which part of it.

    `blocks` groups the fields of the state, {"attention": ["query", "key"], ...}; by default each
    field is a block. `tolerance` is the growth rate above which a mode counts as unstable: flat
    directions come out as rounding, about 1e-15.
    """
    J = jacobian(velocity, state, setting)
    values, vectors = modes(J)
    masks = _masks(state, blocks)
    power = np.abs(vectors) ** 2
    return Spectrum(
        eigenvalues=values,
        eigenvectors=vectors,
        shares={name: power[mask].sum(axis=0) for name, mask in masks.items()},
        block_eigenvalues={name: modes(J[np.ix_(mask, mask)])[0] for name, mask in masks.items()},
        n_unstable=int((values.real > tolerance).sum()),
    )


def is_symmetric(J: NDArray[np.float64]) -> bool:
    """Whether a Jacobian is that of a gradient flow with one rate."""
    return bool(np.abs(J - J.T).max(initial=0.0) <= _ASYMMETRY * np.abs(J).max(initial=0.0))


def modes(J: NDArray[np.float64]) -> tuple[NDArray, NDArray]:
    """Eigenvalues and eigenvectors, largest real part first; real and orthonormal where the
    Jacobian is symmetric.
    """
    values, vectors = np.linalg.eigh((J + J.T) / 2) if is_symmetric(J) else np.linalg.eig(J)
    order = np.argsort(-values.real, kind="stable")
    return values[order], vectors[:, order]


def _masks(state: Any, blocks: Mapping[str, Sequence[str]] | None) -> dict[str, NDArray[np.bool_]]:
    """Which entries of the flat state belong to each block."""
    owner = np.concatenate(
        [
            np.full(np.size(leaf), leaf_name(path[:1]))
            for path, leaf in jax.tree_util.tree_flatten_with_path(state)[0]
        ]
    )
    fields = list(dict.fromkeys(owner.tolist()))
    groups = (
        {name: [name] for name in fields}
        if blocks is None
        else {name: list(parts) for name, parts in blocks.items()}
    )
    for part in (part for parts in groups.values() for part in parts):
        checked_choice("field of the state", part, fields)
    return {name: np.isin(owner, parts) for name, parts in groups.items()}


def _slower_point(
    flow: FlatFlow, point: NDArray[np.float64], step: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """The first of whole, half, quarter ... step that makes the speed smaller."""
    for halvings in range(_MOST_HALVINGS):
        nearer: NDArray[np.float64] = point + 0.5**halvings * step
        if flow.speed(nearer) < flow.speed(point):
            return nearer
    return None


def _flat(velocity: Velocity, state: Any, setting: Any) -> FlatFlow:
    return FlatFlow(Equations(velocity, no_loss, setting), state)


def _stop_reason(v: NDArray[np.float64], tolerance: float, n_steps: int, most_steps: int) -> str:
    if not np.isfinite(v).all():
        return "the velocity is not finite"
    if np.linalg.norm(v) <= tolerance:
        return "converged"
    return "" if n_steps < most_steps else f"gave up after {n_steps} steps"
