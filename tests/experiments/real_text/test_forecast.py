"""The scored forecast: a small run from end to end, scores and stages of runs whose course is known, and claims able to fail."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
import pytest
import torch
import xarray as xr

from saccade.data.markov import MarkovChain
from saccade.errors import InputError
from saccade.experiments.real_text import forecast, forecast_claims, forecast_scores, forecast_stages
from saccade.experiments.real_text.forecast_runs import StageMeasures, weights_of
from saccade.experiments.real_text.runs import in_processes
from saccade.model.embedded import composite, population_loss
from saccade.model.transformer import Transformer
from saccade.model.transformer_config import TransformerConfig
from saccade.records.claim import FAILS, HOLDS
from saccade.records.store import load_record, save_record

SMALL = forecast.Config(
    text="sotu", seeds=2, n_vocab=53, queries=2, window=7, n_next=3, n_tokens=37, steps=11, batch=61, n_words=11, d_model=5
)
TINY = {"context": 13, "stage_steps": 23, "stage_batch": 17, "adam_steps": 19}


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    path = tmp_path_factory.mktemp("forecast") / "record.zarr"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forecast, "in_processes", partial(in_processes, processes=1))
        save_record(forecast.run(forecast.replace(SMALL, **TINY)), path)
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
    assert len(forecast.claims(record)) == 3 * 7 + 1 + 7 + 3


def test_trained_on_the_classes_with_endless_contexts_tokens_move_as_predicted(record):
    scores = {way: forecast_scores.order_scores(record, way, "forecast") for way in ("endless", "short")}
    assert scores["endless"]["token order"].min() > 0.9
    assert (scores["endless"]["attention"] < scores["short"]["attention"]).all()


def test_a_forecast_that_comes_true_has_perfect_scores_and_the_opposite_has_the_worst(record):
    true, false = (forecast_scores.order_scores(foretold(record, sign), "sgd", "forecast") for sign in (1.0, -1.0))
    for name, best, worst in (("token order", 1, -1), ("common sign", 1, 0)):
        np.testing.assert_allclose(true[name], best)
        np.testing.assert_allclose(false[name], worst)
    np.testing.assert_allclose(true["attention"], 0, atol=1e-12)
    np.testing.assert_allclose(true["half way"], 1)


def test_nothing_changes_is_as_far_off_as_attention_has_moved(record):
    scores = forecast_scores.order_scores(record, "sgd", "nothing changes")
    start = record.attention_start.values
    end = forecast_scores.attention(record.measured_gain.sel(way="sgd").values[:, -1], start)
    np.testing.assert_allclose(scores["attention"], (np.abs(end - start).sum(axis=-1) / 2).mean(axis=-1), atol=1e-9)
    assert (scores["token order"] == 0).all()
    assert (scores["half way"] == 0).all()


def test_claims_on_tokens_hold_of_a_forecast_that_comes_true_and_fail_of_its_opposite(record):
    def verdicts(data):
        told = forecast_claims.order_claims(data)
        return [claim.verdict for claim in told if "all tokens" in claim.statement or "sign" in claim.statement]

    assert set(verdicts(foretold(record))) == {HOLDS}
    assert set(verdicts(foretold(record, -1.0))) == {FAILS}


def staged(late=1.0, side=1.0):
    """Runs as they were predicted, but `late` by a factor and with attention turning to the other side if `side` is -1."""
    steps, share = np.linspace(0, 400, 401), 0.3
    at = dict(zip(forecast_stages.EVENTS, (50.0, 80.0, 110.0), strict=True))
    later = {name: steps >= late * time for name, time in at.items()}
    curves = {
        "top_share": np.where(later["condensed_time"], 1.0, 0.5),
        "population_loss": np.where(later["plateau_time"], 1.0, 2.0),
        "query_norm": np.where(later["focus_onset"], 4.0, 1.0),
        "query_scale": np.exp(0.02 * steps / late),
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
        | {"word_share": ("word", np.array([share, 0.2, 0.2, 0.2, 0.1]))},
        {"optimiser": ["sgd", "adam"], "seed": np.arange(3)},
    )


@pytest.mark.parametrize(("late", "side", "verdict"), [(1.0, 1.0, HOLDS), (3.0, -1.0, FAILS)])
def test_claims_on_stages_hold_of_runs_as_predicted_and_fail_of_runs_three_times_as_slow(late, side, verdict):
    claims = forecast_claims.stage_claims(staged(late, side))
    chosen = [claim for claim in claims if "Adam" not in claim.statement and "turn back" not in claim.statement]
    assert len(chosen) == 6
    assert {claim.verdict for claim in chosen} == {verdict}


def test_growth_rate_is_that_of_an_exponential_between_its_start_and_its_plateau():
    time = np.linspace(0, 50, 211)
    assert forecast_stages.growth_rate(time, np.minimum(0.01 * np.exp(0.3 * time), 7.0)) == pytest.approx(0.3)
    assert np.isnan(forecast_stages.growth_rate(time, np.ones(211)))


def test_a_turn_is_found_under_noise_and_noise_alone_is_none():
    rng, time = np.random.default_rng(3), np.linspace(0, 400, 401)
    bump = 0.3 + 0.2 * np.exp(-(((time - 170) / 60) ** 2))
    stays = 0.3 + 0.2 / (1 + np.exp(-(time - 100) / 9))
    curves = np.stack([bump, stays], axis=1) + 0.004 * rng.standard_normal((401, 2))
    run = xr.Dataset({"on_frequent": (("look", "word"), curves), "look_step": ("look", time), "query_norm": ("look", np.ones(401))})
    found = forecast_stages.turn_times(run, share=0.3, sign=1.0)
    assert found[0] == pytest.approx(170, abs=20)
    assert np.isnan(found[1])


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
    rows = forecast.table(record)
    assert {row["forecaster"] for row in rows} == set(forecast_scores.FORECASTERS)
    files = forecast.files(record)
    assert len(files["tokens.csv"][1]) == int((record.attention_start > 0).sum())
    assert len(files["stages.csv"][1]) == 2 * 5 * 2
    assert len(forecast.figure(record).axes) == 8


def test_no_seed_is_refused():
    with pytest.raises(InputError, match="seeds"):
        forecast.run(forecast.replace(SMALL, seeds=0))
