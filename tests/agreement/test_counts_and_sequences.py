"""Counts against sequences: the block form must equal the explicit one, in every option of the
model.
"""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from saccade.data.sequence_classes import SequenceClasses
from saccade.models.pairwise import Pairwise, Parameters, Rows, forward, gradients, mean_loss

from .sequence_form import batch_loss

OPTIONS = [
    dict(zip(("normalise", "residual", "query_key"), flags))
    for flags in itertools.product((True, False), repeat=3)
]
N_CONTEXT = 13


def uneven_task() -> SequenceClasses:
    """Five classes over 17 tokens: two queries, one of them a context token too; tokens shared by
    two, three or all classes.
    """
    rng = np.random.default_rng(0)
    prob = np.zeros((5, 11))
    prob[:, :2] = rng.random((5, 2)) + 0.1
    prob[:3, 2] = rng.random(3) + 0.1
    prob[3:, 3] = rng.random(2) + 0.1
    for n, tokens in enumerate([(4, 5), (6,), (), (7, 8, 9), (10,)]):
        prob[n, list(tokens)] = rng.random(len(tokens)) + 0.1
    return SequenceClasses(
        prob, query=[0, 0, 11, 11, 11], next_token=[12, 13, 14, 4, 16], n_vocab=17, normalise=True
    )


def random_parameters(model: Pairwise, task: SequenceClasses, scale: float = 1.0) -> Parameters:
    """Parameters that respect the columns the model shares, large enough for every term to matter."""
    rng = np.random.default_rng(1)
    zero = model.initial(model.blocks(task), rng, np.float64)
    return Parameters(
        *(Rows(*(scale * rng.normal(size=part.shape) for part in rows)) for rows in zero)
    )


def drawn_sequences(task: SequenceClasses) -> list[list[np.ndarray]]:
    """Two sequences of token ids for each class."""
    rng = np.random.default_rng(2)
    return [
        [rng.choice(task.n_vocab, N_CONTEXT, p=prob) for _ in range(2)] for prob in task.token_prob
    ]


def as_counts(
    sequences: list[list[np.ndarray]], model: Pairwise, task: SequenceClasses
) -> np.ndarray:
    slots = model.blocks(task).slots
    counts = np.array(
        [
            [[(s == token).sum() for token in slots[n]] for s in pair]
            for n, pair in enumerate(sequences)
        ],
        float,
    )
    if model.query_key:
        counts += (slots == task.query[:, None])[:, None, :]
    return counts.swapaxes(1, 2)  # class, slot, row


def both_forms(
    model: Pairwise, task: SequenceClasses, parameters: Parameters, dtype: str
) -> tuple[list, list]:
    """Loss, decoder gradient and attention gradient: from counts in blocks, and from sequences."""
    blocks, sequences = model.blocks(task), drawn_sequences(task)
    with jax.enable_x64(dtype == "float64"):
        ours = jax.tree.map(lambda part: jnp.asarray(part, dtype), parameters)
        weight = jnp.full((task.n_classes, 2), 1 / (2 * task.n_classes), dtype)
        seen = forward(ours, jnp.asarray(as_counts(sequences, model, task), dtype), model, blocks)
        downhill = jax.tree.map(np.asarray, gradients(seen, ours, weight, model, blocks))
        loss = float(mean_loss(seen, weight))
    from_counts = [
        loss,
        -blocks.dense_decoder(*downhill.decoder),
        -blocks.dense_attention_logits(*downhill.attention),
    ]

    decoder = torch.tensor(blocks.dense_decoder(*parameters.decoder), requires_grad=True)
    dense_z = np.zeros((task.n_vocab, task.n_vocab))
    dense_z[blocks.queries] = blocks.dense_attention_logits(*parameters.attention)
    attention = torch.tensor(dense_z, requires_grad=True)
    labelled = [
        (torch.tensor(s), int(task.query[n]), int(task.next_token[n]))
        for n, pair in enumerate(sequences)
        for s in pair
    ]
    explicit = batch_loss(
        decoder,
        attention,
        labelled,
        normalise=model.normalise,
        residual=model.residual,
        query_key=model.query_key,
    )
    explicit.backward()
    return from_counts, [
        explicit.item(),
        decoder.grad.numpy(),
        attention.grad.numpy()[blocks.queries],
    ]


def largest_gap(pair: tuple[list, list]) -> float:
    return max(float(np.abs(np.asarray(a) - np.asarray(b)).max()) for a, b in zip(*pair))


@pytest.mark.parametrize("init", ["zero", "uniform"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_attention_from_counts_equals_attention_from_the_sequence(options, init):
    model, task = Pairwise(**options, init=init), uneven_task()
    assert largest_gap(both_forms(model, task, random_parameters(model, task), "float64")) < 1e-12


def test_what_separates_the_two_forms_is_rounding_only():
    """Climb the dtype ladder: rounding shrinks in float64, a wrong formula does not."""
    model, task = Pairwise(residual=True), uneven_task()
    parameters = random_parameters(model, task)
    coarse, fine = (
        largest_gap(both_forms(model, task, parameters, dtype)) for dtype in ("float32", "float64")
    )
    assert fine < 1e-6 * coarse


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_written_gradient_is_the_derivative_of_the_loss(options):
    model, task = Pairwise(**options, init="uniform"), uneven_task()
    blocks, parameters = model.blocks(task), random_parameters(model, task)
    counts, weight = model.population(blocks), task.class_weight[:, None]
    with jax.enable_x64(True):
        derivative = jax.grad(lambda p: mean_loss(forward(p, counts, model, blocks), weight))(
            parameters
        )
        written = gradients(
            forward(parameters, counts, model, blocks), parameters, weight, model, blocks
        )
    for a, b in zip(jax.tree.leaves(derivative), jax.tree.leaves(written)):
        np.testing.assert_allclose(-a, b, atol=1e-13)


def test_row_sums_of_both_gradients_vanish():
    """[tian2023, Lemma 1]: every row of Y and Z keeps its sum."""
    model, task = Pairwise(), uneven_task()
    from_counts, _ = both_forms(model, task, random_parameters(model, task), "float64")
    assert np.abs(from_counts[1].sum(axis=1)).max() < 1e-15
    assert np.abs(from_counts[2].sum(axis=1)).max() < 1e-15


def test_extreme_attention_logits_neither_overflow_nor_vanish():
    """A token that is absent may be sought far more than those present; attention is then among the
    present ones.
    """
    model, task = Pairwise(init="uniform"), uneven_task()
    parameters = random_parameters(model, task, scale=300.0)
    for dtype in ("float32", "float64"):
        from_counts, from_sequences = both_forms(model, task, parameters, dtype)
        np.testing.assert_allclose(from_counts[0], from_sequences[0], rtol=1e-5)
        np.testing.assert_allclose(from_counts[1], from_sequences[1], atol=1e-5)


def test_a_loss_far_below_rounding_at_one_is_still_exact():
    """Margin 60: the loss is e^-60 times the number of other tokens, not zero, and its gradient
    likewise.
    """
    task = SequenceClasses([[1.0]], query=[1], next_token=[2], n_vocab=3)
    model = Pairwise()
    blocks = model.blocks(task)
    parameters = Parameters(
        Rows(np.zeros((0, 2)), np.array([[[60.0, 0.0]]])), Rows(np.zeros((1, 0)), np.zeros((1, 1)))
    )
    with jax.enable_x64(True):
        seen = forward(parameters, model.population(blocks), model, blocks)
        downhill = gradients(seen, parameters, np.ones((1, 1)), model, blocks)
        loss = float(mean_loss(seen, np.ones((1, 1))))
    np.testing.assert_allclose(loss, 2 * np.exp(-60), rtol=1e-6)
    np.testing.assert_allclose(
        downhill.decoder.own[0, 0], [2 * np.exp(-60), -np.exp(-60)], rtol=1e-6
    )
