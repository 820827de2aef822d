r"""Dynamics (B) of the embedded model: gradient flow of the population loss, all four matrices moving.

$$\dot W_0 = -\eta\, \partial_{W_0} L, \quad \dot W_1 = -\eta\, \partial_{W_1} L, \quad
  \dot W_Q = -\eta_A\, \partial_{W_Q} L, \quad \dot W_K = -\eta_A\, \partial_{W_K} L,$$

with $L$ the mean cross-entropy over the stationary law. The flow waits near critical points and leaves them exponentially fast, so
it is stiff: LSODA with JAX's Jacobian, in the time of `log_time.py`. Two matrices are conserved exactly, and tell how good a
solution is (`invariants`):

$$C_1 = W_0^\top W_0 - W_1 W_1^\top - \tfrac{\eta}{\eta_A} (W_Q W_Q^\top + W_K W_K^\top), \qquad
  C_2 = W_Q^\top W_Q - W_K^\top W_K.$$
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from saccade.data.markov import MarkovChain
from saccade.dynamics.log_time import Solution, checked_rates, solve
from saccade.dynamics.randomness import Purpose, checked_seeds, generator
from saccade.errors import InputError, checked_kept, checked_kind
from saccade.model.embedded import Embedded, Weights, composite, population_loss
from saccade.observe.measures import class_attention

if TYPE_CHECKING:
    import xarray as xr

WEIGHTS = {
    "embedding": ("token", "width"),
    "query_matrix": ("width", "key_width"),
    "key_matrix": ("width", "key_width"),
    "projection": ("width", "next_token"),
}
KEEPABLE = ("attention", *WEIGHTS)
# LSODA factorises its matrices without blocking: at 224 unknowns (6 tokens) it needs 2 s where BDF needs 3, at 640 (32 tokens) 48 s
# where BDF needs 27. Its error is smaller at equal tolerances.
_MOST_UNKNOWNS_FOR_LSODA = 450


class Setting(NamedTuple):
    """What the velocity depends on beside the weights; an argument of the compiled code, so that one shape is compiled once."""

    stationary: Any
    transition: Any
    phi_scale: Any
    lr_decoder: Any
    lr_attention: Any


def flow(
    chain: MarkovChain,
    *,
    t1: float = 5000.0,
    lr_decoder: float = 1.0,
    lr_attention: float = 1.0,
    n_times: int = 1500,
    model: Embedded | None = None,
    seeds: int | Sequence[int] = 1,
    start: Weights | None = None,
    method: str = "auto",
    rtol: float = 1e-10,
    atol: float = 1e-12,
    keep: Sequence[str] = KEEPABLE,
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> xr.Dataset:
    """Population gradient flow from t = 0 to `t1` for each seed, recorded at 0 and at `n_times` log-spaced times.

    | argument       | meaning                                                                                       |
    |----------------|-----------------------------------------------------------------------------------------------|
    | `lr_decoder`   | rate of embedding and projection; a unit of time is a step of gradient descent at rate 1      |
    | `lr_attention` | rate of the query and key matrices                                                            |
    | `model`        | `Embedded(...)`: widths, initial scale, scale of the attention logits                         |
    | `seeds`        | a count or a list; each draws its own start                                                   |
    | `start`        | weights to begin from instead; then there is one run, and `seeds` only names it               |
    | `method`       | SciPy's LSODA, BDF or Radau (with JAX's Jacobian) or DOP853; auto: by the number of unknowns  |
    | `rtol`, `atol` | local error allowed in each step; the defaults hold both invariants to 1e-8                   |
    | `keep`         | of `attention` and the four weight matrices; the loss is always kept                          |
    """
    started = time.perf_counter()
    checked_kept(keep, KEEPABLE)
    checked_kind("chain", chain, MarkovChain)
    model = Embedded() if model is None else checked_kind("model", model, Embedded)
    rates = checked_rates(lr_decoder, lr_attention)
    names = checked_seeds(seeds)
    starts = _starts(chain, model, names, start)
    if method == "auto" and sum(matrix.size for matrix in starts[0]) > _MOST_UNKNOWNS_FOR_LSODA:
        method = "BDF"
    setting = Setting(chain.stationary, chain.transition, model.phi_scale, *rates)
    solutions = [
        solve(
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
            on_progress=lambda fraction, done=done: on_progress((done + fraction) / len(starts)),  # type: ignore[misc]
        )
        for done, first in enumerate(starts)
    ]
    config = {"model": vars(model), "start": "random" if start is None else "given", "solver": solutions[0].settings}
    return _record(chain, model, solutions, names, keep, rates, config, time.perf_counter() - started)


def velocity(weights: Weights, setting: Setting) -> Weights:
    slope = jax.grad(loss)(weights, setting)
    decoder, attention = -setting.lr_decoder, -setting.lr_attention
    return Weights(decoder * slope.embedding, attention * slope.query, attention * slope.key, decoder * slope.projection)


def loss(weights: Weights, setting: Setting) -> Array:
    return population_loss(composite(weights, setting.phi_scale), setting)


def invariants(weights: Weights, *, lr_decoder: float = 1.0, lr_attention: float = 1.0) -> tuple[NDArray, NDArray]:
    """C1 and C2 of weights with any leading axes; constant along the flow, so their drift is the solver's error."""
    embedding, query, key, projection = (np.asarray(matrix) for matrix in weights)

    def gram(matrix: NDArray) -> NDArray:
        return np.swapaxes(matrix, -1, -2) @ matrix

    attention = gram(np.swapaxes(query, -1, -2)) + gram(np.swapaxes(key, -1, -2))
    first = gram(embedding) - gram(np.swapaxes(projection, -1, -2)) - lr_decoder / lr_attention * attention
    return first, gram(query) - gram(key)


def weights_of(record: xr.Dataset) -> Weights:
    """The weight matrices kept in a record, with whatever leading axes are left in it."""
    return Weights(*(record[name].values for name in WEIGHTS))


def chain_variables(chain: MarkovChain) -> dict[str, Any]:
    """The data itself, so that a record can be read without the code that made it."""
    return {"stationary": (("token",), chain.stationary), "transition": (("token", "next_token"), chain.transition)}


def _starts(chain: MarkovChain, model: Embedded, seeds: list[int], start: Weights | None) -> list[Weights]:
    if start is None:
        return [model.initial(chain.n_vocab, generator(seed, Purpose.INITIALISATION)) for seed in seeds]
    given = Weights(*(np.asarray(matrix, dtype=np.float64) for matrix in start))
    wanted = [matrix.shape for matrix in model.initial(chain.n_vocab, generator(0, Purpose.INITIALISATION))]
    if [matrix.shape for matrix in given] != wanted:
        raise InputError(f"`start` must have the shapes {wanted} for this chain and model; got {[m.shape for m in given]}.")
    if len(seeds) > 1:
        raise InputError("`start` gives the one place to begin from: leave `seeds` at 1.")
    return [given]


def _record(
    chain: MarkovChain,
    model: Embedded,
    solutions: list[Solution],
    seeds: list[int],
    keep: Sequence[str],
    rates: tuple[float, float],
    config: dict[str, Any],
    wall_time: float,
) -> xr.Dataset:
    from saccade.records.schema import make_record  # xarray loads only now, when the work is done

    states = Weights(*(np.stack(parts) for parts in zip(*(solution.states for solution in solutions), strict=True)))
    series = dict(zip(WEIGHTS, states, strict=True))
    variables: dict[str, Any] = {
        "loss": (("seed", "time"), np.stack([solution.loss for solution in solutions])),
        "stop_reason": (("seed",), [solution.stop_reason for solution in solutions]),
        "stop_time": (("seed",), [solution.stop_time for solution in solutions]),
    }
    variables |= {name: (("seed", "time", *WEIGHTS[name]), series[name]) for name in WEIGHTS if name in keep}
    if "attention" in keep:
        variables["attention"] = (("seed", "time", "query", "token"), population_attention(states, model, chain))
    return make_record(
        dynamics="B: population gradient flow, embedded model",
        variables=variables | chain_variables(chain),
        coords={"time": solutions[0].times, "seed": seeds, "lr_decoder": rates[0], "lr_attention": rates[1]},
        time_unit="steps of gradient descent at rate 1",
        config={"task": chain.name, **config},
        wall_time=wall_time,
    )


def population_attention(weights: Weights, model: Embedded, chain: MarkovChain) -> NDArray:
    """A_ij of weights with any leading axes, in NumPy."""
    queries, keys = weights.embedding @ weights.query, weights.embedding @ weights.key
    return class_attention(model.phi_scale * queries @ np.swapaxes(keys, -1, -2), chain.stationary)
