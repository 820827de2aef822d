"""A transition table from a CSV file: the header names the tokens, each row says what follows one
of them.

```
,sun,rain          sun,rain
sun,0.9,0.1        0.9,0.1
rain,0.5,0.5       0.5,0.5
```

With one more column than tokens (left) the first cell of a row names its token, and rows may come
in any order. Without it (right) rows are in the order of the header. An empty cell is zero.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from saccade.data.csv_files import csv_rows
from saccade.errors import InputError, shortened


def table_from_csv(path: Path) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """The table (token, next_token) and the names of its tokens."""
    lines = csv_rows(path, "a transition table")
    names = next(lines, [])
    if not names:
        raise InputError(
            f"{path} is empty; the first row names the tokens, and a row for each of them follows."
        )
    if "" in names[1:] or len(set(names)) < len(names):
        raise InputError(
            f"{path}: every token needs a different name; the header is {', '.join(names)[:200]}."
        )
    header, rows = names, list(lines)
    if len(header) == len(rows) + 1:
        header = header[1:]
        named = {row[0]: row[1:] for row in rows}
        missing = [token for token in header if token not in named]
        if missing:
            raise InputError(
                f"{path}: no row is named {shortened(missing[0])}. The first cell of every row must name one of the header's "
                "tokens, each once; a table without row names still needs a header."
            )
        rows = [named[token] for token in header]
    elif len(header) != len(rows) or not header[0]:
        raise InputError(
            f"{path}: a transition table is square; this one has {len(header)} columns and {len(rows)} rows below the header. "
            "It needs a header of token names and a row for each, which may start with its name; cells are separated by commas. "
            "A table of classes has a column named `class`."
        )
    table = [
        [_number(path, token, name, cell) for name, cell in zip(header, row)]
        for token, row in zip(header, rows)
    ]
    return np.array(table, np.float64).reshape(len(rows), len(header)), tuple(header)


def _number(path: Path, token: str, following: str, cell: str) -> float:
    try:
        return float(cell or 0)
    except ValueError:
        raise InputError(
            f"{path}: from {token!r} to {following!r}, {shortened(cell)} is not a number."
        ) from None
