"""A corpus made from text: token ids in files, ranked by frequency. Memory holds a batch and the
vocabulary, never the text.

1. Text is tokenised in batches. The tokeniser's numbers are written to a file and counted on the way.
2. Tokens are ranked by their count in the training text, ties in order of first appearance. Beyond `n_vocab` they are one token,
   `<unk>`, together with those the text itself calls so and those that only validation text has; it stands where its count puts it.
3. Numbers are replaced by ranks, file to file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from saccade.data.text.library_tokenisers import UNKNOWN
from saccade.data.text.sources import Source
from saccade.data.text.split import split_text_stream
from saccade.data.text.tokenisers import Numbers, Tokeniser
from saccade.errors import InputError, shortened
from saccade.records.writing import draft_file

PARTS = ("train", "valid")
_BATCH = (
    2**20
)  # characters tokenised at once: with 2**16 words took half as long again, with 2**22 hardly less
_BLOCK = 2**20  # numbers ranked at once
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Ranked:
    """`vocabulary`: tokens, most frequent first; `count`: of each in training text; `rank`: of each
    of the tokeniser's numbers.
    """

    vocabulary: list[str]
    count: NDArray[np.int64]
    rank: NDArray[np.int64]


class Tally:
    """How often each number came, and when first. Grows with the largest number seen."""

    def __init__(self) -> None:
        self.count = np.zeros(0, np.int64)
        self.first = np.zeros(0, np.int64)
        self.total = 0

    def add(self, numbers: Numbers) -> None:
        if not len(numbers):
            return
        count = np.bincount(numbers)
        more = max(len(count), len(self.count)) - len(self.count)
        if more > 0:
            spare = max(more, len(self.count) // 8)
            self.count = np.append(self.count, np.zeros(spare, np.int64))
            self.first = np.append(self.first, np.full(spare, _NEVER))
        self.count[: len(count)] += count
        new = np.flatnonzero(self.first[numbers] == _NEVER)
        self.first[numbers[new[::-1]]] = (
            self.total + new[::-1]
        )  # backwards: of equal numbers the first stays
        self.total += len(numbers)


def build_corpus(folder: Path, source: Source, tokeniser: Tokeniser, n_vocab: int | None) -> Ranked:
    """Write `train.ids` and `valid.ids` into `folder`."""
    tokeniser.learn(text for part, text in split_text_stream(source) if part == "train")
    tally = _write_numbers(folder, source, tokeniser)
    ranked = _ranked(tally, tokeniser, n_vocab)
    if np.count_nonzero(ranked.count) < 2:
        where = source.files[0] if len(source.files) == 1 else source.files[0].parent
        if tally.total == 0:
            raise InputError(f"{where} is empty: there is no text in it.")
        only, times = (
            shortened(ranked.vocabulary[0]),
            f"{tally.total:,} times" if tally.total > 1 else "once",
        )
        raise InputError(
            f"{where} leaves nothing to predict: the part to train on is {only}, {times}, and nothing else."
        )
    for part in PARTS:
        _replace(
            folder / f"{part}.numbers",
            folder / f"{part}.ids",
            ranked.rank.astype(id_type(len(ranked.vocabulary))),
        )
    return ranked


def id_type(n_vocab: int) -> np.dtype:
    return np.dtype(np.uint16 if n_vocab <= 2**16 else np.uint32)


def _write_numbers(folder: Path, source: Source, tokeniser: Tokeniser) -> Tally:
    """All numbers into files; the tally is that of the training text."""
    tally = Tally()
    with draft_file(folder, "train.numbers") as train, draft_file(folder, "valid.numbers") as valid:
        files: dict[str, BinaryIO] = {"train": train, "valid": valid}
        for part, texts in _batches(split_text_stream(source)):
            numbers = tokeniser.numbers(texts)
            numbers.tofile(files[part])
            if part == "train":
                tally.add(numbers)
    return tally


def _batches(stream: Iterable[tuple[str, str]]) -> Iterator[tuple[str, list[str]]]:
    """Pieces of one part, together at least _BATCH characters unless the part ends."""
    batch: list[str] = []
    size, current = 0, "train"
    for part, text in stream:
        if batch and (size >= _BATCH or part != current):
            yield current, batch
            batch, size = [], 0
        current = part
        batch.append(text)
        size += len(text)
    if batch:
        yield current, batch


def _ranked(tally: Tally, tokeniser: Tokeniser, n_vocab: int | None) -> Ranked:
    names = tokeniser.names()
    count, first = (
        np.append(values[: len(names)], np.full(max(0, len(names) - len(values)), fill))
        for values, fill in ((tally.count, 0), (tally.first, _NEVER))
    )
    order = np.lexsort((first, -count))
    if tokeniser.has_unknown:
        order = order[count[order] > 0]
    unknown = names.index(UNKNOWN) if UNKNOWN in names else -1
    kept = order[order != unknown]
    unknown_is_new = (
        tokeniser.has_unknown and unknown not in order
    )  # it takes a place that no word of the text has
    cut = n_vocab is not None and len(order) + unknown_is_new > n_vocab
    kept = kept[: n_vocab - 1] if cut and n_vocab is not None else kept
    if not (cut or tokeniser.has_unknown or unknown >= 0):
        return Ranked([names[number] for number in kept], count[kept], _ranks(len(names), kept, 0))
    # All that is not kept is one token, ranked among the kept by its own count.
    rest = np.ones(len(names), bool)
    rest[kept] = False
    key = (-int(count[rest].sum()), int(first[rest].min(initial=_NEVER)))
    place = int(np.searchsorted(-count[kept], key[0], side="left"))
    while place < len(kept) and (-int(count[kept[place]]), int(first[kept[place]])) < key:
        place += 1
    listed = [names[number] for number in kept]
    vocabulary = [*listed[:place], UNKNOWN, *listed[place:]]
    ranks = _ranks(len(names), np.insert(kept, place, -1), place)
    return Ranked(vocabulary, np.insert(count[kept], place, -key[0]), ranks)


def _ranks(n_numbers: int, order: NDArray[np.int64], default: int) -> NDArray[np.int64]:
    """Where each number stands in `order`, in which -1 is no number; `default` where it does not."""
    ranks = np.full(n_numbers + 1, default)
    ranks[order] = np.arange(len(order))
    return ranks[:-1]


def _replace(numbers: Path, ids: Path, ranks: NDArray) -> None:
    with numbers.open("rb") as read, draft_file(ids.parent, ids.name) as write:
        while len(block := np.fromfile(read, np.uint32, _BLOCK)):
            ranks[block].tofile(write)
    numbers.unlink()
