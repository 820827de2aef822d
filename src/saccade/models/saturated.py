r"""The embedded model with saturated attention: token 0 attends to itself alone, every other token
to all but token 0.

$$A_0 = e_0, \qquad A_{ij} \propto \pi_j e^{\Phi_{ij}} \text{ over } j \ne 0 \text{ for } i \ne 0,$$

the limit in which [chen2026, Appendix D] studies equally frequent rare tokens. The rest is as in
`embedded.py`. At width one it is the rank-one flow of that appendix: embedding and projection are
$\gamma$ and $\beta$, query and key are numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from saccade.data.markov import MarkovChain
from saccade.errors import checked_kind
from saccade.later import Array, jax, jnp
from saccade.models.embedded import (
    Composite,
    Embedded,
    Setting,
    Weights,
    chain_setting,
    composite,
    downhill,
    population_loss,
)
from saccade.models.system import Equations, Observable, System


@dataclass(frozen=True)
class SaturatedEmbedded(System):
    """The embedded model whose attention never crosses between token 0 and the others.

    | argument | meaning                                                                                       |
    |----------|-----------------------------------------------------------------------------------------------|
    | `chain`  | the `MarkovChain` to learn; its token 0 is the frequent one                                   |
    | `model`  | `Embedded(...)`: widths, size of the start, scale of the attention logits, rates              |
    """

    chain: MarkovChain
    model: Embedded = field(default_factory=Embedded)

    solver = Embedded.solver
    loss_unit = "nats"

    def __post_init__(self) -> None:
        checked_kind("chain", self.chain, MarkovChain)
        checked_kind("model", self.model, Embedded)

    def start(self, rng: np.random.Generator) -> Weights:
        return self.model.initial(self.chain.n_vocab, rng)

    def loss(self, parameters: Weights) -> Array:
        return loss(parameters, chain_setting(self.chain, self.model))

    def observe(self, parameters: Weights) -> dict[str, Observable]:
        logits = saturated(composite(parameters, self.model.phi_scale)).attention_logits + jnp.log(
            self.chain.stationary
        )
        definition = "attention of each query, token 0 apart from the others"
        return {
            "attention": Observable(
                ("query", "token"), jax.nn.softmax(logits, axis=-1), "1", definition
            )
        }

    def rates(self) -> dict[str, float]:
        return self.model.rates()

    def coordinates(self) -> dict[str, Any]:
        return self.chain.names_by_axis

    def equations(self) -> Equations:
        """Shared by all chains of one size, which compile once."""
        return Equations(velocity, loss, chain_setting(self.chain, self.model))


def velocity(weights: Weights, setting: Setting) -> Weights:
    return downhill(jax.grad(loss)(weights, setting), setting)


def loss(weights: Weights, setting: Setting) -> Array:
    return population_loss(saturated(composite(weights, setting.phi_scale)), setting)


def saturated(matrices: Composite) -> Composite:
    """The same with minus infinity for logits between token 0 and the others."""
    is_high = jnp.arange(len(matrices.attention_logits)) == 0
    return matrices._replace(
        attention_logits=jnp.where(is_high[:, None] == is_high, matrices.attention_logits, -jnp.inf)
    )
