r"""Where equal rare tokens stall the flow, from the chain alone, and how fast they separate there.

A flow from a small start passes the unigram point with tiny attention, and from there all flows
follow one path on the rank-one manifold: the start only sets the clock. If rare tokens are exactly
alike, the path ends at a degenerate point (symmetric.py). Domain: equal rates, phi_scale = 1, 0 <
stay < 1, token 0 more frequent than the others.
"""

from typing import Any

import numpy as np
import scipy  # its parts load when they are used
from numpy.typing import NDArray

from ...errors import InputError
from .laws import two_level_law
from .new_directions import next_direction
from .rank_one import RankOneState, rank_one_velocity, rank_one_weights
from .symmetric import DegeneratePoint, point_at_gain, symmetry_hessian
from .transition import relaxation_rate
from .unigram import focus_rate, unigram_point

__all__ = ["parted_opening_rate", "parting_rate", "stall_point"]

_START, _AT_REST = (
    1e-6,
    1e-9,
)  # scale of queries and keys at the unigram point; speed that counts as rest
_AHEAD = 1e-4  # by which one rare token leaves its place first
_PATIENCE = (
    1e6  # e-folding times of attention: at a stay of 0.9999 the last stretch takes 1e5 of them
)
_SLOWEST = (
    1e-6  # rate of attention over that of the rest; slower, and rounding of the rest drowns it
)


def stall_point(*, high: float, n_vocab: int, stay: float) -> DegeneratePoint:
    """The degenerate point that the flow from a small start comes to, if rare tokens stay exactly
    alike.

    >>> point = stall_point(high=0.75, n_vocab=4, stay=0.8)
    >>> round(point.low_attention, 3)  # of a rare token on token 0
    0.131

    [derived, degenerate point]: the rank-one flow from the unigram point, solved with one number
    for all rare tokens.
    """
    if not 0 < stay < 1:
        raise InputError(
            f"`stay` must be above 0 and below 1, otherwise attention does not turn to token 0; got {stay:g}."
        )
    pi = two_level_law(high=high, n_vocab=n_vocab)
    chain: dict[str, Any] = {
        "stationary": pi,
        "transition": stay * np.eye(n_vocab) + (1 - stay) * pi,
    }
    (gamma, beta), rate = unigram_point(stationary=pi), focus_rate(**chain)
    slow = rate / relaxation_rate(high=high, n_vocab=n_vocab)
    if slow < _SLOWEST:
        raise InputError(
            f"Attention grows {slow:.1g} times as fast as the rest relaxes; take `high` or `stay` further from their ends."
        )

    def state(y: NDArray[np.float64]) -> RankOneState:
        gamma, beta = (
            np.append(one, np.full(n_vocab - 1, other)) for one, other in (y[:2], y[2:4])
        )
        return RankOneState(gamma, beta, y[4], y[4])

    def velocity(_: float, y: NDArray[np.float64]) -> NDArray[np.float64]:
        moves = rank_one_velocity(state(y), **chain)
        return np.array([*moves.gamma[:2], *moves.beta[:2], moves.query_scale]) / rate

    def moving(t: float, y: NDArray[np.float64]) -> float:
        """Positive until the flow is at rest; near the unigram point attention is too small to
        count as resting.
        """
        return float(np.linalg.norm(velocity(t, y)) - _AT_REST) if y[4] > 0.01 else 1.0

    moving.terminal = True  # type: ignore[attr-defined]
    start = np.array([*gamma[:2], *beta[:2], _START])
    found = scipy.integrate.solve_ivp(
        velocity, (0.0, _PATIENCE), start, events=moving, method="LSODA", rtol=1e-10, atol=1e-13
    )
    if not len(found.t_events[0]):
        raise InputError(
            f"The flow with `high` {high:g} and `stay` {stay:g} is too slow to follow; take a smaller `stay`."
        )
    high_gamma, low_gamma, *_, scale = found.y[:, -1]
    return point_at_gain(
        scale**2 * high_gamma * (high_gamma - low_gamma), high=high, n_vocab=n_vocab, stay=stay
    )


def parting_rate(point: DegeneratePoint) -> float:
    """How fast differences between equal rare tokens grow at a degenerate point; negative: they
    decay, below the critical stay.

    >>> round(parting_rate(stall_point(high=0.75, n_vocab=4, stay=0.8)), 4)
    0.0231

    [derived, degenerate point]: minus the smallest eigenvalue of `symmetry_hessian`. Every move of
    the rare tokens with sum zero has it, so it comes d - 2 times.
    """
    if len(point.state.gamma) < 3:
        raise InputError(
            "Only two or more rare tokens can separate: the point must have at least 3 tokens."
        )
    return float(-np.linalg.eigvalsh(symmetry_hessian(point))[0])


def parted_opening_rate(point: DegeneratePoint) -> float:
    """How fast a new direction opens once rare tokens have separated, above the critical stay.

    >>> round(parted_opening_rate(stall_point(high=0.75, n_vocab=4, stay=0.8)), 3)
    0.011

    [derived, critical stay]: s1(B) where the rank-one flow comes to rest that leaves the degenerate
    point with one rare token ahead of the others.
    """
    n_vocab, stay, rate = len(point.state.gamma), point.stay, parting_rate(point)
    if rate <= 0:
        raise InputError(
            f"Rare tokens do not separate below the critical stay; got `stay` {stay:g}."
        )
    pi = two_level_law(high=point.high, n_vocab=n_vocab)
    chain: dict[str, Any] = {
        "stationary": pi,
        "transition": stay * np.eye(n_vocab) + (1 - stay) * pi,
    }

    def state(y: NDArray[np.float64]) -> RankOneState:
        return RankOneState(y[:n_vocab], y[n_vocab:-2], y[-2], y[-1])

    ahead = np.zeros(n_vocab)
    ahead[1:] = _AHEAD / (n_vocab - 2)
    ahead[1] = -_AHEAD
    start = np.hstack([point.state.gamma + ahead, *point.state[1:]])
    span = 2 * np.log(1 / _AHEAD) / rate
    found = scipy.integrate.solve_ivp(
        lambda _, y: np.hstack(rank_one_velocity(state(y), **chain)),
        (0.0, span),
        start,
        method="LSODA",
        rtol=1e-8,
    )
    weights = rank_one_weights(state(found.y[:, -1]), direction=[1.0], key_direction=[1.0])
    return next_direction(*weights, **chain).rate
