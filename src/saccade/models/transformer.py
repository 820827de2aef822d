r"""A causal Transformer of one to a few layers, to be read from top to bottom; both papers'
one-layer models are settings of it.

Attention is always `F.scaled_dot_product_attention`, so that it is fast and can be watched from
outside. The model gives logits, or what they are computed from (`hidden=True`): logits of a large
vocabulary are better never made as a whole (`blocked_loss.py`). Not here: settings
(`transformer_config.py`), positions (`positions.py`), how the parameters move
(engines/train_text.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from saccade.errors import InputError
from saccade.models import positions
from saccade.models.dropout import Dropout
from saccade.models.pairwise_attention import PairwiseAttention, visible
from saccade.models.products import Linear
from saccade.models.token_average import averaged_loss
from saccade.models.transformer_config import TransformerConfig

__all__ = ["Transformer", "TransformerConfig"]


class UnitNorm(nn.Module):
    """x / |x|, and 0 for a context that is empty."""

    def forward(self, x: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x / torch.where(length > 0, length, 1)


def make_norm(config: TransformerConfig) -> nn.Module:
    if config.norm == "layer":
        return nn.LayerNorm(config.d_model, bias=config.bias)
    if config.norm == "rms":
        return nn.RMSNorm(config.d_model)
    return UnitNorm() if config.norm == "unit" else nn.Identity()


class Attention(nn.Module):
    """Causal attention of several heads. Axes inside: batch, head, position, width of a head."""

    cosine: Tensor
    sine: Tensor

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        width = config.d_model
        self.config, self.n_heads = config, config.n_heads
        self.q_proj = Linear(width, width, bias=config.bias)
        self.k_proj = Linear(width, width, bias=config.bias)
        if config.values:
            self.v_proj = Linear(width, width, bias=config.bias)
            self.o_proj = Linear(width, width, bias=config.bias)
        if config.positions == "rotary":
            turned = positions.angles(config.context, width // config.n_heads)
            self.register_buffer(
                "cosine", turned.cos().to(torch.get_default_dtype()), persistent=False
            )
            self.register_buffer(
                "sine", turned.sin().to(torch.get_default_dtype()), persistent=False
            )

    def forward(self, x: Tensor, last_only: bool = False) -> Tensor:
        values = self._by_head(self.v_proj(x) if self.config.values else x)
        seen = self._attend(x, values, last_only, self.config.dropout if self.training else 0.0)
        seen = seen.transpose(1, 2).flatten(2)
        return self.o_proj(seen) if self.config.values else seen

    def weights(self, x: Tensor, last_only: bool = False) -> Tensor:
        """Attention itself (batch, head, query, key): with one-hot positions as values the kernel
        gives out its weights.
        """
        one_hot = torch.eye(x.shape[1], dtype=x.dtype).expand(len(x), self.n_heads, -1, -1)
        return self._attend(x, one_hot, last_only, 0.0)

    def _attend(self, x: Tensor, values: Tensor, last_only: bool, dropout: float) -> Tensor:
        queries = self._by_head(self.q_proj(x[:, -1:] if last_only else x))
        keys = self._by_head(self.k_proj(x))
        n_queries, n_keys = queries.shape[2], keys.shape[2]
        if self.config.positions == "rotary":
            cosine, sine = self.cosine[:n_keys], self.sine[:n_keys]
            queries = positions.rotated(queries, cosine[-n_queries:], sine[-n_queries:])
            keys = positions.rotated(keys, cosine, sine)
        mask: Tensor | None = None  # where the kernel's own causal mask does: the fast case
        if self.config.positions == "alibi":
            bias = positions.distance_bias(self.n_heads, n_queries, n_keys)[None].to(queries)
            mask = bias.masked_fill(~visible(n_queries, n_keys, self.config.query_key), -math.inf)
        elif not self.config.query_key:
            mask = visible(n_queries, n_keys, False)
        is_causal = mask is None and n_queries > 1
        scale = None if self.config.scaled else 1.0
        return F.scaled_dot_product_attention(
            queries, keys, values, mask, dropout, is_causal, scale=scale
        )

    def _by_head(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)


class Block(nn.Module):
    """Attention, then the MLP, with norms before or after them."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.attention = Attention(config)
        self.attention_norm = make_norm(config)
        self.dropout = Dropout(config.dropout)
        if config.d_mlp:
            up = Linear(config.d_model, config.d_mlp, bias=config.bias)
            down = Linear(config.d_mlp, config.d_model, bias=config.bias)
            self.mlp = nn.Sequential(up, nn.ReLU(), Dropout(config.dropout), down)
            self.mlp_norm = make_norm(config)

    def forward(self, x: Tensor, last_only: bool = False) -> Tensor:
        kept = x[:, -1:] if last_only else x
        if self.config.norm_first:
            kept = self._joined(kept, self.attention(self.attention_norm(x), last_only))
            return self._joined(kept, self.mlp(self.mlp_norm(kept))) if self.config.d_mlp else kept
        kept = self.attention_norm(self._joined(kept, self.attention(x, last_only)))
        return self.mlp_norm(self._joined(kept, self.mlp(kept))) if self.config.d_mlp else kept

    def _joined(self, x: Tensor, added: Tensor) -> Tensor:
        return x + self.dropout(added) if self.config.residual else self.dropout(added)


class Transformer(nn.Module):
    """Logits of the next token (batch, position, token) from token ids (batch, position)."""

    blocks: Any  # of `Block`
    pairwise_attention: PairwiseAttention
    sinusoids: Tensor

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        if config.pairwise:
            self.pairwise_attention = PairwiseAttention(config)
        else:
            self.embedding = nn.Embedding(config.n_vocab, config.d_model)
            self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
            self.dropout = Dropout(config.dropout)
            if config.positions == "learned":
                self.position_embedding = nn.Embedding(config.context, config.d_model)
            elif config.positions == "sinusoidal":
                self.register_buffer(
                    "sinusoids",
                    positions.sinusoids(config.context, config.d_model),
                    persistent=False,
                )
        self.final_norm = make_norm(config) if config.norm_first else nn.Identity()
        self.unembedding = Linear(
            config.n_vocab if config.pairwise else config.d_model, config.n_vocab, bias=config.bias
        )
        if config.tied:
            self.unembedding.weight = self.embedding.weight
        self._initialise()

    def forward(self, ids: Tensor, last_only: bool = False, hidden: bool = False) -> Tensor:
        """Logits, or with `hidden` what the unembedding reads; with `last_only` of the last
        position alone (batch, 1, ...).
        """
        if ids.shape[1] > self.config.context:
            raise InputError(
                f"a sequence of {ids.shape[1]} tokens is longer than the model's `context` of {self.config.context}."
            )
        if self.config.pairwise:
            x = self.pairwise_attention(ids, last_only)
        else:
            x = self.embedded(ids)
            for i, block in enumerate(self.blocks):
                x = block(x, last_only and i == len(self.blocks) - 1)
        x = self.final_norm(x)
        return x if hidden else self.unembedding(x)

    def averaged_loss(self, ids: Tensor, targets: Tensor) -> Tensor:
        """Loss of the last position where the model only averages tokens. Its gradients are put in
        place: nothing is left to differentiate.
        """
        attention, scale = (
            self.blocks[0].attention,
            self.config.d_model**-0.5 if self.config.scaled else 1.0,
        )
        matrices = (
            self.embedding.weight,
            attention.q_proj.weight,
            attention.k_proj.weight,
            self.unembedding.weight,
        )
        loss, gradients = averaged_loss(*matrices, ids, targets, scale)
        for matrix, gradient in zip(matrices, gradients, strict=True):
            matrix.grad = gradient
        return loss

    def embedded(self, ids: Tensor) -> Tensor:
        """What the first layer reads."""
        x = self.embedding(ids) * self.config.embedding_scale
        if self.config.positions == "learned":
            x = x + self.position_embedding.weight[: ids.shape[1]]
        elif self.config.positions == "sinusoidal":
            x = x + self.sinusoids[: ids.shape[1]]
        return self.dropout(x)

    @torch.no_grad()
    def attention_of(self, ids: Tensor, layer: int = 0, last_only: bool = False) -> Tensor:
        """Attention of a layer (batch, head, query, key), as the model's own kernel computes it."""
        if self.config.pairwise:
            return self.pairwise_attention.weights(ids, last_only)
        x = self.embedded(ids)
        for block in self.blocks[:layer]:
            x = block(x)
        block = self.blocks[layer]
        return block.attention.weights(
            block.attention_norm(x) if self.config.norm_first else x, last_only
        )

    def attention_parameters(self) -> Iterator[nn.Parameter]:
        """What decides where attention goes: queries and keys, or Z."""
        if self.config.pairwise:
            return self.pairwise_attention.parameters()
        return chain.from_iterable(
            part.parameters()
            for b in self.blocks
            for part in (b.attention.q_proj, b.attention.k_proj)
        )

    def decoder_parameters(self) -> Iterator[nn.Parameter]:
        """What turns the last layer into logits: the unembedding, or Y; with tied tables the
        embedding too.
        """
        return self.unembedding.parameters()

    def mlp_parameters(self) -> Iterator[nn.Parameter]:
        return (
            chain.from_iterable(block.mlp.parameters() for block in self.blocks)
            if self.config.d_mlp
            else iter(())
        )

    @torch.no_grad()
    def _initialise(self) -> None:
        scale = self.config.init_scale
        if self.config.init == "normal":
            for parameter in self.parameters():
                parameter.normal_(0.0, scale) if parameter.ndim > 1 else parameter.zero_()
            for module in self.modules():
                if isinstance(module, nn.LayerNorm | nn.RMSNorm):
                    module.weight.fill_(1.0)
            return
        for table in (module for module in self.modules() if isinstance(module, nn.Embedding)):
            table.weight.uniform_(-scale, scale)
        self.unembedding.weight.uniform_(-scale, scale)
        for attention in (module for module in self.modules() if isinstance(module, Attention)):
            # Queries, keys and values start as if they were one matrix, as in
            # `nn.MultiheadAttention`; biases start at zero.
            bound = math.sqrt(6 / (4 * attention.config.d_model))
            for name, weight in attention.named_parameters():
                if name.endswith("bias"):
                    weight.zero_()
                elif not name.startswith("o_proj"):
                    weight.uniform_(-bound, bound)
        if self.config.bias:
            self.unembedding.bias.zero_()
