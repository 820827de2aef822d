"""Windows of a text as the pairwise model sees them: how often each token stands before a query,
the query, the token that follows.

The order inside a window does not matter to that model, so a window is a sparse row of counts. A
prior on places, added to the scores, is no more than a weight with which tokens count: e^{z + b}
summed over the places of a token is e^z times the sum of e^b. By default windows share no token of
the text, and samples with one seed share no window: what two of them agree on is not the same words
read twice. Classes can be put in the same form, with contexts drawn from them or endless, so that
one engine serves both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from saccade.data.markov_text import OTHER
from saccade.errors import InputError, checked_count, checked_number, checked_seed, checked_size

if TYPE_CHECKING:
    from saccade.data.sequence_classes import SequenceClasses
    from saccade.data.text.corpus import Corpus

_USUAL = 40_000  # windows that "auto" takes of a long text
_MOST_WINDOWS = 10_000_000  # beyond it is a typing error: their counts alone would take gigabytes


@dataclass(frozen=True, eq=False, repr=False)
class Windows:
    """Contexts, each with its query and next token.

    | name          | axes          | meaning                                                                    |
    |---------------|---------------|----------------------------------------------------------------------------|
    | `counts`      | window, token | how often each token is in the context; P(l|n) for an infinite one;        |
    |               |               | with a positional prior b each counts e^b                                  |
    | `query`       | window        | the token that attends, right after the context                            |
    | `next_token`  | window        | the token to predict, right after the query                                |
    | `weight`      | window        | share of the window in the loss; they sum to one                           |
    | `token_names` | token         |                                                                            |
    | `start`       | window        | where it begins in the text; None if it was not cut from one               |
    """

    counts: sparse.csr_array
    query: NDArray[np.int64]
    next_token: NDArray[np.int64]
    weight: NDArray[np.float64]
    token_names: tuple[str, ...]
    name: str
    start: NDArray[np.int64] | None = None

    def __repr__(self) -> str:
        return f"Windows({self.name!r}: {len(self.query):,} windows of {self.n_vocab:,} kinds of tokens)"

    @property
    def n_vocab(self) -> int:
        return self.counts.shape[1]

    @cached_property
    def frequent_queries(self) -> NDArray[np.int64]:
        """Tokens that are a query somewhere, the most frequent first."""
        share = np.bincount(self.query, self.weight, self.n_vocab)
        return np.argsort(-share, kind="stable")[: np.count_nonzero(share)]

    def token_count(self, query: int) -> NDArray[np.float64]:
        """How often each token stands in the contexts of a query."""
        return np.asarray(self.counts[self.query == query].sum(axis=0), float)

    def of_frequent(self, n_tokens: int) -> Windows:
        """The same windows with all but the first `n_tokens` tokens of the vocabulary as one,
        `<other>`; ids are ranked.
        """
        if n_tokens >= self.n_vocab:
            return self
        cut = checked_count("n_tokens", n_tokens)
        kept = sparse.csr_array(
            (
                np.ones(self.n_vocab),
                (np.arange(self.n_vocab), np.minimum(np.arange(self.n_vocab), cut)),
            )
        )
        query, following = (np.minimum(each, cut) for each in (self.query, self.next_token))
        return replace(
            self,
            counts=self.counts @ kept,
            query=query,
            next_token=following,
            token_names=(*self.token_names[:cut], OTHER),
        )

    def part(self, which: NDArray[np.bool_]) -> Windows:
        """Some of the windows, as if there were no others."""
        weight, start = self.weight[which], None if self.start is None else self.start[which]
        counts, query, following = self.counts[which], self.query[which], self.next_token[which]
        return replace(
            self,
            counts=counts,
            query=query,
            next_token=following,
            weight=weight / weight.sum(),
            start=start,
        )

    @classmethod
    def of_classes(
        cls,
        classes: SequenceClasses,
        *,
        n_context: float = math.inf,
        n_windows: int = 10_000,
        seed: int = 0,
    ) -> Windows:
        """Contexts of `n_context` tokens drawn from the classes; endless ones are the classes
        themselves, one window each.
        """
        n_context = checked_size("n_context", n_context, high=1e15)
        chosen, counts, weight = (
            np.arange(classes.n_classes),
            classes.token_prob,
            classes.class_weight,
        )
        if not math.isinf(n_context):
            rng = np.random.default_rng(checked_seed("seed", seed))
            chosen = rng.choice(
                classes.n_classes,
                checked_count("n_windows", n_windows, high=_MOST_WINDOWS),
                p=weight,
            )
            counts, weight = (
                rng.multinomial(int(n_context), counts[chosen]).astype(float),
                np.full(len(chosen), 1 / len(chosen)),
            )
        return cls(
            sparse.csr_array(counts),
            classes.query[chosen],
            classes.next_token[chosen],
            weight,
            tuple(classes.labels),
            classes.name,
        )


def windows_of_corpus(
    corpus: Corpus,
    *,
    n_context: int,
    n_windows: int | Literal["auto"] | None,
    seed: int,
    sample: int,
    stride: int | None,
    prior: ArrayLike | None,
) -> Windows:
    """See `Corpus.windows`."""
    n_context = checked_count("n_context", n_context, high=len(corpus.train) - 2)
    stride = n_context + 2 if stride is None else checked_count("stride", stride)
    starts = np.arange(0, len(corpus.train) - n_context - 1, stride)
    n_there = len(starts)
    if n_windows is None:
        n_windows = n_there
    elif isinstance(n_windows, str) and n_windows == "auto":
        n_windows = min(_USUAL, n_there)
    else:
        n_windows = checked_count("n_windows", n_windows, high=_MOST_WINDOWS)
    first = n_windows * checked_count("sample", sample, low=0)
    if first + n_windows > len(starts):
        before = (
            f"{first:,} go to the samples before sample {sample}, which takes"
            if first
            else "`n_windows` asks for"
        )
        raise InputError(
            f"{corpus.name} is too short: it has {len(starts):,} windows with {n_context} tokens of context, one every {stride} "
            f"tokens; {before} {n_windows:,}. Lower `n_windows`, `n_context` or `stride`."
        )
    starts = np.random.default_rng(checked_seed("seed", seed)).permutation(starts)[
        first : first + n_windows
    ]
    ids = np.asarray(corpus.train, np.int64)
    context = ids[starts[:, None] + np.arange(n_context)]
    row = np.repeat(np.arange(n_windows), n_context)
    at_place = np.tile(
        _place_weights(prior, n_context)[::-1], n_windows
    )  # the last token of a context is the nearest
    counts = sparse.coo_array(
        (at_place, (row, context.ravel())), shape=(n_windows, corpus.n_vocab)
    ).tocsr()
    return Windows(
        counts,
        ids[starts + n_context],
        ids[starts + n_context + 1],
        np.full(n_windows, 1 / n_windows),
        corpus.vocabulary,
        f"{corpus.name}-windows",
        starts,
    )


def _place_weights(prior: ArrayLike | None, n_context: int) -> NDArray[np.float64]:
    """What a token counts at each place, nearest first: e^b over the largest, 1 without a prior."""
    if prior is None:
        return np.ones(n_context)
    numbers = [
        checked_number("prior", value, low=-1e30, high=1e30) for value in np.ravel(prior).tolist()
    ]
    if len(numbers) != n_context:
        raise InputError(
            f"`prior` must have one number for each of the {n_context} positions of a context; got {len(numbers)}."
        )
    return np.exp(np.array(numbers) - max(numbers))
