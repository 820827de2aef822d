"""Which entries of Y and Z a task can ever touch, laid out in small blocks: what makes the pairwise
model cheap.

A sequence of class n reads only the decoder rows of its own tokens. Tokens met in several classes
are *shared* and have one row for all; a token met in one class only is that class's *own*. So the
decoder is one block of shared rows and one small block for each class, instead of vocabulary x
vocabulary. Without a residual or a query among the keys, shared and own are the theory's common and
distinct tokens.

Output columns shrink too. Tokens that are never a next token start equal when the decoder starts at
zero, receive equal gradients and so stay equal for ever: one column stands for all of them, counted
`column_size` times. That is exact. A random start makes them differ, and then every token keeps its
own column.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from saccade.data.sequence_classes import SequenceClasses
from saccade.later import tree

_REST = (
    -1
)  # the column that stands for every token that is never a next token; also the filler of `own`


@tree(  # compiled functions take it as an argument, so that one shape is compiled once
    data_fields=[
        "shared",
        "own",
        "token_prob",
        "queries",
        "has_query",
        "query_slot",
        "columns",
        "column_size",
        "is_target",
        "n_vocab",
    ],
    meta_fields=[],
)
@dataclass(frozen=True, eq=False)
class TokenBlocks:
    """Index tables between the vocabulary and the blocks. A *slot* is a position in a class's list:
    shared tokens, then own ones.

    | name           | axes          | meaning                                                     |
    |----------------|---------------|-------------------------------------------------------------|
    | `shared`       | slot          | token of each shared slot                                   |
    | `own`          | class, slot   | token of each own slot, -1 where the class has fewer        |
    | `token_prob`   | class, slot   | P(l|n)                                                      |
    | `queries`      | query         | the query tokens                                            |
    | `has_query`    | class, query  | 1 where the query is the class's, else 0                    |
    | `query_slot`   | class, slot   | 1 where the slot is the class's query token, else 0         |
    | `columns`      | column        | output token of each decoder column, -1 for the rest        |
    | `column_size`  | column        | how many tokens the column stands for                       |
    | `is_target`    | class, column | 1 where the column is the class's next token, else 0        |
    """

    shared: NDArray[np.int64]
    own: NDArray[np.int64]
    token_prob: NDArray[np.float64]
    queries: NDArray[np.int64]
    has_query: NDArray[np.float64]
    query_slot: NDArray[np.float64]
    columns: NDArray[np.int64]
    column_size: NDArray[np.float64]
    is_target: NDArray[np.float64]
    n_vocab: int

    @classmethod
    def of(cls, task: SequenceClasses, *, query_in_block: bool, equal_columns: bool) -> TokenBlocks:
        """`query_in_block`: the query's own row is read (residual, query among the keys).
        `equal_columns`: the decoder starts with equal columns for tokens that are never predicted.
        """
        members = [np.flatnonzero(row) for row in task.token_prob]
        if query_in_block:
            members = [
                np.union1d(tokens, [query])
                for tokens, query in zip(members, task.query, strict=True)
            ]
        met = np.bincount(np.concatenate(members), minlength=task.n_vocab)
        shared = np.flatnonzero(met > 1)
        distinct = [tokens[met[tokens] == 1] for tokens in members]
        own = np.full((len(distinct), max(map(len, distinct))), _REST)
        for slot, alone in zip(own, distinct, strict=True):
            slot[: len(alone)] = alone
        slots = np.concatenate([np.broadcast_to(shared, (len(own), len(shared))), own], axis=1)
        token_prob = np.where(
            slots == _REST, 0.0, np.take_along_axis(task.token_prob, np.maximum(slots, 0), axis=1)
        )
        queries = np.unique(task.query)
        predicted = np.unique(task.next_token)
        n_rest = task.n_vocab - len(predicted)
        if not equal_columns or n_rest == 0:
            columns, column_size = np.arange(task.n_vocab), np.ones(task.n_vocab)
        else:
            columns = np.append(predicted, _REST)
            column_size = np.append(np.ones(len(predicted)), float(n_rest))
        return cls(
            shared=shared,
            own=own,
            token_prob=token_prob,
            queries=queries,
            has_query=(task.query[:, None] == queries).astype(np.float64),
            query_slot=(slots == task.query[:, None]).astype(np.float64),
            columns=columns,
            column_size=column_size,
            is_target=(task.next_token[:, None] == columns).astype(np.float64),
            n_vocab=task.n_vocab,
        )

    def of_classes(self, classes: Any) -> TokenBlocks:
        """The same tables for some of the classes, in compiled code too."""
        picked = {
            name: getattr(self, name)[classes]
            for name in ("own", "token_prob", "has_query", "query_slot", "is_target")
        }
        return replace(self, **picked)

    @property
    def slots(self) -> NDArray[np.int64]:
        """Token of every slot of every class, -1 for fillers (axes: class, slot)."""
        n_classes = len(self.own)
        return np.concatenate(
            [np.broadcast_to(self.shared, (n_classes, len(self.shared))), self.own], axis=1
        )

    def by_token(self, values: NDArray) -> NDArray:
        """Values on (..., class, slot) spread over (..., class, token); tokens outside the class
        get 0.
        """
        spread = np.zeros((*values.shape[:-1], self.n_vocab + 1), values.dtype)
        index = np.broadcast_to(
            np.where(self.slots == _REST, self.n_vocab, self.slots), values.shape
        )
        np.put_along_axis(spread, index, values, axis=-1)
        return spread[..., : self.n_vocab]

    def class_slots(self, shared: NDArray, own: NDArray) -> NDArray:
        """Z in blocks, (..., query, slot) and (..., class, slot), as one table (..., class, slot)."""
        return np.concatenate([shared[..., self.has_query.argmax(axis=1), :], own], axis=-1)

    def dense_attention_logits(self, shared: NDArray, own: NDArray) -> NDArray:
        """Z over (..., query, token) from its blocks; entries that no context can reach are 0."""
        dense = np.zeros((*shared.shape[:-1], self.n_vocab), shared.dtype)
        dense[..., self.shared] = shared
        for n, m in enumerate(self.has_query.argmax(axis=1)):
            live = self.own[n] != _REST
            dense[..., m, self.own[n][live]] = own[..., n, live]
        return dense

    def dense_decoder(self, shared: NDArray, own: NDArray) -> NDArray:
        """Y over (..., token, next token) from its blocks; rows that no context can reach are 0."""
        column_of = np.full(self.n_vocab, len(self.columns) - 1)
        column_of[self.columns[self.columns != _REST]] = np.arange(
            np.count_nonzero(self.columns != _REST)
        )
        dense = np.zeros((*shared.shape[:-2], self.n_vocab, self.n_vocab), shared.dtype)
        dense[..., self.shared, :] = shared[..., column_of]
        live = self.own != _REST
        dense[..., self.own[live], :] = own[..., live, :][..., column_of]
        return dense

    def attention_blocks(self, dense: NDArray) -> tuple[NDArray, NDArray]:
        """Shared and own blocks of Z given as (query, token)."""
        own = dense[self.has_query.argmax(axis=1)[:, None], self.own]
        return dense[:, self.shared], np.where(self.own == _REST, 0.0, own)

    def decoder_blocks(self, dense: NDArray) -> tuple[NDArray, NDArray]:
        """Shared and own blocks of Y given as (token, next token); a token that is never predicted
        stands for the rest.
        """
        rest = np.setdiff1d(np.arange(self.n_vocab), self.columns)
        columns = np.where(self.columns == _REST, rest[0] if len(rest) else 0, self.columns)
        own = dense[self.own][..., columns]
        return dense[self.shared][:, columns], np.where(self.own[..., None] == _REST, 0.0, own)
