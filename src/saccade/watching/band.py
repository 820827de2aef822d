"""Attention of each token on those near it, with weights kept as a band (Longformer): laid out as
weights of queries on keys.

A softmax (sequence, query, head, 2w + 1) has in its column j the weight of key query + j - w. For
the product with values the model lays the band into chunks of w queries by 3w keys, and values into
chunks of 3w that overlap. That it is so is told by the numbers: chunks of values must repeat each
other, and the chunks of weights must hold the softmax, or nothing in rows of padding.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from saccade.watching.attention_call import AttentionCall, relative_error
from saccade.watching.masks import MASKED


def band_sizes(softmax: Tensor, used: Tensor, values: Tensor) -> tuple[int, int, int] | None:
    """Sequences, heads and tokens, if `used` (sequence x head, chunk, w, 3w) and `values` (..., 3w,
    width) are chunks of a band.
    """
    if softmax.ndim != 4 or used.ndim != 4 or values.ndim != 4:
        return None
    n_batch, n_tokens, n_heads, width = softmax.shape
    w = width // 2
    n_chunks = n_tokens // max(w, 1)
    if (
        width % 2 == 0
        or used.shape != (n_batch * n_heads, n_chunks, w, 3 * w)
        or values.shape[:3] != (len(used), n_chunks, 3 * w)
    ):
        return None
    rows = _band(used, n_batch, n_heads)
    is_used = (rows == softmax.transpose(1, 2)).all(dim=-1) | (rows == 0).all(dim=-1)
    do_overlap = torch.equal(values[:, :-1, w:], values[:, 1:, :-w])
    return (
        (n_batch, n_heads, n_tokens)
        if n_chunks * w == n_tokens and do_overlap and bool(is_used.all())
        else None
    )


def _band(used: Tensor, n_batch: int, n_heads: int) -> Tensor:
    """(sequence, head, query, 2w + 1) from chunks in which each row lies one place further to the
    right.
    """
    w = used.shape[2]
    columns = torch.arange(w, device=used.device)[:, None] + torch.arange(
        2 * w + 1, device=used.device
    )
    return used.gather(-1, columns.expand(*used.shape[:2], -1, -1)).reshape(
        n_batch, n_heads, -1, 2 * w + 1
    )


def of_band(
    softmax: Tensor, scores: Tensor | None, used: Tensor, values: Tensor, output: Tensor
) -> AttentionCall:
    """The call, of what `band_sizes` has recognised."""
    n_batch, n_tokens, n_heads, width = softmax.shape
    w = width // 2
    weights = _band(used, n_batch, n_heads)
    own = values[:, :, w : 2 * w].reshape(n_batch, n_heads, n_tokens, -1)
    made = output.reshape(n_batch, n_heads, n_tokens, -1)

    def dense(band: Tensor, start: int, stop: int, fill: float) -> Tensor:
        columns = torch.arange(start, stop, device=band.device)[:, None] + torch.arange(
            width, device=band.device
        )
        wide = band.new_full((n_batch, n_heads, stop - start, n_tokens + 2 * w), fill)
        wide.scatter_(-1, columns.expand(n_batch, n_heads, -1, -1), band[:, :, start:stop])
        return wide[..., w : w + n_tokens]

    def rows(start: int, stop: int, dtype: torch.dtype) -> Tensor:
        return dense(weights, start, stop, 0.0).to(dtype)

    def reproduced(start: int, stop: int, dtype: torch.dtype) -> float:
        return relative_error(rows(start, stop, dtype) @ own.to(dtype), made[:, :, start:stop])

    sizes = n_batch, n_heads, n_tokens, n_tokens
    call = AttentionCall("band", *sizes, rows, reproduced, output.dtype)
    if scores is None:
        return call
    by_head = scores.transpose(1, 2)

    def scored(start: int, stop: int, dtype: torch.dtype) -> Tensor:
        return dense(by_head, start, stop, -torch.inf).to(dtype)

    def visible(start: int, stop: int) -> Tensor:
        is_token = weights[:, :, start:stop].any(
            dim=-1, keepdim=True
        )  # rows of padding are emptied after the softmax
        return ~(scored(start, stop, scores.dtype) <= MASKED) & is_token

    return replace(call, visible=visible, scores=scored)
