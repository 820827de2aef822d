"""Files as streams of text: plain text, JSON lines and Parquet, one piece at a time, so that a file
may be larger than memory.

A piece is a whole document, or a part of a long one that ends with a line, or a word where a line
is too long. What a document is:

| file       | document                                                                                    |
|------------|---------------------------------------------------------------------------------------------|
| `.jsonl`   | a row: its text column                                                                      |
| `.parquet` | a row: its text column                                                                      |
| any other  | what stands between lines `<|endoftext|>`, if the first megabyte has one; else the whole file |

Text is UTF-8. A byte-order mark is dropped, any newline is read as one, documents end with a
newline.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from saccade.data.text.parquet_pages import unpacked_size
from saccade.errors import InputError, shortened
from saccade.records.expansion import check_expansion
from saccade.records.json_files import parsed_json

END_OF_TEXT = "<|endoftext|>"
PIECE = (
    2**16
)  # characters of a piece: small beside the batches that tokenisers take, large beside a line
_READ = 2**20
_MOST_OF_A_DOCUMENT = (
    2**25
)  # characters of one that is held whole: a row, or what stands between two ends of text
_OF_A_ROW = 8  # bytes of memory that a row takes at least
_ROWS = 1024  # of Parquet at once, or fewer if they are long
_END_LINE = re.compile(r"^[ \t]*<\|endoftext\|>[ \t]*\n?", re.MULTILINE)
_MARKS = {codecs.BOM_UTF16_LE: "UTF-16", codecs.BOM_UTF16_BE: "UTF-16"}


class Piece(NamedTuple):
    """A stretch of text; `begins`: it is the start of a document."""

    text: str
    begins: bool


def pieces_of_file(path: Path, column: str) -> Iterator[Piece]:
    """The documents of one file, in pieces. `column` is where rows keep their text."""
    kind = path.suffix.lower()
    try:
        if kind == ".jsonl":
            yield from _of_rows(_json_rows(path, column))
        elif kind == ".parquet":
            yield from _of_rows(_parquet_rows(path, column))
        else:
            yield from _of_text(path, _chunks(path))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from None


def _of_rows(rows: Iterator[str]) -> Iterator[Piece]:
    for row in rows:
        # Rows may hold what a file of text may not: NUL is read as a blank, half a surrogate pair
        # as a question mark.
        if "\0" in row or "\r" in row:
            row = row.replace("\0", " ").replace("\r\n", "\n").replace("\r", "\n")
        text = (row if row.isascii() else row.encode("utf-8", "replace").decode()).rstrip("\n")
        if text:
            yield from _cut(iter([text + "\n"]))


def _of_text(path: Path, chunks: Iterator[str]) -> Iterator[Piece]:
    first = next(chunks, "")
    whole = chain([first], chunks)
    if not _END_LINE.search(first):
        yield from _cut(_with_last_newline(whole))
        return
    for document in _between_ends(path, whole):
        yield from _cut(iter([document]))


def _with_last_newline(chunks: Iterator[str]) -> Iterator[str]:
    last = "\n"
    for chunk in chunks:
        yield chunk
        last = chunk[-1:] or last
    if last != "\n":
        yield "\n"


def _between_ends(path: Path, chunks: Iterator[str]) -> Iterator[str]:
    """What stands between lines `<|endoftext|>`, without documents of white space only."""
    rest = ""
    for chunk in chunks:
        rest += chunk
        _check_length(path, len(rest))
        if END_OF_TEXT not in rest:
            continue
        line_start = rest.rfind("\n") + 1  # the last line may not be whole yet
        *documents, open_document = _END_LINE.split(rest[:line_start])
        rest = open_document + rest[line_start:]
        yield from (text.rstrip("\n") + "\n" for text in documents if text.strip())
    yield from (text.rstrip("\n") + "\n" for text in _END_LINE.split(rest) if text.strip())


def _check_length(path: Path, length: int) -> None:
    if length > _MOST_OF_A_DOCUMENT:
        raise InputError(
            f"{path} has a document of more than {_MOST_OF_A_DOCUMENT:,} characters; cut it, or give it as plain text."
        )


def _cut(chunks: Iterator[str]) -> Iterator[Piece]:
    """One document in pieces of about PIECE characters, each up to the end of a line if one ends
    there, else of a word.
    """
    begins, rest = True, ""
    for chunk in chunks:
        rest = rest + chunk
        start = 0
        while len(rest) - start > PIECE:
            end = _cutting_point(rest, start, start + PIECE)
            yield Piece(rest[start:end], begins)
            begins, start = False, end
        rest = rest[start:]
    if rest:
        yield Piece(rest, begins)


def _cutting_point(text: str, start: int, end: int) -> int:
    for blank in ("\n", " "):
        place = text.rfind(blank, start, end)
        if place >= start:
            return place + 1
    return end


def _chunks(path: Path) -> Iterator[str]:
    """The text of a file, a megabyte at a time."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            while chunk := file.read(_READ):
                if "\0" in chunk:
                    raise InputError(_why_not_text(path))
                yield chunk
    except UnicodeDecodeError:
        raise InputError(_why_not_text(path)) from None


def _why_not_text(path: Path) -> str:
    """The first byte that is not text, by reading the file again: only then are offsets those of
    the file.
    """
    decoder, offset = codecs.getincrementaldecoder("utf-8")(), 0
    with path.open("rb") as file:
        mark = _MARKS.get(file.read(2))
        if mark:
            return f"{path} is in {mark}; text is read as UTF-8: convert it first, say with `iconv -f {mark} -t utf-8`."
        file.seek(0)
        while chunk := file.read(_READ):
            if 0 in chunk:
                return f"{path} is not text: it has a NUL byte at offset {offset + chunk.index(0)}."
            held = len(decoder.getstate()[0])
            try:
                decoder.decode(chunk)
            except UnicodeDecodeError as error:
                byte, place = error.object[error.start], offset - held + error.start
                return (
                    f"{path} is not text in UTF-8: byte 0x{byte:02x} at offset {place} does not belong there. "
                    "If it is text in another encoding, convert it first, say with `iconv -f latin1 -t utf-8`."
                )
            offset += len(chunk)
    return f"{path} is not text in UTF-8: it ends in the middle of a character, at offset {offset}."


def _json_rows(path: Path, column: str) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(
                iter(lambda: file.readline(_MOST_OF_A_DOCUMENT + 1), ""), start=1
            ):
                _check_length(path, len(line))
                if line.strip():
                    try:
                        row = parsed_json(line, object)
                    except InputError as error:
                        raise InputError(
                            f"{path}, line {number} is not JSON that can be read ({shortened(line.strip())}): {error}"
                        ) from None
                    if not isinstance(row, dict) or column not in row:
                        has = (
                            f"it has {', '.join(map(str, row))}"
                            if isinstance(row, dict) and row
                            else f"it is {shortened(row)}"
                        )
                        raise InputError(
                            f"{path}, line {number} has no column {column!r}; {has}. Name the one that holds text with `column`."
                        )
                    if not isinstance(row[column], str | None):
                        raise InputError(
                            f"{path}, line {number}: column {column!r} holds {shortened(row[column])}, which is not text."
                        )
                    yield row[column] or ""
    except UnicodeDecodeError:
        raise InputError(_why_not_text(path)) from None


def _parquet_rows(path: Path, column: str) -> Iterator[str]:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise InputError(
            "reading Parquet needs pyarrow, which is not installed: pip install '.[text]' in the folder of Saccade"
        ) from None
    try:
        with parquet.ParquetFile(path) as file:
            if column not in file.schema_arrow.names:
                raise InputError(
                    f"{path} has no column {column!r}; it has {', '.join(file.schema_arrow.names)}. "
                    "Name the one that holds text with `column`."
                )
            kind = file.schema_arrow.field(column).type
            if not (arrow.types.is_string(kind) or arrow.types.is_large_string(kind)):
                raise InputError(f"{path}: column {column!r} holds {kind}, which is not text.")
        with parquet.ParquetFile(path, read_dictionary=[column]) as file:
            yield from _checked_rows(path, file, column)
    except InputError:
        raise
    except (arrow.ArrowException, ValueError) as error:
        raise InputError(
            f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}."
        ) from None


def _checked_rows(path: Path, file: Any, column: str) -> Iterator[str]:
    """The texts of a column, as long as they are not far more than the file. A text that many rows
    share is held once.
    """
    import pyarrow.compute as arrow

    n_read, n_stored, about = 0, path.stat().st_size, file.metadata
    parts = (
        about.row_group(group).column(place)
        for group in range(about.num_row_groups)
        for place in range(about.num_columns)
    )
    n_bytes = sum(unpacked_size(path, part) for part in parts if part.path_in_schema == column)
    check_expansion(path, n_bytes + _OF_A_ROW * about.num_rows, n_stored)
    rows = min(_ROWS, max(1, _READ * about.num_rows // max(n_bytes, 1)))
    for batch in file.iter_batches(batch_size=rows, columns=[column]):
        texts, numbers = batch.column(0).dictionary, batch.column(0).indices
        lengths = arrow.binary_length(texts)
        _check_length(path, arrow.max(lengths).as_py() or 0)
        n_read += arrow.sum(lengths.take(numbers)).as_py() or 0
        check_expansion(path, n_read, n_stored)
        listed = texts.to_pylist()
        yield from ("" if number is None else listed[number] for number in numbers.to_pylist())
