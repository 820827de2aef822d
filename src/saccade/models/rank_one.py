r"""Dynamics (C) of the embedded model: the flow on the manifold where every matrix has rank one.

$$W_0 = \gamma \alpha^\top, \quad W_1 = \alpha \beta^\top, \quad
  W_Q = \lambda_Q \alpha a^\top, \quad W_K = \lambda_K \alpha a^\top,$$

with unit vectors $\alpha$ and $a$ that do not move [chen2026, Proposition 3.6]. The coordinates
$(\gamma, \beta, \lambda_Q, \lambda_K)$ are isometric, so the flow on the manifold is the gradient
flow of the restricted loss, with $2d + 2$ unknowns. It conserves $|\gamma|^2 - |\beta|^2 -
\tfrac{\eta}{\eta_A}(\lambda_Q^2 + \lambda_K^2)$.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from saccade.data.markov import MarkovChain
from saccade.errors import checked_kind
from saccade.later import Array, jax, jnp
from saccade.measures import class_attention
from saccade.models.embedded import (
    Composite,
    Embedded,
    Setting,
    chain_data,
    chain_setting,
    population_loss,
)
from saccade.models.system import Equations, Observable, SettledSystem, kept_values

if TYPE_CHECKING:
    import xarray as xr


class RankOne(NamedTuple):
    """A point of the manifold."""

    gamma: Any  # token: how far each token lies along the one direction of the embedding
    beta: Any  # next token: what that direction says about the next token
    query: Any  # lambda_Q
    key: Any  # lambda_K


_POINT = {
    "gamma": ("token",),
    "beta": ("next_token",),
    "query_scale": (),
    "key_scale": (),
}  # as a record calls it


@dataclass(frozen=True)
class RankOneEmbedded(SettledSystem):
    """The embedded model restricted to its rank-one manifold.

    | argument | meaning                                                                                       |
    |----------|-----------------------------------------------------------------------------------------------|
    | `chain`  | the `MarkovChain` to learn                                                                    |
    | `model`  | `Embedded(...)`: size of the start, scale of the attention logits, rates                      |
    """

    chain: MarkovChain
    model: Embedded = field(default_factory=Embedded)

    solver = Embedded.solver._replace(most_for_lsoda=8000)
    seeds = None
    keep = ("attention",)
    loss_unit = "nats"

    def __post_init__(self) -> None:
        checked_kind("chain", self.chain, MarkovChain)
        checked_kind("model", self.model, Embedded)

    def start(self, rng: np.random.Generator) -> RankOne:
        return small_start(self.chain, self.model.init_scale)

    def rates(self) -> dict[str, float]:
        decoder, attention = self.model.flow_rates
        return {"gamma": decoder, "beta": decoder, "query": attention, "key": attention}

    def equations(self) -> Equations:
        return Equations(velocity, loss, chain_setting(self.chain, self.model))

    def observe_path(self, path: RankOne, keep: Sequence[str]) -> dict[str, Observable]:
        """With any leading axes, in NumPy; the point itself is always kept."""
        seen = {
            name: Observable(axes, part)
            for (name, axes), part in zip(_POINT.items(), path, strict=True)
        }
        if "attention" in keep:
            kappa = (self.model.phi_scale * path.query * path.key)[..., None, None]
            logits = kappa * path.gamma[..., :, None] * path.gamma[..., None, :]
            seen["attention"] = Observable(
                ("query", "token"), class_attention(logits, self.chain.stationary)
            )
        return seen

    def parameters_of(self, record: xr.Dataset) -> RankOne:
        n_vocab = self.chain.n_vocab
        return RankOne(*kept_values(record, tuple(_POINT), [(n_vocab,), (n_vocab,), (), ()]))

    def coordinates(self) -> dict[str, Any]:
        return (
            dict(zip(("lr_decoder", "lr_attention"), self.model.flow_rates, strict=True))
            | self.chain.names_by_axis
        )

    def data(self) -> dict[str, Observable]:
        return chain_data(self.chain)

    def config(self) -> dict[str, Any]:
        return {"task": self.chain.name, "model": self.model.options}

    def label(self, dynamics: str) -> str:
        return "C: rank-one flow, embedded model"


def small_start(chain: MarkovChain, scale: float) -> RankOne:
    """A start of size `scale` that favours no sign of attention: queries only, so that keys grow
    either way.
    """
    gamma, beta = chain.stationary, chain.stationary - 1 / chain.n_vocab
    length = np.linalg.norm(beta) or 1.0  # a uniform law has no direction to condense to
    return RankOne(
        scale * gamma / np.linalg.norm(gamma),
        scale * beta / length,
        np.float64(scale),
        np.float64(0.0),
    )


def velocity(point: RankOne, setting: Setting) -> RankOne:
    slope = jax.grad(loss)(point, setting)
    decoder, attention = -setting.lr_decoder, -setting.lr_attention
    return RankOne(
        decoder * slope.gamma, decoder * slope.beta, attention * slope.query, attention * slope.key
    )


def loss(point: RankOne, setting: Setting) -> Array:
    logits = setting.phi_scale * point.query * point.key * jnp.outer(point.gamma, point.gamma)
    return population_loss(Composite(jnp.outer(point.gamma, point.beta), logits), setting)
