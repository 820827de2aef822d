"""The stages of a forecast against the population flow of all four matrices, which it has not run."""

from __future__ import annotations

import numpy as np
import pytest

import saccade
from saccade.forecasting import score
from saccade.forecasting.forecast import forecast, predictions
from saccade.forecasting.score import exponential_rate
from saccade.forecasting.stage_predictions import _next
from saccade.measures import singular_values
from saccade.measures.events import find_events

FACTOR = 1.1  # what the event tables of the replication are held to; sampling alone is 1.02


@pytest.fixture(scope="module")
def zipf():
    chain = saccade.MarkovChain.zipf(5, stay=0.4)
    return forecast(chain, starts=2), saccade.flow(chain, t1=600.0, n_times=500, seeds=2), chain


def _events(flow, seed):
    run = flow.isel(seed=seed)
    return find_events(
        run.time.values,
        attention_on_frequent=run.attention.values[..., 0],
        embedding_singular_values=singular_values(run.embedding.values),
        query_norm=np.linalg.norm(run.query_matrix.values, axis=(-2, -1)),
        loss=run.loss.values,
        prominence=1e-4,
    )


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("variable", "event"),
    [
        ("condensed_time", "condensation"),
        ("plateau_time", "attention_frozen"),
        ("focus_onset", "focus_onset"),
    ],
)
def test_onset_times_agree_with_the_flow_of_the_same_start(zipf, seed, variable, event):
    predicted, flow, _ = zipf
    measured = next(found.time for found in _events(flow, seed) if found.name == event)
    assert score.in_time(predicted[variable].values[seed], measured, factor=FACTOR) == 1


@pytest.mark.parametrize("seed", [0, 1])
def test_queries_turn_back_when_the_flow_says_so(zipf, seed):
    predicted, flow, _ = zipf
    turns = [event for event in _events(flow, seed) if event.name == "focus_peak"]
    first = {query: min(turn.time for turn in turns if turn.query == query) for query in (2, 3, 4)}
    assert (
        np.nanmin(
            score.in_time(predicted.turn_time.values[seed, 2:], list(first.values()), factor=FACTOR)
        )
        == 1
    )


@pytest.mark.parametrize("seed", [0, 1])
def test_the_query_matrix_grows_at_the_rate_that_the_flow_of_all_four_matrices_has(zipf, seed):
    predicted, flow, _ = zipf
    run = flow.isel(seed=seed)
    top = np.linalg.svd(run.embedding.values)[2][:, 0]
    sent = np.linalg.norm(np.einsum("ti,tij->tj", top, run.query_matrix.values), axis=-1)
    assert exponential_rate(run.time.values, sent) == pytest.approx(
        float(predicted.focus_growth.values[seed]), rel=0.1
    )


@pytest.mark.parametrize("stay", [0.4, -0.03])
def test_the_sign_of_focus_is_that_of_the_flow(stay):
    chain = saccade.MarkovChain.zipf(5, stay=stay)
    predicted = forecast(chain, starts=1)
    onset = float(predicted.focus_onset.values[0])
    later = saccade.flow(chain, t1=1.3 * onset, n_times=50).isel(seed=0, time=-1)
    moved = later.attention.values[1:, 0] - chain.stationary[0]
    assert (np.sign(moved) == int(predicted.focus_sign)).all()


@pytest.mark.parametrize("stay", [0.4, -0.03])
def test_a_focus_turns_at_its_height_on_the_side_of_c(stay):
    chain = saccade.MarkovChain.zipf(5, stay=stay)
    predicted = forecast(chain, starts=1)
    height, turned = predicted.turn_height.values[0], predicted.turn_time.values[0]
    assert (np.sign(height) == np.sign(stay)).all()
    assert np.isfinite(turned).any()
    for word in np.flatnonzero(np.isfinite(turned)):
        away = predicted.on_frequent.values[:, word] - chain.stationary[0]
        assert height[word] == pytest.approx(
            np.interp(turned[word], predicted.stage_time.values, away), abs=1e-12
        )


def test_twice_the_rates_halve_every_time():
    chain = saccade.MarkovChain.zipf(5, stay=0.4)
    slow, fast = (
        forecast(chain, starts=1, lr_decoder=rate, lr_attention=rate) for rate in (0.5, 1.0)
    )
    for name in ("condensed_time", "plateau_time", "focus_onset"):
        assert float(slow[name][0]) == pytest.approx(
            2 * float(fast[name][0]), rel=0.03
        )  # a step of sampled time
    assert float(slow.focus_rate) == pytest.approx(float(fast.focus_rate) / 2)


def test_a_uniform_law_condenses_to_nothing_and_the_forecast_says_so():
    record = forecast(saccade.MarkovChain.lazy(np.full(4, 0.25), stay=0.3))
    assert "focus_onset" not in record
    assert "no stage follows" in predictions(record)[0].text


def test_a_second_direction_with_one_sign_is_announced_as_the_flow_has_it():
    rows = [[0.7, 0.15, 0.1, 0.05], [0.3, 0.5, 0.1, 0.1], [0.3, 0.2, 0.4, 0.1]]
    chain = saccade.MarkovChain([*rows, [0.25, 0.25, 0.1, 0.4]])
    predicted = forecast(chain, starts=1)
    before, opened = saccade.flow(chain, times=[0, 300, 620], seed=0).embedding.values[1:]
    first = np.linalg.svd(before)[2][0]  # the direction that the first cycle used
    pattern, sizes, _ = np.linalg.svd(opened - np.outer(opened @ first, first))
    assert sizes[0] > 0.1 * np.linalg.norm(opened)
    assert abs(pattern[:, 0] @ predicted.next_embedding.values) > 0.99
    said = {one.about: one.text for one in predictions(predicted)}["next direction"]
    assert "a second embedding direction grows at rate 0.0219 per step" in said
    assert said.endswith('has all tokens on one side, "1", "2", "3" farthest')


def test_no_second_direction_is_announced_where_none_grows():
    none = forecast(saccade.MarkovChain.zipf(5, stay=0.4), starts=1).assign(next_rate=0.0)
    assert _next(none) == "at the end of the rank-one flow no second embedding direction grows"
