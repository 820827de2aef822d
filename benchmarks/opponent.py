"""The opponents: the same training in PyTorch, written with care, and written the way the paper's
public code does it.

Both have one-hot tokens, softmax over positions, autograd, and one run at a time. With care, the
row of attention logits of a sequence's query is looked up first. The paper's code multiplies every
key by all of Z, as if any token could be the query, and then picks the query's column
(`all_queries`). The numbers are the same. Neither is slowed down nor tuned by hand. They train on
the batches they are given, so that their numbers can be laid beside Saccade's; `sampled_batches`
draws them as the user would.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from saccade import SequenceClasses
from saccade.engines.batches import Draws
from saccade.models.token_blocks import TokenBlocks


class Batch(NamedTuple):
    tokens: Tensor  # sequence, position
    query: Tensor  # sequence
    target: Tensor  # sequence


class OneLayerTransformer(nn.Module):
    """Decoder logits Y and attention logits Z, from U(-1/sqrt(M), 1/sqrt(M))."""

    def __init__(self, n_vocab: int, all_queries: bool = False) -> None:
        super().__init__()
        self.n_vocab, self.all_queries = n_vocab, all_queries
        bound = n_vocab**-0.5
        self.decoder = nn.Parameter(torch.empty(n_vocab, n_vocab).uniform_(-bound, bound))
        self.attention_logits = nn.Parameter(torch.empty(n_vocab, n_vocab).uniform_(-bound, bound))

    def forward(self, tokens: Tensor, query: Tensor) -> Tensor:
        x = F.one_hot(tokens, self.n_vocab).to(self.decoder.dtype)
        q = F.one_hot(query, self.n_vocab).to(self.decoder.dtype)
        if self.all_queries:
            scores = torch.einsum("btm,bm->bt", x @ self.attention_logits.T, q)
        else:
            scores = torch.einsum("btl,bl->bt", x, q @ self.attention_logits)
        attention = F.softmax(scores, dim=-1)
        feature = F.normalize(torch.einsum("bt,btl->bl", attention, x), dim=-1)
        return feature @ self.decoder


def train(
    model: OneLayerTransformer,
    batches: Iterable[Batch],
    *,
    lr_decoder: float,
    lr_attention: float,
    momentum: float = 0.9,
) -> None:
    """SGD with momentum, a rate for each matrix; a step for each batch."""
    optimisers = [
        torch.optim.SGD([model.decoder], lr=lr_decoder, momentum=momentum),
        torch.optim.SGD([model.attention_logits], lr=lr_attention, momentum=momentum),
    ]
    for batch in batches:
        loss = F.cross_entropy(model(batch.tokens, batch.query), batch.target)
        for optimiser in optimisers:
            optimiser.zero_grad()
        loss.backward()
        for optimiser in optimisers:
            optimiser.step()


def sampled_batches(
    task: SequenceClasses, *, steps: int = 100, batch: int = 128, context: int = 127
) -> Iterator[Batch]:
    class_weight, token_prob = (
        torch.tensor(task.class_weight),
        torch.tensor(task.token_prob, dtype=torch.float32),
    )
    query, next_token = torch.tensor(task.query), torch.tensor(task.next_token)
    for _ in range(steps):
        classes = torch.multinomial(class_weight, batch, replacement=True)
        tokens = torch.multinomial(token_prob[classes], context, replacement=True)
        yield Batch(tokens, query[classes], next_token[classes])


def given_batches(task: SequenceClasses, blocks: TokenBlocks, draws: Draws) -> Iterator[Batch]:
    """Saccade's drawn counts spelled out as sequences; without positions any order of the tokens is
    the same context.
    """
    for classes, counts in zip(draws.classes, draws.counts, strict=True):
        tokens = [
            np.repeat(blocks.slots[n], row.astype(int))
            for n, row in zip(classes, counts, strict=True)
        ]
        yield Batch(
            *map(torch.tensor, (np.stack(tokens), task.query[classes], task.next_token[classes]))
        )
