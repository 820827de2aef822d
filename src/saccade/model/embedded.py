r"""The one-layer Transformer with embeddings: one head, no value matrix, no residual, no positions, loss at the last token only.

$$M = W_0 W_1, \qquad \Phi = s\, W_0 W_Q W_K^\top W_0^\top, \qquad
  A_{ij} = \frac{n_j e^{\Phi_{ij}}}{\sum_k n_k e^{\Phi_{ik}}}, \qquad z_i = A_i M,$$

where i is the last token of a context and n its token counts, itself included [chen2026]. Without positions the counts are all that
matters, so the cost does not grow with the length; in the limit of long contexts n becomes the stationary law.

| letter | name         | axes              |
|--------|--------------|-------------------|
| W_0    | `embedding`  | token, width      |
| W_Q    | `query`      | width, key width  |
| W_K    | `key`        | width, key width  |
| W_1    | `projection` | width, next token |
| M      | `decoder`    | token, next token |
| Phi    | `attention_logits` | query, token |
| s      | `phi_scale`  |                   |

Not here: how parameters move (dynamics/), what the theory predicts (theory/).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from saccade.errors import InputError, checked_count, checked_number, shortened

_MOST_WIDTH = 1e5  # four square matrices of it fill any memory; beyond it is a typing error


class Weights(NamedTuple):
    """The parameters; any array type, with leading axes if there are several runs or times."""

    embedding: Any
    query: Any
    key: Any
    projection: Any


class Composite(NamedTuple):
    """The two matrices that the loss sees, both token by token."""

    decoder: Any
    attention_logits: Any


class Chain(Protocol):
    """What the population loss needs to know of the data."""

    @property
    def stationary(self) -> Any: ...
    @property
    def transition(self) -> Any: ...


@dataclass(frozen=True)
class Embedded:
    """Widths, start and scale of the model.

    | argument      | meaning                                                                        |
    |---------------|--------------------------------------------------------------------------------|
    | `d_model`     | width of the embedding                                                         |
    | `d_key`       | width of queries and keys                                                      |
    | `init_scale`  | standard deviation of every entry at the start                                 |
    | `scaled`      | divide attention logits by the root of `d_model`, as Transformers usually do   |
    | `logit_scale` | multiply attention logits by this as well; above 1 attention learns faster     |
    """

    d_model: int = 8
    d_key: int = 8
    init_scale: float = 1e-3
    scaled: bool = False
    logit_scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "d_model", checked_count("d_model", self.d_model, high=_MOST_WIDTH))
        object.__setattr__(self, "d_key", checked_count("d_key", self.d_key, high=_MOST_WIDTH))
        checked_number("init_scale", self.init_scale, low=0.0, high=1e6)
        checked_number("logit_scale", self.logit_scale, low=0.0, high=1e6)
        if not isinstance(self.scaled, bool):
            raise InputError(f"`scaled` must be True or False; got {shortened(self.scaled)}.")

    @property
    def phi_scale(self) -> float:
        """The factor s in front of the attention logits."""
        return self.logit_scale / (math.sqrt(self.d_model) if self.scaled else 1.0)

    def initial(self, n_vocab: int, rng: np.random.Generator) -> Weights:
        """Every entry drawn from N(0, init_scale^2), in float64."""
        width, key_width = self.d_model, self.d_key
        shapes = (n_vocab, width), (width, key_width), (width, key_width), (width, n_vocab)
        return Weights(*(self.init_scale * rng.standard_normal(shape) for shape in shapes))


def composite(weights: Weights, phi_scale: Any) -> Composite:
    embedding, query, key, projection = weights
    return Composite(embedding @ projection, phi_scale * (embedding @ query) @ (embedding @ key).T)


def population_loss(matrices: Composite, chain: Chain) -> Array:
    """Mean cross-entropy of the next token over the stationary law, contexts infinitely long."""
    attention = jax.nn.softmax(matrices.attention_logits + jnp.log(chain.stationary), axis=-1)
    log_prob = jax.nn.log_softmax(attention @ matrices.decoder, axis=-1)
    return -jnp.sum(chain.stationary[:, None] * chain.transition * log_prob)


def context_loss(matrices: Composite, counts: Any, last_token: Any, next_token: Any) -> Array:
    """Mean cross-entropy over contexts given by token counts (context, token), their last tokens and what follows."""
    logits = context_attention(matrices.attention_logits, counts, last_token) @ matrices.decoder
    log_prob = jax.nn.log_softmax(logits, axis=-1)
    return -jnp.mean(jnp.take_along_axis(log_prob, next_token[:, None], axis=-1))


def context_attention(attention_logits: Any, counts: Any, last_token: Any) -> Array:
    """Attention of each context's last token over the vocabulary (context, token); 0 on tokens that are not there."""
    return jax.nn.softmax(jnp.where(counts > 0, attention_logits[last_token] + jnp.log(jnp.maximum(counts, 1)), -jnp.inf), axis=-1)
