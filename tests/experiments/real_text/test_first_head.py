"""Tasks of first-head are as they are described, and a forecast in the stack is that of one alone."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import saccade
from saccade.experiments.rank_collapse import first_head


def test_labels_follow_the_two_places():
    inputs, labels = first_head.task(np.random.default_rng(0))
    tokens = inputs[:, :, : first_head.N_TOKENS].argmax(-1)
    shares = [
        (tokens[:, place] == labels).double().mean().item() for place in range(first_head.LENGTH)
    ]
    assert np.argsort(shares)[-2:].tolist() == [3, 1]


def test_a_task_in_the_stack_forecasts_and_opens_as_it_would_alone():
    stack = first_head.trained("SGD", 0.5, [100, 101], 600)
    found = {name: values[1] for name, values in stack.items()}
    rng = np.random.default_rng(101)
    batch, model = first_head.task(rng), first_head.Reader(rng, 0.5)
    descent = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(int(found["forecast_at"])):
        descent.zero_grad()
        first_head.loss(model, batch).backward()
        descent.step()
    alone = saccade.watching.attention_drive(model, first_head.loss, batch)
    assert alone.first(0.5)[1] == found["forecast_first"]
    forecast = alone.wait(0.5)[0, int(found["first"])]
    assert forecast == pytest.approx(found["forecast_wait"], rel=1e-6)
    assert (alone.opened < 0.1).all()


def test_under_adam_the_forecast_is_later_than_the_start():
    found = first_head.trained("Adam", 0.5, [100, 101], 600)
    assert np.isnan(found["forecast_at"]).all()  # F never settles in time
    assert (found["wait"] < 20).all()
