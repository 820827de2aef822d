"""A text as token ids, laid out so that the occurrences of a token and what stands before them are
found at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.errors import InputError, shortened

_MOST_TOKENS = 2**31 - 1  # so that a position fits four bytes
_MOST_VOCABULARY = 2**24  # the largest in use have 2**18 tokens; an id above this is a mistake

Ids = NDArray[np.int32]


class Text(NamedTuple):
    """Documents one after the other. Axis: position."""

    token: Ids
    document_start: Ids
    next_same: Ids  # where the same token comes next, or the length of the text
    followed: Ids  # positions with a next token in their document, ordered by token
    first_followed: NDArray[np.int64]  # (token) where each token begins in `followed`

    def occurrences(self, query: int, most: int) -> Ids:
        """Positions of the query that have a next token, in the order of the text; of more than
        `most`, evenly spaced ones.
        """
        if query + 1 >= len(self.first_followed):
            return self.followed[:0]
        first, stop = self.first_followed[query : query + 2]
        n_taken = min(stop - first, most)
        return self.followed[first + np.arange(n_taken) * (stop - first) // max(n_taken, 1)]


def text_of(ids: Any, name: str = "ids") -> Text:
    """Token ids of one document, or of several in a list or in the rows of an array."""
    listed = isinstance(ids, list | tuple) and len(ids) > 0 and np.ndim(ids[0]) > 0
    whole = (
        [integers(name, part, 1) for part in ids]
        if listed
        else list(np.atleast_2d(integers(name, ids, 1, 2)))
    )
    documents = [document for document in whole if len(document)]
    if not documents:
        raise InputError(f"`{name}` must hold at least one token.")
    token = np.concatenate(documents)
    if len(token) > _MOST_TOKENS:
        raise InputError(
            f"`{name}` holds {len(token)} tokens, more than {_MOST_TOKENS}; give a part of the text."
        )
    if token.min() < 0 or token.max() >= _MOST_VOCABULARY:
        raise InputError(
            f"`{name}` must hold token ids from 0 to {_MOST_VOCABULARY - 1}; got {token.min()} to {token.max()}. Leave padding out."
        )
    token = token.astype(np.int32)
    lengths = np.array([len(document) for document in documents])
    ends = np.cumsum(lengths)
    order = np.argsort(token, kind="stable").astype(np.int32)
    next_same = np.full(len(token), len(token), np.int32)
    again = token[order[1:]] == token[order[:-1]]
    next_same[order[:-1][again]] = order[1:][again]
    has_next = np.ones(len(token), bool)
    has_next[ends - 1] = False
    followed = order[has_next[order]]
    first_followed = np.searchsorted(token[followed], np.arange(token.max() + 2))
    return Text(
        token,
        np.repeat(ends - lengths, lengths).astype(np.int32),
        next_same,
        followed,
        first_followed,
    )


def integers(name: str, values: Any, *n_axes: int) -> NDArray[np.int64]:
    """`values` as an array of whole numbers with one of these numbers of axes."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(
            f"`{name}` must be an array of token ids; got {shortened(values)}."
        ) from None
    if array.size and (array.dtype.kind not in "iu" or array.ndim not in n_axes):
        axes = " or ".join(str(n) for n in n_axes)
        raise InputError(
            f"`{name}` must be whole numbers with {axes} axes; got {array.dtype} of shape {array.shape}."
        )
    return array.astype(np.int64)
