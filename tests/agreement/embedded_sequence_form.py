"""The second implementation of the embedded model: one-hot rows, softmax over positions, in
PyTorch. Nothing knows of counts.
"""

from __future__ import annotations

import torch
from torch import Tensor


def sequence_loss(
    weights: tuple[Tensor, Tensor, Tensor, Tensor], tokens: Tensor, next_token: int, *, scaled: bool
) -> Tensor:
    """Cross-entropy at the last position of one sequence: f(X) = softmax(X W0 WQ WK' W0' X') X W0
    W1.
    """
    embedding, query, key, projection = weights
    rows = torch.eye(len(embedding), dtype=embedding.dtype)[tokens] @ embedding
    scores = (rows @ query) @ (rows @ key).T / (embedding.shape[1] ** 0.5 if scaled else 1.0)
    logits = (torch.softmax(scores, dim=-1) @ rows @ projection)[-1]
    return torch.logsumexp(logits, dim=0) - logits[next_token]
