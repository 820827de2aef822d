r"""Dynamics (B) and (C): gradient flow to times no step count could reach, in logarithmic time.

(B) `flow`: the plain population gradient flow, infinite context:

$$\dot Y = \eta_Y \sum_n P(n) f_n (e_n - \alpha_n)^\top, \qquad
  \dot z_m = \eta_Z \sum_{n \in \psi^{-1}(m)} P(n)\, f_n \circ (g_n - f_n (f_n \cdot g_n)), \quad g_n = Y (e_n - \alpha_n).$$

(C) `reduced_flow`: the theory's own. The decoder moves along the preconditioned gradient of [tian2023, eq. 26], which makes
its logits $W = F^\top Y$ independent of the attention, $\dot w_n = \eta_Y P(n) (e_n - \mathrm{softmax}(w_n))$, and the attention
sees $Y = F (F^\top F)^{-1} W$ [tian2023, Lemma 4 and Theorem 5]. The paper's closed forms hold for (C), not for (B).

Time is stretched, $t = u (e^s - 1)$ with $u$ the inverse of the larger rate: starts at 0, and is smooth in $s$ to any $t$.
Late in training everything moves on the scale of $t$ itself, so in $s$ the flow is not even stiff: eigenvalues of its Jacobian
stay between about -10 and 0.5 to t = 1e12 (tests/dynamics/test_flow.py), and LSODA, which may switch to its stiff method with
JAX's Jacobian, hardly ever does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from saccade.data.sequence_classes import SequenceClasses
from saccade.dynamics.log_time import Solution, checked_rates, solve
from saccade.dynamics.randomness import Purpose, checked_seeds, generator
from saccade.errors import InputError, checked_kept, checked_kind
from saccade.model.pairwise import AnyArray, Pairwise, Parameters, Rows, class_attention_logits, forward, gradients, mean_loss
from saccade.model.token_blocks import TokenBlocks
from saccade.observe.measures import class_attention

if TYPE_CHECKING:
    import xarray as xr


class Setting(NamedTuple):
    """What a velocity depends on beside the state; an argument of the compiled code, so that one shape is compiled once."""

    blocks: TokenBlocks
    class_weight: AnyArray
    lr_decoder: AnyArray
    lr_attention: AnyArray


class ReducedState(NamedTuple):
    """State of (C). By symmetry the logits of a class take two values: its own next token's, and any other token's."""

    own_logit: AnyArray  # class
    other_logit: AnyArray  # class
    attention: Rows


def flow(
    task: SequenceClasses,
    *,
    t1: float = 1e12,
    lr_decoder: float = 1.0,
    lr_attention: float = 1.0,
    n_times: int = 200,
    model: Pairwise | None = None,
    seed: int = 0,
    method: str = "auto",
    rtol: float = 1e-8,
    atol: float = 1e-10,
    keep: Sequence[str] = ("attention", "attention_logits"),
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> xr.Dataset:
    """Dynamics (B) from t = 0 to `t1`, recorded at 0 and at `n_times` log-spaced times. A unit of time is a step of SGD.

    | argument       | meaning                                                                                         |
    |----------------|-------------------------------------------------------------------------------------------------|
    | `model`        | `Pairwise(...)`; a uniform start is drawn with `seed`                                           |
    | `method`       | SciPy's LSODA, BDF or Radau (with JAX's Jacobian) or DOP853; auto: LSODA, and DOP853 when large |
    | `rtol`, `atol` | local error allowed in each step, relative and absolute                                         |
    | `keep`         | of `attention`, `attention_logits`, `decoder`; the loss is always kept                          |
    """
    started = time.perf_counter()
    checked_kept(keep, ("attention", "attention_logits", "decoder"))
    model = Pairwise() if model is None else checked_kind("model", model, Pairwise)
    blocks = model.blocks(checked_kind("task", task, SequenceClasses))
    (seed,) = checked_seeds([seed])
    rates = checked_rates(lr_decoder, lr_attention)
    setting = Setting(blocks, task.class_weight, *rates)
    start = model.initial(blocks, generator(seed, Purpose.INITIALISATION), np.dtype("float64"))
    solution = solve(
        *_plain(model),
        start,
        setting,
        t1=t1,
        n_times=n_times,
        rates=rates,
        method=method,
        rtol=rtol,
        atol=atol,
        on_progress=on_progress,
    )
    states: Parameters = solution.states
    extra = {}
    if "decoder" in keep:
        extra["decoder"] = (("time", "token", "next_token"), blocks.dense_decoder(*states.decoder))
    config = {"model": vars(model), "seed": seed}
    label = "B: population gradient flow"
    return _record(label, task, blocks, solution, states.attention, extra, keep, rates, config, time.perf_counter() - started)


def reduced_flow(
    task: SequenceClasses,
    *,
    t1: float = 1e12,
    lr_decoder: float = 1.0,
    lr_attention: float = 1.0,
    n_times: int = 200,
    method: str = "auto",
    rtol: float = 1e-8,
    atol: float = 1e-10,
    keep: Sequence[str] = ("attention", "attention_logits"),
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> xr.Dataset:
    """Dynamics (C), from Y(0) = Z(0) = 0; arguments as in `flow`.

    Attention moves with P(n) for each class, as real training does. [tian2023, Lemma 4] prints the sum without it while its
    speed runs in t/K: multiply `lr_attention` by the number of classes to get that form.
    """
    started = time.perf_counter()
    checked_kept(keep, ("attention", "attention_logits"))
    blocks = Pairwise().blocks(checked_kind("task", task, SequenceClasses))
    rates = checked_rates(lr_decoder, lr_attention)
    if np.linalg.matrix_rank(task.token_prob) < task.n_classes:
        raise InputError("the reduced flow needs linearly independent classes; some `token_prob` is a mixture of the others.")
    setting = Setting(blocks, task.class_weight, *rates)
    zero = Pairwise().initial(blocks, generator(0, Purpose.INITIALISATION), np.dtype("float64"))
    start = ReducedState(np.zeros(task.n_classes), np.zeros(task.n_classes), zero.attention)
    solution = solve(
        _reduced_velocity,
        _reduced_loss,
        start,
        setting,
        t1=t1,
        n_times=n_times,
        rates=rates,
        method=method,
        rtol=rtol,
        atol=atol,
        on_progress=on_progress,
    )
    states: ReducedState = solution.states
    extra = {name: (("time", "class"), getattr(states, name)) for name in ("own_logit", "other_logit")}
    label = "C: reduced flow of the theory"
    return _record(label, task, blocks, solution, states.attention, extra, keep, rates, {}, time.perf_counter() - started)


@lru_cache
def _plain(model: Pairwise) -> tuple[Callable[[Parameters, Setting], Parameters], Callable[[Parameters, Setting], Array]]:
    """Velocity and loss of (B)."""

    def velocity(state: Parameters, setting: Setting) -> Parameters:
        blocks, weight = setting.blocks, setting.class_weight[:, None]
        downhill = gradients(forward(state, model.population(blocks), model, blocks), state, weight, model, blocks)
        rates = Parameters(setting.lr_decoder, setting.lr_attention)
        return Parameters(*(Rows(*(rate * part for part in rows)) for rate, rows in zip(rates, downhill, strict=True)))

    def loss(state: Parameters, setting: Setting) -> Array:
        return mean_loss(forward(state, model.population(setting.blocks), model, setting.blocks), setting.class_weight[:, None])

    return velocity, loss


def _reduced_velocity(state: ReducedState, setting: Setting) -> ReducedState:
    """Velocity of (C)."""
    blocks, weight = setting.blocks, setting.class_weight
    n_shared = blocks.shared.shape[0]
    p_other, wrong = _other_and_wrong(state, blocks.n_vocab)
    f = _features(blocks.token_prob, class_attention_logits(state.attention, blocks))
    g = _backpropagated(f, _logits_times_error(state, p_other, wrong, blocks.n_vocab), n_shared)
    dz = setting.lr_attention * weight[:, None] * f * (g - f * jnp.sum(f * g, axis=-1, keepdims=True))
    return ReducedState(
        own_logit=setting.lr_decoder * weight * wrong,
        other_logit=-setting.lr_decoder * weight * p_other,
        attention=Rows(blocks.has_query.T @ dz[:, :n_shared], dz[:, n_shared:]),
    )


def _reduced_loss(state: ReducedState, setting: Setting) -> Array:
    deficit = jnp.log(setting.blocks.n_vocab - 1) + state.other_logit - state.own_logit
    return jnp.sum(setting.class_weight * jax.nn.softplus(deficit))


def _other_and_wrong(state: ReducedState, n_vocab: int) -> tuple[Array, Array]:
    """alpha_nj for one j other than n, and 1 - alpha_nn, of every class."""
    odds = jnp.exp(state.other_logit - state.own_logit)
    p_other = odds / (1 + (n_vocab - 1) * odds)
    return p_other, (n_vocab - 1) * p_other


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
    """g_n = F (F^T F)^{-1} W (e_n - alpha_n) at the slots of class n. Classes meet in shared slots only."""
    shared, own = f[:, :n_shared], f[:, n_shared:]
    gram = shared @ shared.T + jnp.diag(jnp.sum(own * own, axis=-1))
    mix = jnp.linalg.solve(gram, products)  # (k, n): how much of f_k is in g_n
    return jnp.concatenate([mix.T @ shared, jnp.diag(mix)[:, None] * own], axis=-1)


def _record(
    label: str,
    task: SequenceClasses,
    blocks: TokenBlocks,
    solution: Solution,
    attention: Rows,
    extra: dict[str, Any],
    keep: Sequence[str],
    rates: tuple[float, float],
    config: dict[str, Any],
    wall_time: float,
) -> xr.Dataset:
    from saccade.records.schema import make_record, task_variables

    variables = {
        "loss": (("time",), solution.loss),
        "stop_reason": ((), solution.stop_reason),
        "stop_time": ((), solution.stop_time),
        **extra,
    }
    if "attention" in keep:
        at_slots = class_attention(blocks.class_slots(*attention), blocks.token_prob)
        variables["attention"] = (("time", "class", "token"), blocks.by_token(at_slots))
    if "attention_logits" in keep:
        variables["attention_logits"] = (("time", "query", "token"), blocks.dense_attention_logits(*attention))
    return make_record(
        dynamics=label,
        variables=variables | task_variables(task),
        coords={"time": solution.times, "query": blocks.queries, "lr_decoder": rates[0], "lr_attention": rates[1]},
        time_unit="steps of SGD",
        config={"task": task.name, **config, **solution.settings},
        wall_time=wall_time,
    )
