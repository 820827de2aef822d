"""Pairs of neighbours in a corpus, and its Markov chain.

The text is a ring, as in `markov_text.py`: its last token is followed by its first.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from saccade.data.markov import MarkovChain
from saccade.data.markov_presets import MOST_TOKENS
from saccade.data.markov_text import OTHER
from saccade.data.text.cache import add_file
from saccade.errors import checked_count
from saccade.records.expansion import check_archive

_BLOCK = 2**22  # pairs counted at once


def pairs_of_ring(ids: NDArray, n_vocab: int, kept: Path | None = None) -> sparse.csr_array:
    """Counts (token, next_token). They are counted once, then read from the file `kept`."""
    pairs = None
    if kept is not None:
        # Not what is not whole: a damaged archive raises errors of a dozen kinds, and counts that
        # do not add up to the number of tokens are damaged too.
        with suppress(Exception):
            check_archive(kept, kept)
            read = sparse.csr_array(sparse.load_npz(kept))
            if read.shape == (n_vocab, n_vocab) and read.sum() == len(ids):
                pairs = read
    if pairs is None:
        total = sparse.csr_array((n_vocab, n_vocab), dtype=np.int64)
        for start in range(0, len(ids), _BLOCK):
            first = np.asarray(ids[start : start + _BLOCK], np.int32)
            following = np.asarray(ids[start + 1 : start + _BLOCK + 1], np.int32)
            if len(following) < len(first):
                following = np.append(following, np.int32(ids[0]))
            ones = np.ones(len(first), np.int64)
            total = (
                total
                + sparse.coo_array((ones, (first, following)), shape=(n_vocab, n_vocab)).tocsr()
            )
        pairs = total
        if kept is not None:
            found = pairs
            add_file(kept, lambda file: sparse.save_npz(file, found, compressed=False))
    return pairs


def chain_of_pairs(
    pairs: sparse.csr_array, names: Sequence[str], n_vocab: int, name: str
) -> MarkovChain:
    """The chain of the most frequent tokens, which come first; the rest are one token, ranked by
    its own frequency.
    """
    n_kept = checked_count("n_vocab", n_vocab, low=2, high=MOST_TOKENS)
    n_seen = int(np.count_nonzero(pairs.sum(axis=1)))
    table, labels = pairs, list(names[:n_seen])
    if n_seen > n_kept:
        group = np.minimum(np.arange(len(names)), n_kept - 1)
        size = int(group.max()) + 1
        coo = pairs.tocoo()
        entries = coo.data, (group[coo.row], group[coo.col])
        table = sparse.coo_array(entries, shape=(size, size)).tocsr()
        labels = [*names[: n_kept - 1], OTHER]
    dense = table[: len(labels), : len(labels)].toarray()
    order = np.argsort(-dense.sum(axis=1), kind="stable")
    return MarkovChain(
        dense[np.ix_(order, order)],
        tuple(labels[token] for token in order),
        name=name,
        normalise=True,
    )
