"""Heads freeze when a real training stops moving them, and not while its noise goes on.

Compared with maps made from the weights of every step, in float64 and in NumPy: no schedule, and
nothing between two observations.
"""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import saccade  # noqa: E402
from saccade.measures.timeline import FROZEN, freezing_steps  # noqa: E402
from tests.watching.test_induction_heads import example, maps  # noqa: E402, F401

RATE, STILL, APART = 2e-3, 260, 4  # steps between exact maps, twice as many between movements
ONE_LOOK = 0.2  # doublings from one observation to the next


def trained(example, n_steps, rate):  # noqa: F811
    """The record, and total variation (step, layer, head) between the exact maps of every eighth
    step and of half of it.
    """
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    model, probe = example.AttentionOnly(), example.repeated(generator, 4)
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    seen = {}

    with saccade.watch(model, probe, budget=None, weights=False, maps=range(4)) as recorder:
        for step in range(n_steps):
            batch = example.repeated(generator, 48)
            half = example.LENGTH // 2
            loss = torch.nn.functional.cross_entropy(
                model(batch[:, :-1])[:, half:].flatten(0, 1), batch[:, half + 1 :].flatten()
            )
            recorder.step(step)
            if step % APART == 0:
                seen[step] = maps(model, example.HEADS, probe.numpy())
            optimiser.param_groups[0]["lr"] = rate(step)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    moved = [
        0.5 * np.abs(seen[step] - seen[step // 2]).sum(-1).mean((1, 3))
        for step in range(0, n_steps, 2 * APART)
    ]
    return recorder.record, np.stack(moved)


def test_heads_freeze_at_the_step_from_which_their_exact_maps_stay(example):  # noqa: F811
    record, moved = trained(example, 540, lambda step: RATE * max(0.0, 1 - step / STILL))
    assert moved[-1].max() == 0
    for layer, head in np.ndindex(2, example.HEADS):
        exact = APART * (0.5 + np.flatnonzero(moved[:, layer, head] >= FROZEN)[-1])
        assert 0.5 * STILL < exact < STILL
        assert abs(np.log2(freezing_steps(record)[layer, head] / exact)) < ONE_LOOK
    assert (
        sum(event.name == "froze" for event in saccade.timeline(record).events) == 2 * example.HEADS
    )


def test_no_head_freezes_while_noise_goes_on(example):  # noqa: F811
    record, moved = trained(example, 360, lambda step: RATE)
    assert moved[-20:].min() > FROZEN
    assert np.isnan(freezing_steps(record)).all()
    assert not any("froze" in sentence for sentence in saccade.timeline(record).sentences)
