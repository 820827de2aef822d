"""Windows of a token stream: the batches of training on text, and its validation windows.

A batch has an address, seed and step (`randomness.py`), so it is the same whatever was looked at or
resumed before it.

| order      | a batch is                                                                                                  |
|------------|-------------------------------------------------------------------------------------------------------------|
| `"random"` | windows that start anywhere                                                                                 |
| `"stream"` | the text cut into as many streams as the batch has rows, each read on from step to step, as in [tian2023];  |
|            | what is too short for a whole window at the end of the streams is left out, then they start again           |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from saccade.engines.randomness import Purpose, generator
from saccade.errors import InputError

ORDERS = ("random", "stream")


class TokenCorpus(Protocol):
    """What training needs to know of a text: token ids to learn from and to be judged by, and a
    name for them.
    """

    @property
    def train(self) -> Any: ...
    @property
    def valid(self) -> Any: ...
    @property
    def n_vocab(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def hash(self) -> str: ...


class Batch(NamedTuple):
    """Token ids and the tokens that follow them (row, position)."""

    ids: Tensor
    following: Tensor


@dataclass(frozen=True)
class Windows:
    """The batches of a run. `shard` of `n_shards`: which of the rows are this process's."""

    corpus: TokenCorpus
    batch: int
    context: int
    order: str
    seed: int
    shard: int = 0
    n_shards: int = 1

    def __post_init__(self) -> None:
        needed = self.context + 1 if self.order == "random" else self.batch * (self.context + 1)
        if len(self.corpus.train) < needed:
            raise InputError(
                f"corpus {self.corpus.name!r} has {len(self.corpus.train)} tokens to train on, fewer than the {needed} that one "
                "batch needs: take a smaller `context` or `batch`."
            )
        if self.batch % self.n_shards:
            raise InputError(
                f"`batch` must be a multiple of the {self.n_shards} processes; got {self.batch}."
            )

    def at(self, step: int) -> tuple[Batch, int]:
        """The rows of a step that are this process's, and a seed for what else the step draws:
        dropout.
        """
        rng = generator(self.seed, Purpose.DATA, step)
        random_seed = int(rng.integers(2**62)) + self.shard
        n_tokens = len(self.corpus.train)
        if self.order == "random":
            starts = rng.integers(n_tokens - self.context, size=self.batch)
        else:  # every row reads on in its own part of the text
            length = n_tokens // self.batch
            at = step % ((length - 1) // self.context) * self.context
            starts = np.arange(self.batch) * length + at
        return batch_of(
            self.corpus.train, starts[self.shard :: self.n_shards], self.context
        ), random_seed


def batch_of(tokens: Any, starts: np.ndarray, context: int) -> Batch:
    rows = np.asarray(tokens[starts[:, None] + np.arange(context + 1)]).astype(np.int64)
    return Batch(torch.from_numpy(rows[:, :-1].copy()), torch.from_numpy(rows[:, 1:].copy()))


def fixed_windows(corpus: TokenCorpus, n_windows: int, context: int) -> Batch:
    """Windows of the validation text, evenly spaced, each as long as `context` if the text is."""
    tokens = corpus.valid
    context = min(context, len(tokens) - 1)
    if context < 1:
        raise InputError(
            f"corpus {corpus.name!r} has {len(tokens)} validation tokens; at least 2 are needed."
        )
    starts = np.linspace(0, len(tokens) - context - 1, n_windows).astype(np.int64)
    return batch_of(tokens, np.unique(starts), context)
