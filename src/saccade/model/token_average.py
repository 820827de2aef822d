r"""Attention of the last token of a window when attention averages the embeddings themselves, in one pass.

With $x_j$ the embedding of the window's token j, $x_T$ that of the last, and $u$ what the last one looks for,

$$u = c\,W_K^\top W_Q x_T, \qquad h = \sum_j a_j x_j, \qquad a = \mathrm{softmax}_j(u\cdot x_j).$$

A window needs one product with $W_K$, not one for each token. For a gradient $g$ by $h$, with $s_j = a_j\,g\cdot(x_j - h)$,

$$\partial x_j = a_j g + s_j u, \qquad \partial u = \sum_j s_j x_j,$$

and $\partial u$ goes on to $W_K$, $W_Q$ and $x_T$. All of it is one function, so that the embeddings have one gradient and not two
to fill and to add up: a twentieth of an update.
In float32 compiled code reads the embeddings where they are (`rows_kernel.py`); PyTorch gathers them first.
Limits: the query is always the last token, and no second derivatives. `Attention` in `transformer.py` is the same for any position.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from saccade.model.rows_kernel import compiled


def token_average(table: Tensor, query: Tensor, key: Tensor, ids: Tensor, scale: float) -> Tensor:
    """h (window, width) from embeddings `table` (token, width), W_Q `query`, W_K `key` and token ids (window, position)."""
    return _TokenAverage.apply(table, query, key, ids.contiguous(), scale)


class _TokenAverage(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, query: Tensor, key: Tensor, ids: Tensor, scale: float) -> Tensor:
        last = F.embedding(ids[:, -1], table)
        asked, scaled_key = last @ query.T, scale * key
        sought = asked @ scaled_key
        if (attend := _compiled("attend", table)) is not None:
            attention, average = sought.new_empty(ids.shape), torch.empty_like(sought)
            attend(*ids.shape, *sought.shape[1:], *_places(ids, table, sought, attention, average))
        else:
            x = F.embedding(ids, table)
            attention = torch.softmax((x * sought[:, None]).sum(-1), 1)
            average = torch.bmm(attention[:, None], x)[:, 0]
        ctx.scale = scale
        ctx.save_for_backward(table, query, scaled_key, ids, last, asked, sought, attention, average)
        return average

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        table, query, scaled_key, ids, last, asked, sought, attention, average = ctx.saved_tensors
        to_table, to_sought = _back(table, ids, sought, attention, average, slope.contiguous())
        to_asked = to_sought @ scaled_key.T
        to_table.index_add_(0, ids[:, -1], to_asked @ query)
        return to_table, to_asked.T @ last, ctx.scale * (asked.T @ to_sought), None, None


def _back(table: Tensor, ids: Tensor, sought: Tensor, attention: Tensor, average: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients by the embeddings, as keys and values, and by what is sought."""
    to_table = torch.zeros_like(table)
    if (attend_back := _compiled("attend_back", table)) is not None:
        to_sought = torch.empty_like(sought)
        arrays = (ids, table, sought, attention, average, slope, to_table, to_sought)
        attend_back(*ids.shape, *sought.shape[1:], *_places(*arrays))
        return to_table, to_sought
    x = F.embedding(ids, table)
    by_score = ((x * slope[:, None]).sum(-1) - (average * slope).sum(-1, keepdim=True)) * attention
    by_x = torch.bmm(torch.stack([attention, by_score], 2), torch.stack([slope, sought], 1))
    to_table.index_add_(0, ids.flatten(), by_x.flatten(0, 1))
    return to_table, torch.bmm(by_score[:, None], x)[:, 0]


def _compiled(name: str, table: Tensor) -> Any:
    fits = table.dtype == torch.float32 and table.device.type == "cpu" and table.is_contiguous()
    return compiled(name) if fits else None


def _places(*arrays: Tensor) -> list[int]:
    return [array.data_ptr() for array in arrays]
