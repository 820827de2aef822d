r"""The one-layer Transformer with embeddings: one head, no value matrix, no residual, no positions,
loss at the last token only.

$$M = W_0 W_1, \qquad \Phi = s\, W_0 W_Q W_K^\top W_0^\top, \qquad
  A_{ij} = \frac{n_j e^{\Phi_{ij}}}{\sum_k n_k e^{\Phi_{ik}}}, \qquad z_i = A_i M,$$

where i is the last token of a context and n its token counts, itself included [chen2026]. Without
positions the counts are all that matters, so the cost does not grow with the length; in the limit
of long contexts n becomes the stationary law.

NOTATION.md has letters and names. The gradient flow of its loss waits near critical points and
leaves them exponentially fast, so it is stiff. Not here: how parameters move (engines/), what the
theory predicts (theories/).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from saccade.data.markov import MarkovChain
from saccade.errors import InputError, checked_count, checked_kind, checked_number, shortened
from saccade.later import Array, jax, jnp
from saccade.measures import class_attention
from saccade.models import flow_kernel
from saccade.models.system import Equations, Observable, SettledSystem, Solver, kept_values

if TYPE_CHECKING:
    import xarray as xr

_MOST_WIDTH = 1e5  # four square matrices of it fill any memory; beyond it is a typing error


class Weights(NamedTuple):
    """The parameters; any array type, with leading axes if there are several runs or times."""

    embedding: Any
    query: Any
    key: Any
    projection: Any


WEIGHTS = {  # as a record calls them, and their axes
    "embedding": ("token", "width"),
    "query_matrix": ("width", "key_width"),
    "key_matrix": ("width", "key_width"),
    "projection": ("width", "next_token"),
}


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


class Setting(NamedTuple):
    """What the velocity depends on beside the weights; an argument of the compiled code, so that
    one shape is compiled once.
    """

    stationary: Any
    transition: Any
    phi_scale: Any
    lr_decoder: Any
    lr_attention: Any


@dataclass(frozen=True)
class Embedded(SettledSystem):
    """The model with embeddings of Focus and Dilution on a Markov chain.

    | argument       | meaning                                                                                                |
    |----------------|--------------------------------------------------------------------------------------------------------|
    | `chain`        | the `MarkovChain` to learn; left out, these are options for `flow(chain, model=...)` and `train`       |
    | `d_model`      | width of the embedding                                                                                 |
    | `d_key`        | width of queries and keys                                                                              |
    | `init_scale`   | standard deviation of every entry at the start                                                         |
    | `scaled`       | divide attention logits by the root of `d_model`, as Transformers usually do                           |
    | `logit_scale`  | multiply attention logits by this as well; above 1 attention learns faster                             |
    | `lr_decoder`   | learning rate of embedding and projection; default: 1 in a flow, 0.001 in training                     |
    | `lr_attention` | learning rate of the query and key matrices; likewise                                                  |
    """

    chain: MarkovChain | None = None
    _: KW_ONLY
    d_model: int = 8
    d_key: int = 8
    init_scale: float = 1e-3
    scaled: bool = False
    logit_scale: float = 1.0
    lr_decoder: float | None = None
    lr_attention: float | None = None

    solver = Solver(
        t1=5000.0, n_times=1500, rtol=1e-10, atol=1e-12
    )  # holds both invariants to 1e-8
    keep = ("attention", *WEIGHTS)
    loss_unit = "nats"

    def __post_init__(self) -> None:
        if self.chain is not None:
            checked_kind("chain", self.chain, MarkovChain)
        object.__setattr__(
            self, "d_model", checked_count("d_model", self.d_model, high=_MOST_WIDTH)
        )
        object.__setattr__(self, "d_key", checked_count("d_key", self.d_key, high=_MOST_WIDTH))
        checked_number("init_scale", self.init_scale, low=0.0, high=1e6)
        checked_number("logit_scale", self.logit_scale, low=0.0, high=1e6)
        if not isinstance(self.scaled, bool):
            raise InputError(f"`scaled` must be True or False; got {shortened(self.scaled)}.")
        checked_number("lr_decoder", self.flow_rates[0], low=0.0, high=1e30)
        checked_number("lr_attention", self.flow_rates[1], low=0.0, high=1e30)

    @property
    def task(self) -> MarkovChain:
        """The chain, which must be there."""
        if self.chain is None:
            raise InputError(
                "`Embedded()` without a chain only holds options: pass a chain, `Embedded(chain, ...)`."
            )
        return self.chain

    @property
    def flow_rates(self) -> tuple[float, float]:
        """Of the decoder and of attention."""
        return tuple(1.0 if rate is None else rate for rate in (self.lr_decoder, self.lr_attention))  # type: ignore[return-value]

    def start(self, rng: np.random.Generator) -> Weights:
        return self.initial(self.task.n_vocab, rng)

    def rates(self) -> dict[str, float]:
        decoder, attention = self.flow_rates
        return {"embedding": decoder, "query": attention, "key": attention, "projection": decoder}

    def equations(self) -> Equations:
        return Equations(
            velocity, loss, chain_setting(self.task, self), compiled=flow_kernel.follow
        )

    def observe_path(self, path: Weights, keep: Sequence[str]) -> dict[str, Observable]:
        """With any leading axes, in NumPy."""
        weights = zip(WEIGHTS.items(), path, strict=True)
        seen = {name: Observable(axes, part) for (name, axes), part in weights if name in keep}
        if "attention" in keep:
            queries, keys = path.embedding @ path.query, path.embedding @ path.key
            logits = self.phi_scale * queries @ np.swapaxes(keys, -1, -2)
            seen["attention"] = Observable(
                ("query", "token"), class_attention(logits, self.task.stationary)
            )
        return seen

    def parameters_of(self, record: xr.Dataset) -> Weights:
        return Weights(
            *kept_values(
                record,
                tuple(WEIGHTS),
                [part.shape for part in self.start(np.random.default_rng(0))],
            )
        )

    def coordinates(self) -> dict[str, Any]:
        return (
            dict(zip(("lr_decoder", "lr_attention"), self.flow_rates, strict=True))
            | self.task.names_by_axis
        )

    def data(self) -> dict[str, Observable]:
        return chain_data(self.task)

    def config(self) -> dict[str, Any]:
        return {"task": self.task.name, "model": self.options}

    def label(self, dynamics: str) -> str:
        return f"{dynamics}, embedded model"

    @property
    def options(self) -> dict[str, Any]:
        """The model without its chain and rates."""
        return {
            name: getattr(self, name)
            for name in ("d_model", "d_key", "init_scale", "scaled", "logit_scale")
        }

    @property
    def phi_scale(self) -> float:
        """The factor s in front of the attention logits."""
        return self.logit_scale / (math.sqrt(self.d_model) if self.scaled else 1.0)

    def initial(self, n_vocab: int, rng: np.random.Generator) -> Weights:
        """Every entry drawn from N(0, init_scale^2), in float64."""
        width, key_width = self.d_model, self.d_key
        shapes = (n_vocab, width), (width, key_width), (width, key_width), (width, n_vocab)
        return Weights(*(self.init_scale * rng.standard_normal(shape) for shape in shapes))


def chain_setting(chain: MarkovChain, model: Embedded) -> Setting:
    return Setting(chain.stationary, chain.transition, model.phi_scale, *model.flow_rates)


def chain_data(chain: MarkovChain) -> dict[str, Observable]:
    return {
        "stationary": Observable(("token",), chain.stationary),
        "transition": Observable(("token", "next_token"), chain.transition),
    }


def velocity(weights: Weights, setting: Setting) -> Weights:
    return downhill(jax.grad(loss)(weights, setting), setting)


def downhill(slope: Weights, setting: Setting) -> Weights:
    """Minus the slope, each matrix at its rate."""
    decoder, attention = -setting.lr_decoder, -setting.lr_attention
    return Weights(
        decoder * slope.embedding,
        attention * slope.query,
        attention * slope.key,
        decoder * slope.projection,
    )


def loss(weights: Weights, setting: Setting) -> Array:
    return population_loss(composite(weights, setting.phi_scale), setting)


def invariants(
    weights: Weights, *, lr_decoder: float = 1.0, lr_attention: float = 1.0
) -> tuple[NDArray, NDArray]:
    r"""Two matrices that the flow conserves exactly, of weights with any leading axes; their drift
    is the solver's error.

    $$C_1 = W_0^\top W_0 - W_1 W_1^\top - \tfrac{\eta}{\eta_A} (W_Q W_Q^\top + W_K W_K^\top), \qquad
      C_2 = W_Q^\top W_Q - W_K^\top W_K.$$
    """
    embedding, query, key, projection = (np.asarray(matrix) for matrix in weights)

    def gram(matrix: NDArray) -> NDArray:
        return np.swapaxes(matrix, -1, -2) @ matrix

    attention = gram(np.swapaxes(query, -1, -2)) + gram(np.swapaxes(key, -1, -2))
    first = (
        gram(embedding)
        - gram(np.swapaxes(projection, -1, -2))
        - lr_decoder / lr_attention * attention
    )
    return first, gram(query) - gram(key)


def weights_of(record: xr.Dataset) -> Weights:
    """The weight matrices kept in a record, with whatever leading axes are left in it."""
    return Weights(*(record[name].values for name in WEIGHTS))


def composite(weights: Weights, phi_scale: Any) -> Composite:
    embedding, query, key, projection = weights
    return Composite(embedding @ projection, phi_scale * (embedding @ query) @ (embedding @ key).T)


def population_loss(matrices: Composite, chain: Chain) -> Array:
    """Mean cross-entropy of the next token over the stationary law, contexts infinitely long."""
    attention = jax.nn.softmax(matrices.attention_logits + jnp.log(chain.stationary), axis=-1)
    log_prob = jax.nn.log_softmax(attention @ matrices.decoder, axis=-1)
    return -jnp.sum(chain.stationary[:, None] * chain.transition * log_prob)


def context_loss(matrices: Composite, counts: Any, last_token: Any, next_token: Any) -> Array:
    """Mean cross-entropy over contexts given by token counts (context, token), their last tokens
    and what follows.
    """
    logits = context_attention(matrices.attention_logits, counts, last_token) @ matrices.decoder
    log_prob = jax.nn.log_softmax(logits, axis=-1)
    return -jnp.mean(jnp.take_along_axis(log_prob, next_token[:, None], axis=-1))


def context_attention(attention_logits: Any, counts: Any, last_token: Any) -> Array:
    """Attention of each context's last token over the vocabulary (context, token); 0 on tokens that
    are not there.
    """
    return jax.nn.softmax(
        jnp.where(
            counts > 0, attention_logits[last_token] + jnp.log(jnp.maximum(counts, 1)), -jnp.inf
        ),
        axis=-1,
    )


def context_log_prob(matrices: Composite, counts: Any, last_token: Any) -> Array:
    """What contexts (token, context) make the model expect (next token, context); contexts come
    last since there are many.
    """
    seen = jnp.where(
        counts > 0,
        matrices.attention_logits.T[:, last_token] + jnp.log(jnp.maximum(counts, 1)),
        -jnp.inf,
    )
    return jax.nn.log_softmax(matrices.decoder.T @ jax.nn.softmax(seen, axis=0), axis=0)
