"""Rank-one critical points of a chain with one frequent token, and the rates of small moves away
from them, by JAX's derivatives.

Transverse moves open a second direction of the embedding, tangential ones stay on the rank-one
manifold. Among these, moves that sum to zero over the rare tokens break their symmetry.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax

import saccade
from saccade.dynamics.linearise import jacobian, speed
from saccade.dynamics.next_direction import composite_gradient, next_direction
from saccade.errors import InputError
from saccade.experiments.focus_and_dilution.embedded_gradients import setting
from saccade.model.embedded import Weights
from saccade.model.rank_one import RankOne, velocity
from saccade.observe.fits import Array
from saccade.theory import focus_and_dilution as theory

_FOLDS = 6.0  # times the predicted length of stages I and II: both pass, and what is left decays; Newton's method does the rest
_UNMOVED = 1e-6  # of query times key: attention has not grown, and the point is the unigram saddle that the flow has yet to leave
_AT_REST = (
    1e-14  # speed of a critical point: what is left of a rare query's error is this over its share
)
_STAYS = (
    0.02,
    0.98,
)  # every critical stay of the diagram lies between; nearer to 0 and 1 the rates themselves vanish


def rank_one_point(chain: saccade.MarkovChain) -> RankOne:
    """The critical point that the rank-one flow from a small start comes to, past the unigram
    saddle.
    """
    system = saccade.RankOneEmbedded(chain)
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
    slope = composite_gradient(_weights(point), setting(chain))
    return float(np.linalg.norm(slope.decoder)), float(np.linalg.norm(slope.attention_logits))


def transverse_rate(chain: saccade.MarkovChain, point: RankOne) -> float:
    """s1(B): how fast a second direction opens."""
    return next_direction(_weights(point), setting(chain)).rate


def tangential_rate(chain: saccade.MarkovChain, point: RankOne) -> float:
    """The largest growth rate on the manifold: rounding where critical points form a continuum and
    none of them is unstable.
    """
    return float(saccade.linearise(saccade.RankOneEmbedded(chain), at=point).eigenvalues[0].real)


def query_error(chain: saccade.MarkovChain, point: RankOne) -> float:
    """The largest |(P_i - p_i) . beta|: what is left of the error that the one direction could
    mend.
    """
    averages = theory.rank_one_attention(_state(point), stationary=chain.stationary) @ point.gamma
    return float(
        np.abs(
            (chain.transition - softmax(np.outer(averages, point.beta), axis=1)) @ point.beta
        ).max()
    )


def self_attention(chain: saccade.MarkovChain, point: RankOne) -> float:
    """Attention of token 0 on itself, which labels the degenerate points."""
    return float(theory.rank_one_attention(_state(point), stationary=chain.stationary)[0, 0])


def _state(point: RankOne) -> theory.RankOneState:
    return theory.RankOneState(point.gamma, point.beta, float(point.query), float(point.key))


def _weights(point: RankOne) -> Weights:
    """As narrow as can be: B does not see the width."""
    return Weights(*theory.rank_one_weights(_state(point), direction=[1.0], key_direction=[1.0]))


def degenerate(
    *, high: float, n_vocab: int, stay: float, nearness: float
) -> tuple[saccade.MarkovChain, RankOne]:
    """The closed-form point at which token 0 attends to itself with `nearness` of the way from its
    share to all.
    """
    attention = high + nearness * (1 - high)
    point = theory.degenerate_point(high=high, n_vocab=n_vocab, stay=stay, high_attention=attention)
    return saccade.MarkovChain.two_level(n_vocab, high, stay=stay), RankOne(*point.state)


def breaking_rate(chain: saccade.MarkovChain, point: RankOne) -> float:
    """The largest growth rate of moves that sum to zero over the rare tokens."""
    moves = _sum_zero(chain.n_vocab)
    return float(
        np.linalg.eigvalsh(moves.T @ jacobian(velocity, point, setting(chain)) @ moves)[-1]
    )


def _sum_zero(n_vocab: int) -> Array:
    """An orthonormal basis of moves of gamma or beta that sum to zero over the rare tokens and
    leave the rest.
    """
    n_low = n_vocab - 1
    patterns = np.linalg.svd(np.eye(n_low) - 1 / n_low)[0][:, :-1]
    basis = np.zeros((2 * n_vocab + 2, 2 * (n_low - 1)))
    basis[1:n_vocab, : n_low - 1] = basis[n_vocab + 1 : 2 * n_vocab, n_low - 1 :] = patterns
    return basis


def critical_stay_found(n_vocab: int, high: float, nearness: float) -> dict[str, float]:
    """The stay at which the symmetry begins to break, by root finding on JAX's rates, and the speed
    at the point there.
    """

    def rate(stay: float) -> float:
        return breaking_rate(*degenerate(high=high, n_vocab=n_vocab, stay=stay, nearness=nearness))

    if not rate(_STAYS[0]) < 0 < rate(_STAYS[1]):
        return {"critical_stay": np.nan, "critical_residual": np.nan}
    stay = float(brentq(rate, *_STAYS, xtol=1e-9))
    chain, point = degenerate(high=high, n_vocab=n_vocab, stay=stay, nearness=nearness)
    return {"critical_stay": stay, "critical_residual": speed(velocity, point, setting(chain))}
