r"""One layer of attention with a value matrix and a two-layer readout of the last token: the model
of [chen2025, Definition 3].

$$f = \sigma\Big(\sum_j a_j x_j W_V W_1\Big) W_2, \qquad a = \mathrm{softmax}_j(x_s W_Q R_j W_K^\top x_j^\top / \sqrt d), \qquad
L = \sum_i p_i\, l(y_i f_i)$$

Three factors multiply, so the origin has a zero Jacobian: nothing grows exponentially there, and
`linearise` finds no mode. The matrix that drives attention, $F = -\partial L/\partial(W_Q
W_K^\top)$, is the slope along a zero matrix added to the logits. The paper has no positions; ours
can turn keys by $R_j$, an angle for each step back from the last token (RoPE).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from saccade.data.labelled_sequences import LabelledSequences
from saccade.errors import (
    InputError,
    checked_choice,
    checked_count,
    checked_kind,
    checked_list,
    checked_number,
)
from saccade.later import Array, jax, jnp
from saccade.models.system import Equations, Observable, Solver, System, compiled, downhill

_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"identity": lambda x: x, "tanh": jnp.tanh}
_LOSSES: dict[str, Callable[[Array], Array]] = {
    "exponential": lambda q: jnp.exp(-q),
    "logistic": lambda q: jax.nn.softplus(-q),
}
OUTER, ATTENTION = ("value", "hidden", "readout"), ("query", "key")


class Weights(NamedTuple):
    """Parameters: theirs, and their axes."""

    value: Any  # W_V (width, width)
    hidden: Any  # W^[1] (width, hidden)
    readout: Any  # W^[2] (hidden)
    query: Any  # W_Q (width, key)
    key: Any  # W_K (width, key)


class Setting(NamedTuple):
    """The data and the rates, as compiled code reads them."""

    tokens: Any
    label: Any
    weight: Any
    turns: Any  # (position, key, key), divided by the root of the width
    rates: Weights


@dataclass(frozen=True)
class AttentionClassifier(System):
    """A one-layer classifier of labelled sequences that gives its answer at the last token.

    `init_scale` is the standard deviation of every weight at the start; `d_hidden` and `d_key` are
    the widths of the hidden layer and of queries and keys, by default that of the tokens;
    `activation` is identity or tanh, `loss_kind` exponential or logistic; `lr_outer` is the rate of
    value, hidden and readout, `lr_attention` that of query and key; each pair of key coordinates
    turns by one of the `angles` per position.
    """

    sequences: LabelledSequences
    init_scale: float = 1e-3
    d_hidden: int | None = None
    d_key: int | None = None
    activation: str = "identity"
    loss_kind: str = "exponential"
    lr_outer: float = 1.0
    lr_attention: float = 1.0
    angles: tuple[float, ...] = ()

    @property
    def solver(self) -> Solver:  # type: ignore[override]
        """Stage I takes about 1/init_scale, and what comes after it is late by the solver's share
        of that time.
        """
        return Solver(rtol=1e-12, atol=max(1e-12 * self.init_scale, 1e-300))

    @property
    def loss_unit(self) -> str:  # type: ignore[override]
        return "nats" if self.loss_kind == "logistic" else ""

    def __post_init__(self) -> None:
        checked_kind("sequences", self.sequences, LabelledSequences)
        checked_number("init_scale", self.init_scale, low=0.0, high=1e3)
        checked_choice("`activation`", self.activation, _ACTIVATIONS)
        checked_choice("`loss_kind`", self.loss_kind, _LOSSES)
        for name in ("d_hidden", "d_key"):
            if getattr(self, name) is not None:
                checked_count(name, getattr(self, name))
        key = self.d_key or self.sequences.width
        if self.angles and 2 * len(checked_list("angles", self.angles, low=-1e3)) != key:
            raise InputError(
                f"`angles` must have one for each pair of the {key} key coordinates; got {len(self.angles)}."
            )

    def start(self, rng: np.random.Generator) -> Weights:
        d, hidden, key = (
            self.sequences.width,
            self.d_hidden or self.sequences.width,
            self.d_key or self.sequences.width,
        )
        shapes = Weights((d, d), (d, hidden), (hidden,), (d, key), (d, key))
        return Weights(*(self.init_scale * rng.standard_normal(shape) for shape in shapes))

    def loss(self, parameters: Weights) -> Array:
        return compiled(self.equations().loss)(parameters, self.setting())

    def observe(self, parameters: Weights) -> dict[str, Observable]:
        return _equations(self.activation, self.loss_kind)[2](parameters, self.setting())

    def downhill(self, parameters: Weights) -> tuple[Weights, Any]:
        """Minus the slope of the loss along the weights, and F, that along query key^T; eq. 15
        where attention is uniform.
        """
        with jax.enable_x64(True):
            slopes, _ = _equations(self.activation, self.loss_kind)[3](parameters, self.setting())
            return jax.tree.map(lambda part: -np.asarray(part), slopes)

    def rates(self) -> dict[str, float]:
        return dict.fromkeys(OUTER, self.lr_outer) | dict.fromkeys(ATTENTION, self.lr_attention)

    def setting(self) -> Setting:
        data = self.sequences
        _, length, width = data.tokens.shape
        turns = np.tile(np.eye(self.d_key or width), (length, 1, 1))
        for plane, angle in enumerate(self.angles):
            cos, sin = (of(angle * (np.arange(length) - length + 1)) for of in (np.cos, np.sin))
            turns[:, 2 * plane : 2 * plane + 2, 2 * plane : 2 * plane + 2] = np.array(
                [[cos, -sin], [sin, cos]]
            ).transpose(2, 0, 1)
        return Setting(
            data.tokens, data.label, data.weight, turns / np.sqrt(width), Weights(**self.rates())
        )

    def equations(self) -> Equations:
        """Shared by all data of one size, which compile once."""
        velocity, loss, observe, _ = _equations(self.activation, self.loss_kind)
        return Equations(velocity, loss, self.setting(), observe=observe)


@lru_cache
def _equations(activation: str, loss_kind: str) -> tuple[Callable[..., Any], ...]:
    """Of (weights, setting): velocity, loss, what is observed, and slopes along weights and a
    matrix added to query key^T.
    """
    bend, price = _ACTIVATIONS[activation], _LOSSES[loss_kind]

    def total(weights: Weights, setting: Setting, logit_matrix: Any) -> tuple[Array, Array]:
        """The loss, and the attention of the last token (sequence, position)."""
        scale = setting.tokens.shape[-1] ** -0.5
        pairs = (
            jnp.einsum("dk,skl,el->sde", weights.query, setting.turns, weights.key)
            + scale * logit_matrix
        )
        attention = jax.nn.softmax(
            jnp.einsum("nd,sde,nse->ns", setting.tokens[:, -1], pairs, setting.tokens), axis=-1
        )
        mixed = jnp.einsum("ns,nsd->nd", attention, setting.tokens)
        output = bend(mixed @ weights.value @ weights.hidden) @ weights.readout
        return jnp.sum(setting.weight * price(setting.label * output)), attention

    def loss(weights: Weights, setting: Setting) -> Array:
        return total(weights, setting, 0.0)[0]

    @jax.jit
    def slopes(weights: Weights, setting: Setting) -> tuple[tuple[Weights, Array], Array]:
        width = setting.tokens.shape[-1]
        return jax.grad(total, argnums=(0, 2), has_aux=True)(
            weights, setting, jnp.zeros((width, width))
        )

    def observe(weights: Weights, setting: Setting) -> dict[str, Observable]:
        (slope, along_logits), attention = slopes(weights, setting)
        outer = jnp.sqrt(sum(jnp.sum(getattr(slope, name) ** 2) for name in OUTER))
        return {
            "attention": Observable(
                ("sequence", "position"), attention, "1", "attention of the last token"
            ),
            "outer_gradient": Observable(
                (), outer, "1", "norm of the gradient in value, hidden and readout"
            ),
            "drive": Observable(
                ("query_axis", "key_axis"),
                -along_logits,
                "1",
                "-dL/d(query key^T), which drives attention",
            ),
        }

    return downhill(loss), loss, observe, slopes
