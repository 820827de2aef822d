"""Sequence classes from a table: one row per class, one column per context token.

| column   | holds                                                                              | without it                   |
|----------|------------------------------------------------------------------------------------|------------------------------|
| `class`  | the token to predict, which names the class                                        | an error                     |
| `query`  | the token that ends a sequence; may be one of the context tokens                   | one query shared by all rows |
| `weight` | how often the class is drawn, relative to the others                               | all alike                    |
| others   | the chance of that context token in this class; empty means zero                   |                              |

The vocabulary is the context tokens in the order of their columns, then queries, then next tokens,
each named once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from saccade.data.csv_files import csv_rows
from saccade.data.sequence_classes import SequenceClasses
from saccade.errors import InputError, shortened

_RESERVED = ("class", "query", "weight")
SHARED_QUERY = "<query>"


def classes_from_rows(rows: Any, *, normalise: bool, name: str) -> SequenceClasses:
    is_frame = hasattr(rows, "to_dict") and hasattr(rows, "columns")
    records = rows.to_dict("records") if is_frame else rows
    if not isinstance(records, list) or not all(isinstance(row, Mapping) for row in records):
        raise InputError(
            "a table of classes is a list of rows, each a mapping from column names to cells, or a data frame."
        )
    if not records:
        raise InputError("the table of classes has no rows; it needs one row for each class.")
    records = [{str(column): cell for column, cell in row.items()} for row in records]
    columns = [
        column
        for column in dict.fromkeys(name for row in records for name in row)
        if column not in _RESERVED
    ]
    if not columns:
        raise InputError(
            "the table has no token columns: besides `class`, `query` and `weight` it needs a column for each token."
        )
    vocabulary = {token: index for index, token in enumerate(columns)}

    def token_id(token: object) -> int:
        return vocabulary.setdefault(str(token).strip(), len(vocabulary))

    prob = [
        [_cell(row, number, column, default=0.0) for column in columns]
        for number, row in enumerate(records, start=1)
    ]
    queries = [
        token_id(SHARED_QUERY if _is_missing(row.get("query")) else row["query"]) for row in records
    ]
    next_tokens = []
    for number, row in enumerate(records, start=1):
        if _is_missing(row.get("class")):
            raise InputError(f"row {number} has no `class`: the column names the token to predict.")
        next_tokens.append(token_id(str(row["class"])))
    weights = [
        _cell(row, number, "weight", default=1.0) for number, row in enumerate(records, start=1)
    ]
    return SequenceClasses(
        prob,  # type: ignore[arg-type]  # validated and converted there
        query=queries,  # type: ignore[arg-type]
        next_token=next_tokens,  # type: ignore[arg-type]
        class_weight=weights,  # type: ignore[arg-type]
        token_names=tuple(vocabulary),
        normalise=normalise,
        name=name,
    )


def rows_from_csv(path: Path) -> list[dict[str, str]]:
    rows = csv_rows(path, "classes")
    header = next(rows, [])
    if not header:
        raise InputError(
            f"{path} is empty; the first row names the columns: class, query, weight and the tokens."
        )
    if "" in header or len(set(header)) < len(header):
        named = ", ".join(header)[:200] or "empty"
        raise InputError(f"{path}: every column needs a different name; the header is {named}.")
    return [dict(zip(header, row, strict=True)) for row in rows]


def _cell(row: Mapping[str, Any], number: int, column: str, default: float) -> float:
    cell = row.get(column)
    if _is_missing(cell):
        return default
    try:
        return float(cell)  # type: ignore[arg-type]  # anything else is what the error is for
    except (TypeError, ValueError, OverflowError):
        named = f", class {shortened(row['class'])}" if not _is_missing(row.get("class")) else ""
        raise InputError(
            f"row {number}{named}, column {column!r}: {shortened(cell)} is not a number."
        ) from None


def _is_missing(cell: object) -> bool:
    """An empty cell: nothing, blanks, or the NaN that data frames put there."""
    return (
        cell is None
        or (isinstance(cell, str) and not cell.strip())
        or (isinstance(cell, float) and math.isnan(cell))
    )
