r"""The drive of attention at any rank-one embedding: which way, and how fast, attention would move
from zero.

With the unigram law learnt and $\kappa = 0$, $\dot l_q = D\,l_k$ and $\dot l_k = D\,l_q$ with

$$D = \mathrm{Var}_\pi(\gamma) \sum_i \pi_i\gamma_i\,(P_i - \pi)\cdot\beta.$$

At the unigram point D is the focus rate c (unigram.py). An optimiser that condenses to another
embedding has another D; where all tokens lie at the same place the variance is zero and attention
stays off.
"""

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["plateau_drive"]


def plateau_drive(
    gamma: ArrayLike, beta: ArrayLike, *, stationary: ArrayLike, transition: ArrayLike
) -> float:
    r"""D of the embedding pattern $\gamma$ (token) and the projection pattern $\beta$ (next token).
    [derived, stage II].
    """
    g, b = np.asarray(gamma, float), np.asarray(beta, float)
    pi, P = np.asarray(stationary, float), np.asarray(transition, float)
    variance = np.sum(pi * (g - pi @ g) ** 2)
    return float(variance * np.sum(pi * g * ((P - pi) @ b)))
