"""The scored forecast: a small run from end to end, scores and stages of runs whose course is
known, and claims able to fail.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest
import torch
import xarray as xr

from saccade.data.markov import MarkovChain
from saccade.errors import InputError
from saccade.experiments.real_text import forecast, forecast_stages
from saccade.experiments.real_text.forecast import EXPERIMENT, Settings
from saccade.experiments.real_text.forecast_stages import StageMeasures, weights_of
from saccade.lab.claim import CANNOT_TELL, FAILS, HOLDS
from saccade.model.embedded import composite, population_loss
from saccade.model.transformer import Transformer
from saccade.model.transformer_config import TransformerConfig
from saccade.processes import in_processes
from saccade.records.store import load_record, save_record
from saccade.theory.questions import FORECAST_ORDER, FORECAST_STAGES

SMALL = Settings(
    text="sotu",
    seeds=2,
    n_vocab=53,
    queries=2,
    window=7,
    n_windows=8009,
    looks=(2, 5),
    batches=(13, 61),
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


def test_the_figure_has_the_intervals_of_the_claims_and_none_ends_beyond_one(record):
    found = [
        claim.measured
        for claim in EXPERIMENT.claims(record)
        if "forecast and measured gains" in claim.title
    ]
    bars = [
        line
        for line in EXPERIMENT.panels(record)[0][0].lines
        if np.size(line.y) == 3 * record.sizes["time"]
    ]
    np.testing.assert_allclose(
        [np.asarray(line.y)[-3:-1] for line in bars], [one[1:] for one in found]
    )
    rows = [row for row in EXPERIMENT.rows(record) if "rank correlation" in row["measure"]]
    ends = np.array([[row["low"], row["high"]] for row in rows])
    assert np.nanmax(np.abs(ends)) == 1  # of two seeds: uncut, they would lie far beyond


def test_predictions_and_measurements_lie_on_the_same_axes(record):
    assert record.measured_gain.dims == ("batch", "seed", *record.predicted_gain.dims)
    for name in ("predicted_gain", "measured_gain"):
        np.testing.assert_allclose(
            record[name].sum("token"), 0, atol=1e-5
        )  # a row of Z keeps its sum
    np.testing.assert_allclose(record.word_share.sum(), 1)
    np.testing.assert_allclose(record.on_frequent.isel(look=0), record.word_share.max(), atol=1e-6)
    assert len(list(EXPERIMENT.claims(record))) == 2 + 7 + 3


@pytest.mark.parametrize(("sign", "verdict"), [(1.0, HOLDS), (-1.0, FAILS)])
def test_claims_on_tokens_hold_of_a_forecast_that_comes_true_and_fail_of_its_opposite(
    record, sign, verdict
):
    assert {claim.verdict for claim in order_claims(foretold(record, sign))} == {verdict}


def test_seeds_that_do_not_agree_tell_nothing(record):
    noise = np.random.default_rng(0).normal(size=record.measured_gain.shape)
    assert {
        claim.verdict
        for claim in order_claims(record.assign(measured_gain=(record.measured_gain.dims, noise)))
    } == {CANNOT_TELL}


def order_claims(record):
    return [claim for claim in EXPERIMENT.claims(record) if claim.statement == FORECAST_ORDER]


def staged(late=1.0, side=1.0):
    """Runs as they were predicted, but `late` by a factor and with attention turning to the other
    side if `side` is -1.
    """
    steps, share = np.linspace(0, 400, 401), 0.3
    at = dict(zip(forecast_stages.EVENTS, (50.0, 80.0, 110.0), strict=True))
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
    turns = {
        "predicted_turn_time": np.full((2, 5), np.nan),
        "predicted_turn_height": np.full((2, 5), -0.1),
    }
    rates = {
        "predicted_condensation_rate": 0.1,
        "predicted_focus_rate": -0.02,
        "predicted_sign": -1.0,
        "unigram_loss": 1.0,
    }
    return xr.Dataset(
        whole
        | told
        | rates
        | {name: (("start", "word"), values) for name, values in turns.items()}
        | {
            "on_frequent": ((*axes, "word"), tilt),
            "look_step": (("optimiser", "look"), np.stack([steps, steps])),
        }
        | {"word_share": ("word", np.array([share, 0.2, 0.2, 0.2, 0.1]))}
        | {
            "predicted_query_path": (
                "stage_time",
                1e-3 * np.exp(0.02 * np.geomspace(1e-3, 900, 503)),
            )
        },
        {
            "optimiser": ["sgd", "adam"],
            "seed": np.arange(3),
            "stage_time": np.geomspace(1e-3, 900, 503),
        },
    )


@pytest.mark.parametrize(("late", "side", "verdict"), [(1.0, 1.0, HOLDS), (3.0, -1.0, FAILS)])
def test_claims_on_stages_hold_of_runs_as_predicted_and_fail_of_runs_three_times_as_slow(
    late, side, verdict
):
    claims = forecast_stages.stage_claims(staged(late, side))
    chosen = [claim for claim in claims if claim.statement == FORECAST_STAGES]
    assert len(chosen) == 7
    assert {claim.verdict for claim in chosen} == {verdict}


def test_a_stage_that_comes_in_three_of_four_runs_does_not_come_in_every_run():
    """A rate whose interval over seeds reaches across the bound cannot be told."""
    record = staged()
    for name in ("top_share", "embedding_norm"):
        values = record[name].values.copy()
        values[0, 1] = values[0, 1, 0] if name == "top_share" else values[0, 1] ** 0.5
        record[name] = record[name].dims, values
    verdicts = {
        claim.title.split(",")[0]: claim.verdict for claim in forecast_stages.stage_claims(record)
    }
    assert verdicts["embeddings lie along one direction when predicted (factor 2)"] == FAILS
    assert verdicts["condensation rate"] == CANNOT_TELL
    assert verdicts["token frequencies are learnt when predicted (factor 2)"] == HOLDS


def test_a_turn_is_found_under_noise_and_noise_alone_is_none():
    rng, time = np.random.default_rng(3), np.linspace(0, 400, 401)
    bump = 0.3 + 0.2 * np.exp(-(((time - 170) / 60) ** 2))
    stays = 0.3 + 0.2 / (1 + np.exp(-(time - 100) / 9))
    curves = np.stack([bump, stays], axis=1) + 0.004 * rng.standard_normal((401, 2))
    run = xr.Dataset(
        {
            "on_frequent": (("look", "word"), curves),
            "look_step": ("look", time),
            "query_norm": ("look", np.ones(401)),
        }
    )
    found = forecast_stages.turn_times(run, share=0.3, sign=1.0)
    assert found[0] == pytest.approx(170, abs=20)
    assert np.isnan(found[1])


def test_turns_are_counted_apart_by_what_was_predicted_and_what_came():
    nan = np.nan
    guess, truth = (
        np.array([100.0, 100.0, nan, 100.0, nan]),
        np.array([150.0, 250.0, 100.0, nan, nan]),
    )
    found = forecast_stages.turn_kinds(guess, truth)
    assert found.tolist() == ["told", "wrong time", "missed", "false alarm", "neither"]


def test_a_turn_predicted_for_after_the_run_is_not_predicted_within_it():
    later = staged().assign(predicted_turn_time=(("start", "word"), np.full((2, 5), 500.0)))
    sooner = staged().assign(predicted_turn_time=(("start", "word"), np.full((2, 5), 300.0)))
    assert forecast_stages.turn_counts(later, "sgd")["neither"].tolist() == [5, 5, 5]
    assert forecast_stages.turn_counts(sooner, "sgd")["false alarm"].tolist() == [5, 5, 5]


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
    ids = torch.from_numpy(np.repeat(np.arange(7), np.round(1000 * chain.stationary).astype(int)))[
        None
    ]
    ids = torch.cat([ids, torch.tensor([[4]])], dim=1)
    logits = model(ids, last_only=True).detach().numpy().ravel()
    attention = jax.nn.softmax(
        composite(weights, 3**-0.5).attention_logits + np.log(chain.stationary), axis=-1
    )
    np.testing.assert_allclose(
        logits, attention[4] @ weights.embedding @ weights.projection, atol=0.01
    )
    assert found["on_frequent"][1][4] == pytest.approx(float(attention[4, 0]), rel=1e-5)


def test_table_files_and_figure_show_both_forecasts(record):
    assert {row["forecaster"] for row in EXPERIMENT.rows(record)} >= {
        "decoder first",
        "follows frequency",
        "forecast",
    }
    assert len(EXPERIMENT.files(record)["stages.csv"][1]) == 2 * 5 * 2
    assert len(EXPERIMENT.figure(record).axes) == 5


def test_no_seed_is_refused():
    with pytest.raises(InputError, match="seeds"):
        EXPERIMENT.run(replace(SMALL, seeds=0))
