"""Mini-batches as token counts, sorted by class: what one step of training reads.

Counts are drawn from a multinomial, never token by token, so that the cost does not grow with the
context. Contexts of one class stand in that class's block of rows; blocks are filled up with empty
rows of weight 0 to a common height.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from saccade.data.sequence_classes import SequenceClasses
from saccade.engines.randomness import Purpose, generator
from saccade.models.pairwise import Pairwise
from saccade.models.token_blocks import TokenBlocks


class Draws(NamedTuple):
    """Contexts of consecutive steps in the order they were drawn: class of each (step, row), counts
    (step, row, slot).
    """

    classes: NDArray[np.int64]
    counts: NDArray[np.float32]


class Batches(NamedTuple):
    """`counts` (step, class, slot, row) and `weight` (step, class, row), which sums to one over a
    step.

    `classes` (step, class) says which classes these are; None stands for all of them, in order.
    """

    counts: NDArray
    weight: NDArray
    classes: NDArray | None


def draw(
    task: SequenceClasses, blocks: TokenBlocks, seed: int, steps: range, batch: int, context: float
) -> Draws:
    """The contexts of `steps`. An infinite context is its class's distribution itself."""
    cumulative = np.cumsum(task.class_weight)
    classes = np.empty((len(steps), batch), np.int64)
    counts = np.empty(
        (len(steps), batch, blocks.token_prob.shape[1]),
        np.float32 if context < 2**24 else np.float64,
    )
    for row, step in enumerate(steps):
        rng = generator(seed, Purpose.DATA, step)
        drawn = np.searchsorted(cumulative[:-1], rng.random(batch), side="right")
        prob = blocks.token_prob[drawn]
        classes[row] = drawn
        counts[row] = prob if math.isinf(context) else rng.multinomial(int(context), prob)
    return Draws(classes, counts)


def rows_needed(draws: Draws, n_classes: int) -> int:
    """The most contexts that one class has in one step: the height of the blocks."""
    step = np.arange(len(draws.classes))[:, None]
    return int(np.bincount((step * n_classes + draws.classes).ravel()).max())


def arrange(
    draws: Draws,
    n_rows: int,
    model: Pairwise,
    blocks: TokenBlocks,
    context: float,
    dtype: DTypeLike,
) -> Batches:
    """Contexts sorted into their classes' blocks of `n_rows` rows.

    With more classes than contexts most would be empty; then only those drawn get a block.
    """
    n_steps, batch = draws.classes.shape
    n_classes, n_slots = blocks.token_prob.shape
    order = np.argsort(draws.classes, axis=1, kind="stable")
    classes = np.take_along_axis(draws.classes, order, axis=1)
    starts = np.diff(classes, axis=1, prepend=-1) > 0
    step, position = np.arange(n_steps)[:, None], np.arange(batch)
    row = position - np.maximum.accumulate(np.where(starts, position, 0), axis=1)
    drawn_only = n_classes > batch
    block = np.cumsum(starts, axis=1) - 1 if drawn_only else classes
    n_blocks = batch if drawn_only else n_classes
    block_class = np.zeros((n_steps, n_blocks), np.int64)
    block_class[step, block] = classes
    counts = np.zeros((n_steps, n_blocks, n_slots, n_rows), dtype)
    counts[step, block, :, row] = draws.counts[step, order]
    weight = np.zeros((n_steps, n_blocks, n_rows), dtype)
    weight[step, block, row] = 1 / batch
    if model.query_key and not math.isinf(context):
        counts += (
            blocks.query_slot[block_class][..., None].astype(dtype) * (weight > 0)[:, :, None, :]
        )
    return Batches(counts, weight, block_class if drawn_only else None)


def population(
    model: Pairwise, blocks: TokenBlocks, task: SequenceClasses, dtype: DTypeLike
) -> Batches:
    """One step's batch that is the population itself: every class once, with its weight and its
    infinite context.
    """
    return Batches(
        model.population(blocks)[None].astype(dtype),
        task.class_weight[None, :, None].astype(dtype),
        None,
    )
