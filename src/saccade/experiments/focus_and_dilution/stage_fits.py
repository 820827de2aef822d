"""What the experiments on stages I to III share: starts, a run seen along one direction, windows
for rates.

Windows are set by one rule for all runs; the rule itself was revised after runs on other laws had
been seen. At their lower end, ten times the start, what does not grow is 1 % in square. At the
upper end the force has changed by about 1 %: next-token logits are a hundredth of what they will
be, or attention is a hundredth from where it was, or tokens have moved by a hundredth of how far
they are apart, which comes first where they are nearly equally frequent. Where there is no room
between the two, there is no rate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import xarray as xr
from numpy.typing import NDArray

import saccade
from saccade.engines.flat_flow import integrate
from saccade.engines.randomness import Purpose, generator
from saccade.errors import InputError
from saccade.lab.experiment import silent
from saccade.measures.fits import Array, between, first_index
from saccade.models.embedded import Weights, weights_of
from saccade.theories import focus_and_dilution as theory
from saccade.theories.condition import Condition

T = TypeVar("T")
ROOM = 10.0  # ends of the windows in the table above
CONDENSING = 0.1
LINEAR = 0.01
STEPS = "steps of gradient descent at rate 1"
ON_TIME = (
    0.5,
    1.5,
)  # of the predicted time of escape, which leaves out constants of order one; a flow has until the later
_SLOWEST = 1e-6  # of a focus rate: beyond it stage II would take ten million units of time


def conditions(
    chain: saccade.MarkovChain, stages: tuple[str, ...], init_scale: float = 0.0
) -> list[Condition]:
    """What the theory assumes for these stages, with what this chain and start have."""
    found = theory.check_assumptions(
        chain.stationary, chain.transition, n_context=np.inf, init_scale=init_scale
    )
    return [
        condition
        for condition in found
        if condition.name.removeprefix("stage ").partition(",")[0] in stages
    ]


def focus_rate(chain: saccade.MarkovChain) -> float:
    """Predicted rate c of a chain."""
    return theory.focus_rate(stationary=chain.stationary, transition=chain.transition)


def checked_moving(named: Mapping[str, saccade.MarkovChain]) -> None:
    """An error for a chain without persistence, on which attention never moves and stage II never
    ends.
    """
    if still := [name for name, chain in named.items() if abs(focus_rate(chain)) < _SLOWEST]:
        raise InputError(
            f"attention does not move on the chain {still[0]!r}, whose rate c is {focus_rate(named[still[0]]):.2g}; "
            "choose other frequencies or another stay."
        )


def near_unigram(chain: saccade.MarkovChain, size: float, seed: int) -> Weights:
    """The unigram point with query and key entries drawn from N(0, size^2), so that neither sign of
    attention is favoured.
    """
    model = saccade.models.Embedded(init_scale=size)
    drawn = model.initial(chain.n_vocab, generator(seed, Purpose.INITIALISATION))
    direction = np.eye(model.d_model)[0]
    point = theory.unigram_weights(
        stationary=chain.stationary, direction=direction, d_key=model.d_key
    )
    return Weights(point.embedding, drawn.query, drawn.key, point.projection)


def flow_from_unigram(
    chain: saccade.MarkovChain, size: float, seed: int, n_times: int
) -> xr.Dataset:
    """From the unigram point with tiny attention until, in the linear flow, queries have a size of
    a tenth.
    """
    t1 = np.log(0.1 / size) / abs(focus_rate(chain))
    return saccade.flow(
        chain,
        t1=t1,
        n_times=n_times,
        start=near_unigram(chain, size, seed),
    ).isel(seed=0)


def flow_from_random(
    chain: saccade.MarkovChain, scale: float, seed: int, n_times: int
) -> xr.Dataset:
    """From a small random start through stages I and II, until weights are of size one in the
    linear flow.
    """
    t1 = np.log(1 / scale) * (
        1 / abs(focus_rate(chain)) + 1 / theory.condensation_rate(stationary=chain.stationary)
    )
    return saccade.flow(
        chain, t1=t1, n_times=n_times, seeds=[seed], model=saccade.models.Embedded(init_scale=scale)
    ).isel(seed=0)


def until_left(
    flow: Callable[[float, int], T],
    left: Callable[[T], bool],
    t1: float,
    n_times: int,
    longest: float,
) -> T:
    """What `flow` gives to time t1; if that has not left by then, to twice that time, and so on,
    with samples as dense, at most to the longest time.
    """
    end = t1
    found = flow(t1, n_times)
    while not left(found) and end < longest:
        end = min(2 * end, longest)
        found = flow(end, int(n_times * end / t1))
    return found


def escape_time(rates: Sequence[float], init_scale: float, threshold: float) -> float:
    """When a flow leaves, by its stages' rates: each stage grows from the start to size one, the
    last one to the threshold.
    """
    folds = np.append(
        np.full(len(rates) - 1, np.log(1 / init_scale)), np.log(threshold / init_scale)
    )
    return float(np.sum(folds / np.asarray(rates)))


def accurate_flow(
    chain: saccade.MarkovChain, start: Weights, times: Array, scale: float
) -> Weights:
    """The flow at given times, with tolerances that suit a start of this size; for arrivals and
    orders that are read to many digits.
    """
    model = saccade.models.Embedded(
        chain,
        d_model=start.query.shape[0],
        d_key=start.query.shape[1],
    )
    found = integrate(
        model.equations(),
        start,
        times=times,
        unit=1.0,
        method="auto",
        most_for_lsoda=model.solver.most_for_lsoda,
        rtol=1e-11,
        atol=1e-12 * scale,
        on_progress=silent,
    )
    return Weights(*found.states)


def small_start(n_vocab: int, scale: float, seed: int, width: int) -> Weights:
    model = saccade.models.Embedded(
        init_scale=scale,
        d_model=width,
        d_key=width,
    )
    return model.initial(n_vocab, generator(seed, Purpose.INITIALISATION))


class Along(NamedTuple):
    """A run seen along one direction of the width."""

    time: Array
    gamma: Array  # time, token: the embedding along it
    query: Array  # time, key width: the query matrix along it
    key: Array  # time, key width
    strength: Array  # time: kappa, query times key
    scores: Array  # time, query, token: the attention logits Phi, whole
    sample: int = 0  # at which the direction was taken

    @property
    def query_size(self) -> Array:
        return np.linalg.norm(self.query, axis=1)

    @property
    def moved(self) -> Array:
        """Largest change of a token's share of the embedding since the sample, over half the range
        of shares then; 0 before it.
        """
        shape = self.gamma / np.linalg.norm(self.gamma, axis=1, keepdims=True)
        change = np.abs(shape - shape[self.sample]).max(axis=1) / (np.ptp(shape[self.sample]) / 2)
        return np.where(np.arange(len(self.time)) < self.sample, 0.0, change)

    @property
    def departure(self) -> Array:
        """From the linear regime: the largest attention logit, or how far tokens have moved."""
        return np.maximum(np.abs(self.scores).max(axis=(1, 2)), self.moved)


def along(run: xr.Dataset, sample: int = 0) -> Along:
    """One seed of a record of the embedded flow (attention logits unscaled), along its embedding's
    top direction at a sample.
    """
    embedding, query_matrix, key_matrix, _ = weights_of(run)
    direction = top_direction(embedding[sample])
    query = direction @ query_matrix
    key = direction @ key_matrix
    scores = (embedding @ query_matrix) @ np.swapaxes(embedding @ key_matrix, -1, -2)
    return Along(
        run.time.values,
        embedding @ direction,
        query,
        key,
        np.sum(query * key, axis=-1),
        scores,
        sample,
    )


def top_direction(embedding: Array) -> Array:
    """The direction along which a (token, width) embedding is largest, towards token 0."""
    direction = np.linalg.svd(embedding)[2][0]
    return direction * np.sign(embedding[0] @ direction)


def settled(run: xr.Dataset, stationary: Array) -> int:
    """The sample at which the plateau is reached: the embedding has 99.9 % of its norm at the
    unigram point.
    """
    return first_index(
        np.linalg.norm(run.embedding.values, axis=(1, 2)),
        0.999 * theory.embedding_norm(stationary=stationary),
    )


def condensation_window(top: Array, stationary: Array) -> NDArray[np.bool_]:
    """From ten times the start of the embedding's first singular value until before a tenth of its
    norm at the unigram point.
    """
    return between(top, ROOM * top[0], CONDENSING * theory.embedding_norm(stationary=stationary))


def attention_window(path: Along, plateau: int = 0) -> NDArray[np.bool_]:
    """From where queries along the direction are ten times their start, the plateau reached at
    sample `plateau`, until before the linear regime is left.
    """
    on_plateau = np.arange(len(path.time)) >= plateau
    queries = path.query_size
    return (
        on_plateau
        & between(queries, ROOM * queries[0], np.inf)
        & between(path.departure, 0.0, LINEAR)
    )


def linear_end(path: Along) -> int:
    """The first sample past the linear regime of attention; the last if it is never left."""
    return first_index(path.departure, LINEAR)
