"""Contexts of a class, counted: windows of real text before a query and its next token, or as many independent draws from its law.

A class is a query m and a next token n; its law at a length T is P(l|m,n) over the T tokens before the query, in the whole text.
Tokens that the classes do not keep are read over, as if they were not there (`data/text/classes.py`), so that a window of T
tokens has T_kept <= T of them. Independent draws are given the same T_kept, window by window.
Axes of all counts: class, slot, row (`model/token_blocks.py`), one context a row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from saccade.data.text.context_law import counted_context_law
from saccade.errors import InputError

if TYPE_CHECKING:
    from saccade.data.sequence_classes import SequenceClasses
    from saccade.data.text.corpus import Corpus
    from saccade.model.token_blocks import TokenBlocks

Array = NDArray[np.float64]
Places = list[NDArray[np.intp]]  # of each class, where the query stands


def law_at(corpus: Corpus, classes: SequenceClasses, length: int) -> Array:
    """P(l|m,n) of each class over the `length` tokens before its query (class, token); tokens and classes are those given."""
    ids = np.array([corpus.id_of(name) for name in classes.token_names])
    kept = classes.token_prob.any(axis=0)
    law = np.zeros(classes.token_prob.shape)
    for query in np.unique(classes.query):
        own = np.flatnonzero(classes.query == query)
        following = ids[classes.next_token[own]].tolist()
        counted = counted_context_law(corpus.train, corpus.bigrams, int(ids[query]), window=length, next_tokens=following)
        law[own] = np.where(kept, counted.count[:, ids], 0)
    return law / law.sum(axis=1, keepdims=True)


def with_law(blocks: TokenBlocks, law: Array) -> TokenBlocks:
    """The same slots with another law (class, token), of tokens that each class had before."""
    return replace(
        blocks, token_prob=np.where(blocks.slots >= 0, np.take_along_axis(law, np.maximum(blocks.slots, 0), axis=1), 0.0)
    )


def part_of_text(n_tokens: int, part: int, n_parts: int) -> tuple[int, int]:
    """Start and end of one of `n_parts` equal parts of a text."""
    return n_tokens * part // n_parts, n_tokens * (part + 1) // n_parts


def drawn_places(
    corpus: Corpus,
    classes: SequenceClasses,
    *,
    between: tuple[int, int],
    longest: int,
    n_windows: int,
    rng: np.random.Generator,
) -> Places:
    """Where some of the sequences of each class end in a part of the training text, `longest` tokens of it before them.

    Each place once; more than once only if the class has fewer than asked for.
    """
    own, places = _numbers(corpus, classes)[corpus.train[between[0] : between[1]]], []
    for query, following in zip(classes.query, classes.next_token, strict=True):
        found = longest + np.flatnonzero((own[longest:-1] == query) & (own[longest + 1 :] == following))
        if not len(found):
            pair = f"{classes.labels[query]!r} before {classes.labels[following]!r}"
            raise InputError(
                f"a part of {corpus.name} has no {pair} after {longest} tokens: take fewer `parts` or shorter `lengths`."
            )
        places.append(between[0] + rng.choice(found, n_windows, replace=len(found) < n_windows))
    return places


def window_counts(corpus: Corpus, classes: SequenceClasses, blocks: TokenBlocks, places: Places, length: int) -> Array:
    """Token counts of the `length` tokens before each place."""
    is_kept, slots, n_vocab = np.any(classes.token_prob, axis=0), blocks.slots, classes.n_vocab
    numbers = _numbers(corpus, classes)
    counts = np.empty((*slots.shape, len(places[0])))
    for n, ends in enumerate(places):
        tokens = numbers[corpus.train[ends[:, None] - np.arange(1, length + 1)]]
        row, back = np.nonzero((tokens >= 0) & np.take(is_kept, tokens))
        table = np.bincount(row * n_vocab + tokens[row, back], minlength=len(ends) * n_vocab).reshape(-1, n_vocab).T
        counts[n] = np.where(slots[n, :, None] >= 0, table[slots[n]], 0)
    if not counts.sum(axis=1).all():
        raise InputError(f"a window of {length} tokens has none that is kept: raise `n_tokens`, or take longer `lengths`.")
    return counts


def independent_counts(blocks: TokenBlocks, like: Array, rng: np.random.Generator) -> Array:
    """Token counts of independent draws from each class's law, as many in each context as `like` has there."""
    sizes = like.sum(axis=1).astype(int)
    return np.stack([rng.multinomial(size, law / law.sum()).T for size, law in zip(sizes, blocks.token_prob, strict=True)])


def _numbers(corpus: Corpus, classes: SequenceClasses) -> NDArray[np.int64]:
    """The classes' own number of each token of the corpus, -1 for those they do not have."""
    numbers = np.full(corpus.n_vocab, -1)
    numbers[[corpus.id_of(name) for name in classes.token_names]] = np.arange(classes.n_vocab)
    return numbers
