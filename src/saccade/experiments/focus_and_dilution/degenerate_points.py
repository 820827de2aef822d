"""Rank-one critical points of a chain with one frequent token, and the rates of small moves away
from them, by JAX's derivatives.

Transverse moves open a second direction of the embedding, tangential ones stay on the rank-one
manifold. Among these, moves that sum to zero over the rare tokens break their symmetry.
"""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

import saccade
from saccade.errors import InputError
from saccade.experiments.focus_and_dilution.embedded_gradients import setting
from saccade.models.embedded import Weights
from saccade.models.next_direction import composite_gradient, next_direction
from saccade.models.rank_one import RankOne
from saccade.theories import focus_and_dilution as theory

_FOLDS = 6.0  # times the predicted length of stages I and II: both pass, and what is left decays; Newton's method does the rest
_UNMOVED = 1e-6  # of query times key: attention has not grown, and the point is the unigram saddle that the flow has yet to leave
_AT_REST = (
    1e-14  # speed of a critical point: what is left of a rare query's error is this over its share
)


def rank_one_point(chain: saccade.MarkovChain) -> RankOne:
    """The critical point that the rank-one flow from a small start comes to, past the unigram
    saddle.
    """
    system = saccade.models.RankOneEmbedded(chain)
    focus = theory.focus_rate(stationary=chain.stationary, transition=chain.transition)
    if focus <= 0:
        raise InputError(
            f"Attention does not turn to frequent tokens on this chain (c is {focus:.2g}): no point to find."
        )
    per_fold = theory.condensation_slope(stationary=chain.stationary) + theory.focus_slope(
        rate=focus
    )
    t1 = _FOLDS * np.log(1 / system.model.init_scale) * per_fold
    point = saccade.critical_point(
        system, near=saccade.flow(system, t1=t1, n_times=2).isel(time=-1), tolerance=_AT_REST
    ).state
    if abs(point.query * point.key) < _UNMOVED:
        raise InputError(
            f"The rank-one flow is still at the unigram point at t = {t1:.3g}, where attention has not begun to grow."
        )
    return point


def gradients_at(chain: saccade.MarkovChain, point: RankOne) -> tuple[float, float]:
    """|dL/dM| and |dL/dΦ|, which every transverse rate is made of."""
    slope = composite_gradient(weights_of(point), setting(chain))
    return float(np.linalg.norm(slope.decoder)), float(np.linalg.norm(slope.attention_logits))


def transverse_rate(chain: saccade.MarkovChain, point: RankOne) -> float:
    """s1(B): how fast a second direction opens."""
    return next_direction(weights_of(point), setting(chain)).rate


def query_error(chain: saccade.MarkovChain, point: RankOne) -> float:
    """The largest |(P_i - p_i) . beta|: what is left of the error that the one direction could
    mend.
    """
    averages = theory.rank_one_attention(state_of(point), stationary=chain.stationary) @ point.gamma
    return float(
        np.abs(
            (chain.transition - softmax(np.outer(averages, point.beta), axis=1)) @ point.beta
        ).max()
    )


def state_of(point: RankOne) -> theory.RankOneState:
    return theory.RankOneState(point.gamma, point.beta, float(point.query), float(point.key))


def weights_of(point: RankOne) -> Weights:
    """As narrow as can be: B does not see the width."""
    return Weights(*theory.rank_one_weights(state_of(point), direction=[1.0], key_direction=[1.0]))
