r"""Several layers of attention on data with as many levels: every layer must find the one input
that carries the answer.

A tree of hidden states, 0 or 1. The root is what is to be predicted; of the children of a node the
first has its state, the others are noise. The lowest nodes show tokens, infinitely many, from the
law of their state: distinct tokens tell states apart, common ones do not. Layer 1 attends to
tokens, layer 2 to the nodes of layer 1, and so on; all nodes of a level share attention logits and
neurons, $h = \tanh(W b)$. The population is every assignment of the hidden states, all equally
likely.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.errors import InputError, checked_choice, checked_count
from saccade.experiments.scan_and_snap.joint_layer import attended
from saccade.later import Array, jax, jnp
from saccade.models.system import Observable, Solver, System


class TreeParameters(NamedTuple):
    attention: tuple[Any, ...]  # by layer: token, then child
    neurons: tuple[Any, ...]  # by layer: neuron, width
    decoder: Any  # neuron


class Level(NamedTuple):
    """What the nodes of a level can be: the values of their children (node, child) and their state
    (node).
    """

    children: NDArray[np.int64]
    state: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class AttentionTree(System):
    """`depth` layers; `token_prob` (state, token) is what the lowest nodes show; `n_children` of
    every other node.
    """

    depth: int
    token_prob: NDArray[np.float64]
    _: KW_ONLY
    kind: str = "softmax"
    n_children: int = 3
    width: int = 4
    scale: float = 0.5

    solver = Solver(t1=1e4, n_times=150, rtol=1e-9, atol=1e-11)
    loss_unit = "nats"

    def __post_init__(self) -> None:
        checked_choice("kind", self.kind, ("exp", "softmax"))
        if not 1 <= checked_count("depth", self.depth) <= 3:
            raise InputError(
                f"`depth` must be 1 to 3, since all assignments of hidden states are listed; got {self.depth}."
            )

    @cached_property
    def levels(self) -> list[Level]:
        """Above the lowest one, whose two values are its states."""
        found, state = [], np.array([0, 1])
        for _ in range(self.depth - 1):
            every = range(len(state))
            children = np.array(list(product(every, repeat=self.n_children)))
            found.append(Level(children, state[children[:, 0]]))
            state = found[-1].state
        return found

    def start(self, rng: np.random.Generator) -> TreeParameters:
        sizes = [self.token_prob.shape[1], *[self.n_children] * (self.depth - 1)]
        widths = [self.token_prob.shape[1], *[self.width] * (self.depth - 1)]
        neurons = tuple(self.scale * rng.standard_normal((self.width, width)) for width in widths)
        return TreeParameters(
            tuple(np.zeros(size) for size in sizes),
            neurons,
            self.scale * rng.standard_normal(self.width),
        )

    def hidden(self, parameters: TreeParameters) -> list[Array]:
        """Of every layer, the vectors of all values that its nodes can have (value, neuron)."""
        z, W = parameters.attention, parameters.neurons
        found = [jnp.tanh(attended(self.kind, z[0], self.token_prob) @ W[0].T)]
        for level, logits, weights in zip(self.levels, z[1:], W[1:], strict=True):
            share = attended(self.kind, logits, jnp.ones(self.n_children) / self.n_children)
            found.append(
                jnp.tanh(jnp.einsum("c,vcw->vw", share, found[-1][level.children]) @ weights.T)
            )
        return found

    def loss(self, parameters: TreeParameters) -> Array:
        state = self.levels[-1].state if self.levels else np.array([0, 1])
        return jnp.mean(
            jax.nn.softplus((1 - 2 * state) * (self.hidden(parameters)[-1] @ parameters.decoder))
        )

    def observe(self, parameters: TreeParameters) -> dict[str, Observable]:
        z = parameters.attention
        seen = {
            "attention_1": Observable(
                ("state", "token"),
                attended("softmax", z[0], self.token_prob),
                "1",
                "attention on tokens",
            )
        }
        for layer, logits in enumerate(z[1:], 2):
            seen[f"attention_{layer}"] = Observable(
                ("child",), jax.nn.softmax(logits), "1", "attention on children"
            )
        return seen
