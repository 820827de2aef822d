r"""The pairwise model when tokens have places: attention on a token at distance d is $e^{z_l +
b_d}$, renormalised.

Contexts are infinitely long: class n shows token l at distance d with probability P(l, d|n). One
query. The bias $b_d$ starts as a prior and stays (ALiBi, say), or learns at a rate of its own.
Gradients are JAX's, of the attention over tokens *and* places, so that what theory says of the sum
over places is put to the test. Tokens that never follow share one column of the decoder.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.errors import InputError, checked_count, checked_number
from saccade.later import Array, jax, jnp
from saccade.models.system import Equations, Observable, SettledSystem, Solver


class PlacedParameters(NamedTuple):
    decoder: Any  # token, next token of each class and one column for all others
    attention: Any  # token
    position: Any  # distance


class _Setting(NamedTuple):
    """Arguments of the compiled code."""

    joint_prob: Any
    n_unused: Any
    rates: PlacedParameters


@dataclass(frozen=True, eq=False)
class PlacedPairwise(SettledSystem):
    """Sequence classes whose tokens have places, all with one query.

    | argument       | meaning                                                                                    |
    |----------------|--------------------------------------------------------------------------------------------|
    | `joint_prob`   | P(l, d given n), chance of token l at distance d (class, distance, token); sums to one     |
    | `prior`        | bias on the score of each distance, before training                                        |
    | `n_vocab`      | tokens that may follow, more than there are classes                                        |
    | `lr_decoder`, `lr_attention`, `lr_position` | rates; a prior that stays has 0                               |
    """

    joint_prob: NDArray[np.float64]
    prior: NDArray[np.float64]
    _: KW_ONLY
    n_vocab: int = 100
    lr_decoder: float = 1.0
    lr_attention: float = 1.0
    lr_position: float = 0.0

    solver = Solver(t1=1e6, most_for_lsoda=8000)
    seeds = None
    keep = ("attention", "attention_logits", "position")
    time_unit = "steps of SGD"
    loss_unit = "nats"

    def __post_init__(self) -> None:
        joint, prior = np.asarray(self.joint_prob, float), np.asarray(self.prior, float)
        if joint.ndim != 3 or (joint < 0).any() or not np.allclose(joint.sum(axis=(1, 2)), 1):
            raise InputError(
                "`joint_prob` must hold probabilities (class, distance, token) that sum to 1 in every class."
            )
        if prior.shape != joint.shape[1:2] or not np.isfinite(prior).all():
            raise InputError(
                f"`prior` must have one finite number for each of the {joint.shape[1]} distances; got {prior.shape}."
            )
        if checked_count("n_vocab", self.n_vocab) <= len(joint):
            raise InputError(
                f"`n_vocab` must be more than the {len(joint)} classes; got {self.n_vocab}."
            )
        for name in ("lr_decoder", "lr_attention", "lr_position"):
            checked_number(name, getattr(self, name), low=0.0, high=1e30)

    def start(self, rng: np.random.Generator) -> PlacedParameters:
        n_classes, _, n_tokens = self.joint_prob.shape
        return PlacedParameters(
            np.zeros((n_tokens, n_classes + 1)), np.zeros(n_tokens), np.asarray(self.prior, float)
        )

    def rates(self) -> dict[str, float]:
        return {
            "decoder": self.lr_decoder,
            "attention": self.lr_attention,
            "position": self.lr_position,
        }

    def equations(self) -> Equations:
        n_unused = self.n_vocab - len(self.joint_prob)
        return Equations(
            _velocity,
            _loss,
            _Setting(self.joint_prob, float(n_unused), PlacedParameters(**self.rates())),
        )

    def observe_path(self, path: PlacedParameters, keep: Any) -> dict[str, Observable]:
        at_places = (
            np.einsum("ndl,...d->...nl", self.joint_prob, np.exp(path.position))
            * np.exp(path.attention)[..., None, :]
        )
        seen = {
            "attention": Observable(
                ("class", "token"), at_places / at_places.sum(axis=-1, keepdims=True)
            ),
            "attention_logits": Observable(
                ("token",), path.attention, "1", "score of each token for the query"
            ),
            "position": Observable(
                ("distance",), path.position, "1", "bias on the score of each distance"
            ),
        }
        return {name: seen[name] for name in keep}


def _loss(parameters: PlacedParameters, setting: _Setting) -> Array:
    # Over tokens (class, token), summed over places.
    weight = setting.joint_prob * jnp.exp(parameters.position[:, None] + parameters.attention)
    by_token = weight.sum(axis=1)
    attention = by_token / by_token.sum(axis=-1, keepdims=True)
    feature = attention / jnp.linalg.norm(attention, axis=-1, keepdims=True)
    n_classes = len(feature)
    size = jnp.concatenate([jnp.ones(n_classes), jnp.array([setting.n_unused])])
    logits = feature @ parameters.decoder + jnp.log(size)
    own = jnp.eye(n_classes, n_classes + 1, dtype=bool)
    deficit = jax.nn.logsumexp(jnp.where(own, -jnp.inf, logits), axis=-1) - jnp.sum(
        jnp.where(own, logits, 0), axis=-1
    )
    return jnp.mean(jax.nn.softplus(deficit))  # as a softplus it is exact where the loss is tiny


def _velocity(parameters: PlacedParameters, setting: _Setting) -> PlacedParameters:
    slope = jax.grad(_loss)(parameters, setting)
    decoder = slope.decoder.at[:, -1].divide(
        setting.n_unused
    )  # each of the equal columns has its part
    moved = PlacedParameters(decoder, slope.attention, slope.position)
    return jax.tree.map(lambda rate, part: -rate * part, setting.rates, moved)
