"""The scored forecast: a small run from end to end, scores and stages of runs whose course is known, and claims able to fail."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest
import torch
import xarray as xr
from scipy.stats import spearmanr

from saccade.data.markov import MarkovChain
from saccade.errors import InputError
from saccade.experiments.real_text import forecast, forecast_scores
from saccade.experiments.real_text.forecast import EXPERIMENT, Settings
from saccade.experiments.real_text.forecast_runs import StageMeasures, weights_of
from saccade.lab.claim import FAILS, HOLDS
from saccade.model.embedded import composite, population_loss
from saccade.model.transformer import Transformer
from saccade.model.transformer_config import TransformerConfig
from saccade.processes import in_processes
from saccade.records.store import load_record, save_record
from saccade.theory.questions import FORECAST_STAGES

SMALL = Settings(
    text="sotu",
    seeds=2,
    n_vocab=53,
    queries=2,
    window=7,
    n_next=3,
    n_tokens=37,
    steps=11,
    batch=61,
    n_words=11,
    d_model=5,
    context=13,
    stage_steps=23,
    stage_batch=17,
    adam_steps=19,
)


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    path = tmp_path_factory.mktemp("forecast") / "record.zarr"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forecast, "in_processes", partial(in_processes, processes=1))
        save_record(EXPERIMENT.run(SMALL), path)
    return load_record(path)


def foretold(record, sign=1.0):
    """The record of runs that did what was predicted, or its opposite."""
    gain = np.broadcast_to(sign * record.predicted_gain.values, record.measured_gain.shape)
    return record.assign(measured_gain=(record.measured_gain.dims, gain))


def test_predictions_and_measurements_lie_on_the_same_axes_and_start_from_nothing(record):
    assert record.measured_gain.dims == ("way", "seed", *record.predicted_gain.dims)
    for name in ("predicted_gain", "measured_gain"):
        assert (record[name].isel(time=0) == 0).all()
    np.testing.assert_allclose(record.predicted_gain.sum("token"), 0, atol=1e-6)  # a row of Z keeps its sum
    np.testing.assert_allclose(record.word_share.sum(), 1)
    np.testing.assert_allclose(record.on_frequent.isel(look=0), record.word_share.max(), atol=1e-6)
    assert len(list(EXPERIMENT.claims(record))) == 3 * 9 + 2 + 7 + 3


def test_trained_on_the_classes_with_endless_contexts_tokens_move_as_predicted(record):
    assert scored(record, "endless", "token order") > 0.9
    assert scored(record, "endless", "attention") < scored(record, "short", "attention")


def test_a_forecast_that_comes_true_has_perfect_scores_and_the_opposite_has_the_worst(record):
    true, false = foretold(record), foretold(record, -1.0)
    for name, best, worst in (("token order", 1, -1), ("other sign", 1, 0)):
        np.testing.assert_allclose(forecast_scores.score_draws(true, "sgd", "forecast", name), best)  # in every draw
        np.testing.assert_allclose(forecast_scores.score_draws(false, "sgd", "forecast", name), worst)
    assert scored(true, "sgd", "attention") == pytest.approx(0, abs=1e-12)
    assert scored(true, "sgd", "half way") == 1


def test_nothing_changes_is_as_far_off_as_attention_has_moved(record):
    start = record.attention_start.values
    end = forecast_scores.attention(record.measured_gain.sel(way="sgd").mean("seed").values[-1], start)
    moved = (np.abs(end - start).sum(axis=-1) / 2).mean()
    assert scored(record, "sgd", "attention", "nothing changes") == pytest.approx(moved, abs=1e-9)
    assert scored(record, "sgd", "token order", "nothing changes") == 0
    assert scored(record, "sgd", "half way", "nothing changes") == 0


def test_a_drawn_rank_correlation_is_that_of_the_values_written_out():
    rng = np.random.default_rng(7)
    guess, truth = rng.integers(0, 5, 23).astype(float), rng.standard_normal(23)
    weight = forecast_scores.drawn(23, 1)[:11]
    found = forecast_scores.rank_correlations(guess, truth, weight)
    written = [spearmanr(np.repeat(guess, n), np.repeat(truth, n)).statistic for n in weight.astype(int)]
    np.testing.assert_allclose(found, written)
    assert (forecast_scores.rank_correlations(np.ones(23), truth, weight) == 0).all()
    assert np.isnan(forecast_scores.rank_correlations(guess, np.ones(23), weight)).all()


def test_every_token_weighs_alike_in_the_order_of_all_queries(record):
    seen = record.attention_start.values > 0
    seen[1, np.flatnonzero(seen[1])[5:]] = False
    few = record.assign(attention_start=(record.attention_start.dims, np.where(seen, record.attention_start, 0.0)))
    guess, run = record.predicted_gain.values[-1], forecast_scores.measured_gain(record, "sgd")[-1]
    each = [spearmanr(guess[query][own], run[query][own]).statistic for query, own in enumerate(seen)]
    assert scored(few, "sgd", "token order") == pytest.approx(np.average(each, weights=seen.sum(axis=1)))


def test_an_interval_over_tokens_is_as_wide_as_chance_has_it():
    draws = forecast_scores.weighted_mean(np.repeat([0.0, 1.0], 101)[None], forecast_scores.drawn(202, 0))
    mean, low, high = forecast_scores.interval_of(draws)
    assert mean == 0.5
    assert high - low == pytest.approx(2 * 1.96 * (0.25 / 202) ** 0.5, rel=0.15)


def test_the_majority_sign_is_right_of_more_than_half_of_what_moved(record):
    moved = forecast_scores.scored_tokens(record, "sgd", "other sign")
    losing = np.mean(forecast_scores.measured_gain(record, "sgd")[-1][moved] < 0)
    assert scored(record, "sgd", "other sign", "majority sign") == pytest.approx(max(losing, 1 - losing))


def test_gains_are_fastest_where_their_speed_peaks_and_nowhere_if_it_still_grows():
    time = np.linspace(0, 400, 401)
    logistic = 1 / (1 + np.exp(-(time - 130) / 15))
    gain = np.stack([logistic, time**2], axis=1)[:, :, None] * np.array([1.0, -0.3, 0.2])
    found = forecast_scores.fastest(time, gain)
    assert found[0] == pytest.approx(130, rel=0.1)
    assert np.isnan(found[1])


def test_claims_on_tokens_hold_of_a_forecast_that_comes_true_and_fail_of_its_opposite(record):
    def verdicts(data, chosen):
        return {claim.verdict for claim in EXPERIMENT.claims(data) if chosen in claim.title}

    for chosen in ("gains, all tokens", "half way"):
        assert verdicts(foretold(record), chosen) == {HOLDS}
    for chosen in ("gains, all tokens", "sign was predicted"):
        assert verdicts(foretold(record, -1.0), chosen) == {FAILS}


@pytest.mark.parametrize(("sign", "verdict"), [(1.0, HOLDS), (-1.0, FAILS)])
def test_signs_must_be_told_better_than_by_their_majority_and_by_frequency(record, sign, verdict):
    """Gains of both signs in every query, frequent tokens losing; of gains all of one sign the majority knows as much."""
    losing = np.arange(record.sizes["token"]) % 5 < 2
    mixed = np.broadcast_to(np.where(losing, -1.0, 1.0), record.predicted_gain.shape)
    told = record.assign(
        predicted_gain=(record.predicted_gain.dims, mixed),
        distinct=(record.distinct.dims, np.zeros_like(record.distinct.values)),
        frequency=(record.frequency.dims, np.where(losing, 0.2, 0.1)),
    )
    assert {claim.verdict for claim in sign_claims(foretold(told, sign))} == {verdict}
    same = foretold(told.assign(predicted_gain=(record.predicted_gain.dims, np.ones_like(mixed))))
    assert {claim.verdict for claim in sign_claims(same) if claim.case["less that of"] == "majority sign"} == {FAILS}


def sign_claims(record):
    return [claim for claim in EXPERIMENT.claims(record) if "sign was predicted" in claim.title]


def scored(record, way, name, forecaster="forecast"):
    return float(forecast_scores.score_draws(record, way, forecaster, name)[0])


def staged(late=1.0, side=1.0):
    """Runs as they were predicted, but `late` by a factor and with attention turning to the other side if `side` is -1."""
    steps, share = np.linspace(0, 400, 401), 0.3
    at = dict(zip(forecast_scores.EVENTS, (50.0, 80.0, 110.0), strict=True))
    later = {name: steps >= late * time for name, time in at.items()}
    curves = {
        "top_share": np.where(later["condensed_time"], 1.0, 0.5),
        "population_loss": np.where(later["plateau_time"], 1.0, 2.0),
        "query_norm": np.where(later["focus_onset"], 4.0, 1.0),
        "query_scale": 1e-3 * np.exp(0.02 * steps / late),
        "embedding_norm": np.minimum(np.exp(0.1 * steps / late), 1e3),
    }
    axes = ("optimiser", "seed", "look")
    whole = {name: (axes, np.broadcast_to(curve, (2, 3, 401))) for name, curve in curves.items()}
    tilt = np.broadcast_to((share - 0.1 * side * later["focus_onset"])[:, None], (2, 3, 401, 5))
    told = {f"predicted_{name}": (("start",), np.full(2, time)) for name, time in at.items()}
    turns = {"predicted_turn_time": np.full((2, 5), np.nan), "predicted_turn_height": np.full((2, 5), -0.1)}
    rates = {"predicted_condensation_rate": 0.1, "predicted_focus_rate": -0.02, "predicted_sign": -1.0, "unigram_loss": 1.0}
    return xr.Dataset(
        whole
        | told
        | rates
        | {name: (("start", "word"), values) for name, values in turns.items()}
        | {"on_frequent": ((*axes, "word"), tilt), "look_step": (("optimiser", "look"), np.stack([steps, steps]))}
        | {"word_share": ("word", np.array([share, 0.2, 0.2, 0.2, 0.1]))}
        | {"predicted_query_path": ("stage_time", 1e-3 * np.exp(0.02 * np.geomspace(1e-3, 900, 503)))},
        {"optimiser": ["sgd", "adam"], "seed": np.arange(3), "stage_time": np.geomspace(1e-3, 900, 503)},
    )


@pytest.mark.parametrize(("late", "side", "verdict"), [(1.0, 1.0, HOLDS), (3.0, -1.0, FAILS)])
def test_claims_on_stages_hold_of_runs_as_predicted_and_fail_of_runs_three_times_as_slow(late, side, verdict):
    claims = forecast.stage_claims(staged(late, side))
    chosen = [claim for claim in claims if claim.statement == FORECAST_STAGES]
    assert len(chosen) == 7
    assert {claim.verdict for claim in chosen} == {verdict}


def test_a_turn_is_found_under_noise_and_noise_alone_is_none():
    rng, time = np.random.default_rng(3), np.linspace(0, 400, 401)
    bump = 0.3 + 0.2 * np.exp(-(((time - 170) / 60) ** 2))
    stays = 0.3 + 0.2 / (1 + np.exp(-(time - 100) / 9))
    curves = np.stack([bump, stays], axis=1) + 0.004 * rng.standard_normal((401, 2))
    run = xr.Dataset({"on_frequent": (("look", "word"), curves), "look_step": ("look", time), "query_norm": ("look", np.ones(401))})
    found = forecast_scores.turn_times(run, share=0.3, sign=1.0)
    assert found[0] == pytest.approx(170, abs=20)
    assert np.isnan(found[1])


def test_turns_are_counted_apart_by_what_was_predicted_and_what_came():
    nan = np.nan
    guess, truth = np.array([100.0, 100.0, nan, 100.0, nan]), np.array([150.0, 250.0, 100.0, nan, nan])
    found = forecast_scores.turn_kinds(guess, truth)
    assert found.tolist() == ["told", "wrong time", "missed", "false alarm", "neither"]


def test_a_turn_predicted_for_after_the_run_is_not_predicted_within_it():
    later = staged().assign(predicted_turn_time=(("start", "word"), np.full((2, 5), 500.0)))
    sooner = staged().assign(predicted_turn_time=(("start", "word"), np.full((2, 5), 300.0)))
    assert forecast_scores.turn_counts(later, "sgd")["neither"].tolist() == [5, 5, 5]
    assert forecast_scores.turn_counts(sooner, "sgd")["false alarm"].tolist() == [5, 5, 5]


def test_measures_are_those_of_the_embedded_model_in_the_limit_of_long_contexts():
    chain = MarkovChain.zipf(7, stay=0.3)
    torch.manual_seed(5)
    model = Transformer(TransformerConfig.focus_and_dilution(7, 3, init_scale=0.8))
    found = StageMeasures(chain)(model, 0)
    weights = type(weights_of(model))(*(matrix.numpy() for matrix in weights_of(model)))
    with jax.enable_x64(True):
        loss = float(population_loss(composite(weights, 3**-0.5), chain))
    assert found["population_loss"] == pytest.approx(loss)
    values = np.linalg.svd(weights.embedding, compute_uv=False)
    assert found["top_share"] == pytest.approx(values[0] ** 2 / (values**2).sum())
    ids = torch.from_numpy(np.repeat(np.arange(7), np.round(1000 * chain.stationary).astype(int)))[None]
    ids = torch.cat([ids, torch.tensor([[4]])], dim=1)
    logits = model(ids, last_only=True).detach().numpy().ravel()
    attention = jax.nn.softmax(composite(weights, 3**-0.5).attention_logits + np.log(chain.stationary), axis=-1)
    np.testing.assert_allclose(logits, attention[4] @ weights.embedding @ weights.projection, atol=0.01)
    assert found["on_frequent"][1][4] == pytest.approx(float(attention[4, 0]), rel=1e-5)


def test_table_files_and_figure_show_every_forecaster_and_token(record):
    rows = EXPERIMENT.rows(record)
    assert {row["forecaster"] for row in rows} == set(forecast_scores.FORECASTERS)
    files = EXPERIMENT.files(record)
    assert len(files["tokens.csv"][1]) == int((record.attention_start > 0).sum())
    assert len(files["stages.csv"][1]) == 2 * 5 * 2
    assert len(EXPERIMENT.figure(record).axes) == 8


def test_no_seed_is_refused():
    with pytest.raises(InputError, match="seeds"):
        EXPERIMENT.run(replace(SMALL, seeds=0))
