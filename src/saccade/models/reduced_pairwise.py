r"""Dynamics (C) of the pairwise model: the flow that the theory of Scan and Snap analyses.

The decoder moves along the preconditioned gradient of [tian2023, eq. 26], which makes its logits $W
= F^\top Y$ independent of the attention, $\dot w_n = \eta_Y P(n) (e_n - \mathrm{softmax}(w_n))$,
and the attention sees $Y = F (F^\top F)^{-1} W$ [tian2023, Lemma 4 and Theorem 5]. The paper's
closed forms hold for this flow, not for the plain gradient flow of `pairwise.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from saccade.data.sequence_classes import SequenceClasses
from saccade.errors import InputError, checked_kind, checked_number
from saccade.later import Array, jax, jnp
from saccade.models.pairwise import (
    AnyArray,
    OnClasses,
    Rows,
    Setting,
    attention_seen,
    class_attention_logits,
)
from saccade.models.system import Equations, Observable, kept_values
from saccade.models.token_blocks import TokenBlocks

if TYPE_CHECKING:
    import xarray as xr


class ReducedState(NamedTuple):
    """By symmetry the logits of a class take two values: its own next token's, and any other
    token's.
    """

    own_logit: AnyArray  # class
    other_logit: AnyArray  # class
    attention: Rows


@dataclass(frozen=True)
class ReducedPairwise(OnClasses):
    """The theory's own flow of the pairwise model, from Y(0) = Z(0) = 0.

    | argument       | meaning                                                            |
    |----------------|--------------------------------------------------------------------|
    | `task`         | the `SequenceClasses`; no class may be a mixture of the others     |
    | `lr_decoder`   | learning rate of the decoder, per step                             |
    | `lr_attention` | learning rate of the attention logits, per step                    |

    Attention moves with P(n) for each class, as real training does. [tian2023, Lemma 4] prints the
    sum without it while its speed runs in t/K: multiply `lr_attention` by the number of classes to
    get that form.
    """

    task: SequenceClasses
    _: KW_ONLY
    lr_decoder: float = 1.0
    lr_attention: float = 1.0

    def __post_init__(self) -> None:
        checked_kind("task", self.task, SequenceClasses)
        checked_number("lr_decoder", self.lr_decoder, low=0.0, high=1e30)
        checked_number("lr_attention", self.lr_attention, low=0.0, high=1e30)
        if np.linalg.matrix_rank(self.task.token_prob) < len(self.task.token_prob):
            raise InputError(
                "the reduced flow needs linearly independent classes; some `token_prob` is a mixture of the others."
            )

    @cached_property
    def task_blocks(self) -> TokenBlocks:
        return TokenBlocks.of(self.task, query_in_block=False, equal_columns=True)

    def start(self, rng: np.random.Generator) -> ReducedState:
        blocks, zero = self.task_blocks, np.zeros(len(self.task.token_prob))
        return ReducedState(
            zero,
            zero,
            Rows(np.zeros((len(blocks.queries), len(blocks.shared))), np.zeros(blocks.own.shape)),
        )

    def rates(self) -> dict[str, float]:
        return {
            "own_logit": self.lr_decoder,
            "other_logit": self.lr_decoder,
            "attention": self.lr_attention,
        }

    def equations(self) -> Equations:
        return Equations(
            velocity,
            loss,
            Setting(self.task_blocks, self.task.class_weight, self.lr_decoder, self.lr_attention),
        )

    def observe_path(self, path: ReducedState, keep: Sequence[str]) -> dict[str, Observable]:
        """With any leading axes, in NumPy; the two logits of each class are always kept."""
        logits = {
            name: Observable(("class",), getattr(path, name))
            for name in ("own_logit", "other_logit")
        }
        return logits | attention_seen(path.attention, self.task_blocks, keep)

    def parameters_of(self, record: xr.Dataset) -> ReducedState:
        blocks, n = self.task_blocks, self.task.n_classes
        shapes = (n,), (n,), (len(blocks.queries), self.task.n_vocab)
        own, other, attention_logits = kept_values(
            record, ("own_logit", "other_logit", "attention_logits"), shapes
        )
        return ReducedState(own, other, Rows(*blocks.attention_blocks(attention_logits)))

    def config(self) -> dict[str, Any]:
        return {"task": self.task.name}

    def label(self, dynamics: str) -> str:
        return "C: reduced flow of the theory"


def velocity(state: ReducedState, setting: Setting) -> ReducedState:
    """How logits and attention move."""
    blocks, weight = setting.blocks, setting.class_weight
    n_shared = blocks.shared.shape[0]
    odds = jnp.exp(state.other_logit - state.own_logit)
    p_other = odds / (1 + (blocks.n_vocab - 1) * odds)  # alpha_nj for one j other than n
    wrong = (blocks.n_vocab - 1) * p_other  # 1 - alpha_nn
    f = _features(blocks.token_prob, class_attention_logits(state.attention, blocks))
    g = _backpropagated(f, _logits_times_error(state, p_other, wrong, blocks.n_vocab), n_shared)
    dz = (
        setting.lr_attention
        * weight[:, None]
        * f
        * (g - f * jnp.sum(f * g, axis=-1, keepdims=True))
    )
    return ReducedState(
        own_logit=setting.lr_decoder * weight * wrong,
        other_logit=-setting.lr_decoder * weight * p_other,
        attention=Rows(blocks.has_query.T @ dz[:, :n_shared], dz[:, n_shared:]),
    )


def loss(state: ReducedState, setting: Setting) -> Array:
    deficit = jnp.log(setting.blocks.n_vocab - 1) + state.other_logit - state.own_logit
    return jnp.sum(setting.class_weight * jax.nn.softplus(deficit))


def _features(prob: AnyArray, z: Array) -> Array:
    """f_n at the slots of each class (class, slot)."""
    top = jnp.max(jnp.where(prob > 0, z, -jnp.inf), axis=-1, keepdims=True)
    weights = prob * jnp.exp(jnp.minimum(z - top, 0))
    return weights / jnp.linalg.norm(weights, axis=-1, keepdims=True)


def _logits_times_error(state: ReducedState, p_other: Array, wrong: Array, n_vocab: int) -> Array:
    """w_k . (e_n - alpha_n) for every pair of classes (k, n)."""
    a, b = state.own_logit, state.other_logit
    same = wrong * a - wrong * b
    cross = b[:, None] * (wrong - (n_vocab - 2) * p_other) - a[:, None] * p_other
    return jnp.where(jnp.eye(len(a), dtype=bool), same, cross)


def _backpropagated(f: Array, products: Array, n_shared: int) -> Array:
    """g_n = F (F^T F)^{-1} W (e_n - alpha_n) at the slots of class n. Classes meet in shared slots
    only.
    """
    shared, own = f[:, :n_shared], f[:, n_shared:]
    gram = shared @ shared.T + jnp.diag(jnp.sum(own * own, axis=-1))
    mix = jnp.linalg.solve(gram, products)  # (k, n): how much of f_k is in g_n
    return jnp.concatenate([mix.T @ shared, jnp.diag(mix)[:, None] * own], axis=-1)
