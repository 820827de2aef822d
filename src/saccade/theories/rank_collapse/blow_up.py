r"""Stage I [chen2025, sections 4.1 to 4.3]: three factors ascend their product, $E = w A b$, and
blow up in finite time.

| ours      | theirs                       | axes               |
|-----------|------------------------------|--------------------|
| `along`   | $w = v W_V / \epsilon$       | (..., width)         |
| `hidden`  | $A = W^{[1]} / \epsilon$     | (..., width, hidden) |
| `readout` | $b = W^{[2]} / \epsilon$     | (..., hidden)        |
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import elliprf

__all__ = [
    "Slopes",
    "angles",
    "blow_up_time",
    "column_distance",
    "condensation_condition",
    "condition_size",
    "conserved",
    "degeneracy",
    "energy_bound",
    "energy_slope",
    "factor_energy",
    "slopes",
]

Array = NDArray[np.float64]


class Slopes(NamedTuple):
    """Time derivatives of the three factors."""

    along: Array
    hidden: Array
    readout: Array


def factor_energy(along: ArrayLike, hidden: ArrayLike, readout: ArrayLike) -> Array:
    r"""$E = w A b$. [chen2025, eq. 8]"""
    w, A, b = (np.asarray(part, float) for part in (along, hidden, readout))
    return np.einsum("...i,...ij,...j->...", w, A, b)


def slopes(along: ArrayLike, hidden: ArrayLike, readout: ArrayLike) -> Slopes:
    r"""$\dot w = A b$, $\dot A = w b^\top$, $\dot b = A^\top w$. [chen2025, Proposition 1]"""
    w, A, b = (np.asarray(part, float) for part in (along, hidden, readout))
    return Slopes(
        np.einsum("...ij,...j->...i", A, b),
        w[..., :, None] * b[..., None, :],
        np.einsum("...ij,...i->...j", A, w),
    )


def energy_slope(along: ArrayLike, hidden: ArrayLike, readout: ArrayLike) -> Array:
    r"""$\dot E = |\dot w|^2 + |\dot b|^2 + |w|^2 |b|^2$. [chen2025, eq. 16]"""
    w_dot, _, b_dot = slopes(along, hidden, readout)
    w, b = (np.sum(np.asarray(part, float) ** 2, axis=-1) for part in (along, readout))
    return np.sum(w_dot**2, axis=-1) + np.sum(b_dot**2, axis=-1) + w * b


class Angles(NamedTuple):
    r"""Cosines of [chen2025, Definition 5]: $\xi$ (..., i, j), $\psi$ and $\phi$ (..., i), $\zeta$
    (...).
    """

    rows: Array
    velocity_rows: Array
    readout_rows: Array
    readout_velocity: Array


def angles(along: ArrayLike, hidden: ArrayLike, readout: ArrayLike) -> Angles:
    w, A, b = (np.asarray(part, float) for part in (along, hidden, readout))
    rows, unit, speed = (
        part / np.linalg.norm(part, axis=-1, keepdims=True)
        for part in (w[..., :, None] * A, b, slopes(w, A, b).readout)
    )
    psi, phi = (np.sum(rows * part[..., None, :], axis=-1) for part in (speed, unit))
    return Angles(rows @ np.swapaxes(rows, -1, -2), psi, phi, np.sum(unit * speed, axis=-1))


def conserved(along: ArrayLike, hidden: ArrayLike, readout: ArrayLike) -> tuple[Array, Array]:
    r"""$K_1 = w w^\top - A A^\top$ and $K_2 = A^\top A - b b^\top$, whole matrices; their diagonals
    are [chen2025, Proposition 2].

    [derived] $\frac{d}{dt} w w^\top = A b w^\top + w b^\top A^\top = \frac{d}{dt} A A^\top$, and
    likewise for $K_2$.
    """
    w, A, b = (np.asarray(part, float) for part in (along, hidden, readout))
    turned = np.swapaxes(A, -1, -2)
    return w[..., :, None] * w[..., None, :] - A @ turned, turned @ A - b[..., :, None] * b[
        ..., None, :
    ]


def energy_bound(time: ArrayLike, energy_0: float) -> Array:
    r"""$E \ge (E_0^{-1/3} - t)^{-3}$ for $E_0 > 0$, $E \ge -((-E_0)^{-1/3} + t)^{-3}$ for $E_0 <
    0$. [chen2025, eqs. 11 and 12]

    From $\dot E = |\dot\theta|^2 \ge 3 |E|^{4/3}$, the inequality of the arithmetic and the
    geometric mean.
    """
    t = np.asarray(time, float)
    if energy_0 > 0:
        return np.maximum(energy_0 ** (-1 / 3) - t, 0.0) ** -3
    return -(((-energy_0) ** (-1 / 3) + t) ** -3)


def blow_up_time(along: float, hidden: float, readout: float, *, positive: bool = True) -> float:
    r"""When factors of rank one, $w = x a$, $A = \pm y a c^\top$, $b = z c$, are infinite: $T^* =
    R_F(x^2, y^2, z^2)$.

    [derived] $\dot x = y z$ and its turns conserve the differences of squares, so with $s = x^2$,
    $\dot s = 2xyz$, $T^* = \frac12\int_0^\infty ds / \sqrt{(x^2+s)(y^2+s)(z^2+s)}$: Carlson's
    integral. With E < 0 the smallest square m must first fall to zero, and $T^* = 2 R_F(x^2-m,
    y^2-m, z^2-m) - R_F(x^2, y^2, z^2)$. Infinite if E < 0 and the two smallest tie.
    """
    squares = np.array([along, hidden, readout], float) ** 2
    whole = float(elliprf(*squares))
    return whole if positive else 2 * float(elliprf(*(squares - squares.min()))) - whole


def degeneracy(along: ArrayLike, hidden: ArrayLike, readout: ArrayLike) -> Array:
    r"""$N = |\dot w|^2 - |\dot b|^2 + \min(|w|^2, |b|^2)(|w|^2 - |b|^2)$, zero for a degenerate
    start. [chen2025, eq. 10]

    [derived] With $D = |w|^2 - |b|^2$ it is the constant of motion $\frac12(D^2 + \mathrm{tr} K_1^2
    - \mathrm{tr} K_2^2)$, less $D^2$ if D > 0.
    """
    w_dot, _, b_dot = slopes(along, hidden, readout)
    w, b = (np.sum(np.asarray(part, float) ** 2, axis=-1) for part in (along, readout))
    return np.sum(w_dot**2, axis=-1) - np.sum(b_dot**2, axis=-1) + np.minimum(w, b) * (w - b)


def condensation_condition(
    along: ArrayLike, hidden: ArrayLike, readout: ArrayLike
) -> NDArray[np.bool_]:
    r"""Whether [chen2025, Assumption 1] is met: $b_i (wA)_i > 0$ and $w_i (Ab)_i > 0$ for all i,
    all rows $w_i A_i$ on one side, and all columns $b_i A^i$.
    """
    w, A, b = (np.asarray(part, float) for part in (along, hidden, readout))
    w_dot, _, b_dot = slopes(w, A, b)
    rows, columns = w[..., :, None] * A, np.swapaxes(A, -1, -2) * b[..., :, None]
    pairs = [(part @ np.swapaxes(part, -1, -2) > 0).all(axis=(-2, -1)) for part in (rows, columns)]
    return (b * b_dot > 0).all(axis=-1) & (w * w_dot > 0).all(axis=-1) & pairs[0] & pairs[1]


def condition_size(
    first: ArrayLike, second: ArrayLike, along: ArrayLike, readout: ArrayLike
) -> Array:
    r"""Size R from which on all pairs of [chen2025, Assumption 1] agree, for the two `conserved`
    matrices and directions a and c in which w and b blow up: $R^2 = \max_{ij} (K_1)_{ij}/a_i a_j$
    or $\max_{ij} -(K_2)_{ij}/c_i c_j$, the larger.

    [derived] $\langle w_i A_i, w_j A_j\rangle = w_i w_j (w_i w_j - (K_1)_{ij})$, and w tends to R
    a. Of random directions the smallest of $d^2$ products $a_i a_j$ is of order $d^{-3} / \ln d$
    and $K_1$ of order $d^{1/2}$: $R \sim d^{7/4} (\ln d)^{1/2}$.
    """
    a, c = np.asarray(along, float), np.asarray(readout, float)
    rows, columns = (part[..., :, None] * part[..., None, :] for part in (a, c))
    largest = np.maximum(
        np.max(first / rows, axis=(-2, -1)), np.max(-np.asarray(second) / columns, axis=(-2, -1))
    )
    return np.sqrt(np.maximum(largest, 0.0))


def column_distance(across: ArrayLike, along: ArrayLike) -> Array:
    r"""$1 - \cos(W_V^i, v) \approx |W_{V,\perp}^i|^2 / 2 w_i^2$ of each column; `across` (width,
    column) is orthogonal to v.

    [derived] $\dot W_V = v \dot w$, so what is orthogonal to v never moves.
    """
    return np.sum(np.asarray(across, float) ** 2, axis=-2) / (2 * np.asarray(along, float) ** 2)
