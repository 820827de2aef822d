r"""How far the theorem's model in finite contexts is from the same model in infinite ones.

A context of T tokens has shares q in place of P(l|m,n). From them follow attention $v \propto q \circ e^z$ in place of
$c \propto P \circ e^z$, and the gradient of z; at z = 0 attention is the shares themselves. Each distance is the root of the mean
square over contexts, in a unit in which independent draws have a known size or slope:

| distance    | of                        | over                                                | independent draws         |
|-------------|---------------------------|-----------------------------------------------------|---------------------------|
| `shares`    | $q - P$                   | $\sqrt{1 - \sum_l P_l^2}$, the spread of one draw   | exactly $T^{-1/2}$        |
| `attention` | $v - c$                   | $|c|$                                               | slope -1/2                |
| `gradient`  | $\dot z$, one class alone | the spread of one draw in long contexts             | $T^{-1/2}$ where small    |

The spread of the gradient is measured, in contexts so long that the gradient is linear in the shares. Over the gradient itself it
changes with the law, and so with T.
Axes: class, slot, row, as in `model/pairwise.py`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array as JaxArray
from numpy.typing import NDArray

from saccade.data.sequence_classes import SequenceClasses
from saccade.model.pairwise import Pairwise, Parameters, Rows, class_attention_logits, class_decoder, forward, gradients
from saccade.model.token_blocks import TokenBlocks

Array = NDArray[np.float64]
_MODEL = Pairwise()
_LONG, _N_LONG = 10**6, 400  # tokens, contexts: the spread is known to a few percent, and equal for all that is compared


def share_error(counts: Array, blocks: TokenBlocks) -> Array:
    """By class; its inverse square is how many independent draws would be as near."""
    law, shares = blocks.token_prob, counts / counts.sum(axis=1, keepdims=True)
    return np.sqrt(_mean_square(shares - law[:, :, None]) / (1 - (law**2).sum(axis=1)))


def attention_error(counts: Array, parameters: Parameters, blocks: TokenBlocks) -> Array:
    """By class."""
    logits = _logits(parameters, blocks)
    limit = limit_attention(parameters, blocks)
    weights = counts * np.exp(logits - logits.max(axis=1, keepdims=True))[:, :, None]
    attention = weights / weights.sum(axis=1, keepdims=True)
    return np.sqrt(_mean_square(attention - limit[:, :, None])) / np.linalg.norm(limit, axis=1)


def gradient_error(counts: Array, parameters: Parameters, blocks: TokenBlocks) -> Array:
    """By class, not yet over anything."""
    limit = context_gradients(parameters, _MODEL.population(blocks), blocks)
    return np.sqrt(_mean_square(context_gradients(parameters, counts, blocks) - limit))


def gradient_spread(parameters: Parameters, blocks: TokenBlocks, rng: np.random.Generator) -> Array:
    """Of one independent draw, by class: distance in long contexts times the root of their length."""
    drawn = [rng.multinomial(_LONG, law / law.sum(), size=_N_LONG).T for law in blocks.token_prob]
    return gradient_error(np.stack(drawn).astype(float), parameters, blocks) * np.sqrt(_LONG)


def gradient_size(parameters: Parameters, blocks: TokenBlocks) -> Array:
    """Length of the gradient in infinite contexts, by class."""
    return np.linalg.norm(context_gradients(parameters, _MODEL.population(blocks), blocks)[:, :, 0], axis=1)


def limit_attention(parameters: Parameters, blocks: TokenBlocks) -> Array:
    """c of every class (class, slot)."""
    logits = _logits(parameters, blocks)
    weights = blocks.token_prob * np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def context_gradients(parameters: Parameters, counts: Array, blocks: TokenBlocks) -> Array:
    r"""$\dot z = f \circ (g - f (f \cdot g))$, $g = Y(e_n - \alpha)$, of every context by itself [tian2023, Lemma 1]."""
    with jax.enable_x64(True):
        return np.asarray(_context_gradients(parameters, counts, blocks))


@jax.jit
def _context_gradients(parameters: Parameters, counts: Any, blocks: TokenBlocks) -> JaxArray:
    seen = forward(parameters, counts, _MODEL, blocks)
    wrong = jax.nn.sigmoid(seen.deficit)[..., None]
    error = wrong * (blocks.is_target[:, None, :] - seen.others / seen.others_total[..., None])
    g, f = jnp.einsum("ksj,krj->ksr", class_decoder(parameters.decoder), error), seen.feature
    return f * (g - f * jnp.sum(f * g, axis=1, keepdims=True))


def descended(
    bank: Array, picks: NDArray[np.integer], classes: SequenceClasses, blocks: TokenBlocks, rates: tuple[float, float]
) -> Parameters:
    """Gradient descent from zero. `bank`: counts of contexts; `picks` (step, class, row): which of them each step learns from.

    Every class has its weight in each step; one row that holds the class's law makes it the infinite context.
    """
    with jax.enable_x64(True):
        start = _MODEL.initial(blocks, np.random.default_rng(0), np.dtype("float64"))
        moved = _descended(start, bank, picks, classes.class_weight, blocks, rates)
    return jax.tree.map(np.asarray, moved)


def in_the_limit(steps: int, classes: SequenceClasses, blocks: TokenBlocks, rates: tuple[float, float]) -> Parameters:
    """The same in infinite contexts."""
    return descended(_MODEL.population(blocks), np.zeros((steps, classes.n_classes, 1), int), classes, blocks, rates)


@jax.jit
def _descended(start: Parameters, bank: Any, picks: Any, class_weight: Any, blocks: TokenBlocks, rates: Any) -> Parameters:
    weight = jnp.broadcast_to(class_weight[:, None] / picks.shape[2], picks.shape[1:])

    def step(state: Parameters, picked: Any) -> tuple[Parameters, None]:
        counts = jnp.take_along_axis(bank, picked[:, None, :], axis=2)
        downhill = gradients(forward(state, counts, _MODEL, blocks), state, weight, _MODEL, blocks)
        moved = [
            Rows(*(part + rate * slope for part, slope in zip(rows, slopes, strict=True)))
            for rate, rows, slopes in zip(rates, state, downhill, strict=True)
        ]
        return Parameters(*moved), None

    return jax.lax.scan(step, start, picks)[0]


def _logits(parameters: Parameters, blocks: TokenBlocks) -> Array:
    with jax.enable_x64(True):
        return np.asarray(class_attention_logits(parameters.attention, blocks))


def _mean_square(gap: Array) -> Array:
    """Of the length over slots, mean over rows (class)."""
    return np.asarray((gap**2).sum(axis=1).mean(axis=1))
