"""Who gained attention: distinct tokens or common ones, or equally frequent ones; frequent or rare.

All scores are of gains (seed, query, token): changes of attention logits since the start; a "seed"
is any repetition, such as another sample of the text. Beside each score is its ceiling: how far two
repetitions agree in the same units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.experiments.real_text.token_groups import TokenGroups
from saccade.measures.fits import agreement, rank_correlation

Array = NDArray[np.float64]
DRAWS = 200
CHANCE = 0.975  # one side of a 95 % interval
ENOUGH = 5  # distinct tokens of a next token: by chance a rank correlation of 5 has a spread of 1/2


class _Cell(NamedTuple):
    """Tokens that are compared: how often one outgains another (seed, one, other), and which of
    them are distinct.
    """

    wins: Array
    distinct: NDArray[np.bool_]

    @property
    def pairs(self) -> Array:
        """Of distinct tokens with the others (seed, distinct, other)."""
        return self.wins[:, self.distinct][:, :, ~self.distinct]


def _cells(gain: Array, groups: TokenGroups, matched: bool) -> list[_Cell]:
    """Distinct and common tokens of each query; `matched`: all tokens of each stratum instead."""
    others = ~groups.distinct & (groups.frequency > 0) if matched else groups.common
    stratum = groups.strata if matched else np.zeros_like(groups.own)
    found = []
    for query, distinct in enumerate(groups.distinct):
        for number in np.unique(stratum[query][distinct]):
            inside = (stratum[query] == number) & (distinct | others[query])
            if (inside & others[query]).any():
                values = gain[:, query, inside]
                above = values[:, :, None]
                below = values[:, None, :]
                found.append(_Cell((above > below) + 0.5 * (above == below), distinct[inside]))
    return found


def _share(cells: list[_Cell], n_seeds: int) -> Array:
    n_tokens = sum(int(cell.distinct.sum()) for cell in cells)
    if not n_tokens:
        return np.full(n_seeds, np.nan)
    return np.asarray(sum(cell.pairs.mean(axis=2).sum(axis=1) for cell in cells) / n_tokens)


def share_outgained(gain: Array, groups: TokenGroups, *, matched: bool = False) -> Array:
    """Share of its query's common tokens that a distinct token outgains, mean over distinct tokens
    (seed): 1/2 is chance. `matched`: of the other tokens of its own stratum.
    """
    return _share(_cells(gain, groups, matched), len(gain))


def share_by_chance(gain: Array, groups: TokenGroups, *, matched: bool) -> float:
    """What the mean of a share over seeds exceeds in one of forty shuffles of the distinct tokens,
    within their query or stratum, for all seeds at once.
    """
    cells = [
        _Cell(wins.mean(axis=0, keepdims=True), distinct)
        for wins, distinct in _cells(gain, groups, matched)
    ]
    rng = np.random.default_rng(0)
    shuffled = [
        _share([_Cell(wins, rng.permutation(distinct)) for wins, distinct in cells], 1)[0]
        for _ in range(DRAWS)
    ]
    return float(np.quantile(shuffled, CHANCE))


def pair_agreement(gain: Array, groups: TokenGroups, *, matched: bool = False) -> float:
    """Ceiling of `share_outgained`: share of pairs that two repetitions put in the same order."""
    pairs = [cell.pairs.reshape(len(gain), -1) for cell in _cells(gain, groups, matched)]
    together = np.concatenate(pairs, axis=1)
    return agreement(together, lambda one, other: float(np.mean(one == other)))


def mean_correlation(one: Array, other: Array, members: NDArray[np.bool_]) -> float:
    """Rank correlation of two arrays (query, token) over the members of each query, mean over
    queries.
    """
    found = [rank_correlation(a[at], b[at]) for a, b, at in zip(one, other, members)]
    return float(np.mean(found))


def same_gains(one: Array, other: Array, groups: TokenGroups) -> float:
    """Rank correlation of two gains (query, token) over the known tokens, mean over queries."""
    return mean_correlation(one, other, groups.known)


def frequency_following(gain: Array, groups: TokenGroups) -> Array:
    """Rank correlation of gain with frequency over the known tokens, mean over queries (seed)."""
    return np.array([same_gains(of_seed, groups.frequency, groups) for of_seed in gain])


def gain_agreement(gain: Array, groups: TokenGroups) -> float:
    """Ceiling of a rank correlation with the gains of all known tokens."""
    return agreement(gain, lambda one, other: same_gains(one, other, groups))


def _order(groups: TokenGroups) -> Callable[[Array, Array], float]:
    """Rank correlation of two arrays (query, token) among the distinct tokens of each next token
    that has `ENOUGH` of them, mean over these.
    """
    sets = [
        (query, np.flatnonzero(own == number))
        for query, own in enumerate(groups.own)
        for number in range(own.max() + 1)
    ]
    members = [at for at in sets if len(at[1]) >= ENOUGH]

    def order(one: Array, other: Array) -> float:
        found = [rank_correlation(one[at], other[at]) for at in members]
        known = [value for value in found if np.isfinite(value)]
        # of a few tokens: what cancels must be 0, not its rounding
        return float(np.round(np.mean(known), 12)) if known else np.nan

    return order


def frequency_order(gain: Array, groups: TokenGroups) -> Array:
    """Rank correlation of gain with P(l|m,n) among the distinct tokens of a next token, mean over
    next tokens (seed): theory says 1.
    """
    order = _order(groups)
    return np.array([order(of_seed, groups.own_share) for of_seed in gain])


def order_agreement(gain: Array, groups: TokenGroups) -> float:
    """Ceiling of `frequency_order`."""
    return agreement(gain, _order(groups))
