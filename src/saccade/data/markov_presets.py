"""Preset stationary distributions, and transition tables that have a given one: lazy, Metropolis,
random.

One law has many chains. They differ in what follows what, and agree on how often each token comes,
so that a statement that needs only the law can be told from one that needs the chain.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from saccade.data.checks import SUM_TOLERANCE, checked_numbers
from saccade.errors import InputError, checked_count, checked_number, checked_seed

PAPER_LAW = (0.75, 0.19, 0.05, 0.01)  # the synthetic experiment of [chen2026]
MOST_TOKENS = 8192  # a table of half a gigabyte, of which a few copies are made; its stationary law takes 14 s on two cores
_LEAST_WEIGHT = 0.1  # of a random table's entries, which reach 1
# Fitting a table to its margins brings it nearer by tanh(d/4)^2 a round, d = ln of the largest
# ratio w_ij w_kl / (w_il w_kj) (Birkhoff). Here d <= ln 100, the factor at most 0.67, and 0.67^100
# = 4e-18 is below rounding for any law and any seed.
_ROUNDS = 100


def checked_law(stationary: ArrayLike) -> NDArray[np.float64]:
    """A positive law over at least two tokens, rescaled to sum to one exactly."""
    law = checked_numbers("stationary", stationary, n_axes=1)
    if not 2 <= len(law) <= MOST_TOKENS:
        raise InputError(f"`stationary` must have from 2 to {MOST_TOKENS} tokens; got {len(law)}.")
    if (law <= 0).any():
        raise InputError(
            f"`stationary` must be positive; token {int(law.argmin())} has {law.min():g}. Leave out tokens that never occur."
        )
    with np.errstate(over="ignore"):
        total = float(law.sum())
    if not abs(total - 1) <= SUM_TOLERANCE:
        raise InputError(
            f"`stationary` must sum to 1; it sums to {total:.6g}. Divide it by its sum, or fix it."
        )
    return law / total


def zipf_law(n: int) -> NDArray[np.float64]:
    """Mass in proportion to 1/rank."""
    weight = 1 / np.arange(1, checked_count("n", n, low=2, high=MOST_TOKENS) + 1)
    return weight / weight.sum()


def two_level_law(n: int, high: float, asymmetry: float) -> NDArray[np.float64]:
    r"""Token 0 has mass `high`; the n-1 others $(1 - \text{high})/(n-1) + \text{asymmetry} \cdot
    c_i$.

    The $c_i$ fall evenly from 1 to -1, so they sum to zero. [chen2026] asks for no more than that.
    """
    n_low = checked_count("n", n, low=2, high=MOST_TOKENS) - 1
    high = checked_number("high", high, low=0, high=1, open_low=True)
    if high == 1:
        raise InputError("`high` must be below 1: at 1 the other tokens never occur.")
    mean = (1 - high) / n_low
    asymmetry = checked_number("asymmetry", asymmetry, low=-1, high=1)
    if not abs(asymmetry) < mean:
        raise InputError(
            f"`asymmetry` must be below the mean frequency of a rare token, {mean:.6g}, in size; got {asymmetry:g}."
        )
    if n_low == 1 and asymmetry != 0:
        raise InputError(
            "`asymmetry` needs at least two rare tokens, `n` of 3 or more; with one it must be 0."
        )
    return np.concatenate([[high], mean + asymmetry * np.linspace(1, -1, n_low)])


def lazy_table(stationary: ArrayLike, stay: float) -> NDArray[np.float64]:
    r"""$P = \lambda I + (1 - \lambda) \mathbf 1 \pi^\top$: repeat the token with chance `stay`,
    otherwise draw from the law.

    A negative `stay` makes repeats rarer than the law has them; it can go down to $-\pi_{\min} / (1
    - \pi_{\min})$.
    """
    pi = checked_law(stationary)
    lowest = -pi.min() / (1 - pi.min())
    lambda_ = _checked_stay(stay, lowest, "where the rarest token of this law would never repeat")
    table = np.tile((1 - lambda_) * pi, (len(pi), 1))
    np.fill_diagonal(
        table, np.maximum(pi + lambda_ * (1 - pi), 0)
    )  # rounding at the lowest `stay` must not go below zero
    return table


def metropolis_table(stationary: ArrayLike, stay: float) -> NDArray[np.float64]:
    r"""Metropolis: propose any other token alike, accept with chance $\min(1, \pi_j / \pi_i)$; stay
    put with chance `stay` first.

    The chain is reversible: $\pi_i P_{ij} = \pi_j P_{ji}$. A negative `stay` is impossible, as the
    rarest token accepts everything.
    """
    pi = checked_law(stationary)
    lambda_ = _checked_stay(
        stay, 0.0, "since the rarest token of a Metropolis chain never repeats by itself"
    )
    accepted = np.minimum(pi[None, :], pi[:, None]) / pi[:, None]
    table = (1 - lambda_) * accepted / (len(pi) - 1)
    rejected = (
        (1 - accepted).mean(axis=1) * len(pi) / (len(pi) - 1)
    )  # the diagonal of `accepted` is 1 and adds nothing
    np.fill_diagonal(table, lambda_ + (1 - lambda_) * rejected)
    return table


def random_table(stationary: ArrayLike, seed: int) -> NDArray[np.float64]:
    """A table of positive random entries with this law: random weights in [0.1, 1), fitted as joint
    chances to both margins.
    """
    pi = checked_law(stationary)
    key = [checked_seed("seed", seed), 0]
    weight = np.random.Generator(np.random.Philox(key=key)).uniform(
        _LEAST_WEIGHT, 1, (len(pi), len(pi))
    )
    column = np.ones(len(pi))
    for _ in range(_ROUNDS):
        row = pi / (weight @ column)
        column = pi / (row @ weight)
    table = weight * column
    return table / table.sum(axis=1, keepdims=True)


def _checked_stay(stay: float, lowest: float, reason: str) -> float:
    number = checked_number("stay", stay, low=-1, high=1)
    if not lowest <= number < 1:
        raise InputError(
            f"`stay` must be at least {lowest:.6g}, {reason}, and below 1; got {number:g}."
        )
    return number
