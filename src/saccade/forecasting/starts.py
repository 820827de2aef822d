"""A random start of the embedded model, as the rank-one flow will see it once it has condensed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.data.markov import MarkovChain
from saccade.engines.randomness import Purpose, generator
from saccade.errors import checked_seed
from saccade.models.embedded import Embedded, Weights
from saccade.models.rank_one import RankOne
from saccade.theories import focus_and_dilution as theory


class Start(NamedTuple):
    """Weights of one seed, the direction they condense to, their point on the manifold, and the
    size of W_Q that is not on it.
    """

    weights: Weights
    direction: NDArray[np.float64]
    point: RankOne
    rest_of_query: float


def random_start(chain: MarkovChain, model: Embedded, seed: int) -> Start:
    """The start that `saccade.flow` draws for this seed."""
    weights = model.initial(
        chain.n_vocab, generator(checked_seed("seed", seed), Purpose.INITIALISATION)
    )
    alpha, point = theory.rank_one_start(
        *weights, stationary=chain.stationary, transition=chain.transition
    )
    return Start(
        weights, alpha, RankOne(*point), float(np.sum(weights.query**2) - point.query_scale**2)
    )
