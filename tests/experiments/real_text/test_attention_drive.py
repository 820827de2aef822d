"""Forecasts of which head opens first: a small run, tasks as they are said to be, and claims that
see wrong forecasts.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import saccade
from saccade.experiments.rank_collapse import attention_drive
from saccade.experiments.rank_collapse.attention_drive import EXPERIMENT
from saccade.lab.claim import FAILS, HOLDS
from tests.experiments.default_runs import record_of


@pytest.fixture(scope="module")
def record():
    return record_of("attention-drive", tasks=3, steps=600)


def verdicts(record, part):
    found = {
        claim.verdict
        for claim in EXPERIMENT.claims(record)
        if part in claim.label and "Adam" not in claim.label
    }
    assert found
    return found


def test_labels_follow_the_two_places():
    inputs, labels = attention_drive.task(np.random.default_rng(0))
    tokens = inputs[:, :, : attention_drive.N_TOKENS].argmax(-1)
    shares = [
        (tokens[:, place] == labels).double().mean().item()
        for place in range(attention_drive.LENGTH)
    ]
    assert np.argsort(shares)[-2:].tolist() == [3, 1]


def test_forecasts_come_before_heads_open_and_are_near_what_happens(record):
    runs = record.sel(optimiser="SGD")
    assert np.isfinite(runs.forecast_at).all()
    assert (runs.wait > 0).all()
    assert ((runs.told_wait / runs.wait > 0.5) & (runs.told_wait / runs.wait < 2)).all()
    assert verdicts(record, "queries' direction") == {HOLDS}


def test_wrong_forecasts_are_seen(record):
    other = record.assign(told_first=(record["first"] + 1) % attention_drive.N_HEADS)
    assert verdicts(other, "first head told right, share") == {FAILS}
    assert verdicts(record.assign(told_wait=3 * record.told_wait), "forecast wait over") == {FAILS}
    assert verdicts(record.assign(told_wait=3 * record.told_wait), "within a factor of two") == {
        FAILS
    }
    assert verdicts(record.assign(query_cosine=0 * record.query_cosine), "queries' direction") == {
        FAILS
    }


def test_a_task_in_the_stack_forecasts_and_opens_as_it_would_alone(record):
    told = record.isel(task=1).sel(optimiser="SGD", values="large values")
    rng = np.random.default_rng(attention_drive.Settings().seed + 1)
    batch, model = attention_drive.task(rng), attention_drive.Reader(rng, 0.5)
    descent = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(int(told.forecast_at)):
        descent.zero_grad()
        attention_drive.loss(model, batch).backward()
        descent.step()
    alone = saccade.attention_drive(model, attention_drive.loss, batch)
    assert alone.first(0.5)[1] == int(told.told_first)
    assert alone.wait(0.5)[0, int(told["first"])] == pytest.approx(float(told.told_wait), rel=1e-6)
    assert (alone.opened < 0.1).all()


def test_under_adam_the_last_look_is_later_than_the_start(record):
    runs = record.sel(optimiser="Adam")
    assert np.isnan(runs.forecast_at).all()  # F never settles in time
    assert (runs.wait < 20).all()
    assert np.isfinite(runs.gradient_first).all()


def test_the_figure_shows_waits_and_shares(record):
    assert len(EXPERIMENT.figure(record).axes) == 2
