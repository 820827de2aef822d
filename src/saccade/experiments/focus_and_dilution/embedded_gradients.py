"""The embedded model's gradients as JAX finds them, at single points: what closed forms and finite
differences are held against.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

import saccade
from saccade.models import embedded
from saccade.models.embedded import Composite, Setting, Weights
from saccade.theories import focus_and_dilution as theory

# The error of a central difference is at most about step^2 / 6 times the third derivative, plus
# rounding, 1e-16 / step.
_STEP = 2e-6
# compiled: outside compiled code JAX would compile every operation by itself
_velocity = jax.jit(embedded.velocity)
slope_at = jax.jit(jax.grad(embedded.population_loss))


class GradientGaps(NamedTuple):
    """Largest difference of any entry of the velocity, over all four matrices."""

    finite_difference: float
    closed_form: float


def setting(chain: saccade.MarkovChain) -> Setting:
    """A chain as the flow of the embedded model takes it: unscaled logits, all rates 1."""
    return Setting(chain.stationary, chain.transition, 1.0, 1.0, 1.0)


def velocity(weights: Any, chain: saccade.MarkovChain) -> list[NDArray[np.float64]]:
    """Velocity of embedding, query, key and projection at rate 1, in float64."""
    with jax.enable_x64(True):
        return [np.asarray(matrix) for matrix in _velocity(Weights(*weights), setting(chain))]


def decoder_force(chain: saccade.MarkovChain) -> NDArray[np.float64]:
    """Minus the gradient in M where all weights are zero. That in Phi is zero there, whatever the
    chain.
    """
    with jax.enable_x64(True):
        nothing = np.zeros((chain.n_vocab, chain.n_vocab))
        return -np.asarray(slope_at(Composite(nothing, nothing), setting(chain)).decoder)


def gradient_gaps(chain: saccade.MarkovChain, seed: int) -> GradientGaps:
    """At random weights of size one and of odd widths, where attention and predictions are far from
    flat.
    """
    rng = np.random.default_rng(seed)
    n = chain.n_vocab
    weights = [rng.normal(size=shape) for shape in ((n, 7), (7, 3), (7, 3), (7, n))]
    found = velocity(weights, chain)
    closed = theory.weight_velocities(
        *weights, stationary=chain.stationary, transition=chain.transition
    )
    differences = _differences(weights, chain)
    return GradientGaps(
        *(
            max(float(np.abs(a - b).max()) for a, b in zip(found, other))
            for other in (differences, closed)
        )
    )


def _differences(
    weights: list[NDArray[np.float64]], chain: saccade.MarkovChain
) -> list[NDArray[np.float64]]:
    """Minus the central differences of the closed-form loss in every entry, all at once."""
    flat = np.concatenate([matrix.ravel() for matrix in weights])
    ends = np.cumsum([matrix.size for matrix in weights])[:-1]
    moved = flat + _STEP * np.concatenate([np.eye(len(flat)), -np.eye(len(flat))])
    stacks = [
        part.reshape(-1, *matrix.shape)
        for part, matrix in zip(np.split(moved, ends, axis=1), weights)
    ]
    up, down = np.split(
        theory.population_loss(*stacks, stationary=chain.stationary, transition=chain.transition), 2
    )
    return [
        part.reshape(matrix.shape)
        for part, matrix in zip(np.split(-(up - down) / (2 * _STEP), ends), weights)
    ]


def attention_force(chain: saccade.MarkovChain) -> NDArray[np.float64]:
    """Velocity of each token's embedding per unit of strength at the unigram point, by a central
    difference in the strength.
    """
    strength = 1e-5
    across = np.zeros((2, 2))
    across[0, 0] = np.sqrt(strength)
    point = theory.unigram_weights(
        stationary=chain.stationary, direction=np.array([1.0, 0.0]), d_key=2
    )
    up, down = (
        velocity((point.embedding, across, sign * across, point.projection), chain)[0][:, 0]
        for sign in (1, -1)
    )
    return (up - down) / (2 * strength)
