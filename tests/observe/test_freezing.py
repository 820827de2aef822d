"""Heads freeze when a real training stops moving them, and not while its noise goes on.

Compared with maps made from the weights of every step, in float64 and in NumPy: no schedule, and nothing between two observations.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import saccade  # noqa: E402
from saccade.records.when import FROZEN, freezing_steps  # noqa: E402
from tests.observe.test_induction_heads import example, maps  # noqa: E402, F401

N_STEPS, RATE, STILL = 520, 2e-3, 260
ONE_LOOK = 0.2  # doublings from one observation to the next


def trained(example, rate: Callable[[int], float]):  # noqa: F811
    """The record, and total variation (step, layer, head) between the exact maps of each even step and of half of it."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    model, probe = example.AttentionOnly(), example.repeated(generator, 4)
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    seen = []

    def note() -> None:
        weights = {name: value.clone() for name, value in model.state_dict().items()}
        seen.append(maps(SimpleNamespace(state_dict=lambda: weights), example.HEADS, probe.numpy()))

    with saccade.watch(model, probe, budget=None, weights=False, maps=range(4)) as recorder:
        for step in range(N_STEPS):
            batch = example.repeated(generator, 48)
            half = example.LENGTH // 2
            loss = torch.nn.functional.cross_entropy(model(batch[:, :-1])[:, half:].flatten(0, 1), batch[:, half + 1 :].flatten())
            recorder.step(step)
            note()
            optimiser.param_groups[0]["lr"] = rate(step)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        note()
    moved = [0.5 * np.abs(seen[step] - seen[step // 2]).sum(-1).mean((1, 3)) for step in range(2, N_STEPS + 1, 2)]
    return recorder.record, np.stack(moved)


def test_heads_freeze_at_the_step_from_which_their_exact_maps_stay(example):  # noqa: F811
    record, moved = trained(example, lambda step: RATE * max(0.0, 1 - step / STILL))
    assert moved[-1].max() == 0
    for layer, head in np.ndindex(2, example.HEADS):
        exact = 2 * (1 + np.flatnonzero(moved[:, layer, head] >= FROZEN)[-1]) / 2
        assert 0.5 * STILL < exact < STILL
        assert abs(np.log2(freezing_steps(record)[layer, head] / exact)) < ONE_LOOK
    assert sum(event.name == "froze" for event in saccade.when(record).events) == 2 * example.HEADS


def test_no_head_freezes_while_noise_goes_on(example):  # noqa: F811
    record, moved = trained(example, lambda step: RATE)
    assert moved[-100:].min() > FROZEN
    assert np.isnan(freezing_steps(record)).all()
    assert not any("froze" in sentence for sentence in saccade.when(record).sentences)
