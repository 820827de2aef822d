"""Texts and tables that would take gigabytes, or never end, are refused in less than one gigabyte
and at once.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from saccade.data.markov import MarkovChain
from saccade.data.sequence_classes import SequenceClasses
from saccade.data.text import files as text_files
from saccade.data.text.corpus import corpus
from saccade.data.text.files import pieces_of_file
from saccade.errors import InputError
from saccade.forecasting.sources import _of_table
from saccade.watching.command import _read
from tests.bombs import LARGE, opened

MEGABYTE = "word and word " * (2**20 // 14)


def one_text_in_all_rows(path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = arrow.DictionaryArray.from_arrays(
        arrow.array([0] * (LARGE // len(MEGABYTE)), arrow.int32()), arrow.array([MEGABYTE])
    )
    parquet.write_table(arrow.table({"text": rows}), path, store_schema=False)


def packed_rows(path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"text": [MEGABYTE] * 50})
    with parquet.ParquetWriter(
        path, table.schema, compression="zstd", use_dictionary=False
    ) as file:
        for _ in range(LARGE // 50 // len(MEGABYTE)):
            file.write_table(table)


def many_columns(path: Path) -> None:
    path.write_text("class," + ",".join(map(str, range(4_000_000))) + "\n")


def quoted_row(path: Path) -> None:
    """A row that goes on over all lines."""
    path.write_text('class,a\n"x' + '\n","y' * 6_000_000)


def many_cells(path: Path) -> None:
    path.write_text(
        "class"
        + ",a"
        + "".join(f",t{i}" for i in range(1000))
        + "\n"
        + ("x" + ",0" * 1001 + "\n") * 15_000
    )


def long_line(path: Path) -> None:
    path.write_text('{"text": "' + "é€" * 30_000_000 + '"}\n')


BOMBS = {
    "one.parquet": (one_text_in_all_rows, "would take"),
    "packed.parquet": (packed_rows, "would take"),
    "columns.csv": (many_columns, "a row of more than"),
    "quoted.csv": (quoted_row, "a row of more than"),
    "cells.csv": (many_cells, "more than 4,194,304 cells"),
    "long.jsonl": (long_line, "a document of more than"),
}


def test_no_table_and_no_text_takes_a_gigabyte(tmp_path):
    codes = []
    for name, (make, _) in BOMBS.items():
        make(tmp_path / name)
        call = (
            "SequenceClasses.from_csv"
            if name.endswith("csv")
            else f"lambda path: corpus(path, cache={str(tmp_path / 'c')!r})"
        )
        codes.append(
            f"from saccade import SequenceClasses, corpus\n({call})({str(tmp_path / name)!r})"
        )
    said, peak = opened(*codes)
    for (name, (_, word)), sentence in zip(BOMBS.items(), said, strict=True):
        assert word in sentence, (name, sentence)
        assert "Traceback" not in sentence
    assert peak < 10**9


READERS = {
    "classes": SequenceClasses.from_csv,
    "chain": MarkovChain.from_csv,
    "forecast": _of_table,
    "text": corpus,
    "text to observe": _read,
    "tokenizer": lambda path: corpus(__file__, tokenizer=path),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("kind", ["pipe", "zeros"])
def test_what_never_ends_is_refused_at_once(tmp_path, read, kind):
    path = tmp_path / "endless.csv"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    started = time.process_time()  # what others do meanwhile does not count
    with pytest.raises(InputError):
        read(path)
    assert time.process_time() - started < 5


def test_pipes_and_devices_in_a_folder_of_texts_are_not_read(tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("one two two")
    os.mkfifo(tmp_path / "texts" / "b.txt")
    (tmp_path / "texts" / "c.txt").symlink_to("/dev/zero")
    assert (
        len(corpus(tmp_path / "texts", cache=tmp_path / "c").train)
        + len(corpus(tmp_path / "texts", cache=tmp_path / "c").valid)
        == 3
    )


def test_a_document_between_ends_of_text_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "_MOST_OF_A_DOCUMENT", 2**12)
    monkeypatch.setattr(text_files, "_READ", 2**10)
    path = tmp_path / "stories.txt"
    path.write_text("one\n<|endoftext|>\n" + "word\n" * 1000)
    with pytest.raises(
        InputError, match=r"stories.txt has a document of more than 4,096 characters"
    ):
        list(pieces_of_file(path, "text"))
    path.write_text(
        "one\n" + "word\n" * 1000
    )  # without ends of text it is read in pieces, however long
    assert sum(len(piece.text) for piece in pieces_of_file(path, "text")) == 5004


def test_rows_of_parquet_are_the_same_however_they_are_kept(tmp_path, monkeypatch):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = ["a b", None, "", "c", "a b", "d" * 5000, *map(str, range(50))]
    expected = [f"{row}\n" for row in rows if row]
    for kind in (arrow.string(), arrow.large_string()):
        for kept in (True, False):
            table = arrow.table(
                {"inner": [{"text": "x"}] * len(rows), "text": arrow.array(rows, kind)}
            )
            parquet.write_table(
                table, tmp_path / "rows.parquet", use_dictionary=kept, row_group_size=7
            )
            assert [
                piece.text for piece in pieces_of_file(tmp_path / "rows.parquet", "text")
            ] == expected
