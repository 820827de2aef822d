"""Read a CSV file as rows of cells, with limits on the file and on each row so that neither can
fill memory.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from saccade.errors import InputError
from saccade.records.json_files import regular_file

_MOST_CELLS = 2**22  # as text they take a hundred times the memory they take as numbers
_MOST_CHARACTERS = 2**22  # of a row


def csv_rows(path: Path, what: str) -> Iterator[list[str]]:
    """The header, then rows of as many cells, without the blanks around them; rows that are blank
    are not rows.

    `what` the file should hold is said in errors.
    """
    n_cells, header = 0, None
    try:
        with (
            regular_file(path) as opened,
            io.TextIOWrapper(opened, encoding="utf-8-sig", newline="") as file,
        ):
            for row in _bounded(file):
                header = header or row
                n_cells += len(row)
                if len(row) != len(header):
                    raise InputError(
                        f"every row must have as many cells as the header, {len(header)}."
                    )
                if n_cells > _MOST_CELLS:
                    raise InputError(
                        f"it has more than {_MOST_CELLS:,} cells; for larger tables pass arrays in Python."
                    )
                yield [cell.strip() for cell in row]
    except InputError as error:
        raise InputError(f"cannot read {what} from {path}: {error}") from None
    except (OSError, ValueError, csv.Error) as error:
        reason = (
            error.strerror
            if isinstance(error, OSError)
            else f"it is not a CSV file in UTF-8 ({error})"
        )
        raise InputError(f"cannot read {what} from {path}: {reason}.") from None


def _bounded(file: io.TextIOWrapper) -> Iterator[list[str]]:
    """Where there are quotation marks a row may go over many lines; all of them count."""
    n_characters = 0

    def lines() -> Iterator[str]:
        nonlocal n_characters
        while line := file.readline(_MOST_CHARACTERS + 1):
            n_characters += len(line)
            if n_characters > _MOST_CHARACTERS:
                raise InputError(f"it has a row of more than {_MOST_CHARACTERS:,} characters.")
            yield line

    for row in csv.reader(lines(), strict=True):
        n_characters = 0
        if row:
            yield row
