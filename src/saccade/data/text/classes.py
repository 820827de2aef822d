"""Sequence classes counted in a corpus: each is a query m and a next token n, with P(l|m,n) over
the most frequent context tokens.

The paper's classes are named by their next token, which has one query only [tian2023, section 3];
in text a token follows many. Some make a copy of the token for each query (1), some give it to one
query (2). We do (2), to the query it follows most often, and each query takes its next most
frequent followers instead: tokens stay those of the text, and all of a query's classes share it.

Contexts are read without the tokens that are not kept, as if they were not there; made one token
they would outweigh all others. `class_weight` is how often the pair (m, n) comes. The vocabulary:
kept context tokens, then queries and next tokens not among them.

Text has no exact zeros beyond those of too little data, so nearly every token is common in the
strict sense of `SequenceClasses`. `sharp=True` makes the classes what the theory speaks of: a token
that is distinct by its counts (`context_law.py`) keeps its probability for that next token and
loses it for the others of the query; a common one has its mean; the rest are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from saccade.data.sequence_classes import SequenceClasses
from saccade.data.text.context_law import ContextLaw, counted_context_law
from saccade.errors import InputError, checked_count

if TYPE_CHECKING:
    from saccade.data.text.corpus import Corpus


def classes_of_corpus(
    corpus: Corpus, queries: Sequence[int], *, window: int, n_next: int, n_tokens: int, sharp: bool
) -> SequenceClasses:
    """Up to `n_next` classes for each query; see above."""
    if len(set(queries)) < len(queries) or not queries:
        raise InputError("`queries` must name at least one token, and none twice.")
    n_next = checked_count("n_next", n_next)
    laws = [
        counted_context_law(
            corpus.train,
            corpus.bigrams,
            query,
            window=window,
            next_tokens=nexts,
            names=corpus.vocabulary,
        )
        for query, nexts in _shared_out(corpus, queries, n_next).items()
    ]
    rates = np.concatenate(
        [
            np.where(law.distinct(), law.context, 0)
            + np.where(law.common(), law.context.mean(axis=0), 0)
            if sharp
            else law.context
            for law in laws
        ]
    )
    kept = np.sort(
        np.argsort(-rates.sum(axis=0), kind="stable")[: checked_count("n_tokens", n_tokens)]
    )
    kept = kept[rates[:, kept].any(axis=0)]
    whole = rates[:, kept].any(axis=1)
    if not whole.all():
        raise InputError(
            "with these settings a class has no context tokens left; raise `n_tokens` or `window`, or lower `n_next`."
        )
    return _named(corpus, laws, rates[:, kept], kept)


def _shared_out(corpus: Corpus, queries: Sequence[int], n_next: int) -> dict[int, list[int]]:
    """Next tokens of each query: the most frequent pairs first, every next token once."""
    pairs = corpus.bigrams[list(queries)].tocoo()
    order = np.lexsort((pairs.col, pairs.row, -pairs.data))
    nexts: dict[int, list[int]] = {query: [] for query in queries}
    taken: set[int] = set()
    for i in order:
        query, token = queries[pairs.row[i]], int(pairs.col[i])
        if token not in taken and len(nexts[query]) < n_next:
            nexts[query].append(token)
            taken.add(token)
    for query, tokens in nexts.items():
        if not tokens:
            raise InputError(
                f"nothing is left to follow the query {corpus.vocabulary[query]!r}: name fewer queries, or lower `n_next`."
            )
    return nexts


def _named(
    corpus: Corpus, laws: list[ContextLaw], rates: NDArray[np.float64], kept: NDArray[np.intp]
) -> SequenceClasses:
    number = {int(token): i for i, token in enumerate(kept)}

    def own_id(token: int) -> int:
        return number.setdefault(int(token), len(number))

    query = [own_id(law.query) for law in laws for _ in law.next_tokens]
    next_token = [own_id(token) for law in laws for token in law.next_tokens]
    weight = np.concatenate([corpus.frequencies[law.query] * law.next_share for law in laws])
    return SequenceClasses(
        rates,
        query=np.array(query),
        next_token=np.array(next_token),
        class_weight=weight,
        token_names=tuple(corpus.vocabulary[token] for token in number),
        name=f"{corpus.name}-classes",
        normalise=True,
    )
