"""Attention by a free table of scores, token by token: the attention of the (Y, Z) model in
PyTorch, for sequences of real text.

`models/pairwise.py` is the same model from token counts, for the tasks of the theory; tests/model
compares the two.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from saccade.models.transformer_config import TransformerConfig


def visible(n_queries: int, n_keys: int, query_key: bool) -> Tensor:
    """Which keys the last `n_queries` positions may attend to (query, key)."""
    before = n_keys - n_queries if query_key else n_keys - n_queries - 1
    return torch.ones(n_queries, n_keys, dtype=torch.bool).tril(before)


class PairwiseAttention(nn.Module):
    """Attention by a free table: query token q seeks key token k with score Z[q, k]. Gives out
    attention by token, not by position.

    With one-hot embeddings the values are one-hot tokens, as wide as the vocabulary. They are never
    made for every position: the kernel gives attention over positions, which is then added up by
    token.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.scores = nn.Embedding(config.n_vocab, config.n_vocab)  # Z

    def forward(self, ids: Tensor, last_only: bool = False) -> Tensor:
        queries = ids[:, -1:] if last_only else ids
        tokens = ids[:, None, :].expand(-1, queries.shape[1], -1)
        by_position = self.weights(ids, last_only)[:, 0]
        by_token = by_position.new_zeros(*queries.shape, self.config.n_vocab).scatter_add(
            -1, tokens, by_position
        )
        return (
            by_token + F.one_hot(queries, self.config.n_vocab) if self.config.residual else by_token
        )

    def weights(self, ids: Tensor, last_only: bool = False) -> Tensor:
        """Attention over positions (batch, 1, query, key)."""
        queries = ids[:, -1:] if last_only else ids
        # Rows, then entries: the gradient of a lookup by pairs of indices adds up in an order that
        # threads decide.
        sought = self.scores(queries).gather(-1, ids[:, None, :].expand(-1, queries.shape[1], -1))
        sought = sought.masked_fill(
            ~visible(sought.shape[1], sought.shape[2], self.config.query_key), -math.inf
        )[:, None]
        nothing = sought.new_zeros(len(ids), 1, 1, 1)
        one_hot = torch.eye(ids.shape[1], dtype=sought.dtype).expand(len(ids), 1, -1, -1)
        return F.scaled_dot_product_attention(
            nothing.expand(-1, -1, queries.shape[1], -1),
            nothing.expand(-1, -1, ids.shape[1], -1),
            one_hot,
            sought,
        )
