"""Distinct, common and other tokens of a text's most frequent query tokens, and tokens that are as
frequent as each other.

Which is which comes from counts of the training text (`data/text/context_law.py`), before anything
is trained. A token that is distinct or common is so for one query; the same token may be another
thing for the next. It is so among the few most frequent next tokens of the query that are told
apart, while a model learns all of them: among more, another token may be distinct. Frequency is the
great confound: common tokens are the frequent ones. So the tokens of a query are also cut into
strata of equally frequent ones, and a distinct token can be compared with those of its own stratum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from saccade.data.text.corpus import Corpus
from saccade.data.text.library_tokenisers import UNKNOWN
from saccade.errors import InputError, checked_count
from saccade.lab.protocol import Variable

STRATUM = 20  # tokens of about equal frequency: enough for a share in steps of 5 %, few enough for the ends to be alike
KNOWN = 100  # most frequent tokens of a query: in 20,000 windows each stands some 20 times before a frequent query
_NAMES = ("frequency", "own", "own_share", "common")
VARIABLES = {
    "frequency": Variable(
        "query token",
        "1",
        "share of the token in the windows before the query and its frequent next tokens",
    ),
    "own": Variable(
        "query token", "", "which next token of the query the token is distinct for; -1: for none"
    ),
    "own_share": Variable(
        "query token", "1", "P(l|m,n) of the next token it is distinct for; 0 elsewhere"
    ),
    "common": Variable("query token", "", "whether the token is common for the query"),
    "query_id": Variable("query", "token", "ids of the query tokens, most frequent first"),
}


@dataclass(frozen=True, eq=False)
class TokenGroups:
    """The tokens before each query; `VARIABLES` says what each array holds."""

    queries: NDArray[np.int64]
    frequency: NDArray[np.float64]
    own: NDArray[np.int64]
    own_share: NDArray[np.float64]
    common: NDArray[np.bool_]

    @property
    def distinct(self) -> NDArray[np.bool_]:
        return self.own >= 0

    @property
    def other(self) -> NDArray[np.bool_]:
        """Neither, and seen at least once."""
        return ~self.distinct & ~self.common & (self.frequency > 0)

    @property
    def strata(self) -> NDArray[np.int64]:
        """Number of each token's stratum of `STRATUM` equally frequent tokens of its query, the
        most frequent first.
        """
        rank = np.argsort(np.argsort(-self.frequency, axis=1, kind="stable"), axis=1)
        return rank // STRATUM

    @property
    def known(self) -> NDArray[np.bool_]:
        """The `KNOWN` most frequent tokens of each query."""
        rank = np.argsort(np.argsort(-self.frequency, axis=1, kind="stable"), axis=1)
        return (rank < KNOWN) & (self.frequency > 0)

    def arrays(self) -> dict[str, NDArray]:
        """As they are kept in a record."""
        return {name: getattr(self, name) for name in _NAMES} | {"query_id": self.queries}

    @classmethod
    def of_record(cls, record: xr.Dataset) -> TokenGroups:
        return cls(record["query_id"].values, *(record[name].values for name in _NAMES))


def frequent_queries(corpus: Corpus, n_queries: int) -> list[int]:
    """The most frequent tokens; `<unk>` is many words and therefore none of them."""
    checked_count("queries", n_queries, high=corpus.n_vocab - 1)
    return [number for number in range(n_queries + 1) if corpus.vocabulary[number] != UNKNOWN][
        :n_queries
    ]


def token_groups(corpus: Corpus, *, n_queries: int, window: int, n_next: int) -> TokenGroups:
    """Counted in the `window` tokens before each query, by its `n_next` most frequent next tokens."""
    queries = frequent_queries(corpus, n_queries)
    laws = [corpus.context_law(query, window=window, n_next=n_next) for query in queries]
    distinct = [law.distinct() for law in laws]
    own = np.array([np.where(mask.any(axis=0), mask.argmax(axis=0), -1) for mask in distinct])
    if not (own >= 0).any():
        raise InputError(
            f"no query among {n_queries} of {corpus.name!r} has a distinct token: take more text or more queries."
        )
    counts = [law.count.sum(axis=0) for law in laws]
    return TokenGroups(
        queries=np.array(queries),
        frequency=np.array([count / count.sum() for count in counts]),
        own=own,
        own_share=np.array(
            [
                np.where(mask, law.context, 0.0).max(axis=0)
                for mask, law in zip(distinct, laws, strict=True)
            ]
        ),
        common=np.array([law.common() for law in laws]),
    )
