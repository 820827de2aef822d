r"""How a Transformer can know a token's position: sinusoids added to embeddings, rotated queries
and keys, a bias on distance.

| encoding     | what it does                                                                        | from                |
|--------------|-------------------------------------------------------------------------------------|---------------------|
| sinusoidal   | adds $\sin(t/10000^{2i/d})$ and $\cos$ of the same to the embedding, in turn          | arXiv 1706.03762    |
| rotary       | turns pairs of query and key entries by $t/10000^{2i/d}$: scores see distances only   | arXiv 2104.09864    |
| ALiBi        | takes slope times distance off each score, slopes $2^{-8h/H}$ of heads h = 1 .. H      | arXiv 2108.12409    |

Learned positions are an embedding like that of the tokens and need nothing from here.
"""

from __future__ import annotations

import torch
from torch import Tensor

_BASE = 10000.0  # the longest wavelength over 2 pi, as in the first two papers


def angles(n_positions: int, width: int) -> Tensor:
    """Angle of each position and pair of entries (position, width / 2), in float64: float32 loses
    digits at long contexts.
    """
    rates = _BASE ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.arange(n_positions, dtype=torch.float64)[:, None] * rates


def sinusoids(n_positions: int, width: int) -> Tensor:
    """What is added to the embeddings (position, width)."""
    turned = angles(n_positions, width)
    return (
        torch.stack([turned.sin(), turned.cos()], dim=-1).flatten(1).to(torch.get_default_dtype())
    )


def rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Queries or keys (batch, head, position, width) turned; entries i and i + width / 2 are a
    pair.
    """
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


def distance_bias(n_heads: int, n_queries: int, n_keys: int) -> Tensor:
    """ALiBi's bias on scores (head, query, key); queries are the last positions. One rule for any
    number of heads.
    """
    slopes = 2.0 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    distance = torch.arange(n_keys - n_queries, n_keys)[:, None] - torch.arange(n_keys)
    return -slopes[:, None, None] * distance
