r"""The loss of a model whose last token attends to the embeddings themselves and averages them, and
its gradients, in one pass.

With $x_j$ the embedding of the window's token j, $x_T$ that of the last, and $u$ what the last one
looks for,

$$u = c\,W_K^\top W_Q x_T, \qquad h = \sum_j a_j x_j, \qquad a = \mathrm{softmax}_j(u\cdot x_j).$$

A window needs one product with $W_K$, not one for each token. For a gradient $g$ by $h$, with $s_j
= a_j\,g\cdot(x_j - h)$,

$$\partial x_j = a_j g + s_j u, \qquad \partial u = \sum_j s_j x_j,$$

and $\partial u$ goes on to $W_K$, $W_Q$ and $x_T$. The loss makes its gradients as it is computed
(`blocked_loss.py`), so there is nothing left for automatic differentiation to do, whose calls took
up to a third of an update of a small model. In float32 compiled code reads the embeddings where
they are (`rows_kernel.py`); PyTorch gathers them first. Limit: the query is always the last token.
`Attention` in `transformer.py` is the same for any position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from saccade.models.blocked_loss import loss_and_gradients
from saccade.models.products import product
from saccade.models.rows_kernel import compiled


@torch.no_grad()
def averaged_loss(
    table: Tensor,
    query: Tensor,
    key: Tensor,
    unembedding: Tensor,
    ids: Tensor,
    targets: Tensor,
    scale: float,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Mean cross-entropy of `targets` (window) and its gradients by the first four: embeddings
    `table` (token, width), W_Q `query`, W_K `key` and the `unembedding` (token, width). `ids`: of
    the windows' tokens (window, position).
    """
    ids = ids.contiguous()
    last = F.embedding(ids[:, -1], table)
    asked, scaled_key = product(last, query.T), scale * key
    sought = product(asked, scaled_key)
    attention, average = _attended(table, ids, sought)
    loss, gradients = loss_and_gradients(average, unembedding, None, targets, (True, True, False))
    slope, to_unembedding, _ = cast("tuple[Tensor, Tensor, None]", gradients)  # as wanted
    to_table, to_sought = _back(table, ids, sought, attention, average, slope)
    to_asked = product(to_sought, scaled_key.T)
    to_table.index_add_(0, ids[:, -1], product(to_asked, query))
    return loss, (
        to_table,
        product(to_asked.T, last),
        product(asked.T, to_sought).mul_(scale),
        to_unembedding,
    )


def _attended(table: Tensor, ids: Tensor, sought: Tensor) -> tuple[Tensor, Tensor]:
    """Attention (window, position) and the average (window, width)."""
    if (attend := _compiled("attend", table)) is not None:
        attention, average = sought.new_empty(ids.shape), torch.empty_like(sought)
        attend(*ids.shape, *sought.shape[1:], *_places(ids, table, sought, attention, average))
        return attention, average
    x = F.embedding(ids, table)
    attention = torch.softmax((x * sought[:, None]).sum(-1), 1)
    return attention, torch.bmm(attention[:, None], x)[:, 0]


def _back(
    table: Tensor, ids: Tensor, sought: Tensor, attention: Tensor, average: Tensor, slope: Tensor
) -> tuple[Tensor, Tensor]:
    """For a gradient `slope` by the average: those by the embeddings, as keys and values, and by
    what is sought.
    """
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


def _compiled(name: str, table: Tensor) -> Callable[..., None] | None:
    fits = table.dtype == torch.float32 and table.device.type == "cpu" and table.is_contiguous()
    return compiled(name) if fits else None


def _places(*arrays: Tensor) -> list[int]:
    return [array.data_ptr() for array in arrays]
