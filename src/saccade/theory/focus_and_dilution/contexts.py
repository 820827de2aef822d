r"""The data in closed form: how a lazy chain forgets where it began, and what that leaves in a context of finite length.

| ours      | theirs                           | axes |
|-----------|----------------------------------|------|
| steps     | t                                |      |
| n_context | s, the length of the context     |      |
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["frequency_spread", "last_token_law", "lazy_power"]


def lazy_power(steps: int, *, stationary: ArrayLike, stay: float) -> NDArray[np.float64]:
    r"""$P^t = 1\pi^\top + \lambda^t(I-1\pi^\top)$, exactly. [chen2026, eq. 25] with $Q^t = \lambda^t(I-1\pi^\top)$."""
    pi = np.asarray(stationary, float)
    return pi + stay**steps * (np.eye(len(pi)) - pi)


def frequency_spread(n_context: int, *, stationary: ArrayLike, stay: float) -> float:
    r"""Root mean square of $|f-\pi|$, f the token frequencies in s tokens from a uniform first one. [derived, finite contexts].

    $E|f-\pi|^2 = s^{-2}\sum_t(1-2\pi\cdot\mu_t+|\pi|^2)(1+2\sum_{k=1}^{s-t}\lambda^k)$ with $\mu_t$ the law of token t = 1, ..., s:
    what a token says of a later one shrinks by $\lambda$ in each step.
    """
    pi = np.asarray(stationary, float)
    laws = np.array([last_token_law(t, stationary=pi, stay=stay) for t in range(1, n_context + 1)])
    echoes = np.cumsum(stay ** np.arange(n_context))[::-1]
    return float(np.sqrt(np.sum((1 - 2 * laws @ pi + pi @ pi) * (2 * echoes - 1))) / n_context)


def last_token_law(n_context: int, *, stationary: ArrayLike, stay: float) -> NDArray[np.float64]:
    r"""Law of the last of s tokens from a uniform first one, $\pi + \lambda^{s-1}(1/d-\pi)$. [derived, finite contexts]."""
    pi = np.asarray(stationary, float)
    return pi + stay ** (n_context - 1) * (1 / len(pi) - pi)
