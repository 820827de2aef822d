"""Who gained attention: distinct against common tokens, against equally frequent ones, and frequent against rare ones.

Everything is about gains (seed, query, token): changes of a score since the start. What chance alone would give comes from
shuffling which tokens are called distinct, within the query or within a stratum of equally frequent tokens, for all seeds at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.experiments.real_text.token_groups import TokenGroups
from saccade.lab.panel import RINGS, Limits, Line, Lines, with_intervals
from saccade.observe.fits import interval, rank_correlation

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


def matched_common_share(gain: Array, groups: TokenGroups) -> Compared:
    """Share of equally frequent tokens, not common, that a common token falls behind."""
    return _share(-gain, groups.common, ~groups.common & (groups.frequency > 0), groups.strata)


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


def stand_in_order(gain: Array, groups: TokenGroups) -> Array:
    """`frequency_order` of tokens that are not distinct but as frequent: each replaced by one of its stratum (seed)."""
    rng, strata, members = np.random.default_rng(0), groups.strata, classes(groups)
    free = ~groups.distinct & (groups.frequency > 0)
    found = []
    for _ in range(DRAWS // 10):
        stand_ins = [(q, _stand_ins(tokens, strata[q], free[q], rng)) for q, tokens in members]
        shares = [groups.frequency[q, tokens] for q, tokens in stand_ins]
        found.append([_mean_correlation([of_seed[q, tokens] for q, tokens in stand_ins], shares) for of_seed in gain])
    return np.mean(found, axis=0)


def _stand_ins(tokens: NDArray[np.int64], strata: NDArray[np.int64], free: NDArray[np.bool_], rng: np.random.Generator) -> NDArray:
    """One free token of each one's stratum; twice the same counts once."""
    alike = [np.flatnonzero(free & (strata == strata[token])) for token in tokens]
    return np.unique([rng.choice(choice) for choice in alike if len(choice)]).astype(np.int64)


def frequency_following(gain: Array, groups: TokenGroups) -> Array:
    """Rank correlation of gain with frequency over all tokens seen before a query, mean over queries (seed)."""
    seen = groups.frequency > 0
    rows = range(len(groups.queries))
    return np.array(
        [np.mean([rank_correlation(of_seed[q, seen[q]], groups.frequency[q, seen[q]]) for q in rows]) for of_seed in gain]
    )


def _mean_correlation(gains: list[Array], shares: list[Array]) -> float:
    found = [rank_correlation(gain, share) for gain, share in zip(gains, shares, strict=True)]
    return float(np.mean([value for value in found if np.isfinite(value)])) if np.isfinite(found).any() else np.nan


def passing_times(gain: Array, times: Array, groups: TokenGroups) -> Array:
    """When a distinct token's gain (time, query, token) rose for good above half the mean that its class has at the end.

    (query, token); one more than the last time if it never did; NaN where there is nothing to pass: tokens that are not distinct,
    classes of fewer than `ENOUGH` or that lost.
    """
    passed = np.full(gain.shape[1:], np.nan)
    for query, tokens in classes(groups):
        level = gain[-1, query, tokens].mean() / 2
        if level > 0:
            above = np.logical_and.accumulate(gain[::-1, query, tokens] >= level)[::-1]
            passed[query, tokens] = np.where(above.any(axis=0), times[above.argmax(axis=0)], times[-1] + 1)
    return passed


def winner_place(gain: Array, groups: TokenGroups) -> Array:
    """Where the distinct token that gained most stands among its class by frequency: 0 rarest, 1 most frequent; mean (seed)."""
    places = []
    for query, tokens in classes(groups):
        rank = np.argsort(np.argsort(groups.own_share[query, tokens], kind="stable"), kind="stable") / (len(tokens) - 1)
        places.append(rank[gain[:, query, tokens].argmax(axis=1)])
    return np.mean(places, axis=0) if places else np.full(len(gain), np.nan)


def compared_rows(found: Mapping[str, Compared], meanings: Mapping[str, str], **named: Any) -> list[dict[str, Any]]:
    """Rows of a table: each measure with its mean and 95 % interval over seeds, and what chance exceeds once in forty."""
    return [
        {**named, "measure": meanings[name], **interval(by_seed)._asdict(), "chance": chance}
        for name, (by_seed, chance) in found.items()
    ]


def compared_panel(found: Mapping[str, Mapping[str, Compared]], title: str, y: str, ylim: Limits, *, even: float) -> Lines:
    """Mean and 95 % interval over seeds, a colour for each outer name, a place for each inner one.

    Rings are where chance would come once in forty; `even` is what chance gives on average.
    """
    lines, at, chances = [], [], []
    for i, (label, measures) in enumerate(found.items()):
        x = np.arange(len(measures)) + 0.2 * (i - (len(found) - 1) / 2)
        lines += with_intervals(x, [interval(one.by_seed) for one in measures.values()], label, tone=2 + i)
        at += x.tolist()
        chances += [one.chance for one in measures.values()]
    if np.isfinite(chances).any():
        lines.append(Line(at, chances, "once in forty by chance", RINGS, None))
    ticks = {float(place): name for place, name in enumerate(measures)}
    return Lines(title, "", y, lines, xlim=(-0.5, len(ticks) - 0.5), ylim=ylim, levels={even: "chance"}, ticks=ticks)
