"""Transition tables counted in a sequence of tokens, or in text.

The text is a ring: the last token is followed by the first. Some drop that pair (1), some smooth
with invented counts (2). We close the ring because then every token is left exactly as often as it
is entered: the stationary law is the frequency of the tokens, not nearly but exactly, and every
token leads to every other. One pair among all is the price.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable

import numpy as np
from numpy.typing import NDArray

from saccade.data.markov_presets import MOST_TOKENS
from saccade.errors import InputError, checked_choice, checked_count, shortened

OTHER = "<other>"
_WORDS = re.compile(
    r"\w+(?:['’]\w+)*|[^\w\s]"
)  # "don't" is one word; any other punctuation mark is a token of its own


def split_text(text: str, unit: str) -> list[str]:
    """Lower-cased words and punctuation marks, or lower-cased characters with any stretch of white
    space as one blank.
    """
    checked_choice("unit", unit, ("word", "character"))
    if not isinstance(text, str):
        raise InputError(f"`text` must be a string; got {shortened(text)}.")
    lowered = text.lower()
    return _WORDS.findall(lowered) if unit == "word" else list(" ".join(lowered.split()))


def counted_table(
    tokens: Iterable[Hashable], n_vocab: int | None
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """The table (token, next_token) and the names of its tokens, the most frequent first, ties in
    order of appearance.

    At most `n_vocab` tokens: if there are more, the rarest are one token, `<other>`, with a rank by
    its own frequency.
    """
    ids, names = _kept(*_ranked(*_numbered(tokens)), n_vocab)
    n = len(names)
    pairs = np.bincount(ids * n + np.roll(ids, -1), minlength=n * n).reshape(n, n)
    return pairs / pairs.sum(axis=1, keepdims=True), tuple(names)


def _kept(
    ids: NDArray[np.int64], names: list[str], n_vocab: int | None
) -> tuple[NDArray[np.int64], list[str]]:
    """Of ranked tokens the first `n_vocab`, with the rest as one if there are more; all names
    different.
    """
    if n_vocab is None and len(names) > MOST_TOKENS:
        raise InputError(
            f"there are {len(names)} different tokens, more than the {MOST_TOKENS} a chain can have; "
            "pass `n_vocab` to keep the most frequent and make the rest one."
        )
    most = (
        MOST_TOKENS
        if n_vocab is None
        else checked_count("n_vocab", n_vocab, low=2, high=MOST_TOKENS)
    )
    if len(names) > most:
        ids, names = _ranked(np.minimum(ids, most - 1), [*names[: most - 1], OTHER])
    if len(set(names)) < len(names):
        twice, _ = Counter(names).most_common(1)[0]
        raise InputError(
            f"`tokens` has two different tokens that are both written {shortened(twice)}; rename one of them."
        )
    return ids, names


def _numbered(tokens: Iterable[Hashable]) -> tuple[NDArray[np.int64], list[str]]:
    """Each token as the number of its kind, in order of first appearance, and the kinds' names."""
    if isinstance(tokens, str | bytes):
        raise InputError(
            "`tokens` must be a list of tokens; for running text use `MarkovChain.from_text`."
        )
    listed = tokens.tolist() if isinstance(tokens, np.ndarray) else tokens
    number: dict[Hashable, int] = {}
    try:
        ids = np.array([number.setdefault(token, len(number)) for token in listed], np.int64)
    except TypeError:
        raise InputError(
            f"`tokens` must be a list of words or ids; got {shortened(tokens)}."
        ) from None
    if len(number) < 2:
        found = f"there is only {shortened(next(iter(number)))}" if number else "there is none"
        raise InputError(f"a chain needs at least two different tokens; {found}.")
    return ids, [str(token) for token in number]


def _ranked(ids: NDArray[np.int64], names: list[str]) -> tuple[NDArray[np.int64], list[str]]:
    """The same tokens, renumbered so that the most frequent is 0."""
    order = np.argsort(-np.bincount(ids), kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank[ids], [names[kind] for kind in order]
