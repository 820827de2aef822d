r"""How Z moves if the query and key matrices are trained instead of Z: the terms that the
reparameterisation drops.

With $A = UW_Q$, $B = UW_K$ and $Z = AB^\top/\sqrt d$, gradient descent on $W_Q$ and $W_K$ moves Z
by its gradient between two Gram matrices. Ours. Not here: the model itself.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["query_key_velocity"]


def query_key_velocity(
    descent: ArrayLike, queries: ArrayLike, keys: ArrayLike
) -> NDArray[np.float64]:
    r"""Velocity of Z when $W_Q$ and $W_K$ move, $\dot Z = \frac1d(G\,BB^\top + AA^\top G)$, for
    orthonormal embeddings.

    Ours. $\dot W_Q = \frac{1}{\sqrt d}U^\top GB$ and $\dot W_K = \frac{1}{\sqrt d}U^\top G^\top A$,
    where $G = -\partial L/\partial Z$ times the rate; $\dot Z = \frac{1}{\sqrt d}(U\dot W_QB^\top +
    A\dot W_K^\top U^\top)$ with $UU^\top = I$. From $W_Q = 0$, $W_K = \sqrt d\,I$ it is G, the
    paper's, at first; the two extra terms, $G(\frac1dBB^\top - I)$ and $\frac1dAA^\top G$, are of
    second order in Z. Both push every token's logit further the way it goes.

    | ours    | theirs         | axes         |
    |---------|----------------|--------------|
    | descent | G              | token, token |
    | queries | A = U W_Q      | token, width |
    | keys    | B = U W_K      | token, width |
    """
    G, A, B = (np.asarray(each, float) for each in (descent, queries, keys))
    return (G @ B @ B.T + A @ A.T @ G) / A.shape[1]
