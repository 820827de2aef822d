"""Lemma 3.1 put to the test: the flow against the linear flow at the origin, at the unigram point and at a plateau further on.

Displacements are one random direction at several scales. The time is measured in e-folds of the fastest mode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import saccade
from saccade.experiments.focus_and_dilution.openings import Path, opening_index
from saccade.theory import focus_and_dilution as theory

if TYPE_CHECKING:
    from saccade.model.embedded import Weights

Array = NDArray[np.float64]
POINTS = ("origin", "unigram point")
FOLDS = 3.0  # e-folds of the fastest mode after which errors at different scales are compared
_BLOCKS = {"embedding": ["embedding"], "projection": ["projection"], "attention": ["query", "key"]}


class Departure(NamedTuple):
    """One random displacement at several scales, from one critical point. Fields are defined in `DEFINITIONS`."""

    time: Array
    error: Array
    size: Array
    error_at: Array
    misalignment: Array
    constant: Array


AXES = {"time": ("sample",), "error": ("scale", "sample"), "size": ("scale", "sample")}  # the others: scale
DEFINITIONS = {
    "time": ("steps of gradient descent at rate 1", "since the displacement"),
    "error": ("1", "norm of the difference between the flow and the linear flow"),
    "size": ("1", "norm of the displacement in the linear flow"),
    "error_at": ("1", f"the error after {FOLDS:g} e-folds of the fastest mode"),
    "misalignment": ("1", "tangent of the angle to the growing modes at ln(1/scale) / 2 mu"),
    "constant": ("1", "C of Lemma 3.1: largest error / (scale^2 e^(2 mu t))"),
}


class Point(NamedTuple):
    """Modes of a critical point."""

    residual: float
    n_unstable: int
    rates: Array  # mode: of the unstable ones
    attention_share: float  # the least that any unstable mode has of query and key


def setting(chain: saccade.MarkovChain) -> Any:
    from saccade.dynamics.embedded_flow import Setting

    return Setting(chain.stationary, chain.transition, 1.0, 1.0, 1.0)


def start_of(path: Path) -> Weights:
    from saccade.model.embedded import Weights

    return Weights(*(matrix[0] for matrix in path.weights))


def critical_weights(chain: saccade.MarkovChain, name: str, start: Weights) -> Weights:
    """The critical point by its closed form, in the direction that a flow from `start` would condense to."""
    from saccade.model.embedded import Weights

    if name == "origin":
        return Weights(*(np.zeros_like(matrix) for matrix in start))
    direction = theory.condensed_direction(start.embedding, start.projection, stationary=chain.stationary)
    return Weights(*theory.unigram_weights(stationary=chain.stationary, direction=direction, d_key=start.query.shape[1]))


def point_modes(chain: saccade.MarkovChain, weights: Weights) -> Point:
    from saccade.dynamics.embedded_flow import velocity
    from saccade.dynamics.linearise import spectrum, speed

    found = spectrum(velocity, weights, setting(chain), blocks=_BLOCKS)
    share = found.shares["attention"][: found.n_unstable]
    residual = speed(velocity, weights, setting(chain))
    return Point(residual, found.n_unstable, found.growth_rates, float(share.min(initial=np.inf)))


def departure(chain: saccade.MarkovChain, weights: Weights, start: Weights, scales: list[float], n_samples: int) -> Departure:
    from saccade.dynamics.embedded_flow import velocity
    from saccade.dynamics.linear_validity import linear_validity
    from saccade.dynamics.linearise import spectrum

    found = spectrum(velocity, weights, setting(chain))
    mu, growing = found.growth_rates[0], found.unstable_subspace
    times = np.linspace(0, max(FOLDS, np.log(1 / min(scales)) / 2) / mu, n_samples)
    unit = type(start)(*(matrix / np.sqrt(sum(np.sum(part**2) for part in start)) for matrix in start))
    runs = [
        linear_validity(velocity, weights, type(unit)(*(scale * matrix for matrix in unit)), setting(chain), times)
        for scale in scales
    ]
    return Departure(
        time=times,
        error=np.stack([run.error for run in runs]),
        size=np.stack([np.linalg.norm(run.linear, axis=1) for run in runs]),
        error_at=np.array([np.interp(FOLDS / mu, times, run.error) for run in runs]),
        misalignment=np.array(
            [_misalignment(run.full, growing, times, mu, scale) for run, scale in zip(runs, scales, strict=True)]
        ),
        constant=np.array([run.constant for run in runs]),
    )


def _misalignment(displacement: Array, growing: Array, times: Array, mu: float, scale: float) -> float:
    r"""Tangent of the angle to the growing modes at $t = \ln(1/\epsilon)/2\mu$, half-way to a displacement of size one.

    What does not grow is then $\sqrt\epsilon$ of what does, and so is the error of the linear flow.
    """
    inside = displacement @ growing
    outside = np.linalg.norm(displacement - inside @ growing.T, axis=1)
    return float(np.interp(np.log(1 / scale) / (2 * mu), times, outside / np.linalg.norm(inside, axis=1)))


class Plateau(NamedTuple):
    """The critical point next to a run that is about to open a direction, found from the run."""

    residual: float
    rates: Array  # mode: the d_model - rank fastest of its Jacobian
    predicted_rate: float  # s_1(B) there


def plateau_point(chain: saccade.MarkovChain, path: Path, rank: int, fraction: float) -> Plateau | None:
    """Newton's method from the weights of the opening of direction `rank`, without that direction."""
    from saccade.dynamics.embedded_flow import velocity
    from saccade.dynamics.linearise import critical_point, spectrum
    from saccade.model.embedded import Weights

    i = opening_index(path, rank, fraction)
    if i is None:
        return None
    used = path.directions[i, :rank].T @ path.directions[i, :rank]
    W0, WQ, WK, W1 = (matrix[i] for matrix in path.weights)
    found = critical_point(velocity, Weights(W0 @ used, used @ WQ, used @ WK, used @ W1), setting(chain))
    rates = spectrum(velocity, found.state, setting(chain)).eigenvalues[: len(used) - rank]
    W0, WQ, WK, W1 = found.state
    following = theory.next_direction(W0, WQ, WK, W1, stationary=path.stationary, transition=path.transition)
    return Plateau(found.residual, rates, following.rate)
