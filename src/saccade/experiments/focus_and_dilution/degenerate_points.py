"""Rank-one critical points of a chain with one frequent token, and the rates of small moves away from them, by JAX's derivatives.

Transverse moves open a second direction of the embedding, tangential ones stay on the rank-one manifold. Among these, moves that
sum to zero over the low tokens break their symmetry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

import saccade
from saccade.experiments.focus_and_dilution.linear_stages import setting
from saccade.theory import focus_and_dilution as theory

if TYPE_CHECKING:
    from saccade.dynamics.rank_one_flow import RankOne
    from saccade.model.embedded import Weights

_RELAXED = 3000.0  # by then the rank-one flow on four tokens moves at 1e-12 or less; Newton's method does the rest


class Gradients(NamedTuple):
    """Norms of the gradients that every transverse rate is made of."""

    decoder: float  # |dL/dM|
    attention_logits: float  # |dL/dPhi|


def rank_one_point(chain: saccade.MarkovChain) -> RankOne:
    """The critical point that the rank-one flow from a small start comes to."""
    from saccade.dynamics import rank_one_flow as flow
    from saccade.dynamics.linearise import critical_point

    end = saccade.reduced_flow(chain, t1=_RELAXED, n_times=2).isel(time=-1)
    reached = flow.RankOne(*(end[name].values for name in ("gamma", "beta", "query_scale", "key_scale")))
    return critical_point(flow.velocity, reached, setting(chain)).state


def gradients_at(chain: saccade.MarkovChain, point: RankOne) -> Gradients:
    from saccade.dynamics.next_direction import composite_gradient

    slope = composite_gradient(_weights(point), setting(chain))
    return Gradients(float(np.linalg.norm(slope.decoder)), float(np.linalg.norm(slope.attention_logits)))


def transverse_rate(chain: saccade.MarkovChain, point: RankOne) -> float:
    """s1(B): how fast a second direction opens."""
    from saccade.dynamics.next_direction import next_direction

    return next_direction(_weights(point), setting(chain)).rate


def _weights(point: RankOne) -> Weights:
    """As narrow as can be: B does not see the width."""
    from saccade.model.embedded import Weights

    state = theory.RankOneState(point.gamma, point.beta, float(point.query), float(point.key))
    return Weights(*theory.rank_one_weights(state, direction=[1.0], key_direction=[1.0]))


def tangential_rate(chain: saccade.MarkovChain, point: RankOne) -> float:
    """The largest growth rate on the manifold: rounding where critical points form a continuum and none of them is unstable."""
    from saccade.dynamics import rank_one_flow as flow
    from saccade.dynamics.linearise import spectrum

    return float(spectrum(flow.velocity, point, setting(chain)).eigenvalues[0].real)


def self_attention(chain: saccade.MarkovChain, point: RankOne) -> float:
    """Attention of token 0 on itself, which labels the degenerate points."""
    state = theory.RankOneState(point.gamma, point.beta, float(point.query), float(point.key))
    return float(theory.rank_one_attention(state, stationary=chain.stationary)[0, 0])


def degenerate(*, high: float, n_vocab: int, stay: float, nearness: float) -> tuple[saccade.MarkovChain, RankOne]:
    """The closed-form point at which token 0 attends to itself with `nearness` of the way from its share to all."""
    from saccade.dynamics.rank_one_flow import RankOne

    attention = high + nearness * (1 - high)
    point = theory.degenerate_point(high=high, n_vocab=n_vocab, stay=stay, high_attention=attention)
    return saccade.MarkovChain.two_level(n_vocab, high, stay=stay), RankOne(*point.state)


def breaking_rate(chain: saccade.MarkovChain, point: RankOne) -> float:
    """The largest growth rate of moves that sum to zero over the low tokens."""
    from saccade.dynamics import rank_one_flow as flow
    from saccade.dynamics.linearise import jacobian

    moves = _sum_zero(chain.n_vocab)
    return float(np.linalg.eigvalsh(moves.T @ jacobian(flow.velocity, point, setting(chain)) @ moves)[-1])


def _sum_zero(n_vocab: int) -> NDArray[np.float64]:
    """An orthonormal basis of moves of gamma or beta that sum to zero over the low tokens and leave the rest."""
    n_low = n_vocab - 1
    patterns = np.linalg.svd(np.eye(n_low) - 1 / n_low)[0][:, :-1]
    basis = np.zeros((2 * n_vocab + 2, 2 * (n_low - 1)))
    basis[1:n_vocab, : n_low - 1] = basis[n_vocab + 1 : 2 * n_vocab, n_low - 1 :] = patterns
    return basis


def critical_stay_found(*, high: float, n_vocab: int, nearness: float) -> tuple[float, float]:
    """The stay at which the symmetry begins to break, by root finding on JAX's rates, and the speed at the point there."""
    from saccade.dynamics import rank_one_flow as flow
    from saccade.dynamics.linearise import speed

    def rate(stay: float) -> float:
        return breaking_rate(*degenerate(high=high, n_vocab=n_vocab, stay=stay, nearness=nearness))

    low, top = 0.02, 0.98  # every stay of the diagram lies between; nearer to 0 and 1 the rates themselves vanish
    if not rate(low) < 0 < rate(top):
        return np.nan, np.nan
    stay = float(brentq(rate, low, top, xtol=1e-9))
    chain, point = degenerate(high=high, n_vocab=n_vocab, stay=stay, nearness=nearness)
    return stay, speed(flow.velocity, point, setting(chain))
