"""Attention calls of PyTorch's own functions: what they were given tells the weights, which are
computed again by query rows.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.bias import CausalBias

from saccade.watching.attention_call import (
    AttentionCall,
    relative_error,
    softmax,
    without_blind_rows,
)
from saccade.watching.layout import Axes
from saccade.watching.masks import MASKED, left_by, masked_level


def of_dot_product(
    axes: Axes,
    output: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    left: Tensor | None = None,
) -> AttentionCall:
    """Of `scaled_dot_product_attention`, called with these arguments; `left` are keys that the
    parts of a mask of numbers leave, if it was seen how it was made.
    """
    q, made = (axes.of(tensor.detach()) for tensor in (query, output))
    k, v = (_of_keys(tensor.detach(), query, axes, len(q)) for tensor in (key, value))
    k = (
        k.contiguous()
    )  # once: a product with keys laid out otherwise copies them for every block of queries
    if isinstance(attn_mask, CausalBias):  # names a mask without holding it
        attn_mask = attn_mask._materialize(query.device)
    mask = None if attn_mask is None else axes.of(_with_axes_of(query, attn_mask.detach()))
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale

    seen = None
    if mask is not None:
        given = attn_mask.detach()
        # Keys that it leaves: as its numbers say, and as its parts said before they were added.
        own = given if given.dtype == torch.bool else given > masked_level(given)
        seen = axes.of(_with_axes_of(query, own if left is None else own & left))
    ends = _ends(mask, q.shape[2], k.shape[2], is_causal)

    def rows_of(mask: Tensor | None, start: int, stop: int) -> Tensor | None:
        part = mask if mask is None or mask.shape[2] == 1 else mask[:, :, start:stop]
        return part if part is None or part.shape[3] == 1 else part[..., : max(ends[start:stop])]

    def visible(start: int, stop: int) -> Tensor:
        rows, keys = (
            torch.arange(start, stop, device=q.device)[:, None],
            torch.arange(max(ends[start:stop]), device=q.device),
        )
        allowed, part = (rows >= keys)[None, None] | (not is_causal), rows_of(seen, start, stop)
        return allowed if part is None else allowed & part

    def scored(start: int, stop: int, dtype: torch.dtype) -> Tensor:
        sought, kept = factor * q[:, :, start:stop].to(dtype), k[:, :, : max(ends[start:stop])]
        scores, part = _products(sought, kept, dtype), rows_of(mask, start, stop)
        if part is not None and part.dtype != torch.bool:
            return scores + part
        return scores.masked_fill(~visible(start, stop), -math.inf)

    kind = "scaled_dot_product_attention"
    return replace(_from_scores(kind, q, k, v, made, scored, dropout_p), visible=visible)


def _ends(mask: Tensor | None, n_queries: int, n_keys: int, is_causal: bool) -> list[int]:
    """For each query, one more than the last key that some sequence or head leaves to it; at least
    1.

    All keys where numbers are added: what is far below is not quite out of sight.
    """
    if mask is None:
        return [min(row + 1, n_keys) if is_causal else n_keys for row in range(n_queries)]
    if mask.dtype != torch.bool or mask.shape[2] == 1 or mask.shape[3] == 1:
        return [n_keys] * n_queries
    left = mask.flatten(0, 1).any(dim=0)
    return (
        (left * torch.arange(1, n_keys + 1, device=mask.device)).amax(dim=-1).clamp_min(1).tolist()
    )


def of_flex(output: Any, *args: Any) -> AttentionCall:
    query, key, value, score_mod, block_mask, scale, *rest = args
    score_buffers, mask_buffers = rest[1:3] if len(rest) >= 3 else ((), ())
    q, k = query.detach(), key.detach()
    score_of, mask_of = (
        _over_indices(score_mod, True, score_buffers),
        _over_indices(block_mask[-1], False, mask_buffers),
    )
    batch, heads, keys = (
        torch.arange(n, device=q.device) for n in (len(q), q.shape[1], k.shape[2])
    )

    def scored(start: int, stop: int, dtype: torch.dtype) -> Tensor:
        scores = scale * _products(q[:, :, start:stop], k, dtype)
        places = batch, heads, torch.arange(start, stop, device=q.device), keys
        return score_of(scores, *places).masked_fill(~mask_of(*places), -math.inf)

    def visible(start: int, stop: int) -> Tensor:
        places = batch, heads, torch.arange(start, stop, device=q.device), keys
        return mask_of(*places) & ~(
            score_of(torch.zeros([len(axis) for axis in places], device=q.device), *places)
            <= MASKED
        )

    made = output[0] if isinstance(output, tuple) else output
    return replace(
        _from_scores("flex_attention", q, k, value.detach(), made.detach(), scored, 0.0),
        visible=visible,
    )


def _over_indices(function: Callable, with_score: bool, buffers: tuple) -> Callable:
    """A function of one (score and) place, batch, head, query, key, made a function of all places
    at once.
    """
    for axis in (3, 2, 1, 0):
        places = tuple(0 if i == axis else None for i in range(4))
        function = torch.vmap(
            function, in_dims=((0,) if with_score else ()) + places + (None,) * len(buffers)
        )
    return lambda *places: function(*places, *buffers)


def of_multi_head(output: Any, args: tuple, kwargs: dict[str, Any]) -> AttentionCall:
    """PyTorch's own function tells the weights, if it is asked for those of some query rows only."""
    given = _MULTI_HEAD.bind(*args, **kwargs)
    given.apply_defaults()
    call = given.arguments
    query, mask = call["query"].detach(), call["attn_mask"]
    n_queries, n_batch = query.shape[0], query.shape[1] if query.ndim == 3 else 1

    def asked(start: int, stop: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        part = None if mask is None else mask[..., start:stop, :]
        changed = {
            "query": query[start:stop],
            "attn_mask": part,
            "need_weights": True,
            "average_attn_weights": False,
        }
        quiet = {"is_causal": False, "training": False, "dropout_p": 0.0}
        settings: dict[str, Any] = {
            name: value.detach().to(dtype)
            if isinstance(value, Tensor) and value.is_floating_point()
            else value
            for name, value in (call | changed | quiet).items()
        }
        made, asked_for = F.multi_head_attention_forward(**settings)
        weights = cast(Tensor, asked_for)
        return made, weights if weights.ndim == 4 else weights[None]

    def rows(start: int, stop: int, dtype: torch.dtype) -> Tensor:
        weights = asked(start, stop, dtype)[1].detach()

        def are_blind() -> Tensor:
            return (
                weights.isnan()
                if visible is None
                else ~visible(start, stop).any(dim=-1, keepdim=True)
            )

        return without_blind_rows(weights, are_blind)

    def reproduced(start: int, stop: int, dtype: torch.dtype) -> float | None:
        dropped = call["training"] and call["dropout_p"] > 0
        return (
            None if dropped else relative_error(asked(start, stop, dtype)[0], output[0][start:stop])
        )

    kind, scores = "multi_head_attention_forward", _multi_head_scores(call)
    left, padding = (
        None if given is None else left_by(given.detach())
        for given in (mask, call["key_padding_mask"])
    )
    if left is not None and left.ndim == 3:
        left = left.unflatten(0, (-1, int(call["num_heads"])))

    def of_scores(start: int, stop: int) -> Tensor:
        rows = ~(cast(Any, scores)(start, stop, torch.float32) <= MASKED)  # NaN is visible
        for part in (
            None if left is None else left[..., start:stop, :],
            None if padding is None else padding[..., None, None, :],
        ):
            if (
                part is not None
            ):  # keys that the function adds by itself are behind those that masks know of
                rows = rows & F.pad(part, (0, rows.shape[-1] - part.shape[-1]), value=True)
        return rows

    visible = None if scores is None else of_scores
    n_keys = rows(0, 1, torch.float32).shape[-1]
    sizes = n_batch, int(call["num_heads"]), n_queries, n_keys
    return AttentionCall(kind, *sizes, rows, reproduced, output[0].dtype, visible, scores)


def _multi_head_scores(call: dict[str, Any]) -> Callable[[int, int, torch.dtype], Tensor] | None:
    """Scores of PyTorch's own function, which gives weights only; None where keys are added to
    those it is given.
    """
    added = ("bias_k", "bias_v", "static_k", "static_v")
    query, key, n_heads = call["query"].detach(), call["key"].detach(), int(call["num_heads"])
    if any(call[name] is not None for name in added) or call["add_zero_attn"] or query.ndim != 3:
        return None
    separate, width = call["use_separate_proj_weight"], query.shape[-1]
    packed, bias = call["in_proj_weight"], call["in_proj_bias"]
    of_query, of_key = (
        (call["q_proj_weight"], call["k_proj_weight"])
        if separate
        else (packed[:width], packed[width : 2 * width])
    )
    biases = (None, None) if bias is None else (bias[:width], bias[width : 2 * width])

    def by_head(tokens: Tensor, weight: Tensor, shift: Tensor | None, dtype: torch.dtype) -> Tensor:
        made = F.linear(
            tokens.to(dtype),
            weight.detach().to(dtype),
            None if shift is None else shift.detach().to(dtype),
        )
        return made.unflatten(-1, (n_heads, -1)).permute(1, 2, 0, 3)  # sequence, head, token, width

    def scored(start: int, stop: int, dtype: torch.dtype) -> Tensor:
        q, k = (
            by_head(query[start:stop], of_query, biases[0], dtype),
            by_head(key, of_key, biases[1], dtype),
        )
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if call["attn_mask"] is not None:
            part = call["attn_mask"].detach()[..., start:stop, :]
            part = part.unflatten(0, (-1, n_heads)) if part.ndim == 3 else part
            scores = _with_mask(scores, part)
        padding = call["key_padding_mask"]
        return scores if padding is None else _with_mask(scores, padding.detach()[:, None, None])

    return scored


def _with_mask(scores: Tensor, mask: Tensor) -> Tensor:
    """As this function means it: what is true is left out, numbers are added."""
    return scores.masked_fill(mask, -math.inf) if mask.dtype == torch.bool else scores + mask


_MULTI_HEAD = inspect.signature(F.multi_head_attention_forward)


def _from_scores(
    kind: str,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    made: Tensor,
    scored: Callable[[int, int, torch.dtype], Tensor],
    dropout: float,
) -> AttentionCall:
    def rows(start: int, stop: int, dtype: torch.dtype) -> Tensor:
        return softmax(scored(start, stop, dtype))

    def reproduced(start: int, stop: int, dtype: torch.dtype) -> float | None:
        if dropout > 0:
            return None
        weights = rows(start, stop, dtype)
        grouped = weights.unflatten(1, (v.shape[1], -1)) @ v[:, :, : weights.shape[-1]].to(
            dtype
        ).unsqueeze(2)
        return relative_error(grouped.flatten(1, 2), made[:, :, start:stop])

    sizes = q.shape[0], q.shape[1], q.shape[2], k.shape[2]
    return AttentionCall(
        kind, *sizes, rows, reproduced, made.dtype, scores=scored, from_scores=True
    )


def _products(q: Tensor, k: Tensor, dtype: torch.dtype) -> Tensor:
    """q . k for every head; heads that share a key (grouped or single) read the same one."""
    grouped = q.to(dtype).unflatten(1, (k.shape[1], -1)) @ k.to(dtype).unsqueeze(2).mT
    return grouped.flatten(1, 2)


def _of_keys(tensor: Tensor, query: Tensor, axes: Axes, n_sequences: int) -> Tensor:
    """Keys or values as (sequence, head, token, width); heads may be fewer than those of queries,
    of which each serves several.
    """
    if tensor.ndim == 3:
        return tensor.unflatten(0, (n_sequences, -1))
    return (
        tensor
        if tensor.ndim == 4
        else axes.of(tensor.expand(*query.shape[:-2], *tensor.shape[-2:]))
    )


def _with_axes_of(query: Tensor, mask: Tensor) -> Tensor:
    """A mask with all leading axes of the queries: PyTorch broadcasts it from the right."""
    return mask[(None,) * (query.ndim - mask.ndim)].expand(*query.shape[:-2], *mask.shape[-2:])
