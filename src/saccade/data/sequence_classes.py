"""The Scan-and-Snap data model: sequence classes, each a distribution over context tokens with a
query and a next token.

A sequence of class n ends in the query token of n, is followed by the next token of n, and its
context tokens are drawn independently from P(l|n) [tian2023, section 3]. Tokens that occur in one
class only are *distinct*, the others *common*. Not here: how classes are read from a table or a
file (`class_tables.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from saccade.data.checks import MOST_ENTRIES, checked_names, checked_numbers, checked_rows, naming
from saccade.errors import InputError, checked_count, shortened


@dataclass(frozen=True, eq=False)
class SequenceClasses:
    """K sequence classes over a vocabulary of M tokens.

    | name           | paper    | axes         | meaning                                                                 |
    |----------------|----------|--------------|-------------------------------------------------------------------------|
    | `token_prob`   | P(l given n) | class, token | probability of each context token; every class sums to one              |
    | `query`        | psi(n)   | class        | the token that ends a sequence of the class; default: one new token     |
    | `next_token`   | n        | class        | the token to predict, different for each class; default: new tokens     |
    | `class_weight` | P(n)     | class        | how often each class is drawn; default: equally                         |
    | `n_vocab`      | M        |              | default: as many tokens as the ids above need                           |
    | `token_names`  |          | token        | labels for figures and tables; default: the ids                         |

    `token_prob` may cover only the first tokens of the vocabulary; the rest is filled with zeros.
    """

    token_prob: NDArray[np.float64]
    query: NDArray[np.int64] = None  # type: ignore[assignment]  # filled in below, so that readers never meet None
    next_token: NDArray[np.int64] = None  # type: ignore[assignment]
    class_weight: NDArray[np.float64] = None  # type: ignore[assignment]
    n_vocab: int = None  # type: ignore[assignment]
    token_names: tuple[str, ...] = ()
    name: str = "classes"
    normalise: bool = False

    def __repr__(self) -> str:
        return f"SequenceClasses({self.name!r}: {self.n_classes:,} classes over {self.n_vocab:,} tokens)"

    def __post_init__(self) -> None:
        prob = checked_numbers("token_prob", self.token_prob, n_axes=2)
        n_classes, n_context_tokens = prob.shape
        if n_classes == 0 or n_context_tokens == 0:
            raise InputError(
                f"`token_prob` needs at least one class and one token; its shape is {prob.shape}."
            )
        query = (
            np.full(n_classes, n_context_tokens)
            if self.query is None
            else _token_ids("query", self.query, n_classes)
        )
        first_free = max(n_context_tokens, query.max() + 1)
        following = np.arange(first_free, first_free + n_classes)
        next_token = (
            following
            if self.next_token is None
            else _token_ids("next_token", self.next_token, n_classes)
        )
        if len(set(next_token.tolist())) < n_classes:
            raise InputError(
                "`next_token` must be different for every class: a class is named by the token it predicts."
            )
        needed = int(max(n_context_tokens, query.max() + 1, next_token.max() + 1))
        n_vocab = needed if self.n_vocab is None else checked_count("n_vocab", self.n_vocab)
        if n_vocab < needed:
            raise InputError(
                f"`n_vocab` is {n_vocab}, but the named tokens need a vocabulary of at least {needed}."
            )
        if n_vocab < 2:
            raise InputError(
                "`n_vocab` must be at least 2: with a single token there is nothing to predict."
            )
        if n_vocab * n_classes > MOST_ENTRIES:
            raise InputError(
                f"`n_vocab` of {n_vocab} with {n_classes} classes is more than the {MOST_ENTRIES} entries that can be held."
            )
        names = checked_names(self.token_names, n_vocab)
        prob = checked_rows(
            "token_prob",
            prob,
            axis="class",
            label=lambda row: repr(names[next_token[row]]) if names else str(row),
            column=lambda token: repr(names[token]) if names else str(token),
            n_columns=n_vocab,
            normalise=self.normalise,
        )
        if self.class_weight is None:
            weight = np.ones(n_classes) / n_classes
        else:
            weight = _one_each("class_weight", self.class_weight, n_classes, "weight")
            if (weight <= 0).any():
                raise InputError(
                    "`class_weight` must be positive: leave out a class that is never drawn."
                )
            weight = weight / weight.max()  # first, so that no sum overflows
            if (weight == 0).any():
                raise InputError(
                    "the values of `class_weight` differ by more than a float can hold: the smallest would never be drawn; leave it out."
                )
            weight = weight / weight.sum()
        for field, value in (
            ("token_prob", prob),
            ("query", query),
            ("next_token", next_token),
            ("class_weight", weight),
        ):
            value.setflags(write=False)  # all are our own copies
            object.__setattr__(self, field, value)
        object.__setattr__(self, "n_vocab", n_vocab)
        object.__setattr__(self, "token_names", names)

    @property
    def n_classes(self) -> int:
        return self.token_prob.shape[0]

    @property
    def classes_of_token(self) -> NDArray[np.int64]:
        """In how many classes each token occurs, |Omega(l)|."""
        return np.count_nonzero(self.token_prob, axis=0)

    @property
    def common(self) -> NDArray[np.bool_]:
        """Tokens of more than one class (axis: token)."""
        return self.classes_of_token > 1

    @property
    def distinct(self) -> NDArray[np.bool_]:
        """Tokens that occur in this class and no other (axes: class, token)."""
        return (self.token_prob > 0) & (self.classes_of_token == 1)

    @property
    def labels(self) -> tuple[str, ...]:
        return self.token_names or tuple(str(token) for token in range(self.n_vocab))

    @property
    def names_by_axis(self) -> dict[str, list[str]]:
        """What the places of each axis of a record are called; nothing if tokens have no names."""
        if not self.token_names:
            return {}
        tokens = list(self.token_names)
        classes, queries = (
            [tokens[token] for token in ids] for ids in (self.next_token, np.unique(self.query))
        )
        return {"token": tokens, "next_token": tokens, "class": classes, "query": queries}

    @classmethod
    def syn_small(cls) -> SequenceClasses:
        """Two classes with a query each: 10 common and 2 x 10 distinct tokens, 34 in all [tian2023,
        Fig. 4].
        """
        return cls._synthetic(n_queries=2, classes_per_query=1, name="syn-small")

    @classmethod
    def syn_medium(cls, n_queries: int) -> SequenceClasses:
        """Two classes for each of `n_queries` queries: 10 common tokens, 10 distinct ones a class
        [tian2023, Fig. 6].
        """
        count = checked_count("n_queries", n_queries)
        return cls._synthetic(count, classes_per_query=2, name=f"syn-medium-{count}")

    @classmethod
    def _synthetic(cls, n_queries: int, classes_per_query: int, name: str) -> SequenceClasses:
        """Common tokens weigh 1 each, distinct ones rise linearly from 0.1 to 1; then contexts,
        queries, next tokens in order.
        """
        n_classes, n_common, n_distinct = n_queries * classes_per_query, 10, 10
        n_context_tokens = n_common + n_classes * n_distinct
        weight = np.zeros((n_classes, n_context_tokens))
        weight[:, :n_common] = 1.0
        for n in range(n_classes):
            weight[n, n_common + n * n_distinct :][:n_distinct] = np.linspace(0.1, 1.0, n_distinct)
        query = n_context_tokens + np.repeat(np.arange(n_queries), classes_per_query)
        next_token = n_context_tokens + n_queries + np.arange(n_classes)
        return cls(weight, query=query, next_token=next_token, name=name, normalise=True)

    @classmethod
    def from_table(
        cls,
        rows: Sequence[Mapping[str, Any]] | Any,
        *,
        normalise: bool = False,
        name: str = "table",
    ) -> SequenceClasses:
        """One row a class, one column a token (see `class_tables.py`); a list of dicts or anything
        with `to_dict("records")`.
        """
        from saccade.data.class_tables import classes_from_rows

        return classes_from_rows(rows, normalise=normalise, name=name)

    @classmethod
    def from_csv(cls, path: str | Path, *, normalise: bool = False) -> SequenceClasses:
        """The same table as a CSV file with a header."""
        from saccade.data.class_tables import rows_from_csv

        rows = rows_from_csv(Path(path))
        with naming(path):
            return cls.from_table(rows, normalise=normalise, name=Path(path).stem)


def _one_each(name: str, values: ArrayLike, n_classes: int, what: str) -> NDArray[np.float64]:
    numbers = checked_numbers(name, values, n_axes=1)
    if len(numbers) != n_classes:
        raise InputError(
            f"`{name}` must have one {what} for each of the {n_classes} classes; got {len(numbers)}."
        )
    return numbers


def _token_ids(name: str, values: ArrayLike, n_classes: int) -> NDArray[np.int64]:
    numbers = _one_each(name, values, n_classes, "token")
    if (numbers < 0).any() or (numbers != np.floor(numbers)).any() or (numbers > 2**31).any():
        raise InputError(
            f"`{name}` must hold token ids: whole numbers from 0 on; got {shortened(values)}."
        )
    return numbers.astype(np.int64)
