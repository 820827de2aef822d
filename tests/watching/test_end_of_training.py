"""What the last update has left is looked at, once, whatever changed the weights."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import saccade  # noqa: E402
from tests.watching import model_zoo as zoo  # noqa: E402


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1).step


def fused_adam(model):
    return torch.optim.AdamW(model.parameters(), lr=0.01, fused=True).step


def by_hand(model):
    def step():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.data.add_(parameter.grad, alpha=-0.1)

    return step


@pytest.mark.parametrize("optimiser", [sgd, fused_adam, by_hand])
def test_the_end_is_looked_at_once_whatever_the_schedule_says(optimiser):
    model = zoo.HandWritten("fused")
    update = optimiser(model)
    with saccade.watch(model, zoo.ids(), every=[0], budget=0.0) as recorder:
        for step in range(5):
            recorder.step(step)
            model.zero_grad()
            model(zoo.ids()).square().mean().backward()
            update()
    assert recorder.record.time.values.tolist() == [0, 5]


def test_what_was_looked_at_already_or_ended_in_an_error_is_not_looked_at_again():
    model = zoo.HandWritten("fused")
    with saccade.watch(model, zoo.ids(), every=[0]) as recorder:
        recorder.step(0)  # nothing is trained after it
    assert recorder.record.time.values.tolist() == [0]
    with saccade.watch(model, zoo.ids(), every=[0]) as recorder:
        recorder.step(0)
        with torch.no_grad():
            model.blocks[0].c_attn.weight.zero_()
        recorder.__exit__(ZeroDivisionError)  # as after an error in the loop
        assert recorder.record.time.values.tolist() == [0]
