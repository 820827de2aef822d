r"""The one-layer Transformer in pairwise form: decoder logits Y and attention logits Z, both token
by token.

A context enters only through its token counts, so attention and both gradients cost O(tokens in the
class), whatever the length; counts replaced by P(l|n) give the limit of infinite context exactly.
The sequence form, token by token, is kept in tests/agreement as the explicit formula this is
checked against. Not here: how parameters move (engines/), what the theory predicts (theories/).

| name                | paper              | axes                     | meaning                                          |
|---------------------|--------------------|--------------------------|--------------------------------------------------|
| `counts`            | N_l or P(l|n)      | class, slot, row         | token counts of each context, one context a row  |
| `weight`            |                    | class, row               | share of each context in the loss, 0 for fillers |
| `feature`           | f                  | class, slot, row         | what the decoder reads                           |
| `logits`            | Y^T f              | class, row, column       |                                                  |

Parameters and slots are laid out in the blocks of `token_blocks.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from saccade.data.sequence_classes import SequenceClasses
from saccade.errors import InputError, checked_choice, checked_kind, checked_number
from saccade.later import Array, jax, jnp
from saccade.measures import class_attention
from saccade.models.system import Equations, Observable, SettledSystem, Solver, kept_values
from saccade.models.token_blocks import TokenBlocks

if TYPE_CHECKING:
    import xarray as xr

AnyArray: TypeAlias = Any  # a JAX or a NumPy array: parameters are NumPy at rest and JAX under way


class Rows(NamedTuple):
    """One matrix in blocks: rows shared by classes, and each class's own."""

    shared: AnyArray
    own: AnyArray


class Parameters(NamedTuple):
    """`decoder`: Y as (slot, column) and (class, slot, column); `attention`: Z as (query, slot) and
    (class, slot).
    """

    decoder: Rows
    attention: Rows


class Forward(NamedTuple):
    """What one pass over contexts computes, kept for the gradient."""

    feature: Array  # class, slot, row
    norm: Array  # what attention was divided by (class, 1, row)
    logits: Array  # class, row, column
    target_logit: Array  # class, row
    others: Array  # exp of the other columns' logits up to a factor for each row; 0 at the target (class, row, column)
    others_total: Array  # class, row
    deficit: Array  # log-sum of the other columns' logits minus the target's: minus the margin (class, row)


class Setting(NamedTuple):
    """What the velocity depends on beside the parameters; an argument of the compiled code, so that
    one shape is compiled once.
    """

    blocks: TokenBlocks
    class_weight: AnyArray
    lr_decoder: AnyArray
    lr_attention: AnyArray


class OnClasses(SettledSystem):
    """A system that learns sequence classes: how it is followed, and what a record says of the
    classes.
    """

    task: SequenceClasses | None
    lr_decoder: float
    lr_attention: float
    solver = Solver(t1=1e12, most_for_lsoda=8000)
    loss_unit = "nats"
    seeds = None
    keep = ("attention", "attention_logits")
    time_unit = "steps of SGD"

    @property
    def classes(self) -> SequenceClasses:
        """The task, which must be there."""
        if self.task is None:
            raise InputError(
                "`Pairwise()` without a task only holds options: pass a task, `Pairwise(task, ...)`."
            )
        return self.task

    def coordinates(self) -> dict[str, Any]:
        rates = {"lr_decoder": self.lr_decoder, "lr_attention": self.lr_attention}
        return {"query": np.unique(self.classes.query)} | rates | self.classes.names_by_axis

    def data(self) -> dict[str, Observable]:
        return {
            "token_prob": Observable(("class", "token"), self.classes.token_prob),
            "class_weight": Observable(("class",), self.classes.class_weight),
            "class_query": Observable(("class",), self.classes.query),
            "class_next": Observable(("class",), self.classes.next_token),
        }


@dataclass(frozen=True)
class Pairwise(OnClasses):
    """The pairwise model of Scan and Snap on sequence classes. The defaults are the paper's; its
    code has the other settings too.

    | argument       | meaning                                                                                                  |
    |----------------|----------------------------------------------------------------------------------------------------------|
    | `task`         | the `SequenceClasses` to learn; left out, these are options for `flow(task, model=...)` and `train`      |
    | `normalise`    | divide attention by its Euclidean norm, the paper's LayerNorm; off: the decoder reads attention itself   |
    | `residual`     | add the one-hot query to the attention before the normalisation                                          |
    | `query_key`    | the query attends to itself: it counts as one more context token                                         |
    | `init`         | `"zero"`, or `"uniform"`: every entry of Y and Z from U(-init_scale, init_scale)                         |
    | `init_scale`   | of the uniform start; default 1/sqrt(n_vocab), as in the paper's code                                    |
    | `lr_decoder`   | learning rate of the decoder logits Y, per step                                                          |
    | `lr_attention` | learning rate of the attention logits Z, per step                                                        |
    """

    task: SequenceClasses | None = None
    _: KW_ONLY
    normalise: bool = True
    residual: bool = False
    query_key: bool = False
    init: str = "zero"
    init_scale: float | None = None
    lr_decoder: float = 1.0
    lr_attention: float = 1.0

    def __post_init__(self) -> None:
        if self.task is not None:
            checked_kind("task", self.task, SequenceClasses)
        checked_choice("init", self.init, ("zero", "uniform"))
        if self.init_scale is not None:
            checked_number("init_scale", self.init_scale, low=0.0, high=1e30, open_low=True)
            if self.init == "zero":
                raise InputError(
                    "`init_scale` needs `init='uniform'`: a start at zero has no scale."
                )
        for name, rate in self.rates().items():
            checked_number(f"lr_{name}", rate, low=0.0, high=1e30)

    @property
    def options(self) -> Pairwise:
        """The same model without task and rates, which compiled code takes as arguments."""
        return replace(self, task=None, lr_decoder=1.0, lr_attention=1.0)

    @cached_property
    def task_blocks(self) -> TokenBlocks:
        return self.blocks(self.classes)

    def start(self, rng: np.random.Generator) -> Parameters:
        return self.initial(self.task_blocks, rng, np.float64)

    def rates(self) -> dict[str, float]:
        return {"decoder": self.lr_decoder, "attention": self.lr_attention}

    def equations(self) -> Equations:
        setting = Setting(
            self.task_blocks, self.classes.class_weight, self.lr_decoder, self.lr_attention
        )
        return Equations(*_population_equations(self.options), setting)

    def observable(self) -> tuple[str, ...]:
        return ("attention", "attention_logits", "decoder")

    def observe_path(self, path: Parameters, keep: Sequence[str]) -> dict[str, Observable]:
        """With any leading axes, in NumPy."""
        seen = attention_seen(path.attention, self.task_blocks, keep)
        if "decoder" in keep:
            seen["decoder"] = Observable(
                ("token", "next_token"), self.task_blocks.dense_decoder(*path.decoder)
            )
        return seen

    def parameters_of(self, record: xr.Dataset) -> Parameters:
        n_vocab, blocks = self.classes.n_vocab, self.task_blocks
        shapes = (n_vocab, n_vocab), (len(blocks.queries), n_vocab)
        decoder, attention_logits = kept_values(record, ("decoder", "attention_logits"), shapes)
        return Parameters(
            Rows(*blocks.decoder_blocks(decoder)), Rows(*blocks.attention_blocks(attention_logits))
        )

    def config(self) -> dict[str, Any]:
        names = ("normalise", "residual", "query_key", "init", "init_scale")
        return {"task": self.classes.name, "model": {name: getattr(self, name) for name in names}}

    def label(self, dynamics: str) -> str:
        return dynamics

    def blocks(self, task: SequenceClasses) -> TokenBlocks:
        return TokenBlocks.of(
            task, query_in_block=self.residual or self.query_key, equal_columns=self.init == "zero"
        )

    def initial(
        self, blocks: TokenBlocks, rng: np.random.Generator, dtype: DTypeLike
    ) -> Parameters:
        """Parameters at step 0, as NumPy arrays; `rng` is used by the uniform start only."""
        scale = 0.0 if self.init == "zero" else self.init_scale or blocks.n_vocab**-0.5
        n_shared, n_columns, n_queries = (
            len(blocks.shared),
            len(blocks.columns),
            len(blocks.queries),
        )

        def draw(*shape: int) -> np.ndarray:
            return (scale * rng.uniform(-1, 1, shape) if scale else np.zeros(shape)).astype(dtype)

        decoder = Rows(draw(n_shared, n_columns), draw(*blocks.own.shape, n_columns))
        return Parameters(decoder, Rows(draw(n_queries, n_shared), draw(*blocks.own.shape)))

    def population(self, blocks: TokenBlocks) -> np.ndarray:
        """The infinite context of each class as `counts` (class, slot, row): one row, its token
        probabilities.

        A single query among infinitely many keys has no weight, so `query_key` makes no difference
        here.
        """
        return blocks.token_prob[:, :, None]


@lru_cache
def _population_equations(
    model: Pairwise,
) -> tuple[Callable[..., Parameters], Callable[..., Array]]:
    r"""The population gradient flow, infinite context:

    $$\dot Y = \eta_Y \sum_n P(n) f_n (e_n - \alpha_n)^\top, \qquad
      \dot z_m = \eta_Z \sum_{n \in \psi^{-1}(m)} P(n)\, f_n \circ (g_n - f_n (f_n \cdot g_n)), \quad g_n = Y (e_n - \alpha_n).$$
    """

    def velocity(state: Parameters, setting: Setting) -> Parameters:
        blocks, weight = setting.blocks, setting.class_weight[:, None]
        downhill = gradients(
            forward(state, model.population(blocks), model, blocks), state, weight, model, blocks
        )
        rates = Parameters(setting.lr_decoder, setting.lr_attention)
        return Parameters(
            *(
                Rows(*(rate * part for part in rows))
                for rate, rows in zip(rates, downhill, strict=True)
            )
        )

    def loss(state: Parameters, setting: Setting) -> Array:
        return mean_loss(
            forward(state, model.population(setting.blocks), model, setting.blocks),
            setting.class_weight[:, None],
        )

    return velocity, loss


def attention_seen(
    attention: Rows, blocks: TokenBlocks, keep: Sequence[str]
) -> dict[str, Observable]:
    """Attention of each class and Z, of parameters with any leading axes."""
    seen = {}
    if "attention" in keep:
        at_slots = class_attention(blocks.class_slots(*attention), blocks.token_prob)
        seen["attention"] = Observable(("class", "token"), blocks.by_token(at_slots))
    if "attention_logits" in keep:
        seen["attention_logits"] = Observable(
            ("query", "token"), blocks.dense_attention_logits(*attention)
        )
    return seen


def class_attention_logits(attention: Rows, blocks: TokenBlocks) -> Array:
    """z of each class's query at the class's slots (class, slot)."""
    return jnp.concatenate([blocks.has_query @ attention.shared, attention.own], axis=-1)


def unnormalised_attention(counts: AnyArray, attention_logits: Array) -> Array:
    """counts * exp(z), each context scaled so that its most sought token has weight `counts`. An
    empty context stays 0.
    """
    top = jnp.max(jnp.where(counts > 0, attention_logits, -jnp.inf), axis=1, keepdims=True)
    # A token that is absent may be sought more than `top`; its count of 0 must not meet an infinite
    # weight.
    return counts * jnp.exp(jnp.minimum(attention_logits - top, 0))


def forward(
    parameters: Parameters, counts: AnyArray, model: Pairwise, blocks: TokenBlocks
) -> Forward:
    """Feature, logits and margin of every context."""
    weights = unnormalised_attention(
        counts, class_attention_logits(parameters.attention, blocks)[:, :, None]
    )
    if model.residual or not model.normalise:  # else the norm below cancels this one
        weights = weights / _or_one(jnp.sum(weights, axis=1, keepdims=True))
    raw = weights + blocks.query_slot[:, :, None] if model.residual else weights
    norm = (
        _or_one(jnp.sqrt(jnp.sum(raw * raw, axis=1, keepdims=True)))
        if model.normalise
        else jnp.ones_like(raw[:, :1])
    )
    feature = raw / norm
    logits = jnp.einsum("ksr,ksj->krj", feature, class_decoder(parameters.decoder))
    is_target = blocks.is_target[:, None, :]
    target_logit = jnp.sum(logits * is_target, axis=-1)
    other_logits = jnp.where(is_target > 0, -jnp.inf, logits + jnp.log(blocks.column_size))
    top = jnp.max(other_logits, axis=-1)
    others = jnp.exp(other_logits - top[..., None])
    total = jnp.sum(others, axis=-1)
    deficit = top + jnp.log(total) - target_logit
    return Forward(feature, norm, logits, target_logit, others, total, deficit)


def _or_one(total: Array) -> Array:
    return jnp.where(total > 0, total, 1)


def class_decoder(decoder: Rows) -> Array:
    """The decoder rows that each class reads (class, slot, column)."""
    n_classes = decoder.own.shape[0]
    return jnp.concatenate(
        [jnp.broadcast_to(decoder.shared, (n_classes, *decoder.shared.shape)), decoder.own], axis=1
    )


def mean_loss(seen: Forward, weight: AnyArray) -> Array:
    """Cross-entropy in nats. As softplus of the deficit it stays exact when the loss is far below a
    float's resolution at 1.
    """
    return jnp.sum(weight * jax.nn.softplus(seen.deficit))


def gradients(
    seen: Forward, parameters: Parameters, weight: AnyArray, model: Pairwise, blocks: TokenBlocks
) -> Parameters:
    r"""Direction of steepest *descent of the loss* (minus its gradient), summed over contexts with
    their weights.

    For one context, with $g = Y(e_n - \alpha)$ [tian2023, Lemma 1, in counts]:

    $$\dot Y = f (e_n - \alpha)^\top, \qquad \dot z = f \circ (g - f\, (f \cdot g)).$$

    $g$ need not be formed for each context. Summed over contexts, $\sum f_l\, g_l = \sum_j Y_{lj}
    \dot Y_{lj}$, so the attention gradient reads the decoder gradient instead of making a second
    matrix product; and $f \cdot g$ is logits times error. With a residual $f = (a + e_q)/|a + e_q|$
    for attention $a$, which adds the terms in `g_query`.
    """
    decoder = class_decoder(parameters.decoder)
    # e_n - alpha = (1 - alpha_n) (e_n - q), q the split among the others. 1 - alpha_n comes from
    # the others too: late in training alpha_n is 1 to sixteen digits, and a subtraction would leave
    # nothing of what still drives the dynamics.
    push = weight * jax.nn.sigmoid(seen.deficit)
    per_other = push / seen.others_total

    def times_error(values: Array, at_target: Array) -> Array:
        return push * at_target - per_other * jnp.sum(seen.others * values, axis=-1)

    toward_target = (
        jnp.sum(push[:, None, :] * seen.feature, axis=2)[..., None] * blocks.is_target[:, None, :]
    )
    decoder_gradient = toward_target - jnp.einsum(
        "ksr,krj->ksj", per_other[:, None, :] * seen.feature, seen.others
    )
    gained = jnp.sum(decoder * decoder_gradient, axis=-1)  # f * g, summed over contexts
    along = times_error(seen.logits, seen.target_logit)  # f . g
    g_query = jnp.zeros_like(along)
    if model.residual:
        query_row = jnp.einsum("ks,ksj->kj", blocks.query_slot, decoder)[:, None, :]
        g_query = times_error(query_row, jnp.sum(query_row * blocks.is_target[:, None, :], axis=-1))
    attention_gradient = gained - _pulled_back(seen, along, g_query, model, blocks)
    n_shared = blocks.shared.shape[0]
    decoder_gradient = (
        decoder_gradient / blocks.column_size
    )  # each of the equal tokens gets its part
    return Parameters(
        Rows(decoder_gradient[:, :n_shared].sum(axis=0), decoder_gradient[:, n_shared:]),
        Rows(
            blocks.has_query.T @ attention_gradient[:, :n_shared], attention_gradient[:, n_shared:]
        ),
    )


def _pulled_back(
    seen: Forward, along: Array, g_query: Array, model: Pairwise, blocks: TokenBlocks
) -> Array:
    """What softmax and normalisation take off f * g, summed over contexts (class, slot); `g_query`
    is 0 without a residual.
    """
    along, g_query = along[:, None, :], g_query[:, None, :]
    if not model.residual:
        return jnp.sum(seen.feature * (seen.feature if model.normalise else 1) * along, axis=2)
    at_query = blocks.query_slot[:, :, None]
    attention = seen.feature - at_query / seen.norm  # over the norm
    if model.normalise:
        f_query = jnp.sum(seen.feature * at_query, axis=1, keepdims=True)
        pull = seen.feature * along - (g_query - f_query * along)
    else:
        pull = along - g_query
    return jnp.sum(at_query * g_query / seen.norm + attention * pull, axis=2)
