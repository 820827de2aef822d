"""What is kept on disk is whole or made anew; text is read once, in memory that does not grow with
it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import tracemalloc
from unittest import mock

import numpy as np
import pytest

from saccade.data.text import build as corpus_build
from saccade.data.text import cache as text_cache
from saccade.data.text import corpus as text
from saccade.data.text import files as text_files
from saccade.data.text.corpus import corpus
from saccade.errors import InputError
from saccade.records.checksums import seal
from saccade.records.json_files import read_json, write_json

WORDS = [f"w{i * i % 101}" for i in range(997)]


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text(" ".join(WORDS))
    os.utime(path, (1e9, 1e9))
    return path


def entry(folder):
    (found,) = folder.iterdir()
    return found


def builds(monkeypatch):
    """Counts how often a corpus is made."""
    count = mock.Mock(side_effect=text.build_corpus)
    monkeypatch.setattr(text, "build_corpus", count)
    return count


def test_a_corpus_is_made_once_for_each_text_and_setting(book, tmp_path, monkeypatch):
    made = builds(monkeypatch)
    first, again = (corpus(book, cache=tmp_path / "c") for _ in range(2))
    assert made.call_count == 1
    assert first.hash == again.hash
    assert (first.train == again.train).all()
    settings = [{"n_vocab": 7}, {"n_vocab": 11}, {"tokenizer": "character"}]
    assert (
        len({first.hash, *(corpus(book, cache=tmp_path / "c", **one).hash for one in settings)})
        == 4
    )
    copy = tmp_path / "copy.txt"
    copy.write_bytes(book.read_bytes())
    assert corpus(copy, cache=tmp_path / "c").hash == first.hash  # the same text elsewhere
    assert made.call_count == 4


def test_a_changed_letter_anywhere_is_another_text_whatever_the_clock_says(book, tmp_path):
    """Between the first and the last megabyte too, with size and times as before."""
    book.write_text((" ".join(WORDS) + "\n") * 900)
    assert book.stat().st_size > 3 * 2**20
    before, first = os.stat(book), corpus(book, cache=tmp_path / "c").hash
    with book.open("r+b") as file:
        file.seek(2**20 + 2**19)
        file.write(b"~")
    os.utime(book, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert corpus(book, cache=tmp_path / "c").hash != first


def test_text_that_has_not_changed_for_a_while_is_read_once_until_it_changes(book, monkeypatch):
    read = mock.Mock(side_effect=text_cache._file_hash)
    monkeypatch.setattr(text_cache, "_file_hash", read)
    assert text_cache.content_hash([book]) == text_cache.content_hash([book])
    assert read.call_count == 2  # it was written just now, and might be again without a sign
    times, other = os.stat(book), book.with_name("other.txt")
    monkeypatch.setattr(
        text_cache.time, "time_ns", lambda: times.st_ctime_ns + 10 * text_cache._SETTLED
    )
    first = text_cache.content_hash([book])
    assert text_cache.content_hash([book]) == first
    assert read.call_count == 3
    time.sleep(0.02)  # longer than a tick of any file system's clock
    book.write_text(" ".join(WORDS[::-1]))
    os.utime(book, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert text_cache.content_hash([book]) != first
    other.write_text("a")
    os.utime(other, (2e9, 2e9))  # in 2033: one file that is not settled is enough
    calls = read.call_count
    assert text_cache.content_hash([book, other]) == text_cache.content_hash([book, other])
    assert read.call_count == calls + 4


def test_text_that_changes_while_it_is_read_is_refused(book, monkeypatch):
    real = text_cache._file_hash

    def changed(path):
        path.write_text("something else")
        return real(path)

    monkeypatch.setattr(text_cache, "_file_hash", changed)
    with pytest.raises(InputError, match="is being changed while it is read"):
        text_cache.content_hash([book])


def test_parts_may_not_be_exchanged_for_files_of_the_same_bytes(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "train.txt").write_text("a b c ")
    (folder / "valid.txt").write_text("d e")
    first = corpus(folder, cache=tmp_path / "c").hash
    (folder / "train.txt").write_text("a b ")
    (folder / "valid.txt").write_text("c d e")
    assert corpus(folder, cache=tmp_path / "c").hash != first


def damage_short(folder):
    with (folder / "train.ids").open("r+b") as file:
        file.truncate(100)


def damage_about(folder):
    (folder / "about.json").write_text('{"vocabulary": ')


def damage_missing(folder):
    (folder / "valid.ids").unlink()


@pytest.mark.parametrize("damage", [damage_short, damage_about, damage_missing])
def test_a_damaged_corpus_is_made_anew(book, tmp_path, monkeypatch, damage):
    whole = np.array(corpus(book, cache=tmp_path / "c").train)
    damage(entry(tmp_path / "c"))
    made = builds(monkeypatch)
    assert (corpus(book, cache=tmp_path / "c").train == whole).all()
    assert made.call_count == 1
    assert entry(tmp_path / "c")  # one folder, nothing left of the damaged one


def test_a_flipped_bit_in_any_file_of_the_cache_is_found(book, tmp_path):
    """The vocabulary, the counts, the ids, the pairs: what is read is what was made, or is made
    anew.
    """

    def content(found):
        return (
            found.vocabulary,
            found.frequencies.tolist(),
            found.train.tolist(),
            found.valid.tolist(),
            found.bigrams.toarray().tolist(),
        )

    whole = content(corpus(book, cache=tmp_path / "c"))
    rng = np.random.default_rng(0)
    names = sorted(path.name for path in entry(tmp_path / "c").iterdir())
    assert names == [
        "about.json",
        "bigrams.npz",
        "checksums.json",
        "count.npy",
        "train.ids",
        "valid.ids",
    ]
    for name in names:
        size = (entry(tmp_path / "c") / name).stat().st_size
        for place in rng.integers(size, size=12):
            data = bytearray((entry(tmp_path / "c") / name).read_bytes())
            data[place % len(data)] ^= 1 << int(rng.integers(8))
            (entry(tmp_path / "c") / name).write_bytes(data)
            assert content(corpus(book, cache=tmp_path / "c")) == whole, (name, place)


def test_a_corpus_that_was_not_finished_is_never_read(book, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(corpus_build, "_replace", stop)
    with pytest.raises(KeyboardInterrupt):
        corpus(book, cache=tmp_path / "c")
    monkeypatch.undo()
    assert list((tmp_path / "c").iterdir()) == []
    found = corpus(book, cache=tmp_path / "c")
    assert found.decode(found.train).split() + found.decode(found.valid).split() == WORDS


def test_processes_that_make_the_same_corpus_at_once_all_read_it_whole(book, tmp_path):
    code = f"""
from saccade.data.text.corpus import corpus
found = corpus({str(book)!r}, cache={str(tmp_path / "c")!r})
words = found.decode(found.train).split() + found.decode(found.valid).split()
assert words == [f"w{{i * i % 101}}" for i in range(997)]
assert found.bigrams.sum() == len(found.train)
"""
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    assert entry(tmp_path / "c")


def test_two_that_build_the_same_corpus_leave_one_folder(book, tmp_path, monkeypatch):
    def late(*arguments):
        ranked = real(*arguments)
        monkeypatch.setattr(text, "build_corpus", real)
        corpus(book, cache=tmp_path / "c")  # another one comes first
        return ranked

    real = text.build_corpus
    monkeypatch.setattr(text, "build_corpus", late)
    found = corpus(book, cache=tmp_path / "c")
    assert entry(tmp_path / "c") == found.folder


def test_folders_that_cannot_be_written(book, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="`cache`: cannot write into"):
        corpus(book, cache=tmp_path / "file")
    with pytest.raises(InputError, match="`cache` must be a folder"):
        corpus(book, cache=5)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))  # the user's own cache: do without
    assert corpus(book).vocabulary == corpus(book, cache=tmp_path / "c").vocabulary


def test_a_full_disk_is_said_in_a_sentence(book, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(text, "build_corpus", full)
    with pytest.raises(
        InputError, match=r"No space left on device\. Name another folder with `cache`"
    ):
        corpus(book, cache=tmp_path / "c")
    assert list((tmp_path / "c").iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"hello", bytes(range(256))])
def test_a_text_that_cannot_be_used_is_not_blamed_on_the_cache(tmp_path, content):
    (tmp_path / "book.txt").write_bytes(content)
    with pytest.raises(InputError, match=r"book\.txt") as refused:
        corpus(tmp_path / "book.txt", cache=tmp_path / "c")
    assert "cache" not in str(refused.value).replace(str(tmp_path), "")


@pytest.mark.parametrize("tokenizer", ["word", "character", "bpe"])
def test_memory_does_not_grow_with_the_text(tmp_path, monkeypatch, tokenizer):
    for module, name in (
        (corpus_build, "_BATCH"),
        (corpus_build, "_BLOCK"),
        (text_files, "_READ"),
        (text_files, "PIECE"),
    ):
        monkeypatch.setattr(module, name, 2**13)
    peaks = []
    for repeats in (1, 40, 400):  # the first only to import what is needed; 0.15 and 1.5 megabytes
        path = tmp_path / f"{repeats}.txt"
        path.write_text((" ".join(WORDS) + "\n") * repeats)
        tracemalloc.start()
        corpus(path, tokenizer=tokenizer, cache=tmp_path / "c")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (
        peaks[2] - peaks[1] < 0.1 * path.stat().st_size
    )  # below both is the megabyte that a checksum reads at once


@pytest.mark.parametrize("saved", ["/etc/passwd", "{}", '{"model": {"type": "BPE"}}', "[" * 10**5])
def test_a_tokeniser_that_says_something_else_is_refused_in_a_sentence(book, tmp_path, saved):
    """Whoever can write to the cache can make its checksums fit."""
    pytest.importorskip("tokenizers")
    corpus(book, cache=tmp_path / "cache")
    folder = entry(tmp_path / "cache")
    write_json(folder / "about.json", read_json(folder / "about.json") | {"saved": saved})
    seal(folder)
    with pytest.raises(InputError, match="the tokeniser kept with this corpus cannot be read"):
        corpus(book, cache=tmp_path / "cache").encode("w1 w4")
