r"""Stage II [chen2025, section 4.4]: on the plateau only attention moves, $\dot W_Q = F W_K$, $\dot
W_K = F^\top W_Q$.

Sequences are given as `tokens` (sequence, position, width), `label` of -1 or 1 and `weight` that
sums to one; `beta` is $W_V W^{[1]} W^{[2]}$ (width).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog

__all__ = [
    "QueryKey",
    "attention_drive",
    "is_separable",
    "plateau",
    "plateau_depth_power",
    "rank_one_factors",
    "residual_rank_power",
    "rotary_drive",
    "rotary_residual",
    "stage_two",
    "uniform_loss",
    "uniform_optimum",
]

Array = NDArray[np.float64]
_NEWTON_STEPS = 40  # each doubles the digits once the loss is nearly quadratic; separable labels drive beta up by one a step


class QueryKey(NamedTuple):
    query: Array
    key: Array


def uniform_loss(beta: ArrayLike, tokens: Array, label: Array, weight: Array) -> float:
    r"""$\tilde L_1 = \sum_i p_i e^{-y_i \bar x_i \beta}$: exponential loss, uniform attention, no
    activation. [chen2025, eq. 13]
    """
    return float(weight @ np.exp(-label * (tokens.mean(axis=1) @ np.asarray(beta, float))))


def uniform_optimum(tokens: Array, label: Array, weight: Array) -> Array:
    r"""$\beta^*$, where $\tilde L_1$ is least; there stage I ends. Only if no direction of the mean
    token separates the labels.
    """
    margins = label[:, None] * tokens.mean(axis=1)
    beta = np.zeros(tokens.shape[2])
    for _ in range(_NEWTON_STEPS):
        odds = weight * np.exp(-margins @ beta)
        step = np.linalg.lstsq((margins * odds[:, None]).T @ margins, odds @ margins)[
            0
        ]  # of least norm along flat directions
        while uniform_loss(beta + step, tokens, label, weight) > odds.sum() + 1e-15:
            step = step / 2
        beta = beta + step
    return beta


def is_separable(tokens: Array, label: Array, weight: Array) -> bool:
    """Whether some direction of the mean token is right about a label and never wrong: then the
    loss has no least value, and no plateau exists.
    """
    margins = (label[:, None] * tokens.mean(axis=1))[weight > 0]
    return bool(
        -linprog(
            -margins.mean(axis=0), A_ub=-margins, b_ub=np.zeros(len(margins)), bounds=(-1, 1)
        ).fun
        > 1e-9
    )


def attention_drive(beta: ArrayLike, tokens: Array, label: Array, weight: Array) -> Array:
    r"""$F = \frac{1}{s\sqrt d}\sum_i p_i y_i L_{1,i}\, x_{is}^\top \beta^\top S_i$, $S_i = \sum_j
    x_{ij}^\top (x_{ij} - \bar x_i)$, at uniform attention, exponential loss, no activation.
    [chen2025, eq. 15]
    """
    beta, (_, s, d) = np.asarray(beta, float), tokens.shape
    mean = tokens.mean(axis=1)
    pull = np.einsum("njd,njk->nk", tokens * beta, tokens - mean[:, None]) / (
        s * np.sqrt(d)
    )  # beta^T S_i
    return np.einsum(
        "n,nd,nk->dk", weight * label * np.exp(-label * (mean @ beta)), tokens[:, -1], pull
    )


def plateau(tokens: Array, label: Array, weight: Array) -> tuple[Array, Array]:
    r"""$\beta^*$, and F there: where stage II begins."""
    star = uniform_optimum(tokens, label, weight)
    return star, attention_drive(star, tokens, label, weight)


def rank_one_factors(beta: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    r"""$W_V, W^{[1]}, W^{[2]}$ of rank one and of one size whose product is $\beta$, along random
    directions.
    """
    size, r = np.linalg.norm(beta), np.cbrt(np.linalg.norm(beta))
    a, c = (part / np.linalg.norm(part) for part in rng.standard_normal((2, len(beta))))
    return r * np.outer(beta / size, a), r * np.outer(a, c), r * c


def rotary_drive(
    beta: ArrayLike, tokens: Array, label: Array, weight: Array, angles: ArrayLike
) -> NDArray[np.complex128]:
    r"""$M_c = \sum_j e^{i\theta_c (j - s)} F_j$ (pair, width, width) for keys turned by $\theta_c$
    for each step from the last token, $F_j = \frac{1}{s\sqrt d}\sum_i p_i y_i L_{1,i}\, x_{is}^\top
    ((x_{ij} - \bar x_i)\beta)\, x_{ij}$. [derived]

    With the two coordinates of a pair as one complex number, $\dot W_Q = M_c W_K$ and $\dot W_K =
    M_c^\dagger W_Q$.
    """
    beta, (_, s, d) = np.asarray(beta, float), tokens.shape
    mean = tokens.mean(axis=1)
    odds = weight * label * np.exp(-label * (mean @ beta)) / (s * np.sqrt(d))
    turns = np.exp(1j * np.multiply.outer(np.asarray(angles, float), np.arange(s) - s + 1))
    return np.einsum(
        "n,nd,nj,cj,njk->cdk", odds, tokens[:, -1], (tokens - mean[:, None]) @ beta, turns, tokens
    )


def rotary_residual(direction: ArrayLike) -> float:
    r"""$s_2/s_1$ of the two columns $(\mathrm{Re}\, z u, \mathrm{Im}\, z u)$: $\sqrt{(1 - |u^\top
    u|)/(1 + |u^\top u|)}$ for any complex number z and any u of length one. [derived]
    """
    turned = min(abs(np.asarray(direction) @ np.asarray(direction)), 1.0)
    return float(np.sqrt((1 - turned) / (1 + turned)))


def stage_two(time: float, drive: Array, query_0: Array, key_0: Array) -> QueryKey:
    r"""The solution of eq. 14: with $F = U s V^\top$, $U^\top W_Q = \cosh(st) U^\top W_Q(0) +
    \sinh(st) V^\top W_K(0)$.

    [derived] So both tend to rank one if $s_1$ is simple, $W_Q \to u_1 r$ and $W_K \to v_1 r$ with
    one and the same $r \propto u_1^\top W_Q(0) + v_1^\top W_K(0)$, which must not vanish.
    [chen2025, Theorem 3] has the first part.
    """
    U, s, Vt = np.linalg.svd(drive)
    q, k = U.T @ query_0, Vt @ key_0
    grow, turn = np.cosh(s * time)[:, None], np.sinh(s * time)[:, None]
    return QueryKey(U @ (grow * q + turn * k), Vt.T @ (turn * q + grow * k))


def residual_rank_power(singular_values: ArrayLike) -> float:
    r"""$1 - s_2/s_1$ of F: $s_2/s_1(W_Q) \sim (\epsilon/\text{level})^{1 - s_2/s_1}$ when $W_Q$ has
    grown to a level. [derived]
    """
    s = np.asarray(singular_values, float)
    return float(1 - s[1] / s[0])


def plateau_depth_power(relaxation: float, rate: float) -> float:
    r"""$2\rho/(\rho + 2 s_1)$: the smallest gradient of the outer weights is $\epsilon$ to this
    power. [derived]

    It decays as $e^{-\rho t}$ while attention grows and pushes it by $\epsilon^2 e^{2 s_1 t}$;
    where they meet it is smallest.
    """
    return 2 * relaxation / (relaxation + 2 * rate)
