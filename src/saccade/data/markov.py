"""The Focus-and-Dilution data model: a Markov chain of tokens; the task is to predict the next one.

A sequence starts at a uniformly drawn token and follows the transition table; the last token is the
target [chen2026]. The context says nothing about the target beyond its last token, and of a long
context only the stationary distribution is left. Not here: where tables come from
(`markov_presets.py`, `markov_text.py`, `markov_tables.py`), their law (`markov_law.py`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from saccade.data.checks import MOST_ENTRIES, checked_names, checked_numbers, checked_rows, naming
from saccade.data.markov_law import stationary_law
from saccade.data.markov_presets import (
    MOST_TOKENS,
    PAPER_LAW,
    lazy_table,
    metropolis_table,
    random_table,
    two_level_law,
    zipf_law,
)
from saccade.data.markov_tables import table_from_csv
from saccade.data.markov_text import counted_table, split_text
from saccade.errors import InputError, checked_count, checked_kind, shortened


@dataclass(frozen=True, eq=False)
class MarkovChain:
    """A Markov chain over a vocabulary of d tokens, with a unique stationary distribution that is
    positive everywhere.

    | name          | paper | axes              | meaning                                              |
    |---------------|-------|-------------------|------------------------------------------------------|
    | `transition`  | P     | token, next_token | probability of each next token; rows sum to one      |
    | `stationary`  | pi    | token             | frequency of each token; found from `transition`     |
    | `n_vocab`     | d     |                   | number of tokens                                     |
    | `token_names` |       | token             | labels for figures and tables; default: the ids      |

    Losses and entropies are in nats.
    """

    transition: NDArray[np.float64]
    token_names: tuple[str, ...] = ()
    name: str = "chain"
    normalise: bool = False
    stationary: NDArray[np.float64] = field(init=False)

    def __repr__(self) -> str:
        first = int(self.stationary.argmax())
        most = f"{self.labels[first]!r} {self.stationary[first]:.3g} of the time"
        return f"MarkovChain({self.name!r}: {self.n_vocab:,} tokens, {most})"

    def __post_init__(self) -> None:
        table = checked_numbers("transition", self.transition, n_axes=2)
        n_vocab = len(table)
        if table.shape != (n_vocab, n_vocab):
            raise InputError(
                f"`transition` must be square, a row and a column for each token; its shape is {table.shape}."
            )
        if not 2 <= n_vocab <= MOST_TOKENS:
            raise InputError(
                f"`transition` must have from 2 to {MOST_TOKENS} tokens; got {n_vocab}."
            )
        object.__setattr__(self, "token_names", checked_names(self.token_names, n_vocab))
        object.__setattr__(self, "transition", table)  # for the labels
        rows = checked_rows(
            "transition",
            table,
            axis="token",
            label=lambda token: shortened(self.labels[token]),
            column=lambda token: shortened(self.labels[token]),
            n_columns=n_vocab,
            normalise=self.normalise,
        )
        object.__setattr__(self, "transition", rows)
        object.__setattr__(self, "stationary", stationary_law(self.transition, self.labels))
        self.transition.setflags(write=False)  # both are our own copies
        self.stationary.setflags(write=False)

    @property
    def n_vocab(self) -> int:
        return len(self.transition)

    @property
    def labels(self) -> tuple[str, ...]:
        return self.token_names or tuple(str(token) for token in range(self.n_vocab))

    @property
    def names_by_axis(self) -> dict[str, list[str]]:
        """What the places of each axis of a record are called; nothing if tokens have no names."""
        return (
            {axis: list(self.token_names) for axis in ("token", "next_token", "query")}
            if self.token_names
            else {}
        )

    @property
    def entropy_rate(self) -> float:
        r"""Uncertainty about the next token that is left once the last is known, $-\sum_i \pi_i
        \sum_j P_{ij} \ln P_{ij}$.
        """
        return float(-self.stationary @ xlogy(self.transition, self.transition).sum(axis=1))

    @property
    def optimal_loss(self) -> float:
        """The loss that no model can beat, L*: the next token depends on the last one only, so it
        is the entropy rate.
        """
        return self.entropy_rate

    @property
    def unigram_loss(self) -> float:
        """The loss of a model that knows how often each token comes and nothing else: the entropy
        of the stationary law.
        """
        return float(-xlogy(self.stationary, self.stationary).sum())

    def sample(self, n_sequences: int, length: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Token ids (sequence, position) of sequences that start at a uniformly drawn token
        [chen2026] and follow the chain.
        """
        length = checked_count("length", length, high=MOST_ENTRIES)
        n_sequences = checked_count("n_sequences", n_sequences, high=MOST_ENTRIES // length)
        rng = checked_kind("rng", rng, np.random.Generator)
        # Cumulated rows, filled up to a power of two with infinity, which also stands for 1:
        # rounding draws no token of chance 0.
        n_vocab = len(self.transition)
        cumulated = np.cumsum(self.transition, axis=1)
        thresholds = np.full((n_vocab, 1 << (n_vocab - 1).bit_length()), np.inf)
        thresholds[:, :n_vocab] = np.where(cumulated < cumulated[:, -1:], cumulated, np.inf)
        tokens = np.empty((n_sequences, length), np.int64)
        tokens[:, 0] = rng.integers(self.n_vocab, size=n_sequences)
        for position in range(1, length):
            # The first place of each row whose threshold exceeds the uniform number, by bisection
            # for all rows at once.
            uniform = rng.random(n_sequences)
            flat, start = thresholds.ravel(), tokens[:, position - 1] * thresholds.shape[1]
            place = start.copy()
            half = thresholds.shape[1] // 2
            while half:
                place += half * (flat[place + half - 1] <= uniform)
                half //= 2
            tokens[:, position] = place - start
        return tokens

    @classmethod
    def lazy(cls, stationary: ArrayLike, stay: float) -> MarkovChain:
        """Repeat the token with chance `stay`, otherwise draw from the law; see
        `markov_presets.lazy_table`.
        """
        return cls(lazy_table(stationary, stay), name="lazy")

    @classmethod
    def zipf(cls, n: int, stay: float = 0.5) -> MarkovChain:
        """The lazy chain whose token of rank r comes in proportion to 1/r."""
        law = zipf_law(n)
        return cls(lazy_table(law, stay), name=f"zipf-{len(law)}")

    @classmethod
    def paper(cls, stay: float = 0.3) -> MarkovChain:
        """The lazy chain of the paper's synthetic experiment, which has `stay` 0.8; at 0.3 the
        stages are easier to tell apart.
        """
        return cls(lazy_table(PAPER_LAW, stay), name="paper")

    @classmethod
    def two_level(
        cls, n: int, high: float, asymmetry: float = 0.0, stay: float = 0.5
    ) -> MarkovChain:
        """The lazy chain of one frequent token and n-1 rare ones, alike up to `asymmetry`; see
        `markov_presets.two_level_law`.
        """
        law = two_level_law(n, high, asymmetry)
        return cls(lazy_table(law, stay), name=f"two-level-{len(law)}")

    @classmethod
    def metropolis(cls, stationary: ArrayLike, stay: float = 0.0) -> MarkovChain:
        """The (lazy) Metropolis chain with this law; see `markov_presets.metropolis_table`."""
        return cls(metropolis_table(stationary, stay), name="metropolis")

    @classmethod
    def random(cls, stationary: ArrayLike, seed: int = 0) -> MarkovChain:
        """A random chain with this law, in general not reversible; see
        `markov_presets.random_table`.
        """
        return cls(random_table(stationary, seed), name=f"random-{seed}")

    @classmethod
    def from_tokens(cls, tokens: Iterable[Hashable], n_vocab: int | None = None) -> MarkovChain:
        """The chain of which word follows which in a list of words or ids, most frequent first; see
        `markov_text.py`.
        """
        table, names = counted_table(tokens, n_vocab)
        return cls(table, token_names=names, name="tokens")

    @classmethod
    def from_text(cls, text: str, unit: str = "word", n_vocab: int | None = None) -> MarkovChain:
        """The same from running text, by words or by characters."""
        table, names = counted_table(split_text(text, unit), n_vocab)
        return cls(table, token_names=names, name=f"text-{unit}s")

    @classmethod
    def from_csv(cls, path: str | Path, *, normalise: bool = False) -> MarkovChain:
        """The table in a CSV file, whose header names the tokens; see `markov_tables.py`."""
        table, names = table_from_csv(Path(path))
        with naming(path):
            return cls(table, token_names=names, name=Path(path).stem, normalise=normalise)
