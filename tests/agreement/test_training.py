"""Training in compiled blocks against PyTorch's optimisers on dense matrices, fed the same
contexts.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from saccade.data.sequence_classes import SequenceClasses
from saccade.engines import descent_scan
from saccade.engines.batches import draw
from saccade.engines.randomness import Purpose, generator
from saccade.models.pairwise import Pairwise
from saccade.runs import train

from .sequence_form import batch_loss

STEPS, BATCH, CONTEXT, SEED = 7, 11, 13, 5
RATES = {"lr_decoder": 0.7, "lr_attention": 1.9}


def dense_training(
    task: SequenceClasses, model: Pairwise, make_optimiser
) -> tuple[np.ndarray, np.ndarray]:
    blocks = model.blocks(task)
    start = model.initial(blocks, generator(SEED, Purpose.INITIALISATION), np.float64)
    decoder = torch.tensor(blocks.dense_decoder(*start.decoder), requires_grad=True)
    dense_z = np.zeros((task.n_vocab, task.n_vocab))
    dense_z[blocks.queries] = blocks.dense_attention_logits(*start.attention)
    attention = torch.tensor(dense_z, requires_grad=True)
    optimisers = [
        make_optimiser([decoder], RATES["lr_decoder"]),
        make_optimiser([attention], RATES["lr_attention"]),
    ]
    drawn = draw(task, blocks, SEED, range(STEPS), BATCH, CONTEXT)
    for classes, counts in zip(drawn.classes, drawn.counts):
        sequences = [
            (
                torch.tensor(np.repeat(blocks.slots[n], c.astype(int))),
                int(task.query[n]),
                int(task.next_token[n]),
            )
            for n, c in zip(classes, counts)
        ]
        loss = batch_loss(decoder, attention, sequences)
        for optimiser in optimisers:
            optimiser.zero_grad()
        loss.backward()
        for optimiser in optimisers:
            optimiser.step()
    return decoder.detach().numpy(), attention.detach().numpy()[blocks.queries]


@pytest.mark.parametrize("init", ["zero", "uniform"])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"optimiser": "sgd"}, lambda p, lr: torch.optim.SGD(p, lr)),
        ({"optimiser": "sgd", "momentum": 0.9}, lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9)),
        ({"optimiser": "adam"}, lambda p, lr: torch.optim.Adam(p, lr)),
    ],
    ids=["sgd", "momentum", "adam"],
)
def test_training_in_blocks_equals_dense_training_with_autograd(ours, theirs, init):
    task, model = SequenceClasses.syn_medium(2), Pairwise(init=init)
    decoder, attention = dense_training(task, model, theirs)
    record = train(
        task,
        steps=STEPS,
        batch=BATCH,
        context=CONTEXT,
        seeds=[SEED],
        save=[STEPS],
        model=model,
        dtype="float64",
        keep=("decoder", "attention_logits"),
        **ours,
        **RATES,
    )
    # Adam divides by the gradient's own size: where a gradient is exactly 0 here and 1e-17 there,
    # rounding is magnified.
    tolerance = 1e-12 if ours["optimiser"] == "sgd" else 1e-7
    rows = np.flatnonzero(task.token_prob.sum(axis=0))
    np.testing.assert_allclose(record.decoder.values[0, 0][rows], decoder[rows], atol=tolerance)
    np.testing.assert_allclose(record.attention_logits.values[0, 0], attention, atol=tolerance)


@pytest.mark.parametrize("steps_at_once", [250, 1])
def test_with_more_classes_than_contexts_only_the_drawn_ones_are_computed_and_nothing_changes(
    steps_at_once, monkeypatch
):
    """Twenty-two classes, eleven contexts: the same dense training, through the other arrangement
    of a batch, in any stretches.
    """
    monkeypatch.setattr(descent_scan, "_STEPS_AT_ONCE", steps_at_once)
    task, model = SequenceClasses.syn_medium(11), Pairwise()
    decoder, attention = dense_training(
        task, model, lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9)
    )
    record = train(
        task,
        steps=STEPS,
        batch=BATCH,
        context=CONTEXT,
        momentum=0.9,
        seeds=[SEED],
        save=[STEPS],
        model=model,
        dtype="float64",
        keep=("decoder", "attention_logits"),
        **RATES,
    )
    rows = np.flatnonzero(task.token_prob.sum(axis=0))
    np.testing.assert_allclose(record.decoder.values[0, 0][rows], decoder[rows], atol=1e-12)
    np.testing.assert_allclose(record.attention_logits.values[0, 0], attention, atol=1e-12)
