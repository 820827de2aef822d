"""The second implementation: the one-layer Transformer token by token, in PyTorch, with autograd
for both gradients.

Nothing here knows of counts, blocks or shared columns: one-hot tokens, softmax over positions, a
dense Y and a dense Z.
"""

from __future__ import annotations

import torch
from torch import Tensor


def sequence_loss(
    decoder: Tensor,
    attention_logits: Tensor,
    context: Tensor,
    query: int,
    next_token: int,
    *,
    normalise: bool = True,
    residual: bool = False,
    query_key: bool = False,
) -> Tensor:
    """Cross-entropy of one sequence: `context` holds token ids in order."""
    n_vocab = len(decoder)
    one_hot = torch.eye(n_vocab, dtype=decoder.dtype)
    keys = torch.cat([context, torch.tensor([query])]) if query_key else context
    weights = torch.softmax(one_hot[keys] @ attention_logits[query], dim=0)
    seen = weights @ one_hot[keys] + (one_hot[query] if residual else 0)
    feature = seen / seen.norm() if normalise else seen
    logits = feature @ decoder
    return torch.logsumexp(logits, dim=0) - logits[next_token]


def batch_loss(
    decoder: Tensor,
    attention_logits: Tensor,
    sequences: list[tuple[Tensor, int, int]],
    **options: bool,
) -> Tensor:
    losses = [
        sequence_loss(decoder, attention_logits, *sequence, **options) for sequence in sequences
    ]
    return torch.stack(losses).mean()
