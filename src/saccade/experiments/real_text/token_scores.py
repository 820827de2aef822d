r"""How much a one-layer Transformer lets one token seek another, whatever else is in the context.

In one layer the score of key token l for query token m depends on both tokens and their places, and
on nothing else. So it can be read off the weights for the whole vocabulary, without a probe. The
query is at the end of a window of W + 1 tokens; over the places j before it scores are averaged as
attention averages them, $z_{ml} = \ln \frac1W \sum_j e^{s_{mlj}}$. Without positions this is the
score itself, and in the pairwise model the entry of Z. Softmax ignores a number added to a whole
row, so rows are centred; rows of the paper's Z are so by themselves. Heads are kept apart: a score
is a mean over them, attention a mean of what each head makes of its own scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from saccade.models import positions
from saccade.models.transformer import Attention, Transformer

Array = NDArray[np.float64]


@torch.no_grad()
def place_scores(model: Transformer, queries: Sequence[int], window: int) -> Tensor:
    """Scores (head, query, token, place) of every token at each of the `window` places before the
    query, in the first layer.
    """
    rows = torch.as_tensor(np.asarray(queries))
    if model.config.pairwise:
        return model.pairwise_attention.scores.weight[rows][None, :, :, None].expand(
            -1, -1, -1, window
        )
    block = model.blocks[0]
    everywhere = torch.arange(model.config.n_vocab)[:, None].expand(-1, window + 1)
    x = model.embedded(everywhere)
    x = block.attention_norm(x) if model.config.norm_first else x
    query, key = _by_head(block.attention, x[rows, -1:], x)
    scale = query.shape[-1] ** -0.5 if model.config.scaled else 1.0
    scores = scale * torch.einsum("mhd,lhjd->hmlj", query[:, :, 0], key[:, :, :-1])
    if model.config.positions == "alibi":
        scores = (
            scores + positions.distance_bias(model.config.n_heads, 1, window + 1)[:, :, None, :-1]
        )
    return scores


def _by_head(attention: Attention, last: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Queries of the last place and keys of all, turned if positions are rotary."""
    n_heads = attention.n_heads
    n_places = x.shape[1]
    query = attention.q_proj(last).unflatten(-1, (n_heads, -1)).transpose(1, 2)
    key = attention.k_proj(x).unflatten(-1, (n_heads, -1)).transpose(1, 2)
    if attention.config.positions == "rotary":
        cosine = attention.cosine[:n_places]
        sine = attention.sine[:n_places]
        query = positions.rotated(query, cosine[-1:], sine[-1:])
        key = positions.rotated(key, cosine, sine)
    return query, key


def head_scores(model: Transformer, queries: Sequence[int], window: int) -> Array:
    """Scores of each head (head, query, token), averaged over places as attention does, rows
    centred.
    """
    by_place = place_scores(model, queries, window).double()
    scores = (torch.logsumexp(by_place, dim=-1) - np.log(window)).numpy()
    return scores - scores.mean(axis=-1, keepdims=True)


def score_measure(
    queries: Sequence[int], window: int
) -> Callable[[Transformer, int], dict[str, Any]]:
    """For `train_text`: the scores of each head at every observation."""
    about = {
        "units": "1",
        "definition": "how much the query seeks the token in each head; rows are centred",
    }
    return lambda model, step: {
        "head_score": (("head", "query", "token"), head_scores(model, queries, window), about)
    }


def mean_attention(scores: Array, frequency: Array) -> Array:
    """Attention (..., query, token) in a long context that has every token as often as it comes
    before the query.
    """
    weight = frequency * np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weight / weight.sum(axis=-1, keepdims=True)
