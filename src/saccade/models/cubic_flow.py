r"""Stage I of [chen2025] by itself: gradient ascent on the product of three factors, $E = w A b$,
from many starts at once.

$$\dot w = (A b)^\top, \qquad \dot A = w^\top b^\top, \qquad \dot b = A^\top w^\top$$

(eqs. 7 and 8; $w = v W_V$, $A = W^{[1]}$, $b = W^{[2]}$, each divided by the initial scale). It
reaches infinity in finite time, so no solver can follow it in t. The time of this system is $\tau$,
$d\tau = R\,dt$ with $R = |\theta|/\sqrt3$, in which it grows like $e^\tau$; t is a parameter of its
own, the `clock` of each start. Formulas serve NumPy, in which flows run, and JAX alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from saccade.errors import InputError
from saccade.models.system import Equations, Observable, Solver, System


class Factors(NamedTuple):
    """w (start, width), A (start, width, hidden), b (start, hidden), t (start)."""

    along: Any
    hidden: Any
    readout: Any
    clock: Any


@dataclass(frozen=True, eq=False)
class CubicFlow(System):
    """The cubic flow from given factors, with the axes of `Factors` except time; all starts are
    followed together.
    """

    along: ArrayLike
    hidden: ArrayLike
    readout: ArrayLike

    seeds = None
    solver = Solver(t1=20.0, rtol=1e-12, atol=1e-14, most_for_lsoda=0)
    time_unit = "tau, the integral of the weights' size over time"

    def __post_init__(self) -> None:
        w, A, b = np.shape(self.along), np.shape(self.hidden), np.shape(self.readout)
        if len(A) != 3 or w != A[:2] or b != A[:1] + A[2:]:
            axes = "(start, width), (start, width, hidden), (start, hidden)"
            raise InputError(f"`along`, `hidden` and `readout` must be {axes}; got {w}, {A}, {b}.")

    @classmethod
    def random(cls, n_starts: int, width: int, seed: int = 0) -> CubicFlow:
        """Standard normal factors, as the paper starts them."""
        rng = np.random.default_rng(seed)
        return cls(
            *(
                rng.standard_normal((n_starts, *shape))
                for shape in ((width,), (width, width), (width,))
            )
        )

    def start(self, rng: np.random.Generator) -> Factors:
        w, A, b = (np.asarray(part, float) for part in (self.along, self.hidden, self.readout))
        return Factors(w, A, b, np.zeros(len(w)))

    def loss(self, parameters: Factors) -> Any:
        return _loss(parameters)

    def velocity(self, parameters: Factors) -> Factors:
        return _velocity(parameters)

    def equations(self) -> Equations:
        """Shared by all starts; in NumPy, where nothing has to be compiled for each number and
        width of them.
        """
        return Equations(
            _velocity, _loss, None, without_jax=lambda factors: (_loss(factors), _velocity(factors))
        )

    def observe(self, parameters: Factors) -> dict[str, Observable]:
        told = "root of a third of the sum of squares of w, A and b"
        return {
            "energy": Observable(("start",), energy(parameters), "1", "w A b"),
            "size": Observable(("start",), size(parameters), "1", told),
        }


def _loss(factors: Factors, _: None = None) -> Any:
    return -energy(factors).sum()


def _velocity(factors: Factors, _: None = None) -> Factors:
    w, A, b, _t = factors
    R = size(factors)
    outer = w[..., :, None] * b[..., None, :] / R[..., None, None]
    return Factors(
        (A @ b[..., None])[..., 0] / R[..., None],
        outer,
        (w[..., None, :] @ A)[..., 0, :] / R[..., None],
        1 / R,
    )


def energy(factors: Factors) -> Any:
    return (factors.along * (factors.hidden @ factors.readout[..., None])[..., 0]).sum(-1)


def size(factors: Factors) -> Any:
    w, A, b, _ = factors
    return (((w**2).sum(-1) + (A**2).sum((-2, -1)) + (b**2).sum(-1)) / 3) ** 0.5
