"""Derivatives of the saturated model's loss by JAX, and how far the formulas of Appendix D are from
them.

Three tokens of masses (π₁, (1 - π₁)/2 + δ, (1 - π₁)/2 - δ) on the rank-one manifold, in the
coordinates (γ, β, δ); and the whole Jacobian for any chain.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array as Traced

import saccade
from saccade.dynamics.linearise import jacobian, speed
from saccade.model import embedded, saturated
from saccade.model.embedded import Composite, Setting, Weights
from saccade.observe.fits import Array
from saccade.theory import focus_and_dilution as theory
from saccade.theory.focus_and_dilution import stage_four as stated

FORMULAS = {  # of Appendix D, in the order of `formula_gaps`: the statement, and what is compared
    "gradients": (stated.LEMMA_D_4, "|∂L/∂M| and |∂L/∂Φ| at the saturated point"),
    "variations": (stated.LEMMA_D_5, "dA, dp, d ∂L/∂M and d ∂L/∂Φ, largest gap"),
    "J0": (stated.LEMMA_D_6, "J₀, largest gap"),
    "kernel": (stated.PROPOSITION_D_1, "|J₀k| on the kernel, whatever |γ| and |β|"),
    "range": (
        stated.PROPOSITION_D_1,
        "range against kernel, largest product, whatever |γ| and |β|",
    ),
    "f1": (stated.LEMMA_D_7, "f₁ and ∂/∂δ of ∂L/∂M, largest gap"),
    "J0 on range": (stated.LEMMA_D_8, "second row of J₀ on its range, largest gap"),
    "J1": (stated.LEMMA_D_9, "J₁, largest gap"),
    "J1 on q2": (stated.LEMMA_D_10, "kernel part of J₁q₂, largest gap"),
    "B": (stated.LEMMA_D_11, "third derivatives of the loss, largest gap"),
    "variance": (stated.LEMMA_D_12, "|d Var(A_l)|"),
    "B on q2": (stated.LEMMA_D_13, "kernel part of B(q₂, q₂)/2, largest gap"),
    "f2": (stated.LEMMA_D_14, "|f₂|"),
    "H1": (stated.LEMMA_D_15, "H₁/δ, largest gap"),
    "H1 on kernel": (stated.LEMMA_D_16, "H₁/δ on the kernel, largest entry"),
}


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
    """Attention, predictions and both composite gradients at a point, or their derivatives in the
    seven coordinates (last axis).
    """

    attention: Array
    prediction: Array
    decoder_gradient: Array
    logit_gradient: Array


def jet(triple: Triple, theta: Array, asymmetry: float = 0.0) -> Jet:
    """At θ = (γ, β)."""
    return Jet(*_evaluated(_jet, triple, theta, asymmetry))


def variations(
    triple: Triple, theta: Array, asymmetry: float = 0.0
) -> tuple[Variations, Variations]:
    """The four arrays, and their derivatives."""
    values, slopes = _evaluated(_variations, triple, theta, asymmetry)
    return Variations(*values), Variations(*slopes)


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
    setting, scale = (
        Setting(chain.stationary, chain.transition, 1.0, 1.0, 1.0),
        np.array([[state.query_scale]]),
    )
    basis = np.linalg.qr(np.eye(len(contrast)) - 1 / len(contrast))[0][:, :-1]

    def of(z: Any, x: Array) -> Traced:
        gamma, beta = (
            jnp.append(z[0], z[1] + x),
            jnp.append(state.beta[0], state.beta[1:] + basis @ z[2:]),
        )
        return saturated.loss(Weights(gamma[:, None], scale, scale, beta[None]), setting)

    with jax.enable_x64(True):
        start = z = np.append(state.gamma[:2], np.zeros(basis.shape[1]))
        for _ in range(6):
            z = z - np.linalg.solve(jax.hessian(of)(z, contrast), jax.grad(of)(z, contrast))
        return float(of(z, contrast) - of(start, 0 * contrast))


def _evaluated(function: Any, triple: Triple, theta: Array, asymmetry: float) -> Any:
    with jax.enable_x64(True):
        return jax.tree.map(
            np.asarray, function(np.append(theta, asymmetry), Triple(*map(np.float64, triple)))
        )


def _parts(z: Traced, triple: Triple) -> tuple[Weights, Setting]:
    low, scale = (1 - triple.high) / 2, jnp.sqrt(triple.strength) * jnp.ones((1, 1))
    law = jnp.stack([triple.high, low + z[6], low - z[6]])
    chain = Setting(law, triple.stay * jnp.eye(3) + (1 - triple.stay) * law, 1.0, 1.0, 1.0)
    return Weights(z[:3, None], scale, scale, z[None, 3:6]), chain


def _loss(z: Traced, triple: Triple) -> Traced:
    return saturated.loss(*_parts(z, triple))


@jax.jit
def _jet(z: Traced, triple: Triple) -> tuple[Traced, ...]:
    """Forward mode three times over, along all axes at once: it compiles in a third of the time of
    nested Jacobians.
    """

    def along(u: Traced, v: Traced, w: Traced) -> tuple[Traced, ...]:
        def once(z: Traced) -> Any:
            return jax.jvp(lambda z: _loss(z, triple), (z,), (u,))

        ((loss, first), (_, second)), (_, (_, third)) = jax.jvp(
            lambda z: jax.jvp(once, (z,), (v,)), (z,), (w,)
        )
        return loss, first, second, third

    axes, each = jnp.eye(7), along
    for place in (2, 1, 0):
        each = jax.vmap(each, in_axes=tuple(0 if i == place else None for i in range(3)))
    loss, first, second, third = each(axes, axes, axes)
    return loss[0, 0, 0], -first[:, 0, 0], -second[:, :, 0], -third


@jax.jit
def _variations(z: Traced, triple: Triple) -> tuple[Any, Any]:
    def values(z: Traced) -> tuple[Traced, ...]:
        weights, chain = _parts(z, triple)
        matrices = embedded.composite(weights, 1.0)
        attention = jax.nn.softmax(
            saturated.saturated(matrices).attention_logits + jnp.log(chain.stationary), axis=-1
        )
        slope = jax.grad(lambda m: embedded.population_loss(saturated.saturated(m), chain))(
            Composite(*matrices)
        )
        return (
            attention,
            jax.nn.softmax(attention @ matrices.decoder, axis=-1),
            slope.decoder,
            slope.attention_logits,
        )

    return values(z), jax.jacfwd(values)(z)


def formula_gaps(triple: Triple) -> dict[str, float]:
    """Each formula of Appendix D at the saturated point against JAX: the largest difference."""
    at, other = (
        theory.saturated_triple(triple.high, triple.stay),
        theory.saturated_triple(triple.high, triple.stay, span=1.0),
    )
    base = np.append(at.gamma, at.beta)
    here, elsewhere = jet(triple, base), jet(triple, np.append(other.gamma, other.beta))
    J0, f1, B, J1, f2 = (
        here.slope[:6, :6],
        here.slope[:6, 6],
        here.bend[:6, :6, :6],
        here.bend[:6, :6, 6],
        here.bend[:6, 6, 6],
    )
    K, R, K_other, R_other = *_bases(at), *_bases(other)
    (force, stiffness), q2 = theory.force_and_stiffness(at), R[:, 1]
    value, slope = variations(triple, base)
    H1 = B @ theory.range_response(at) + J1
    gaps = {
        "gradients": [value.decoder_gradient, value.logit_gradient],
        "variations": _variation_gaps(triple, at, value, slope),
        "J0": [J0 - theory.rest_jacobian(at)],
        "kernel": [J0 @ K, elsewhere.slope[:6, :6] @ K_other],
        "range": [K.T @ R, K_other.T @ R_other],
        "f1": [
            f1 - theory.asymmetry_force(at),
            slope.decoder_gradient[..., 6] - theory.resampling_gradient(at),
        ],
        "J0 on range": [(R.T @ J0 @ R)[1] - [0, -stiffness, 0]],
        "J1": [J1 - theory.mixed_jacobian(at)],
        "J1 on q2": [K.T @ J1 @ q2 + [0, 0, np.sqrt(2) * force / np.linalg.norm(base)]],
        "B": [B - theory.second_differential(at, strength=triple.strength)],
        "variance": [
            _variance_change(value.attention[1], move) for move in slope.attention[1].T[:6]
        ],
        "B on q2": [K.T @ (B @ q2 @ q2) / 2 - theory.curvature_force(at)],
        "f2": [f2],
        "H1": [H1 - theory.hessian_slope(at)],
        "H1 on kernel": [K.T @ H1 @ K],
    }
    return {name: max(float(np.abs(gap).max()) for gap in gaps[name]) for name in FORMULAS}


def _bases(at: theory.SaturatedTriple) -> tuple[Array, Array]:
    return theory.kernel_basis(at), theory.range_basis(at)


def _variance_change(attention: Array, move: Array) -> Array:
    return np.diag(move) - np.outer(move, attention) - np.outer(attention, move)


def _variation_gaps(
    triple: Triple, at: theory.SaturatedTriple, value: Variations, slope: Variations
) -> list[Array]:
    """Lemma D.5: attention, predictions, and both gradients, along the six coordinates of the
    state.
    """
    pi, s = np.append(triple.high, np.full(2, (1 - triple.high) / 2)), np.array([0.0, 1.0, -1.0])
    dA_low = triple.strength * at.gamma[1] / 4 * np.outer(s, np.append(s, np.zeros(3)))
    dM = np.concatenate(
        [np.einsum("ik,j->ijk", np.eye(3), at.beta), np.einsum("i,jk->ijk", at.gamma, np.eye(3))],
        axis=2,
    )
    p, A = value.prediction, value.attention
    variance = np.stack([np.diag(row) - np.outer(row, row) for row in p])
    dp = np.einsum("ij,jak,iab->ibk", A, dM, variance)
    moved = Variations(*(part[..., :6] for part in slope))
    return [
        moved.attention - np.stack([np.zeros((3, 6)), dA_low, dA_low]),
        moved.prediction - dp,
        moved.decoder_gradient - np.einsum("i,ij,ibk->jbk", pi, A, dp),
        moved.logit_gradient,
    ]


class Spectra(NamedTuple):
    """At one point of the whole saturated model: speed, rates across the rank-one manifold and
    along it, largest first.
    """

    speed: float
    transverse: Array
    tangential: Array


def spectra(
    chain: saccade.MarkovChain, state: theory.RankOneState, *, d_model: int, d_key: int
) -> Spectra:
    """Of a rank-one state along the first direction of either width."""
    weights = Weights(
        *theory.rank_one_weights(
            state, direction=np.eye(d_model)[0], key_direction=np.eye(d_key)[0]
        )
    )
    velocity, _, setting, *_ = saccade.SaturatedEmbedded(
        chain, saccade.Embedded(d_model=d_model, d_key=d_key)
    ).equations()
    first = Weights(*(np.zeros(np.shape(matrix), bool) for matrix in weights))
    for matrix, place in zip(first, (np.s_[:, 0], np.s_[0, 0], np.s_[0, 0], np.s_[0]), strict=True):
        matrix[place] = True
    along = np.concatenate([matrix.ravel() for matrix in first])
    J = jacobian(velocity, weights, setting)
    rates = [np.linalg.eigvalsh(J[np.ix_(part, part)])[::-1] for part in (~along, along)]
    return Spectra(speed(velocity, weights, setting), *rates)
