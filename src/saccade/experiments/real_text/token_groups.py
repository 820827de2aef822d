"""Distinct and common tokens of a text's most frequent query tokens, and tokens of equal frequency.

Which is which comes from counts of the training text (`data/text/context_law.py`), before anything
is trained. A token is distinct or common for one query, among the few most frequent next tokens of
that query; a model learns all of them. Common tokens are the frequent ones, so the tokens of a
query are also cut into strata of equal frequency, and a distinct token can be compared with those
of its own stratum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import saccade
from saccade.data.text.corpus import Corpus
from saccade.data.text.library_tokenisers import UNKNOWN
from saccade.errors import InputError, checked_count

STRATUM = 20  # enough tokens for a share in steps of 5 %, few enough to have equal frequencies
KNOWN = 100  # most frequent tokens of a query: in 20,000 windows each occurs about 20 times
N_NEXT = 4  # next tokens per query that are separate classes


class TokenGroups(NamedTuple):
    """The tokens before each query.

    | field       | axes         | meaning                                                         |
    |-------------|--------------|-----------------------------------------------------------------|
    | `queries`   | query        | ids of the query tokens, most frequent first                    |
    | `frequency` | query, token | share of the token in the windows before the query              |
    | `own`       | query, token | next token that the token is distinct for; -1: for none         |
    | `own_share` | query, token | P(l|m,n) of that next token; 0 elsewhere                        |
    | `common`    | query, token | whether the token is common for the query                       |
    """

    queries: NDArray[np.int64]
    frequency: NDArray[np.float64]
    own: NDArray[np.int64]
    own_share: NDArray[np.float64]
    common: NDArray[np.bool_]

    @property
    def distinct(self) -> NDArray[np.bool_]:
        return self.own >= 0

    @property
    def rank(self) -> NDArray[np.int64]:
        """Place of each token of a query by frequency: 0 is the most frequent."""
        return np.argsort(np.argsort(-self.frequency, axis=1, kind="stable"), axis=1)

    @property
    def strata(self) -> NDArray[np.int64]:
        """Number of each token's stratum of `STRATUM` tokens of equal frequency."""
        return self.rank // STRATUM

    @property
    def known(self) -> NDArray[np.bool_]:
        """The `KNOWN` most frequent tokens of each query."""
        return (self.rank < KNOWN) & (self.frequency > 0)


class Text(NamedTuple):
    """A text, and which of its tokens are scored. The query is the last of `window` + 1 tokens."""

    name: str
    n_vocab: int
    n_queries: int
    window: int

    @property
    def corpus(self) -> Corpus:
        return saccade.corpus(self.name, n_vocab=self.n_vocab)

    @property
    def queries(self) -> list[int]:
        """The most frequent tokens; `<unk>` is many words and therefore none of them."""
        words = self.corpus.vocabulary
        checked_count("queries", self.n_queries, high=len(words) - 1)
        known = [number for number in range(self.n_queries + 1) if words[number] != UNKNOWN]
        return known[: self.n_queries]

    @property
    def groups(self) -> TokenGroups:
        """Counted in the `window` tokens before each query, by its `N_NEXT` frequent next tokens."""
        corpus = self.corpus
        queries = self.queries
        laws = [corpus.context_law(query, window=self.window, n_next=N_NEXT) for query in queries]
        distinct = [law.distinct() for law in laws]
        own = [np.where(mask.any(axis=0), mask.argmax(axis=0), -1) for mask in distinct]
        if np.max(own) < 0:
            raise InputError(
                f"no query among {len(queries)} of {corpus.name!r} has a distinct token: "
                "take more text or more queries."
            )
        counts = [law.count.sum(axis=0) for law in laws]
        shares = [np.where(mask, law.context, 0.0) for mask, law in zip(distinct, laws)]
        return TokenGroups(
            queries=np.array(queries),
            frequency=np.array([count / count.sum() for count in counts]),
            own=np.array(own),
            own_share=np.array([share.max(axis=0) for share in shares]),
            common=np.array([law.common() for law in laws]),
        )
