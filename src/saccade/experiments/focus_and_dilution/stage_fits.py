"""What several experiments on stages I to III measure alike: a run seen along one direction, windows, rates, times.

A rate is fitted over a window that a rule sets, never a person looking at a run:

| window       | from                                              | until before                                    |
|--------------|---------------------------------------------------|-------------------------------------------------|
| condensation | embedding ten times its start                     | it has a tenth of its norm at the unigram point |
| attention    | queries along the direction ten times their start | the largest attention logit is 0.01             |
|              | and the plateau reached                           |                                                 |

At the lower end what does not grow is 1 % in square. At the upper end the force has changed by about 1 %: next-token logits are a
hundredth of what they will be, or attention a hundredth from where it was. Where there is no room between the two, there is no
rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

import saccade
from saccade.errors import InputError
from saccade.theory import focus_and_dilution as theory
from saccade.theory.condition import Condition

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]
ROOM, CONDENSING, LINEAR = 10.0, 0.1, 0.01  # ends of the windows in the table above
_SLOWEST = 1e-6  # of a focus rate: beyond it stage II would take ten million units of time
_LEAST_SAMPLES = 5  # for a rate; fewer are no fit

LAWS = ("paper", "zipf-6")


def chains(stays: Sequence[float]) -> dict[str, saccade.MarkovChain]:
    """The paper's law and Zipf's law on six tokens as lazy chains, the two that the stages are looked at on."""
    return dict(zip(LAWS, (saccade.MarkovChain.paper(stays[0]), saccade.MarkovChain.zipf(6, stays[1])), strict=True))


def conditions(chain: saccade.MarkovChain, stages: tuple[str, ...], init_scale: float = 0.0) -> list[Condition]:
    """What the theory assumes for these stages, with what this chain and start have."""
    found = theory.check_assumptions(chain.stationary, chain.transition, n_context=np.inf, init_scale=init_scale)
    return [condition for condition in found if condition.name.split()[0] in stages]


def conditions_met(chain: saccade.MarkovChain, stages: tuple[str, ...], init_scale: float = 0.0) -> dict[str, bool]:
    """What the theory assumes for these stages, and whether this chain and start meet it."""
    found = theory.check_assumptions(chain.stationary, chain.transition, n_context=np.inf, init_scale=init_scale)
    return {condition.name: condition.holds for condition in found if condition.name.split()[0] in stages}


def focus_rate(chain: saccade.MarkovChain) -> float:
    """Predicted rate c of a chain."""
    return theory.focus_rate(stationary=chain.stationary, transition=chain.transition)


def checked_moving(named: Mapping[str, saccade.MarkovChain]) -> None:
    """An error for a chain without persistence, on which attention never moves and stage II never ends."""
    if still := [name for name, chain in named.items() if abs(focus_rate(chain)) < _SLOWEST]:
        raise InputError(
            f"attention does not move on the chain {still[0]!r}, whose rate c is {focus_rate(named[still[0]]):.2g}; "
            "choose another law or another chance to stay."
        )


def near_unigram(chain: saccade.MarkovChain, size: float, seed: int) -> Any:
    """The unigram point with query and key entries drawn from N(0, size^2), so that neither sign of attention is favoured."""
    from saccade.dynamics.randomness import Purpose, generator
    from saccade.model.embedded import Weights

    model = saccade.Embedded(init_scale=size)
    drawn = model.initial(chain.n_vocab, generator(seed, Purpose.INITIALISATION))
    direction = np.eye(model.d_model)[0]
    point = theory.unigram_weights(stationary=chain.stationary, direction=direction, d_key=model.d_key)
    return Weights(point.embedding, drawn.query, drawn.key, point.projection)


class Along(NamedTuple):
    """A run seen along one direction of the width."""

    time: Array
    gamma: Array  # time, token: the embedding along it
    query: Array  # time, key width: the query matrix along it
    key: Array  # time, key width
    strength: Array  # time: kappa, query times key
    scores: Array  # time, query, token: the attention logits Phi, whole


def along(run: xr.Dataset, direction: Array) -> Along:
    """One seed of a record of the embedded flow (attention logits unscaled)."""
    from saccade.dynamics.embedded_flow import weights_of

    embedding, query_matrix, key_matrix, _ = weights_of(run)
    query, key = direction @ query_matrix, direction @ key_matrix
    scores = (embedding @ query_matrix) @ np.swapaxes(embedding @ key_matrix, -1, -2)
    return Along(run.time.values, embedding @ direction, query, key, np.sum(query * key, axis=-1), scores)


def top_direction(embedding: Array) -> Array:
    """The direction along which a (token, width) embedding is largest, towards token 0."""
    direction = np.linalg.svd(embedding)[2][0]
    return direction * np.sign(embedding[0] @ direction)


def settled(run: xr.Dataset, stationary: Array) -> int:
    """The sample at which the plateau is reached: the embedding has 99.9 % of its norm at the unigram point."""
    return first_index(np.linalg.norm(run.embedding.values, axis=(1, 2)), 0.999 * theory.embedding_norm(stationary=stationary))


def first_index(values: Array, level: float) -> int:
    """The first sample that reaches a level; the last if none does."""
    reached = values >= level
    return int(np.argmax(reached)) if reached.any() else len(values) - 1


def reaching_time(time: Array, values: Array, level: float) -> float:
    """When values first reach a level, on a straight line between samples; NaN if they never do."""
    i = first_index(values, level)
    if values[i] < level or i == 0:
        return np.nan if values[i] < level else float(time[0])
    return float(np.interp(level, values[i - 1 : i + 1], time[i - 1 : i + 1]))


def between(values: Array, low: float, high: float) -> NDArray[np.bool_]:
    """Samples from where values first reach `low` until before they first reach `high`."""
    return np.logical_or.accumulate(values >= low) & ~np.logical_or.accumulate(values >= high)


def attention_window(query_size: Array, largest_logit: Array, plateau: int = 0) -> NDArray[np.bool_]:
    """The attention window of a run that reaches the plateau at sample `plateau`."""
    on_plateau = np.arange(len(query_size)) >= plateau
    return on_plateau & between(query_size, ROOM * query_size[0], np.inf) & between(largest_logit, 0.0, LINEAR)


def linear_end(path: Along) -> int:
    """The first sample past the linear regime of attention; the last if it is never left."""
    return first_index(np.abs(path.scores).max(axis=(1, 2)), LINEAR)


def linear_attention_window(path: Along, plateau: int = 0) -> NDArray[np.bool_]:
    """The same, from a path."""
    return attention_window(np.linalg.norm(path.query, axis=1), np.abs(path.scores).max(axis=(1, 2)), plateau)


def growth_rate(time: Array, values: Array, inside: NDArray[np.bool_]) -> float:
    """Slope of log values against time inside a window, by least squares; NaN where there is no window."""
    if inside.sum() < _LEAST_SAMPLES:
        return np.nan
    return float(np.polyfit(time[inside], np.log(values[inside]), 1)[0])


def power(x: ArrayLike, y: ArrayLike) -> float:
    """p in y ~ x^p, by least squares of the logarithms; NaN for too few values."""
    if np.size(x) < 2:
        return np.nan
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def slope(x: ArrayLike, y: ArrayLike) -> float:
    """Slope of y against x, by least squares."""
    return float(np.polyfit(np.asarray(x, float), np.asarray(y, float), 1)[0])


def first_turn(time: Array, values: Array, first: int) -> float:
    """When values have their first maximum after sample `first`, by the parabola through three samples; NaN if they have none."""
    inner = np.flatnonzero((values[1:-1] > values[:-2]) & (values[1:-1] >= values[2:])) + 1
    inner = inner[inner > first]
    if not len(inner):
        return np.nan
    i = inner[0]
    bend, tilt, _ = np.polyfit(time[i - 1 : i + 2] - time[i], values[i - 1 : i + 2] - values[i], 2)
    return float(time[i] - tilt / (2 * bend))


def furthest(values: ArrayLike, target: ArrayLike) -> float:
    """The value furthest from its target; NaN counts as furthest."""
    flat = np.ravel(values)
    return float(flat[np.argmax(np.abs(flat - np.ravel(target)))])
