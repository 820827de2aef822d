r"""A random start of the embedded model, as the rank-one flow will see it once it has condensed.

Condensation keeps of the embedding and of the projection what lies along $\alpha$, and focus keeps of query and key the mode that
grows. With $q = W_Q^\top\alpha$, $k = W_K^\top\alpha$ and $\pm$ the sign of the focus rate that mode is $q \pm k$; so

$$\gamma = W_0\alpha, \quad \beta = W_1^\top\alpha, \quad a \propto q \pm k, \quad
  \lambda_Q = a\cdot q, \quad \lambda_K = a\cdot k$$

is the start on the rank-one manifold that ends, to first order, where the random one does. What is left out dies out (along the
other mode of query and key) or stays as small as it began (across $\alpha$) until the next direction opens.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.data.markov import MarkovChain
from saccade.dynamics.randomness import Purpose, generator
from saccade.errors import checked_seed
from saccade.model.embedded import Embedded, Weights
from saccade.model.rank_one import RankOne
from saccade.theory import focus_and_dilution as theory


class Start(NamedTuple):
    """Weights of one seed, the direction they condense to, their point on the manifold, and the size of W_Q that is not on it."""

    weights: Weights
    direction: NDArray[np.float64]
    point: RankOne
    rest_of_query: float


def random_start(chain: MarkovChain, model: Embedded, seed: int) -> Start:
    """The start that `saccade.flow` draws for this seed."""
    weights = model.initial(chain.n_vocab, generator(checked_seed("seed", seed), Purpose.INITIALISATION))
    alpha = theory.condensed_direction(weights.embedding, weights.projection, stationary=chain.stationary)
    sign = theory.focus_sign(stationary=chain.stationary, transition=chain.transition) or 1
    q, k = alpha @ weights.query, alpha @ weights.key
    a = (q + sign * k) / np.linalg.norm(q + sign * k)
    point = RankOne(weights.embedding @ alpha, alpha @ weights.projection, q @ a, k @ a)
    return Start(weights, alpha, point, float(np.sum(weights.query**2) - (q @ a) ** 2))
