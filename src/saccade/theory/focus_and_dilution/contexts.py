r"""The data in closed form: how a lazy chain forgets where it began, and what that leaves in a context of finite length.

| ours      | theirs                           | axes |
|-----------|----------------------------------|------|
| steps     | t                                |      |
| n_context | s, the length of the context     |      |
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["last_token_law", "lazy_power"]


def lazy_power(steps: int, *, stationary: ArrayLike, stay: float) -> NDArray[np.float64]:
    r"""$P^t = 1\pi^\top + \lambda^t(I-1\pi^\top)$, exactly. [chen2026, eq. 25] with $Q^t = \lambda^t(I-1\pi^\top)$."""
    pi = np.asarray(stationary, float)
    return pi + stay**steps * (np.eye(len(pi)) - pi)


def last_token_law(n_context: int, *, stationary: ArrayLike, stay: float) -> NDArray[np.float64]:
    r"""Law of the last of s tokens from a uniform first one, $\pi + \lambda^{s-1}(1/d-\pi)$. [derived, finite contexts]."""
    pi = np.asarray(stationary, float)
    return pi + stay ** (n_context - 1) * (1 / len(pi) - pi)
