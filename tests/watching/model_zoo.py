"""Small models of every kind that attention is written in, each with a way to know its weights in
float64 without our capture.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import saccade

N_VOCAB, WIDTH, HEADS, LENGTH, BATCH = 53, 24, 4, 11, 3


class Case(NamedTuple):
    """A model with a probe, and its attention weights layer by layer in float64, computed another
    way.
    """

    model: nn.Module
    probe: Any
    reference: Callable[[], list[Tensor]]


def watched(model: nn.Module, probe: Any, **settings: Any) -> Any:
    """The record of one look at a model."""
    with saccade.watch(model, probe, **settings) as recorder:
        recorder.look(0)
    return recorder.record


def watching(**settings: Any) -> Any:
    """A recorder of the smallest model there is."""
    return saccade.watch(HandWritten("fused"), ids(), **settings)


def ids() -> Tensor:
    return torch.randint(0, N_VOCAB, (BATCH, LENGTH), generator=torch.Generator().manual_seed(5))


def padding(side: str) -> Tensor:
    """1 on tokens, 0 on padding, of three sequences of different lengths."""
    mask = torch.ones(BATCH, LENGTH, dtype=torch.long)
    for row, n_missing in enumerate((0, 2, 5)):
        if n_missing:
            mask[row, slice(-n_missing, None) if side == "right" else slice(n_missing)] = 0
    return mask


class Heads(nn.Module):
    """Embeddings, cut into heads: what queries, keys and values are in models of a few lines."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(N_VOCAB, WIDTH)

    def heads(self, tokens: Tensor) -> Tensor:
        """(sequence, head, token, width)"""
        return self.embedding(tokens).unflatten(-1, (HEADS, -1)).transpose(1, 2)


# Transformers
# ---------------------------------------------------------------------------------------------------------------

_SHARED = {
    "vocab_size": N_VOCAB,
    "hidden_size": WIDTH,
    "intermediate_size": 29,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
}
_END = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": (
        "GPT2LMHeadModel",
        {"vocab_size": N_VOCAB, "n_embd": WIDTH, "n_layer": 2, "n_head": HEADS, **_END},
    ),
    "llama-grouped": ("LlamaForCausalLM", _SHARED | _END | {"num_key_value_heads": 2}),
    "llama-single-key": ("LlamaForCausalLM", _SHARED | _END | {"num_key_value_heads": 1}),
    "neox": ("GPTNeoXForCausalLM", _SHARED | _END),
    "mistral-sliding": (
        "MistralForCausalLM",
        _SHARED | _END | {"num_key_value_heads": 2, "sliding_window": 4},
    ),
    "bert": ("BertModel", _SHARED | {"pad_token_id": 0}),
    "t5": (
        "T5ForConditionalGeneration",
        {
            "vocab_size": N_VOCAB,
            "d_model": WIDTH,
            "d_kv": 6,
            "d_ff": 29,
            "num_layers": 2,
            "num_heads": HEADS,
            "decoder_start_token_id": 0,
        },
    ),
}


def transformers_case(
    family: str,
    kernel: str,
    mask: Tensor | None,
    dtype: torch.dtype = torch.float32,
    n_decoder: int = 7,
) -> Case:
    """Padding on the left, or a sliding window over padding, leaves queries without a key;
    Transformers' eager float64 makes them NaN, which then spreads. There the reference is eager
    float32.
    """
    import transformers

    blind = mask is not None and (family == "mistral-sliding" or bool((mask[:, 0] == 0).any()))
    precise = torch.float32 if blind else torch.float64

    name, settings = FAMILIES[family]
    kind = getattr(transformers, name)
    torch.manual_seed(7)
    config = kind.config_class(**settings)
    model = kind._from_config(config, attn_implementation=kernel).to(dtype)
    # Sharper than a fresh start, so that there is something to measure. T5 does not divide its
    # scores by the root of the width: with 4 they reach 100, and the model's own float32 rounds
    # weights by 1e-4.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_((2 if family == "t5" else 4) if parameter.ndim > 1 else 1)
    exact = kind._from_config(copy.deepcopy(config), attn_implementation="eager").to(precise).eval()
    exact.load_state_dict({key: value.to(precise) for key, value in model.state_dict().items()})
    probe: dict[str, Any] = {"input_ids": ids()} | (
        {} if mask is None else {"attention_mask": mask}
    )
    if family == "t5":
        probe["decoder_input_ids"] = ids().flip(1)[:, :n_decoder]

    def reference() -> list[Tensor]:
        with torch.no_grad():
            answer = exact(
                **probe,
                output_attentions=True,
                **({} if family == "bert" else {"use_cache": False}),
            )
        if family != "t5":
            return [weights.double() for weights in answer.attentions]
        pairs = zip(answer.decoder_attentions, answer.cross_attentions, strict=True)
        return [*answer.encoder_attentions, *(w for pair in pairs for w in pair)]

    return Case(model, probe, reference)


# Written by hand
# ------------------------------------------------------------------------------------------------------------


class Block(nn.Module):
    """Causal self-attention in the style of nanoGPT; `kernel` is how the weights are made and used."""

    def __init__(self, kernel: str) -> None:
        super().__init__()
        self.kernel, self.n_head = kernel, HEADS
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(0.2)

    def heads(self, x: Tensor) -> list[Tensor]:
        return [
            part.unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for part in self.c_attn(x).split(WIDTH, dim=-1)
        ]

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = self.heads(x)
        y = getattr(self, f"_{self.kernel}")(q, k, v, mask)
        return self.c_proj(y.transpose(1, 2).flatten(-2))

    @staticmethod
    def allowed(q: Tensor, mask: Tensor | None) -> Tensor:
        causal = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).tril()
        return causal if mask is None else causal & mask

    def _by_hand(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(~self.allowed(q, mask), float("-inf"))
        return self.dropout(F.softmax(scores, dim=-1)) @ v

    def _einsum(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(k.size(-1))
        weights = scores.masked_fill(~self.allowed(q, mask), -1e30).softmax(-1)
        return torch.einsum("bhij,bhjd->bhid", weights, v)

    def _folded(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """Sequences and heads in one axis, as in fairseq."""
        a, b, c = (part.flatten(0, 1) for part in (q, k, v))
        scores = torch.bmm(a, b.transpose(1, 2)) / math.sqrt(k.size(-1))
        allowed = self.allowed(q, mask).expand(len(q), HEADS, -1, -1).flatten(0, 1)
        weights = torch.softmax(scores.masked_fill(~allowed, float("-inf")), dim=2)
        return torch.bmm(self.dropout(weights), c).unflatten(0, (len(q), HEADS))

    def _fused(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def _fused_boolean(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.allowed(q, mask))

    def _fused_additive(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        added = torch.zeros(self.allowed(q, mask).shape, dtype=q.dtype).masked_fill(
            ~self.allowed(q, mask), float("-inf")
        )
        return F.scaled_dot_product_attention(q, k, v, attn_mask=added)

    def _flex(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        block_mask = create_block_mask(
            lambda b, h, i, j: i >= j, None, None, q.shape[2], q.shape[2], device="cpu"
        )
        return flex_attention(
            q,
            k,
            v,
            score_mod=lambda score, b, h, i, j: score + 0.0 * (i - j),
            block_mask=block_mask,
        )


class HandWritten(nn.Module):
    def __init__(self, kernel: str) -> None:
        super().__init__()
        self.embedding = nn.Embedding(N_VOCAB, WIDTH)
        self.blocks = nn.ModuleList(Block(kernel) for _ in range(2))

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = x + block(x, mask)
        return x


def hand_written_case(
    kernel: str, mask: Tensor | None = None, dtype: torch.dtype = torch.float32
) -> Case:
    torch.manual_seed(3)
    model = HandWritten(kernel).to(dtype)
    exact = copy.deepcopy(model).double().eval()

    def reference() -> list[Tensor]:
        found, x = [], exact.embedding(ids())
        with torch.no_grad():
            for block in exact.blocks:
                q, k, _ = block.heads(x)
                scores = (q @ k.mT / math.sqrt(k.shape[-1])).masked_fill(
                    ~block.allowed(q, mask), -math.inf
                )
                found.append(torch.softmax(scores, dim=-1).nan_to_num(0.0))
                v = block.heads(x)[2]
                x = x + block.c_proj((found[-1] @ v).transpose(1, 2).flatten(-2))
        return found

    return Case(model, ids() if mask is None else (ids(), mask), reference)


# PyTorch's own layers
# -------------------------------------------------------------------------------------------------------


class Encoder(nn.Module):
    """`nn.TransformerEncoder` on tokens; in evaluation it would take its fused path."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.embedding = nn.Embedding(N_VOCAB, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 29, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        mask = (
            nn.Transformer.generate_square_subsequent_mask(
                input_ids.shape[1], dtype=self.embedding.weight.dtype
            )
            if self.causal
            else None
        )
        ignored = None if attention_mask is None else attention_mask == 0
        if ignored is not None and mask is not None:
            mask = mask != 0  # both masks of one type
        return self.encoder(
            self.embedding(input_ids),
            mask=mask,
            src_key_padding_mask=ignored,
            is_causal=self.causal,
        )


def encoder_case(causal: bool, mask: Tensor | None) -> Case:
    torch.manual_seed(2)
    model = Encoder(causal)
    with torch.no_grad():
        for layer in model.encoder.layers:
            layer.self_attn.in_proj_weight.mul_(3)
    exact = copy.deepcopy(model).double().eval()

    def reference() -> list[Tensor]:
        found: list[Tensor] = []
        allowed = (
            torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
            if causal
            else torch.ones(LENGTH, LENGTH, dtype=torch.bool)
        )
        allowed = (
            allowed.expand(BATCH, 1, -1, -1)
            if mask is None
            else allowed & mask.bool()[:, None, None]
        )
        with torch.no_grad():
            x = exact.embedding(ids())
            for layer in exact.encoder.layers:
                own = layer.self_attn
                q, k, v = (
                    part.unflatten(-1, (HEADS, -1)).transpose(1, 2)
                    for part in F.linear(x, own.in_proj_weight, own.in_proj_bias).chunk(3, -1)
                )
                scores = (q @ k.mT / math.sqrt(k.shape[-1])).masked_fill(~allowed, -math.inf)
                found.append(torch.softmax(scores, dim=-1).nan_to_num(0.0))
                x = layer.norm1(x + own.out_proj((found[-1] @ v).transpose(1, 2).flatten(-2)))
                x = layer.norm2(x + layer.linear2(F.relu(layer.linear1(x))))
        return found

    return Case(
        model, {"input_ids": ids()} | ({} if mask is None else {"attention_mask": mask}), reference
    )
