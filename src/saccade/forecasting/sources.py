"""What a forecast is made from: the user's data, turned into windows, sequence classes or a Markov
chain.

| source                                           | attention from              | stages from a chain               |
|--------------------------------------------------|-----------------------------|-----------------------------------|
| `Corpus`, or the name or path of a text          | windows of the text         | counted, the most frequent tokens |
| `SequenceClasses`, CSV file with a column `class`| classes as given            |                                   |
| `MarkovChain`, CSV file of a transition table    |                             | as given                          |
| `Statistics`: counted already                    | as given                    | as given                          |
"""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade.data.csv_files import csv_rows
from saccade.data.markov import MarkovChain
from saccade.data.sequence_classes import SequenceClasses
from saccade.data.text.library_tokenisers import UNKNOWN
from saccade.errors import InputError, checked_count, shortened

if TYPE_CHECKING:
    from saccade.data.text.corpus import Corpus
    from saccade.data.text.windows import Windows


@dataclass(frozen=True)
class Statistics:
    """All that a forecast knows of the data; `identity` is the hash of a text."""

    name: str
    windows: Windows | None = None
    classes: SequenceClasses | None = None
    chain: MarkovChain | None = None
    identity: str = ""
    corpus: Corpus | None = None


def statistics(
    source: Any, *, window: int, n_windows: int, n_tokens: int, n_chain: int
) -> Statistics:
    """The statistics of `source`; the other arguments say what is counted in a text and do nothing
    for the rest.
    """
    if isinstance(source, Statistics):
        return source
    if isinstance(source, SequenceClasses):
        return Statistics(source.name, classes=source)
    if isinstance(source, MarkovChain):
        return Statistics(source.name, chain=source)
    if isinstance(source, str | Path) and Path(source).suffix.lower() == ".csv":
        return _of_table(Path(source))
    corpus = _corpus(source)
    n_context = checked_count("window", window, high=len(corpus.train) - 2)
    wanted = checked_count("n_windows", n_windows)
    # Windows of a text too short for so many overlap.
    n_places = len(corpus.train) - n_context - 1
    stride = max(1, min(n_context + 2, n_places // wanted))
    return Statistics(
        name=f"{corpus.name}-{corpus.tokenizer}",
        windows=corpus.windows(
            n_context, n_windows=min(wanted, -(-n_places // stride)), stride=stride
        ).of_frequent(n_tokens),
        chain=corpus.chain(checked_count("n_chain", n_chain, low=2)),
        identity=corpus.hash,
        corpus=corpus,
    )


def check_words(corpus: Corpus, queries: Sequence[str | int]) -> None:
    """Refuse a query that is no word of the text."""
    if isinstance(queries, str):
        raise InputError(
            f"`queries` must be a number of queries or a list of words; got {shortened(queries)}. For one word pass a list."
        )
    for query in queries:
        if isinstance(query, bool) or not isinstance(query, str | numbers.Integral):
            raise InputError(
                f"`queries` must list words of the text, or their ids; got {shortened(query)}."
            )
        if not isinstance(query, str) or query in corpus.vocabulary:
            continue
        rare = (
            ", or only among the rare words that became one (`n_vocab`, `--n-vocab`)"
            if (
                UNKNOWN in corpus.vocabulary
                and corpus.frequencies[corpus.vocabulary.index(UNKNOWN)] > 0
            )
            else ""
        )
        near = difflib.get_close_matches(query, corpus.vocabulary[:5000], n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InputError(
            f"`queries`: {shortened(query)} is not in the text {corpus.name}{rare}.{hint}"
        )


def _corpus(source: Any) -> Corpus:
    try:
        from saccade.data.text.corpus import Corpus, corpus
    except ModuleNotFoundError as error:
        raise InputError(
            f"a forecast from text needs {error.name}: pip install '.[text]' in the folder of Saccade."
        ) from None
    if isinstance(source, Corpus):
        return source
    if isinstance(source, str | Path):
        return corpus(source)
    raise InputError(
        "`source` must be a Corpus, SequenceClasses, a MarkovChain, Statistics, the name of a text or the path of a text or CSV "
        f"file; got {shortened(source)}."
    )


def _of_table(path: Path) -> Statistics:
    """A table with a column `class` holds sequence classes; any other is read as a transition
    table.
    """
    if "class" in next(csv_rows(path, "a table"), []):
        return Statistics(path.stem, classes=SequenceClasses.from_csv(path))
    return Statistics(path.stem, chain=MarkovChain.from_csv(path))
