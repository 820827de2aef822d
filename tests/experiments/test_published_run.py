"""The published run: what is read off a run, against plain computations."""

from __future__ import annotations

import numpy as np
import pytest

import saccade
from saccade.experiments.focus_and_dilution import published_run as published
from saccade.models.embedded import weights_of

CHAIN = saccade.MarkovChain.paper(0.8)


@pytest.fixture
def run():
    return saccade.train(
        CHAIN,
        steps=70,
        lr_decoder=5e-3,
        lr_attention=5e-3,
        batch=16,
        context=7,
        sequences=101,
        seeds=3,
        save=list(range(0, 71, 10)),
        model=saccade.models.Embedded(d_model=5, d_key=5, init_scale=0.2),
    )


def test_events_are_read_at_the_step_where_they_happen(run):
    """All queries rise to step 20, the second leaves from step 30 on, and rows open in turn."""
    one = run.isel(seed=0).copy(deep=True)
    rise = [[0.75] * 4, [0.9, 0.8, 0.8, 0.8], [1, 0.99, 0.98, 0.99], [1, 0.05, 0.9, 0.9]]
    one["attention"][:, :, 0] = np.array(rise + [[1, 0, 0, 0]] * 4)
    one["embedding"][:] = 0.0
    one["embedding"][:, :, 0] = 1.0
    for row, opening in ((1, 40), (2, 50), (3, 60)):
        one["embedding"].loc[{"time": slice(opening, None), "token": row}] += np.eye(5)[row]
    event = published.observed(one, 0.75).event.to_series()
    assert event[published.PEAK] == event[published.ABOVE] == 20
    assert event[published.ONSET] == 10
    assert event[published.LEAST] == pytest.approx(0.98)
    assert event[published.BACK] == 30
    assert event[published.OPENING].tolist() == [40, 50, 60]
    assert event[published.ORDER[0]] == 0


def test_the_first_move_is_read_off_the_step_it_happens(run):
    run["attention"][..., 0] = 0.75
    run["attention"][1, 5:, 2, 0] -= 0.05
    found = published.regime(run, CHAIN)
    np.testing.assert_array_equal(found.moved, [np.nan, 50, np.nan])
    np.testing.assert_array_equal(found.side, [0, -1, 0])


def test_the_probe_holds_every_token_once(run):
    """Its attention is that of an endless context over the tokens' shares, normalised."""
    plain = run.attention.values[0] / CHAIN.stationary
    found = published.probe_attention(weights_of(run.isel(seed=0)))
    np.testing.assert_allclose(found, plain / plain.sum(axis=-1, keepdims=True), rtol=1e-4)


def test_the_first_direction_of_a_matrix_has_the_share_that_its_singular_values_say():
    rng = np.random.default_rng(1)
    first = 4 * np.outer(rng.standard_normal(30), rng.standard_normal(30))
    matrix = rng.standard_normal((30, 30)) + first
    values = np.linalg.svd(matrix, compute_uv=False)
    share = values[0] ** 2 / np.sum(values**2)
    assert published.top_share(matrix) == pytest.approx(share, rel=1e-9)
