r"""What occurs before a query token, by the token that follows it: P(l|m,n), and which tokens are
distinct or common.

[tian2023] calls a token of the context *distinct* if it occurs with one next token only, *common*
if with several; both are statements about zeros. In text nothing is exactly zero and few counts are
large, so we ask what the counts can bear. With $r_n = P(l|m,n)$, every next token weighed alike, as
the classes of the paper are:

| word     | meaning                                                                                  | in an exact law      |
|----------|------------------------------------------------------------------------------------------|----------------------|
| distinct | $r_n$ is more than half of $\sum_{n'} r_{n'}$: n has more of it than all others together | the paper's distinct |
| common   | every $r_n$ is within a factor of two of their mean                                      | the paper's, if even |

Both must hold by two standard errors of Poisson counts, $\sqrt{N + 1}$ for a count N: a count of
none is not certain either. The rest is neither: too rare to tell, or in between. Words come in
bursts, so true errors are larger than these; shuffled text is the check
(tests/data/text/test_context_law.py). One half is the least share that only one next token can
have; it was chosen before any corpus was looked at, as was the factor of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from saccade.errors import InputError, checked_count, checked_number

MAJORITY = 0.5
EVEN = 2.0
ERRORS = 2.0
_BLOCK = 2**22  # context tokens counted at once


@dataclass(frozen=True, eq=False)
class ContextLaw:
    """Contexts of one query token, counted in the `window` tokens before it; the query itself is
    not among them, as in the paper.

    | name          | axes        | meaning                                                             |
    |---------------|-------------|---------------------------------------------------------------------|
    | `next_tokens` | next        | the tokens n that follow the query most often, most frequent first  |
    | `next_share`  | next        | P(n|m): they need not sum to one, other tokens may follow too       |
    | `count`       | next, token | how often l stood before m followed by n                            |
    | `context`     | next, token | P(l|m,n): the same, each row divided by its sum                     |
    """

    query: int
    window: int
    next_tokens: NDArray[np.int64]
    next_share: NDArray[np.float64]
    count: NDArray[np.int64]
    token_names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        query = repr(self.token_names[self.query]) if self.token_names else str(self.query)
        counted = f"{self.count.sum():,} tokens in windows of {self.window}"
        return f"ContextLaw(before {query}: {counted}, {len(self.next_tokens)} next tokens)"

    @property
    def context(self) -> NDArray[np.float64]:
        return self.count / self.count.sum(axis=1, keepdims=True)

    @property
    def concentration(self) -> NDArray[np.float64]:
        """Share of a token's rate that each next token has (next, token): 1 distinct, 1/n_next
        even; 0 where it never occurs.
        """
        rate = self.context
        total = rate.sum(axis=0)
        return np.divide(rate, total, out=np.zeros_like(rate), where=total > 0)

    def distinct(self, *, share: float = MAJORITY, errors: float = ERRORS) -> NDArray[np.bool_]:
        """Tokens of which this next token has more than `share`, by so many standard errors (axes:
        next, token).
        """
        share = checked_number("share", share, low=MAJORITY, high=1.0)
        errors = checked_number("errors", errors, low=0.0)
        rate, variance = self.context, self._variance
        ours, others = (1 - share) * rate, share * (rate.sum(axis=0) - rate)
        spread = (1 - share) ** 2 * variance + share**2 * (variance.sum(axis=0) - variance)
        return (self.count > 0) & (ours - others > errors * np.sqrt(spread))

    def common(self, *, factor: float = EVEN, errors: float = ERRORS) -> NDArray[np.bool_]:
        """Tokens whose rates are all within `factor` of their mean, by so many standard errors
        (axis: token).
        """
        factor = checked_number("factor", factor, low=1.0, open_low=True)
        errors = checked_number("errors", errors, low=0.0)
        rate, slack = self.context, errors * np.sqrt(self._variance)
        mean = rate.mean(axis=0)
        return ((rate + slack <= factor * mean) & (rate - slack >= mean / factor)).all(axis=0)

    @property
    def _variance(self) -> NDArray[np.float64]:
        return (self.count + 1) / self.count.sum(axis=1, keepdims=True) ** 2


def counted_context_law(
    ids: NDArray,
    pairs: Any,
    query: int,
    *,
    window: int,
    next_tokens: Sequence[int] | int,
    names: Sequence[str] = (),
) -> ContextLaw:
    """Count the contexts of `query` in a ring of ids. `pairs` are the counts (token, next_token) of
    the same ring.

    `next_tokens`: those to tell apart, or how many of the most frequent.
    """
    window = checked_count("window", window, high=len(ids) - 1)
    following = pairs[[query]].toarray()[0]
    if not following.any():
        raise InputError(
            f"the query {names[query] if names else query!r} does not occur in the training text."
        )
    if isinstance(next_tokens, int):
        n_next = min(checked_count("n_next", next_tokens), np.count_nonzero(following))
        next_tokens = np.argsort(-following, kind="stable")[:n_next].tolist()
    chosen = np.array(next_tokens, np.int64)
    n_vocab = len(following)
    row = np.full(n_vocab, -1)
    row[chosen] = np.arange(len(chosen))
    count = np.zeros(len(chosen) * n_vocab, np.int64)
    for start in range(0, len(ids), _BLOCK):
        places = start + np.flatnonzero(ids[start : start + _BLOCK] == query)
        rows = row[ids[(places + 1) % len(ids)]]
        places, rows = places[rows >= 0], rows[rows >= 0]
        for back in range(1, window + 1):
            count += np.bincount(
                rows * n_vocab + ids[places - back], minlength=len(count)
            )  # below 0 is the ring's end
    return ContextLaw(
        query,
        window,
        chosen,
        following[chosen] / following.sum(),
        count.reshape(len(chosen), n_vocab),
        tuple(names),
    )
