"""Dropout whose masks are drawn as whole numbers, four to a draw; PyTorch draws one of double
precision for each entry.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

_LEVELS = 2**16  # of a draw: the probability is known to 1/65,536, and the mean is kept exactly


class Dropout(nn.Dropout):
    """`nn.Dropout`, except for which entries it drops."""

    def forward(self, x: Tensor) -> Tensor:
        return x * _mask(x, self.p) if self.training and self.p else x


def _mask(like: Tensor, p: float) -> Tensor:
    """0 for what is dropped, for the rest what keeps the mean."""
    dropped, n_entries = min(round(p * _LEVELS), _LEVELS - 1), like.numel()
    draws = torch.empty(math.ceil(n_entries / 4), dtype=torch.int64, device=like.device).random_(
        -(2**63), None
    )
    kept = draws.view(torch.int16)[:n_entries].view(like.shape) >= dropped - _LEVELS // 2
    return kept.to(like.dtype).mul_(_LEVELS / (_LEVELS - dropped))
