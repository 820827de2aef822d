"""Stationary laws as the theory takes them: any law that is positive and not uniform, or one frequent token and equal low ones."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...errors import InputError

__all__ = ["two_level_law"]

_TIE = 1e-12  # a law closer to uniform than rounding has no direction to condense to


def two_level_law(*, high: float, n_vocab: int) -> NDArray[np.float64]:
    r"""One frequent token, the rest shared equally: $\pi_i = (1-\pi_1)/(d-1)$. [chen2026, Definition 2.1] with $\delta = 0$.

    >>> two_level_law(high=0.6, n_vocab=3)
    array([0.6, 0.2, 0.2])
    """
    if n_vocab < 2 or not 1 / n_vocab < high < 1:
        raise InputError(f"`high` must be above 1/n_vocab = {1 / max(n_vocab, 1):.4g} and below 1; got {high:g}.")
    return np.append(high, np.full(n_vocab - 1, (1 - high) / (n_vocab - 1)))


def unequal(stationary: ArrayLike) -> NDArray[np.float64]:
    """The law as an array, if it is positive and not uniform."""
    pi = np.asarray(stationary, float)
    if pi.ndim != 1 or not pi.min() > 0:
        raise InputError("`stationary` must be one list of positive numbers, a share for each token.")
    if np.ptp(pi) < _TIE:
        raise InputError("`stationary` must not be uniform: equally frequent tokens have no direction to condense to.")
    return pi
