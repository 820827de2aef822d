r"""Attention of the last token of a window when attention averages the embeddings themselves, in one pass.

With $x_j$ the embedding of the window's token j and $u$ what the last token looks for, $u = W_K^\top W_Q x_T$ times the scale,

$$h = \sum_j a_j x_j, \qquad a = \mathrm{softmax}_j(u\cdot x_j).$$

A window needs one product with $W_K$, not one for each token. For a gradient $g$ by $h$, with $s_j = a_j\,g\cdot(x_j - h)$,

$$\partial x_j = a_j g + s_j u, \qquad \partial u = \sum_j s_j x_j.$$

For a small vocabulary it is cheaper to count tokens, $a_l \propto N_l e^{u\cdot x_l}$ over the vocabulary: dense products, with
PyTorch's own derivatives.
Limits: the query is always the last token, and no second derivatives. `Attention` in `transformer.py` is the same for any position.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

_COUNTED = 4  # tokens of the vocabulary for each of a window: below, counting takes a third of the time; at 8 no less


def token_average(table: Tensor, sought: Tensor, ids: Tensor) -> Tensor:
    """h (window, width) from embeddings `table` (token, width), u `sought` (window, width) and token ids (window, position)."""
    if len(table) > _COUNTED * ids.shape[1]:
        return _TokenAverage.apply(table, sought, ids)
    counts = sought.new_zeros(len(ids), len(table)).scatter_add_(1, ids, sought.new_ones(ids.shape))
    return torch.softmax(torch.addmm(counts.log_(), sought, table.T), 1) @ table


class _TokenAverage(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, sought: Tensor, ids: Tensor) -> Tensor:
        x = F.embedding(ids, table)
        attention = torch.softmax((x * sought[:, None]).sum(-1), 1)
        average = torch.bmm(attention[:, None], x)[:, 0]
        ctx.save_for_backward(x, attention, average, sought, ids)
        ctx.n_vocab = len(table)
        return average

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor, None]:
        x, attention, average, sought, ids = ctx.saved_tensors
        by_score = ((x * slope[:, None]).sum(-1) - (average * slope).sum(-1, keepdim=True)) * attention
        by_x = torch.bmm(torch.stack([attention, by_score], 2), torch.stack([slope, sought], 1))
        to_table = slope.new_zeros(ctx.n_vocab, slope.shape[1]).index_add_(0, ids.flatten(), by_x.flatten(0, 1))
        return to_table, torch.bmm(by_score[:, None], x)[:, 0], None
