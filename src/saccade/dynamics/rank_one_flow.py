r"""Dynamics (C) of the embedded model: the flow on the manifold where every matrix has rank one.

$$W_0 = \gamma \alpha^\top, \quad W_1 = \alpha \beta^\top, \quad
  W_Q = \lambda_Q \alpha a^\top, \quad W_K = \lambda_K \alpha a^\top,$$

with unit vectors $\alpha$ and $a$ that do not move [chen2026, Proposition 3.6]. The coordinates
$(\gamma, \beta, \lambda_Q, \lambda_K)$ are isometric, so the flow on the manifold is the gradient flow of the restricted loss, with
$2d + 2$ unknowns. It conserves
$|\gamma|^2 - |\beta|^2 - \tfrac{\eta}{\eta_A}(\lambda_Q^2 + \lambda_K^2)$.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from saccade.data.markov import MarkovChain
from saccade.dynamics.embedded_flow import Setting, chain_variables
from saccade.dynamics.log_time import checked_rates, solve
from saccade.errors import InputError, checked_kept, checked_kind
from saccade.model.embedded import Composite, Embedded, population_loss
from saccade.observe.measures import class_attention

if TYPE_CHECKING:
    import xarray as xr


class RankOne(NamedTuple):
    """A point of the manifold."""

    gamma: Any  # token: how far each token lies along the one direction of the embedding
    beta: Any  # next token: what that direction says about the next token
    query: Any  # lambda_Q
    key: Any  # lambda_K


def rank_one_flow(
    chain: MarkovChain,
    *,
    t1: float = 5000.0,
    lr_decoder: float = 1.0,
    lr_attention: float = 1.0,
    n_times: int = 1500,
    model: Embedded | None = None,
    start: RankOne | None = None,
    method: str = "auto",
    rtol: float = 1e-10,
    atol: float = 1e-12,
    keep: Sequence[str] = ("attention",),
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> xr.Dataset:
    """The rank-one flow from `start`, or from a start of the model's `init_scale`; other arguments as in `flow`."""
    started = time.perf_counter()
    checked_kept(keep, ("attention",))
    checked_kind("chain", chain, MarkovChain)
    model = Embedded() if model is None else checked_kind("model", model, Embedded)
    rates = checked_rates(lr_decoder, lr_attention)
    first = small_start(chain, model.init_scale) if start is None else _checked_start(start, chain.n_vocab)
    setting = Setting(chain.stationary, chain.transition, model.phi_scale, *rates)
    solution = solve(
        velocity,
        loss,
        first,
        setting,
        t1=t1,
        n_times=n_times,
        rates=rates,
        method=method,
        rtol=rtol,
        atol=atol,
        on_progress=on_progress,
    )
    states: RankOne = solution.states
    from saccade.records.schema import make_record

    variables: dict[str, Any] = {
        "loss": (("time",), solution.loss),
        "stop_reason": ((), solution.stop_reason),
        "stop_time": ((), solution.stop_time),
        "gamma": (("time", "token"), states.gamma),
        "beta": (("time", "next_token"), states.beta),
        "query_scale": (("time",), states.query),
        "key_scale": (("time",), states.key),
    }
    if "attention" in keep:
        kappa = (model.phi_scale * states.query * states.key)[:, None, None]
        logits = kappa * states.gamma[:, :, None] * states.gamma[:, None, :]
        variables["attention"] = (("time", "query", "token"), class_attention(logits, chain.stationary))
    return make_record(
        dynamics="C: rank-one flow, embedded model",
        variables=variables | chain_variables(chain),
        coords={"time": solution.times, "lr_decoder": rates[0], "lr_attention": rates[1]},
        time_unit="steps of gradient descent at rate 1",
        config={"task": chain.name, "model": vars(model), "solver": solution.settings},
        wall_time=time.perf_counter() - started,
    )


def small_start(chain: MarkovChain, scale: float) -> RankOne:
    """A start of size `scale` that favours no sign of attention: queries only, so that keys grow either way."""
    gamma, beta = chain.stationary, chain.stationary - 1 / chain.n_vocab
    length = np.linalg.norm(beta) or 1.0  # a uniform law has no direction to condense to
    return RankOne(scale * gamma / np.linalg.norm(gamma), scale * beta / length, np.float64(scale), np.float64(0.0))


def velocity(point: RankOne, setting: Setting) -> RankOne:
    slope = jax.grad(loss)(point, setting)
    decoder, attention = -setting.lr_decoder, -setting.lr_attention
    return RankOne(decoder * slope.gamma, decoder * slope.beta, attention * slope.query, attention * slope.key)


def loss(point: RankOne, setting: Setting) -> Array:
    logits = setting.phi_scale * point.query * point.key * jnp.outer(point.gamma, point.gamma)
    return population_loss(Composite(jnp.outer(point.gamma, point.beta), logits), setting)


def _checked_start(start: RankOne, n_vocab: int) -> RankOne:
    given = RankOne(*(np.asarray(part, dtype=np.float64) for part in start))
    wanted = [(n_vocab,), (n_vocab,), (), ()]
    if [part.shape for part in given] != wanted or not all(np.isfinite(part).all() for part in given):
        raise InputError(f"`start` must be a RankOne of finite numbers of shapes {wanted}; got {[part.shape for part in given]}.")
    return given
