"""Stationary laws and chains as the theory takes them, and what is refused: shares, positive
shares, shares that are not all equal, or one frequent token and equal low ones.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...errors import InputError, checked_count

__all__ = ["two_level_law"]

_TIE = 1e-12  # a law closer to uniform than rounding has no direction to condense to
_WHOLE = 1e-6  # shares that were stored with seven digits still sum to one


def two_level_law(*, high: float, n_vocab: int) -> NDArray[np.float64]:
    r"""One frequent token, the rest shared equally: $\pi_i = (1-\pi_1)/(d-1)$. [chen2026,
    Definition 2.1] with $\delta = 0$.

    >>> two_level_law(high=0.6, n_vocab=3)
    array([0.6, 0.2, 0.2])
    """
    if not 1 / checked_count("n_vocab", n_vocab, low=2) < high < 1:
        raise InputError(
            f"`high` must be above 1/n_vocab = {1 / n_vocab:.4g} and below 1; got {high:g}."
        )
    return np.append(high, np.full(n_vocab - 1, (1 - high) / (n_vocab - 1)))


def two_level_chain(*, high: float, n_vocab: int, stay: float) -> NDArray[np.float64]:
    """The law of a lazy chain with equal rare tokens, if there is such a chain."""
    return lazy_law(two_level_law(high=high, n_vocab=n_vocab), stay)


def shares(stationary: ArrayLike) -> NDArray[np.float64]:
    """The law as an array, if it is one."""
    pi = np.asarray(stationary, float)
    if pi.ndim != 1 or len(pi) < 2 or not pi.min() >= 0 or not abs(pi.sum() - 1) < _WHOLE:
        raise InputError(
            "`stationary` must list the frequency of each token: at least two, none negative, with sum 1."
        )
    return pi


def positive(stationary: ArrayLike) -> NDArray[np.float64]:
    """The law as an array, if every token comes."""
    pi = shares(stationary)
    if not pi.min() > 0:
        raise InputError(
            "`stationary` must give every token a frequency above 0: the logits of a token that never occurs are infinite."
        )
    return pi


def unequal(stationary: ArrayLike) -> NDArray[np.float64]:
    """The law as an array, if it is positive and not uniform."""
    pi = positive(stationary)
    if np.ptp(pi) < _TIE:
        raise InputError(
            "`stationary` must not be uniform: equally frequent tokens have no direction to condense to."
        )
    return pi


def chances(transition: ArrayLike, n_vocab: int) -> NDArray[np.float64]:
    """The table as an array, if its rows are laws of as many tokens as there are."""
    P = np.asarray(transition, float)
    if (
        P.shape != (n_vocab, n_vocab)
        or not P.min() >= 0
        or not np.abs(P.sum(axis=1) - 1).max() < _WHOLE
    ):
        raise InputError(
            f"`transition` must have {n_vocab} rows of {n_vocab} probabilities, none negative, each row with sum 1: one for every "
            "token of `stationary`."
        )
    return P


def stationary_chain(
    stationary: ArrayLike, transition: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A positive law and a table of which it is the stationary law."""
    pi, P = positive(stationary), chances(transition, np.size(stationary))
    if not np.abs(pi @ P - pi).max() < _WHOLE:
        raise InputError(
            "`stationary` must be the stationary distribution of `transition`: here one step of the chain changes it."
        )
    return pi, P


def lazy_law(stationary: ArrayLike, stay: float) -> NDArray[np.float64]:
    """The law of a lazy chain, if there is such a chain."""
    pi = shares(stationary)
    least = -(
        pi / np.maximum(1 - pi, _TIE)
    ).min()  # below it the rarest token would follow itself with a negative probability
    if not least <= stay <= 1:
        raise InputError(
            f"`stay` must be from {least:.4g} to 1, or the chain has negative probabilities; got {stay:g}."
        )
    return pi
