r"""What a text tells of its tokens: how frequent each is, and how much a key token tells about the
next token, given the query.

For a query q and the token after it, let N be how often q came with the key k among the `window`
tokens before it (in the same document, counted once however often k is there). The paper's
*distinct* tokens, which occur with one next token only, come out at 1, its *common* ones, which
occur with all alike, at 0 [tian2023, section 3]:

$$1 - H_N(\text{next} \mid q, k) \,/\, H_N(\text{next} \mid q), \qquad
  H_N = \sum_x p_x \sum_{v=1}^{N-1} \frac{(1 - p_x)^v}{v} \;\uparrow\; H = -\sum_x p_x \ln p_x .$$

Entropy H from few samples comes out too low, by nats where thousands of next tokens are possible,
so a rare key would look as if it told much. $H_N$ is as much of H as N samples can tell without
bias [zhang2012], and taking it on both sides makes small counts harmless:

- a key that is independent of the next token has mean 0 exactly, before cutting to [0, 1], whatever N: its occurrences are a random
  N of those of the query, and $H_N(\text{next} \mid q)$ is the mean over all choices of N;
- a key that fixes the next token has 1 exactly;
- between the two, both entropies lack what N samples cannot tell. Mostly the query's lacks more, as more can follow it, and a key
  comes out nearer to 0 than $1 - H/H$ is; a key that leaves one likely next token and a long tail comes out nearer to 1.

What is left is scatter, and pairs that would scatter much are left out (`LEAST_COUNT`,
`LARGEST_SCATTER`). Limits: occurrences count as independent, so a text that repeats itself looks
surer than it is. A key that moves the next token from one likely value to another, without making
it surer, comes out at 0; one that makes it less sure too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from saccade.errors import InputError, checked_count
from saccade.watching.token_text import Text, integers, text_of

WINDOW = 32
N_DECILES = 10
# With these two an independent key scatters by at most .08 around 0, and is below .1 in nine of ten
# cases and never at .5: seen for even, skewed and Zipf laws of 2 to 5000 next tokens, each at the
# smallest N allowed (tests/watching/test_token_statistics.py).
LEAST_COUNT = 32  # times that a pair must occur: the scatter of a law whose next tokens are all alike goes as 1/N
LARGEST_SCATTER = (
    0.05  # of an independent key, to first order in 1/N: half of what still counts as common
)
_MOST_KEYS = (
    2**21
)  # looked at for one query, 65536 occurrences at a window of 32; bounds memory to some 150 MB
_NEGLIGIBLE = 40.0  # terms of H_N below exp(-40) of the first are left out

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TokenStatistics:
    """Statistics of the tokens of a text. Made by `TokenStatistics.count`.

    | name        | axes  | meaning                                                                                      |
    |-------------|-------|----------------------------------------------------------------------------------------------|
    | `frequency` | token | share of the text: 0 = never seen, 1 = nothing else; sums to one                             |
    | `decile`    | token | 9 = the most frequent tokens to 0 = the rarest, -1 = never seen; see `frequency_deciles`     |
    | `window`    |       | how many tokens before the query count as keys                                               |
    """

    frequency: Floats
    decile: NDArray[np.int64]
    window: int
    text: Text

    @classmethod
    def count(
        cls,
        ids: ArrayLike | Sequence[ArrayLike],
        n_vocab: int | None = None,
        window: int = WINDOW,
        probe_ids: ArrayLike | None = None,
        name: str = "ids",
    ) -> TokenStatistics:
        """`ids`: token ids of one document, or a list of documents (an array with two axes has a
        document in each row).

        The vocabulary holds the tokens of the text and of `probe_ids`, if not said otherwise. 16
        bytes are kept of each token. `name` is what a caller calls the ids, for sentences about
        mistakes in them.
        """
        text = text_of(ids, name)
        needed = 1 + int(text.token.max())
        if probe_ids is not None:
            needed = max(needed, 1 + int(np.max(probe_ids, initial=0)))
        size = needed if n_vocab is None else checked_count("n_vocab", n_vocab)
        if size < needed:
            raise InputError(
                f"`n_vocab` is {size}, but `{name}` or `probe_ids` hold token {needed - 1}."
            )
        counts = np.bincount(text.token, minlength=size)
        return cls(
            counts / counts.sum(), frequency_deciles(counts), checked_count("window", window), text
        )

    @property
    def n_vocab(self) -> int:
        return len(self.frequency)

    def informative_by_sequence(self, ids: ArrayLike) -> Iterator[NDArray[np.float32]]:
        """How much each key tells about the token after each query: (query, key) of one sequence
        after the other, from token ids (sequence, position). Never more than one is in memory.

        0 = nothing, or it leaves the next token less sure than the query alone; 1 = it fixes the
        next token. It belongs to the two tokens: a key further back than the window is given what
        the same token tells within it. The query, as the key at its own position, tells nothing
        more: 0. NaN where the key comes after the query, the query has one next token only, or the
        pair is too rare to tell.
        """
        tokens = integers("ids", ids, 2)
        if 0 in tokens.shape:
            raise InputError(
                f"`ids` must have axes (sequence, position) with at least one token; its shape is {tokens.shape}."
            )
        sequences = [
            _Types.of(row)
            for row in np.where((tokens >= 0) & (tokens < self.n_vocab), tokens, self.n_vocab)
        ]
        pairs = np.unique(
            np.concatenate([types.codes(self._base)[types.before] for types in sequences])
        )
        queries, first = np.unique(pairs // self._base, return_index=True)
        keys = np.split(pairs % self._base, first[1:])
        told = np.concatenate(
            [self._told_by(keys_of, query) for query, keys_of in zip(queries, keys, strict=True)]
        )
        return (types.spread(pairs, told, self._base) for types in sequences)

    @property
    def _base(self) -> int:
        """A pair is packed as query x base + key. After the text's tokens come one that it never
        holds, and the query itself.
        """
        return self.n_vocab + 2

    def _told_by(self, keys: NDArray[np.int64], query: int) -> Floats:
        """What each key tells, given one query."""
        at = self.text.occurrences(query, most=max(_MOST_KEYS // self.window, LEAST_COUNT))
        if len(at) < LEAST_COUNT:
            return np.full(len(keys), np.nan)
        _, following = np.unique(self.text.token[at + 1], return_inverse=True)
        place = np.full(self._base, -1, np.int32)
        place[keys] = np.arange(len(keys))
        place[self.n_vocab] = -1  # stands for no key
        # Tokens before each position, the query itself last (position, key); each once, `n_vocab`
        # for no key.
        back = at[:, None] - np.arange(1, self.window + 1, dtype=np.int32)
        inside = back >= self.text.document_start[at][:, None]
        back = np.maximum(back, 0)
        nearest = self.text.next_same[back] >= at[:, None]
        before = np.where(inside & nearest, self.text.token[back], np.int32(self.n_vocab))
        found = place[np.column_stack([before, np.full(len(at), self.n_vocab + 1, np.int32)])]
        occurrence, column = np.nonzero(found >= 0)
        n_next = following.max() + 1
        codes, times = np.unique(
            found[occurrence, column] * np.int64(n_next) + following[occurrence], return_counts=True
        )
        return _less_unknown(
            codes // n_next, times, n_keys=len(keys), next_counts=np.bincount(following)
        )


def frequency_deciles(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Decile of each token by how often it was seen: 9 = the most frequent, 0 = the rarest, -1 =
    never seen.

    Some give each decile a tenth of the tokens (1), some a tenth of their occurrences (2). We do
    (2): with (1) the highest would hold nearly all of a text and the lower ones tokens that no
    probe has. A token with more than a tenth fills a decile alone, and the others share the rest
    evenly, so that none is empty if there are ten tokens. Ties go by id.
    """
    seen = np.flatnonzero(counts)
    order = seen[np.argsort(-counts[seen], kind="stable")]
    total = np.cumsum(counts[order])
    decile = np.full(len(counts), -1, np.int64)
    start = 0
    for number in range(min(N_DECILES, len(order)) - 1, -1, -1):
        before = total[start - 1] if start else 0
        full = int(np.searchsorted(total, before + (total[-1] - before) / (number + 1))) + 1
        stop = max(start + 1, min(full, len(order) - number))
        decile[order[start:stop]] = number + max(N_DECILES - len(order), 0)
        start = stop
    return decile


def _less_unknown(
    pair: NDArray[np.int64],
    times: NDArray[np.int64],
    *,
    n_keys: int,
    next_counts: NDArray[np.int64],
) -> Floats:
    """One less H_N(next | q, k) over H_N(next | q) for each key; `times` tells how often each next
    token came with it.
    """
    N = np.bincount(pair, weights=times, minlength=n_keys).astype(np.int64)
    size = np.maximum(N, 1)
    harmonic = np.concatenate(
        [[0.0, 0.0], np.cumsum(1 / np.arange(1, size.max()))]
    )  # H of n - 1, which is psi(n) but for a constant
    with_key = (
        harmonic[size] - np.bincount(pair, weights=times * harmonic[times], minlength=n_keys) / size
    )
    without, variance = entropy_of_samples(next_counts, size)
    N_q = next_counts.sum()
    left_over = (N_q - N) / (
        N_q - 1
    )  # a sample of nearly all occurrences of the query cannot scatter
    with np.errstate(divide="ignore", invalid="ignore"):
        scatter = np.sqrt(left_over * variance / size) / without
        told = np.clip(1 - with_key / without, 0, 1)
    return np.where((N >= LEAST_COUNT) & (scatter <= LARGEST_SCATTER), told, np.nan)


def entropy_of_samples(
    counts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    r"""$H_N$ of a law in nats, from counts of its outcomes, for each sample size N (at least 1),
    and the variance of its summands.

    The mean of $\psi(N) - \sum_x (c_x / N)\, \psi(c_x)$ over all choices of N of the M counted
    outcomes, exactly [zhang2012]:

    $$\sum_x \frac{n_x}{M} \sum_{v=1}^{N-1} \frac1v \prod_{j=1}^{v} \frac{M - n_x - j + 1}{M - j}.$$
    """
    M = counts.sum()
    mean, square = np.zeros(len(sizes)), np.zeros(len(sizes))
    for n, times in zip(*np.unique(counts[counts > 0], return_counts=True), strict=True):
        n_terms = int(min(sizes.max() - 1, M - n, _NEGLIGIBLE * M / n))
        v = np.arange(1, n_terms + 1)
        sums = np.concatenate([[0.0], np.cumsum(np.cumprod((M - n - v + 1) / (M - v)) / v)])
        surprise = sums[np.minimum(sizes - 1, n_terms)]
        mean += times * n / M * surprise
        square += times * n / M * surprise**2
    return mean, np.maximum(square - mean**2, 0)


class _Types(NamedTuple):
    """The different tokens of one sequence. Axis: type, unless said otherwise."""

    token: NDArray[np.int64]
    of_position: NDArray[np.int64]  # (position) -> type
    before: NDArray[
        np.bool_
    ]  # (query, key): whether the key comes before the query anywhere; last column: the query itself

    @classmethod
    def of(cls, row: NDArray[np.int64]) -> _Types:
        token, first, of_position = np.unique(row, return_index=True, return_inverse=True)
        last = np.zeros(len(token), np.int64)
        np.maximum.at(last, of_position, np.arange(len(row)))
        return cls(
            token, of_position, np.column_stack([first < last[:, None], np.ones(len(token), bool)])
        )

    def codes(self, base: int) -> NDArray[np.int64]:
        """Packed pairs (query, key), the last key being the query itself."""
        return self.token[:, None] * base + np.append(self.token, base - 1)

    def spread(self, pairs: NDArray[np.int64], told: Floats, base: int) -> NDArray[np.float32]:
        """What is told by pairs of types, at the positions (query, key) that have them."""
        table = np.full(self.before.shape, np.nan, np.float32)
        table[self.before] = told[np.searchsorted(pairs, self.codes(base)[self.before])]
        position = np.arange(len(self.of_position))
        earlier = position < position[:, None]
        result = np.where(
            earlier, table[np.ix_(self.of_position, self.of_position)], np.float32(np.nan)
        )
        result[position, position] = table[self.of_position, -1]
        return result
