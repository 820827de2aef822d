"""Who gained attention: distinct against common tokens, against equally frequent ones, and frequent against rare ones.

Everything is about gains (seed, query, token): changes of a score since the start; for "seed" read any repetition, such as another
sample of the text. What chance alone would give comes from shuffling which tokens are called distinct, within the query or within a
stratum of equally frequent tokens, for all seeds at once. How far repetitions agree in the same units is the ceiling of a measure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.experiments.real_text.token_groups import TokenGroups
from saccade.observe.fits import agreement, rank_correlation

Array = NDArray[np.float64]
DRAWS = 200
CHANCE = 0.975  # what chance exceeds in one of forty draws: one side of a 95 % interval
ENOUGH = 5  # distinct tokens of one next token for a rank correlation to mean something: by chance it has a spread of 1/2


class Compared(NamedTuple):
    """A measure by seed, and what one in forty shufflings exceeds (NaN: not asked)."""

    by_seed: Array
    chance: float = np.nan


class _Cell(NamedTuple):
    """Tokens that are compared with each other: how often one wins, by seed (seed, winner, loser), and which are ours."""

    wins: Array
    ours: NDArray[np.bool_]


def separation_share(gain: Array, groups: TokenGroups) -> Compared:
    """Share of a query's common tokens that a distinct token gains on, mean over distinct tokens: 1/2 is chance."""
    return _share(gain, groups.distinct, groups.common, np.zeros_like(groups.own))


def matched_share(gain: Array, groups: TokenGroups) -> Compared:
    """The same against all tokens of the distinct token's own stratum that are not distinct: what frequency does not explain."""
    return _share(gain, groups.distinct, ~groups.distinct & (groups.frequency > 0), groups.strata)


def _share(gain: Array, ours: NDArray[np.bool_], others: NDArray[np.bool_], stratum: NDArray[np.int64]) -> Compared:
    cells = list(_cells(gain, ours, others, stratum))
    n_tokens = sum(int(cell.ours.sum()) for cell in cells)
    if not n_tokens:
        return Compared(np.full(len(gain), np.nan))
    by_seed = sum(_won(cell.wins, cell.ours) for cell in cells) / n_tokens
    rng = np.random.default_rng(0)  # of the shuffling alone
    means = [_Cell(cell.wins.mean(axis=0, keepdims=True), cell.ours) for cell in cells]
    shuffled = [sum(_won(wins, rng.permutation(ours))[0] for wins, ours in means) / n_tokens for _ in range(DRAWS)]
    return Compared(np.asarray(by_seed), float(np.quantile(shuffled, CHANCE)))


def _cells(gain: Array, ours: NDArray[np.bool_], others: NDArray[np.bool_], stratum: NDArray[np.int64]) -> Iterator[_Cell]:
    for query in range(gain.shape[1]):
        for number in np.unique(stratum[query][ours[query]]):
            tokens = np.flatnonzero((stratum[query] == number) & (ours[query] | others[query]))
            if others[query][tokens].any():
                values = gain[:, query, tokens]
                above, below = values[:, :, None], values[:, None, :]
                yield _Cell((above > below) + 0.5 * (above == below), ours[query][tokens])


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


def frequency_order(gain: Array, groups: TokenGroups) -> Compared:
    """Rank correlation of gain with P(l|m,n) among the distinct tokens of a next token, mean over next tokens: theory says 1."""
    members = classes(groups)
    if not members:
        return Compared(np.full(len(gain), np.nan))
    shares = [groups.own_share[query, tokens] for query, tokens in members]
    by_seed = np.array([_mean_correlation([of_seed[q, tokens] for q, tokens in members], shares) for of_seed in gain])
    rng = np.random.default_rng(0)
    shuffled = []
    for _ in range(DRAWS):
        mixed = [rng.permutation(share) for share in shares]
        shuffled.append(_mean_correlation([gain[:, q, tokens].mean(axis=0) for q, tokens in members], mixed))
    return Compared(by_seed, float(np.quantile(shuffled, CHANCE)))


def frequency_following(gain: Array, groups: TokenGroups) -> Array:
    """Rank correlation of gain with frequency over the known tokens of a query, mean over queries (seed)."""
    return np.array([same_gains(of_seed, groups.frequency, groups) for of_seed in gain])


def same_gains(one: Array, other: Array, groups: TokenGroups) -> float:
    """Rank correlation of two gains (query, token) over the known tokens of a query, mean over queries."""
    return float(np.mean([rank_correlation(a[at], b[at]) for a, b, at in zip(one, other, groups.known, strict=True)]))


def gain_agreement(gain: Array, groups: TokenGroups) -> float:
    """Ceiling of a rank correlation with the gains of all known tokens."""
    return agreement(gain, lambda one, other: same_gains(one, other, groups))


def order_agreement(gain: Array, groups: TokenGroups) -> float:
    """Ceiling of `frequency_order`: rank correlation of two repetitions among the distinct tokens of a next token."""
    members = classes(groups)
    return agreement(gain, lambda one, other: _mean_correlation([one[at] for at in members], [other[at] for at in members]))


def pair_agreement(gain: Array, groups: TokenGroups, *, matched: bool = False) -> float:
    """Ceiling of `separation_share`, or of `matched_share`: share of pairs that two repetitions put in the same order."""
    others, strata = (~groups.distinct & (groups.frequency > 0), groups.strata) if matched else (groups.common, None)
    pairs = []
    for query, token in zip(*np.nonzero(groups.distinct), strict=True):
        rivals = others[query] if strata is None else others[query] & (strata[query] == strata[query, token])
        pairs.append(gain[:, query, token, None] - gain[:, query, rivals])
    return agreement(np.concatenate(pairs, axis=1), lambda one, other: float(np.mean(np.sign(one) == np.sign(other))))


def _mean_correlation(gains: list[Array], shares: list[Array]) -> float:
    found = [rank_correlation(gain, share) for gain, share in zip(gains, shares, strict=True)]
    return float(np.mean([value for value in found if np.isfinite(value)])) if np.isfinite(found).any() else np.nan
