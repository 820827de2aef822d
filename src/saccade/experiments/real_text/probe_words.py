"""The words of a probe as a vocabulary spells them. Words that it does not have are named in the record (`left_out`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from saccade.data.text.corpus import Corpus
from saccade.data.text.library_tokenisers import UNKNOWN


def spelt(text: Corpus, words: Sequence[str]) -> list[str]:
    """Each word as this vocabulary writes it most often: byte pairs may carry the blank before it. Empty: it has no such token."""
    found = [_tokens(text, word) for word in words]
    return [text.vocabulary[min(ids)] if ids else "" for ids in found]


def _tokens(text: Corpus, word: str) -> list[int]:
    """Ids of the tokens that are this word, with or without a blank before it."""
    found = [text.encode(form).tolist() for form in (word, f" {word.strip()}")]
    return [ids[0] for ids in found if len(ids) == 1 and (text.vocabulary[ids[0]] != UNKNOWN or word == UNKNOWN)]


def probe_tokens(text: Corpus, words: Sequence[str]) -> NDArray[np.intp]:
    """The words that the text has, most frequent first; the two most frequent tokens if it has fewer than two of them."""
    known = sorted({text.id_of(token) for token in spelt(text, words) if token})
    return np.array(known if len(known) > 1 else [0, 1], np.intp)


def said(word: str) -> str:
    return {"": "whitespace", ",": "comma"}.get(word.strip(), word)


def lacking(where: str, words: Sequence[str], tokens: Sequence[str]) -> str:
    """A sentence on the words that have no token; empty if all have one."""
    missing = [f"“{said(word)}”" for word, token in zip(words, tokens, strict=True) if not token]
    said_all = f"{where}: {len(missing)} of the {len(words)} words of the probe are not in the vocabulary: {', '.join(missing)}."
    return said_all if missing else ""
