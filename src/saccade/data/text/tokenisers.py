"""Tokenisers: text in, numbers out, with a name for every number.

| name          | token                                                                                                       |
|---------------|-------------------------------------------------------------------------------------------------------------|
| `word`        | what is left between white space of lower-cased text once `' . , ( ) ! ?` stand alone and `" ; :` are gone  |
| `character`   | a character, as it stands                                                                                   |
| `bpe`         | a stretch of bytes, merged on the corpus itself: nothing is unknown, and text comes back as it was          |
| any tokenizer | of the `tokenizers` library: an object, a Hugging Face tokenizer, or the path of its tokenizer.json         |

Words follow the rules of "basic_english", with which [tian2023] read WikiText: `"` joins what it
stood between, `;` and `:` part it, as does `<br />`; `<unk>` stays whole. The numbers here are a
tokeniser's own; a corpus ranks them (`build.py`).

A dictionary lookup a word is several times faster than the word level of the `tokenizers` library
(benchmarks/tokenising.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from saccade.data.text.library_tokenisers import BytePairs, Library, library_tokeniser, need_library
from saccade.errors import InputError

_ALONE = "'.,()!?"
_BLANK = ("<br />", ";", ":")

Numbers = NDArray[np.uint32]


class Tokeniser(Protocol):
    """`numbers` may be called batch after batch; `names` covers all numbers given so far."""

    name: str
    has_unknown: bool  # text may hold tokens without a number, which then count as `<unk>`

    def learn(self, texts: Iterable[str]) -> None: ...
    def numbers(self, texts: Sequence[str]) -> Numbers: ...
    def names(self) -> list[str]: ...
    def tokens(self, text: str) -> list[str]: ...
    def joined(self, tokens: Sequence[str]) -> str: ...
    def saved(self) -> str: ...


class Words:
    """Numbers in order of first appearance."""

    name, has_unknown = "word", True

    def __init__(self) -> None:
        self._number: defaultdict[str, int] = defaultdict()
        self._number.default_factory = self._number.__len__

    def learn(self, texts: Iterable[str]) -> None:
        pass

    def numbers(self, texts: Sequence[str]) -> Numbers:
        words = split_words("".join(texts))
        return np.fromiter(map(self._number.__getitem__, words), np.uint32, len(words))

    def names(self) -> list[str]:
        return list(self._number)

    def tokens(self, text: str) -> list[str]:
        return split_words(text)

    def joined(self, tokens: Sequence[str]) -> str:
        return " ".join(tokens)

    def saved(self) -> str:
        return ""


def split_words(text: str) -> list[str]:
    """Lower-cased words by the rules of "basic_english"."""
    text = text.lower().replace('"', "")
    for mark in _ALONE:
        text = text.replace(mark, f" {mark} ")
    for mark in _BLANK:
        text = text.replace(mark, " ")
    return text.split()


class Characters:
    """A character's number is its place in Unicode."""

    name, has_unknown = "character", True

    def __init__(self) -> None:
        self._largest = -1

    def learn(self, texts: Iterable[str]) -> None:
        pass

    def numbers(self, texts: Sequence[str]) -> Numbers:
        places = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
        self._largest = max(self._largest, int(places.max(initial=0)))
        return places

    def names(self) -> list[str]:
        return [chr(place) for place in range(self._largest + 1)]

    def tokens(self, text: str) -> list[str]:
        return list(text)

    def joined(self, tokens: Sequence[str]) -> str:
        return "".join(tokens)

    def saved(self) -> str:
        return ""


def new_tokeniser(tokenizer: Any, n_vocab: int | None) -> Tokeniser:
    """The tokeniser that is meant by a name, a path or an object."""
    if tokenizer == "word":
        return Words()
    if tokenizer == "character":
        return Characters()
    need_library()
    if tokenizer == "bpe":
        return BytePairs(n_vocab)
    return library_tokeniser(tokenizer)


def saved_tokeniser(name: str, saved: str) -> Tokeniser:
    """The tokeniser of a corpus read from the cache."""
    if not saved:
        return new_tokeniser(name, None)
    need_library()
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(saved)
    except Exception as error:  # the library has no kind of its own
        raise InputError(
            f"the tokeniser kept with this corpus cannot be read ({error}); name another folder with `cache`."
        ) from None
    return BytePairs(tokenizer=tokenizer) if name == "bpe" else Library(tokenizer, name)
