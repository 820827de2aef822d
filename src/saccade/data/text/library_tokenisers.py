"""Tokenisers of the `tokenizers` library, and byte pairs merged on the corpus itself.

Byte-pair merges never cross the stretches between blanks, so each stretch is encoded once and
looked up afterwards: several times faster than encoding all text (benchmarks/tokenising.py). The
library is imported on first use.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from saccade.errors import InputError, checked_choice, checked_count, shortened
from saccade.places import user_path

UNKNOWN = "<unk>"
KINDS = ("word", "bpe", "character")
BPE_VOCAB = (
    8192  # default number of byte-pair tokens, in the range that small models of small corpora use
)
_BPE_LEARN = 2**24  # characters of training text that merges are learnt on: more takes minutes
_BPE_KNOWN = 2**20  # stretches whose tokens are remembered: some hundred megabytes
_STRETCH = re.compile(r" ?\w+| ?[^\w\s]+|\s")  # every character is in one: text comes back whole


class Library:
    """A tokenizer of the `tokenizers` library, without the special tokens it may put around a text."""

    has_unknown = False

    def __init__(self, tokenizer: Any, name: str) -> None:
        self.name = name
        # The user's own tokenizer stays as it is; ours neither cuts nor pads.
        copy = type(tokenizer).from_str(tokenizer.to_str())
        copy.no_truncation()
        copy.no_padding()
        self.tokenizer = copy

    def learn(self, texts: Iterable[str]) -> None:
        pass

    def numbers(self, texts: Sequence[str]) -> NDArray[np.uint32]:
        encodings = self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return np.fromiter(chain.from_iterable(encoding.ids for encoding in encodings), np.uint32)

    def names(self) -> list[str]:
        numbered = self.tokenizer.get_vocab(with_added_tokens=True)
        names = [
            f"<{number}>" for number in range(max(numbered.values(), default=-1) + 1)
        ]  # numbers may have gaps
        for name, number in numbered.items():
            names[number] = name
        return names

    def tokens(self, text: str) -> list[str]:
        return self.tokenizer.encode(text, add_special_tokens=False).tokens

    def joined(self, tokens: Sequence[str]) -> str:
        runs = groupby(map(self.tokenizer.token_to_id, tokens), key=lambda number: number is None)
        return "".join(
            UNKNOWN * len(list(run))
            if unknown
            else self.tokenizer.decode(list(run), skip_special_tokens=False)
            for unknown, run in runs
        )

    def saved(self) -> str:
        return self.tokenizer.to_str()


class BytePairs:
    """Byte pairs merged on the corpus. Merges never cross the stretches between blanks, so each
    stretch is encoded once.
    """

    name, has_unknown = "bpe", False

    def __init__(self, n_vocab: int | None = None, tokenizer: Any = None) -> None:
        self._n_vocab = checked_count("n_vocab", BPE_VOCAB if n_vocab is None else n_vocab, low=257)
        if tokenizer is None:
            from tokenizers import Tokenizer, decoders, models, pre_tokenizers

            tokenizer = Tokenizer(models.BPE())
            tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(
                add_prefix_space=False, use_regex=False
            )
            tokenizer.decoder = decoders.ByteLevel()
        self._library = Library(tokenizer, "bpe")
        self._forget()

    def _forget(self) -> None:
        self._place: defaultdict[str, int] = defaultdict()
        self._place.default_factory = self._place.__len__
        self._tokens = np.empty(0, np.uint32)
        self._ends = np.zeros(1, np.int64)  # tokens of stretch s: from ends[s] to ends[s + 1]

    def learn(self, texts: Iterable[str]) -> None:
        from tokenizers import pre_tokenizers, trainers

        trainer = trainers.BpeTrainer(
            vocab_size=self._n_vocab,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        self._library.tokenizer.train_from_iterator(
            map(_STRETCH.findall, _beginning(texts, _BPE_LEARN)), trainer
        )

    def numbers(self, texts: Sequence[str]) -> NDArray[np.uint32]:
        if len(self._place) > _BPE_KNOWN:
            self._forget()
        known = len(self._place)
        stretches = _STRETCH.findall("".join(texts))
        places = np.fromiter(map(self._place.__getitem__, stretches), np.int64, len(stretches))
        encodings = self._library.tokenizer.encode_batch_fast(
            list(islice(self._place, known, None)), add_special_tokens=False
        )
        sizes = np.array([len(encoding) for encoding in encodings], np.int64)
        self._ends = np.append(self._ends, self._ends[-1] + np.cumsum(sizes))
        new = np.fromiter(chain.from_iterable(encoding.ids for encoding in encodings), np.uint32)
        self._tokens = np.append(self._tokens, new)
        starts, lengths = self._ends[places], np.diff(self._ends)[places]
        before = np.cumsum(lengths) - lengths
        return self._tokens[np.repeat(starts - before, lengths) + np.arange(lengths.sum())]

    def names(self) -> list[str]:
        return self._library.names()

    def tokens(self, text: str) -> list[str]:
        names = self.names()
        return [names[number] for number in self.numbers([text])]

    def joined(self, tokens: Sequence[str]) -> str:
        return self._library.joined(tokens)

    def saved(self) -> str:
        return self._library.saved()


def library_tokeniser(tokenizer: Any) -> Library:
    from tokenizers import Tokenizer

    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if isinstance(backend, Tokenizer):
        return Library(backend, type(tokenizer).__name__)
    if not isinstance(tokenizer, str | Path):
        raise InputError(
            f"`tokenizer` must be one of {', '.join(KINDS)}, a tokenizer of the `tokenizers` library, a fast Hugging Face "
            f"tokenizer or the path of a tokenizer.json; got {shortened(tokenizer)}."
        )
    path = user_path(tokenizer)
    path = path / "tokenizer.json" if path.is_dir() else path
    if not path.is_file():
        checked_choice("tokenizer", str(tokenizer), (*KINDS, "or the path of a tokenizer.json"))
    try:
        return Library(Tokenizer.from_file(str(path)), path.name)
    except Exception as error:  # the library raises bare exceptions
        raise InputError(
            f"{path} cannot be read as a tokenizer: {str(error).splitlines()[0]}."
        ) from None


def _beginning(texts: Iterable[str], n_characters: int) -> Iterator[str]:
    for text in texts:
        yield text
        n_characters -= len(text)
        if n_characters <= 0:
            return


def need_library() -> None:
    try:
        import tokenizers  # noqa: F401
    except ModuleNotFoundError:
        raise InputError(
            "this tokenizer needs `tokenizers`, which is not installed: pip install '.[text]' in the folder of Saccade"
        ) from None
