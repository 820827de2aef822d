r"""The stationary distribution of a transition table: check that it is unique, and compute it.

The law solves $\pi P = \pi$. It is found by elimination that only adds, multiplies and divides
non-negative numbers (Grassmann, Taksar and Heyman, 1985), so that every mass, however small, keeps
its relative accuracy. Iterating the table would not do: it never settles for a periodic chain, and
takes forever for one that nearly falls apart. The cost is n^3/3 multiplications.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy  # its parts load when they are used
from numpy.typing import NDArray

from saccade.errors import InputError, shortened

_BLOCK = (
    64  # tokens eliminated between two matrix products: 2000 tokens take 0.5 s, one at a time 6 s
)


def stationary_law(transition: NDArray[np.float64], labels: Sequence[str]) -> NDArray[np.float64]:
    """The one law (axis: token) that the table (token, next_token) keeps; an `InputError` if it has
    several, or forgets a token.
    """
    n_groups, group = scipy.sparse.csgraph.connected_components(
        transition > 0, directed=True, connection="strong"
    )
    if n_groups != 1:
        source, target = np.nonzero(transition)
        left = np.unique(
            group[source][group[source] != group[target]]
        )  # groups that the chain can leave, never to return
        closed = np.setdiff1d(np.arange(n_groups), left)
        if len(closed) > 1:
            one, other = (labels[int(np.argmax(group == g))] for g in closed[:2])
            raise InputError(
                f"`transition` has more than one stationary distribution: it never gets from {shortened(one)} to {shortened(other)}, "
                "nor back. Pass one of its closed groups of tokens, or give the missing steps a chance above zero."
            )
        names = ", ".join(
            shortened(labels[token]) for token in np.nonzero(group != closed[0])[0][:5]
        )
        raise InputError(
            f"`transition` leaves some tokens for good, so that their stationary mass is zero and has no logarithm: {names}. "
            "Leave them out, or let the chain come back to them."
        )
    with np.errstate(all="ignore"):
        law = _eliminated(transition)
        law /= law.sum()
    if not (np.isfinite(law) & (law > 0)).all():
        raise InputError(
            "the stationary distribution of `transition` spans more than a float can hold; leave out the rarest tokens."
        )
    return law


def _eliminated(transition: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""The law up to a factor, by censoring the chain on fewer and fewer tokens.

    Without token k the others follow each other with $P_{ij} + P_{ik} P_{kj} / \sum_{l<k} P_{kl}$.
    The sum stands for $1 - P_{kk}$, so nothing is ever subtracted. Afterwards $\pi_k = \sum_{i<k}
    \pi_i P_{ik} / \sum_{l<k} P_{kl}$, from the first token on.
    """
    P = transition.copy()
    for high in range(len(P), 1, -_BLOCK):
        low = max(high - _BLOCK, 0)
        for k in range(high - 1, max(low, 1) - 1, -1):
            P[:k, k] /= P[k, :k].sum()
            P[:k, low:k] += np.outer(P[:k, k], P[k, low:k])
            P[low:k, :low] += np.outer(P[low:k, k], P[k, :low])
        P[:low, :low] += (
            P[:low, low:high] @ P[low:high, :low]
        )  # what the block's tokens owe to all before them, at once
    pi = np.ones(len(P))
    for k in range(1, len(P)):
        pi[k] = pi[:k] @ P[:k, k]
    return pi
