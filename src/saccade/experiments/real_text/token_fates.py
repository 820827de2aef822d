"""Who gained attention: distinct against common tokens, against equally frequent ones, and frequent
against rare ones.

Everything is about gains (seed, query, token): changes of a score since the start; for "seed" read
any repetition, such as another sample of the text. What chance alone would give comes from
shuffling which tokens are called distinct, within the query or within a stratum of equally frequent
tokens, for all seeds at once. How far repetitions agree in the same units is the ceiling of a
measure.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.experiments.real_text.token_groups import TokenGroups
from saccade.observe.fits import agreement, rank_correlation

Array = NDArray[np.float64]
DRAWS = 200
CHANCE = 0.975  # what chance exceeds in one of forty draws: one side of a 95 % interval
ENOUGH = 5  # distinct tokens of one next token for a rank correlation to mean something: by chance it has a spread of 1/2


class _Cell(NamedTuple):
    """Tokens that are compared with each other: how often one wins, by seed (seed, winner, loser),
    and which are ours.
    """

    wins: Array
    ours: NDArray[np.bool_]


def separation_share(gain: Array, groups: TokenGroups) -> Array:
    """Share of a query's common tokens that a distinct token gains on, mean over distinct tokens
    (seed): 1/2 is chance.
    """
    return _share(_cells(gain, groups, matched=False), len(gain))


def matched_share(gain: Array, groups: TokenGroups) -> Array:
    """The same against all tokens of the distinct token's own stratum that are not distinct: what
    frequency does not explain.
    """
    return _share(_cells(gain, groups, matched=True), len(gain))


def share_by_chance(gain: Array, groups: TokenGroups, *, matched: bool) -> float:
    """What the mean of a share over seeds exceeds in one of forty shufflings of which tokens are
    called distinct.
    """
    cells = [
        _Cell(cell.wins.mean(axis=0, keepdims=True), cell.ours)
        for cell in _cells(gain, groups, matched=matched)
    ]
    rng = np.random.default_rng(0)  # of the shuffling alone
    shuffled = [
        _share([_Cell(wins, rng.permutation(ours)) for wins, ours in cells], 1)[0]
        for _ in range(DRAWS)
    ]
    return float(np.quantile(shuffled, CHANCE))


def _share(cells: list[_Cell], n_seeds: int) -> Array:
    n_tokens = sum(int(cell.ours.sum()) for cell in cells)
    return (
        np.asarray(sum(_won(*cell) for cell in cells) / n_tokens)
        if n_tokens
        else np.full(n_seeds, np.nan)
    )


def _cells(gain: Array, groups: TokenGroups, *, matched: bool) -> list[_Cell]:
    """A query's distinct and common tokens; `matched`, all of its tokens of one stratum."""
    ours, others = (
        groups.distinct,
        ~groups.distinct & (groups.frequency > 0) if matched else groups.common,
    )
    stratum, found = groups.strata if matched else np.zeros_like(groups.own), []
    for query in range(gain.shape[1]):
        for number in np.unique(stratum[query][ours[query]]):
            tokens = np.flatnonzero((stratum[query] == number) & (ours[query] | others[query]))
            if others[query][tokens].any():
                values = gain[:, query, tokens]
                above, below = values[:, :, None], values[:, None, :]
                found.append(_Cell((above > below) + 0.5 * (above == below), ours[query][tokens]))
    return found


def _won(wins: Array, ours: NDArray[np.bool_]) -> Array:
    """Sum over our tokens of the share of the others that each beats (seed)."""
    return wins[:, ours][:, :, ~ours].mean(axis=2).sum(axis=1)


def classes(groups: TokenGroups) -> list[tuple[int, NDArray[np.int64]]]:
    """Query and distinct tokens of each next token that has `ENOUGH` of them."""
    found = []
    for query, own in enumerate(groups.own):
        sets = [np.flatnonzero(own == number) for number in range(own.max() + 1)]
        found += [(query, tokens) for tokens in sets if len(tokens) >= ENOUGH]
    return found


def frequency_order(gain: Array, groups: TokenGroups) -> Array:
    """Rank correlation of gain with P(l|m,n) among the distinct tokens of a next token, mean over
    them (seed): theory says 1.
    """
    members = classes(groups)
    shares = [groups.own_share[at] for at in members]
    return np.array(
        [_mean_correlation([of_seed[at] for at in members], shares) for of_seed in gain]
    )


def frequency_following(gain: Array, groups: TokenGroups) -> Array:
    """Rank correlation of gain with frequency over the known tokens of a query, mean over queries
    (seed).
    """
    return np.array([same_gains(of_seed, groups.frequency, groups) for of_seed in gain])


def same_gains(one: Array, other: Array, groups: TokenGroups) -> float:
    """Rank correlation of two gains (query, token) over the known tokens of a query, mean over
    queries.
    """
    return float(
        np.mean(
            [
                rank_correlation(a[at], b[at])
                for a, b, at in zip(one, other, groups.known, strict=True)
            ]
        )
    )


def gain_agreement(gain: Array, groups: TokenGroups) -> float:
    """Ceiling of a rank correlation with the gains of all known tokens."""
    return agreement(gain, lambda one, other: same_gains(one, other, groups))


def order_agreement(gain: Array, groups: TokenGroups) -> float:
    """Ceiling of `frequency_order`: rank correlation of two repetitions among the distinct tokens
    of a next token.
    """
    members = classes(groups)
    return agreement(
        gain,
        lambda one, other: _mean_correlation(
            [one[at] for at in members], [other[at] for at in members]
        ),
    )


def pair_agreement(gain: Array, groups: TokenGroups, *, matched: bool = False) -> float:
    """Ceiling of `separation_share`, or of `matched_share`: share of pairs that two repetitions put
    in the same order.
    """
    others, strata = (
        (~groups.distinct & (groups.frequency > 0), groups.strata)
        if matched
        else (groups.common, None)
    )
    pairs = []
    for query, token in zip(*np.nonzero(groups.distinct), strict=True):
        rivals = (
            others[query]
            if strata is None
            else others[query] & (strata[query] == strata[query, token])
        )
        pairs.append(gain[:, query, token, None] - gain[:, query, rivals])
    return agreement(
        np.concatenate(pairs, axis=1),
        lambda one, other: float(np.mean(np.sign(one) == np.sign(other))),
    )


def _mean_correlation(gains: list[Array], shares: list[Array]) -> float:
    found = [rank_correlation(gain, share) for gain, share in zip(gains, shares, strict=True)]
    known = [value for value in found if np.isfinite(value)]
    return (
        float(np.round(np.mean(known), 12)) if known else np.nan
    )  # of a few tokens: what cancels must be 0, not its rounding
