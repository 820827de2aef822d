r"""The one-layer Transformer of Scan and Snap before its reparameterisation: embeddings, query, key
and value matrices, a decoder.

$$Z = \frac{1}{\sqrt d} U W_Q W_K^\top U^\top, \qquad Y = U W_V^\top W_Y^\top, \qquad
  f_n = \frac{c_n}{\lVert c_n \rVert}, \quad c_{l|n} \propto P(l|n)\, e^{z_{ml}}, \qquad \text{logits} = f_n^\top Y.$$

The paper trains Y and Z as if they were free (`pairwise.py`). Which matrices move here is the
user's choice: with orthonormal U and W_Y, and W_K = sqrt(d) I held fixed, moving W_Q and W_V alone
is the same as moving Z and Y. Contexts are infinitely long.

| letter | name        | axes              |
|--------|-------------|-------------------|
| U      | `embedding` | token, width      |
| W_Q    | `query`     | width, width      |
| W_K    | `key`       | width, width      |
| W_V    | `value`     | width, width      |
| W_Y    | `decoder`   | next token, width |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from saccade.data.sequence_classes import SequenceClasses
from saccade.errors import InputError, checked_choice, checked_count, checked_kind, checked_number
from saccade.later import Array, jax, jnp
from saccade.models.system import Observable, Solver, System


class Weights(NamedTuple):
    """The parameters."""

    embedding: Any
    query: Any
    key: Any
    value: Any
    decoder: Any


class TokenEmbedded(System):
    """The token-embedded model of Scan and Snap on sequence classes, from W_Q = W_V = 0 and W_K =
    sqrt(width) I.

    | argument       | meaning                                                                                             |
    |----------------|-----------------------------------------------------------------------------------------------------|
    | `task`         | the `SequenceClasses` to learn                                                                      |
    | `width`        | of the embedding; default: the vocabulary, the least for orthonormal embeddings                     |
    | `embedding`    | `"orthonormal"`: random orthonormal rows; `"random"`: every entry from N(0, 1/width)                |
    | `moves`        | the matrices that move: any of embedding, query, key, value, decoder                                |
    | `lr_decoder`   | learning rate of embedding, value and decoder matrix, per step                                      |
    | `lr_attention` | learning rate of query and key matrix, per step                                                     |
    """

    solver = Solver(t1=1e6, n_times=100, rtol=1e-10, atol=1e-13, most_for_lsoda=4000)
    seeds = None
    time_unit = "steps of SGD"
    loss_unit = "nats"

    def __init__(
        self,
        task: SequenceClasses,
        *,
        width: int | None = None,
        embedding: str = "orthonormal",
        moves: Sequence[str] = ("query", "value"),
        lr_decoder: float = 1.0,
        lr_attention: float = 1.0,
    ) -> None:
        self.task = checked_kind("task", task, SequenceClasses)
        self.width = task.n_vocab if width is None else checked_count("width", width, high=1e5)
        self.embedding = checked_choice("embedding", embedding, ("orthonormal", "random"))
        self.moves = tuple(
            checked_choice("matrix in `moves`", name, Weights._fields) for name in moves
        )
        self.lr_decoder = checked_number("lr_decoder", lr_decoder, low=0.0, high=1e30)
        self.lr_attention = checked_number("lr_attention", lr_attention, low=0.0, high=1e30)
        if self.embedding == "orthonormal" and self.width < task.n_vocab:
            raise InputError(
                f"`width` is {self.width}, but {task.n_vocab} orthonormal embeddings need at least {task.n_vocab}; "
                "widen it, or use `embedding='random'`."
            )

    def start(self, rng: np.random.Generator) -> Weights:
        drawn = rng.standard_normal((self.width, self.task.n_vocab)) / np.sqrt(self.width)
        embedding = (np.linalg.qr(drawn)[0] if self.embedding == "orthonormal" else drawn).T
        zero = np.zeros((self.width, self.width))
        return Weights(embedding, zero, np.sqrt(self.width) * np.eye(self.width), zero, embedding)

    def rates(self) -> dict[str, float]:
        of = {
            name: self.lr_attention if name in ("query", "key") else self.lr_decoder
            for name in Weights._fields
        }
        return {name: rate if name in self.moves else 0.0 for name, rate in of.items()}

    def loss(self, parameters: Weights) -> Array:
        return pairwise_loss(*pair(parameters), jnp.eye(self.task.n_vocab), self.task)

    def observe(self, parameters: Weights) -> Mapping[str, Observable]:
        decoder, logits = pair(parameters)
        logits = logits[np.unique(self.task.query)]
        return {
            "decoder": Observable(("token", "next_token"), decoder, "1", "Y = U W_V^T W_Y^T"),
            "attention_logits": Observable(
                ("query", "token"),
                logits,
                "1",
                "Z = U W_Q W_K^T U^T / sqrt(d), rows of the queries",
            ),
        }

    def config(self) -> dict[str, Any]:
        names = ("width", "embedding", "moves", "lr_decoder", "lr_attention")
        return {"task": self.task.name, "model": {name: getattr(self, name) for name in names}}


def pair(weights: Weights) -> tuple[Any, Any]:
    """Y (token, next token) and Z (token, token)."""
    embedding, query, key, value, decoder = weights
    return embedding @ value.T @ decoder.T, (embedding @ query) @ (embedding @ key).T / np.sqrt(
        query.shape[0]
    )


def pairwise_loss(decoder: Any, logits: Any, gram: Any, task: SequenceClasses) -> Array:
    """Population loss of Y and Z; features are normalised with the Gram matrix of the embeddings."""
    weights = task.token_prob * jnp.exp(logits[task.query])
    attention = weights / jnp.sum(weights, axis=1, keepdims=True)
    feature = attention / jnp.sqrt(jnp.einsum("nl,lk,nk->n", attention, gram, attention))[:, None]
    log_prob = jax.nn.log_softmax(feature @ decoder, axis=-1)
    return -jnp.sum(task.class_weight * log_prob[np.arange(task.n_classes), task.next_token])
