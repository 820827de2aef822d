"""Derivatives of the saturated model's loss by JAX, and how it changes as rare tokens move apart.

Derivatives are for three tokens of masses (π₁, (1 - π₁)/2 + δ, (1 - π₁)/2 - δ) on the rank-one
manifold, in the coordinates (γ, β, δ). What theory says of them is not here (`formulas/saturated.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array as Traced

import saccade
from saccade.experiments.focus_and_dilution.embedded_gradients import setting
from saccade.measures.fits import Array
from saccade.models import embedded, saturated
from saccade.models.embedded import Composite, Setting, Weights
from saccade.theories import focus_and_dilution as theory


class Triple(NamedTuple):
    """Mass of token 0, stay, strength of attention."""

    high: float
    stay: float
    strength: float


class Jet(NamedTuple):
    """Loss and minus its derivatives of first to third order, at one point: force, its Jacobian,
    its second differential.

    The last of the seven coordinates is the asymmetry.
    """

    loss: float
    force: Array
    slope: Array
    bend: Array


class Variations(NamedTuple):
    """Attention and both composite gradients at a point, or their derivatives in the
    seven coordinates (last axis).
    """

    attention: Array
    decoder_gradient: Array
    logit_gradient: Array


def jet(triple: Triple, theta: Array, asymmetry: float = 0.0) -> Jet:
    """At θ = (γ, β)."""
    return _evaluated(_jet, triple, theta, asymmetry)


def variations(
    triple: Triple, theta: Array, asymmetry: float = 0.0
) -> tuple[Variations, Variations]:
    """The three arrays, and their derivatives."""
    return _evaluated(_variations, triple, theta, asymmetry)


def solved(triple: Triple, basis: Array, theta: Array, asymmetry: float = 0.0) -> Array:
    """The point near θ, along the columns of `basis` from it, where the force has no component
    along them; by Newton's method.
    """
    for _ in range(8):
        here = jet(triple, theta, asymmetry)
        theta = theta - basis @ np.linalg.solve(
            basis.T @ here.slope[:6, :6] @ basis, basis.T @ here.force[:6]
        )
    return theta


def descent(chain: saccade.MarkovChain, state: theory.RankOneState, contrast: Array) -> float:
    """Change of the loss when rare tokens of any number move apart by `contrast` and the rest
    follows to the minimum, by Newton's method: γ₁, the mean of γ_l, and β but for its mean and the
    gap between token 0 and the mean of the others.
    """
    around = setting(chain)
    scale = np.array([[state.query_scale]])
    basis = np.linalg.qr(np.eye(len(contrast)) - 1 / len(contrast))[0][:, :-1]

    def of(z: Any, x: Array) -> Traced:
        gamma = jnp.append(z[0], z[1] + x)
        beta = jnp.append(state.beta[0], state.beta[1:] + basis @ z[2:])
        return saturated.loss(Weights(gamma[:, None], scale, scale, beta[None]), around)

    gradient = jax.jit(jax.grad(of))
    hessian = jax.jit(jax.hessian(of))
    with jax.enable_x64(True):
        start = z = np.append(state.gamma[:2], np.zeros(basis.shape[1]))
        for _ in range(6):
            z = z - np.linalg.solve(hessian(z, contrast), gradient(z, contrast))
        return float(of(z, contrast) - of(start, 0 * contrast))


def _evaluated(function: Any, triple: Triple, theta: Array, asymmetry: float) -> Any:
    with jax.enable_x64(True):
        return jax.tree.map(
            np.asarray, function(np.append(theta, asymmetry), Triple(*map(np.float64, triple)))
        )


def _parts(z: Traced, triple: Triple) -> tuple[Weights, Setting]:
    low = (1 - triple.high) / 2
    scale = jnp.sqrt(triple.strength) * jnp.ones((1, 1))
    law = jnp.stack([triple.high, low + z[6], low - z[6]])
    chain = Setting(law, triple.stay * jnp.eye(3) + (1 - triple.stay) * law, 1.0, 1.0, 1.0)
    return Weights(z[:3, None], scale, scale, z[None, 3:6]), chain


def _loss(z: Traced, triple: Triple) -> Traced:
    return saturated.loss(*_parts(z, triple))


@jax.jit
def _jet(z: Traced, triple: Triple) -> Any:
    first = jax.jacfwd(_loss)
    second = jax.jacfwd(first)
    third = jax.jacfwd(second)(z, triple)
    parts: Any = _loss(z, triple), -first(z, triple), -second(z, triple), -third
    return Jet(*parts)


@jax.jit
def _variations(z: Traced, triple: Triple) -> Any:
    def values(z: Traced) -> Variations:
        weights, chain = _parts(z, triple)
        matrices = embedded.composite(weights, 1.0)
        logits = saturated.saturated(matrices).attention_logits + jnp.log(chain.stationary)
        slope = jax.grad(lambda m: embedded.population_loss(saturated.saturated(m), chain))(
            Composite(*matrices)
        )
        parts: Any = jax.nn.softmax(logits, axis=-1), slope.decoder, slope.attention_logits
        return Variations(*parts)

    return values(z), jax.jacfwd(values)(z)
