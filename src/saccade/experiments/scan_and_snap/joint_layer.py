r"""Attention over the tokens of a context and the layer above it: the model of JoMA [tian2024].

Attention b of counts x: $z \circ x$ (linear), $e^z \circ x$ (exp), or the latter normalised
(softmax). Above it neurons $h_k = \phi(w_k \cdot U^\top b)$ with $\phi$ a smooth rectifier, and a
decoder that reads them. U embeds tokens; orthonormal rows make $v_k = U w_k$ the weights on tokens.
Each context belongs to a query, and each query has its own logits.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.errors import checked_choice, checked_number
from saccade.later import Array, jax, jnp
from saccade.models.system import Observable, Solver, System

KINDS = ("linear", "exp", "softmax")


class JointParameters(NamedTuple):
    attention: Any  # query, token
    neurons: Any  # neuron, width
    decoder: Any  # neuron, class


def attended(kind: str, logits: Any, counts: Any) -> Array:
    """What attention makes of token counts (last axis)."""
    if kind == "linear":
        return logits * counts
    weight = jnp.exp(logits) * counts
    return weight if kind == "exp" else weight / weight.sum(axis=-1, keepdims=True)


@dataclass(frozen=True, eq=False)
class JointLayer(System):
    """Contexts as token counts (context, token), the class to predict and the query of each, and
    the embedding (token, width).
    """

    kind: str
    counts: NDArray[np.float64]
    target: NDArray[np.int64]
    query: NDArray[np.int64]
    embedding: NDArray[np.float64]
    _: KW_ONLY
    n_neurons: int = 5
    scale: float = 0.3
    lr_attention: float = 1.0

    solver = Solver(t1=100.0, n_times=100, rtol=1e-10, atol=1e-12)
    loss_unit = "nats"

    def __post_init__(self) -> None:
        checked_choice("kind", self.kind, KINDS)
        checked_number("lr_attention", self.lr_attention, low=0.0)

    def start(self, rng: np.random.Generator) -> JointParameters:
        n_tokens, width = self.embedding.shape
        logits = np.full(
            (self.query.max() + 1, n_tokens), float(self.kind == "linear")
        )  # linear attention of 0 never starts
        neurons, decoder = (
            rng.standard_normal((self.n_neurons, size)) for size in (width, self.target.max() + 1)
        )
        return JointParameters(logits, self.scale * neurons, self.scale * decoder)

    def rates(self) -> dict[str, float]:
        return {"attention": self.lr_attention}

    def attention(self, parameters: JointParameters) -> Array:
        """Of every context (context, token)."""
        return attended(self.kind, parameters.attention[self.query], self.counts)

    def loss(self, parameters: JointParameters) -> Array:
        hidden = jax.nn.gelu(
            self.attention(parameters) @ self.embedding @ parameters.neurons.T, approximate=False
        )
        return -jnp.mean(
            jax.nn.log_softmax(hidden @ parameters.decoder)[
                jnp.arange(len(self.target)), self.target
            ]
        )

    def observe(self, parameters: JointParameters) -> dict[str, Observable]:
        weights = parameters.neurons @ self.embedding.T
        mean = self.attention(parameters).mean(axis=0)
        return {
            "logits": Observable(
                ("query", "token"), parameters.attention, "1", "attention logits of each query"
            ),
            "weights": Observable(
                ("neuron", "token"), weights, "1", "weights of each neuron on the tokens"
            ),
            "mean_attention": Observable(
                ("token",), mean, "1", "attention on each token, mean over contexts"
            ),
        }
