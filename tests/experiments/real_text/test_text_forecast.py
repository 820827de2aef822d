"""Forecasts on text: predictions by a second way, scores of made runs."""

from __future__ import annotations

from itertools import combinations

import jax
import numpy as np
import pytest
import torch

from saccade.data.markov import MarkovChain
from saccade.experiments.real_text import forecast_stages as stages
from saccade.experiments.real_text import text_forecast as asked
from saccade.experiments.real_text.token_fates import mean_correlation
from saccade.experiments.real_text.token_groups import Text
from saccade.models.embedded import composite, population_loss
from saccade.models.transformer import Transformer
from saccade.models.transformer_config import TransformerConfig


def test_the_interval_of_pairs_is_twice_as_wide_as_if_pairs_were_independent():
    """The variance of a mean over pairs of n values, product and all: four times that of one row's
    mean over n [Hoeffding].
    """
    found, true = [], []
    for seed in range(200):
        x = 1 + 0.1 * np.random.default_rng(seed).normal(size=11)
        values = asked.share_elsewhere(np.outer(x, x), np.ones((11, 11)))
        found.append(values.var(ddof=1) / 11)
        true.append(asked.elsewhere(np.outer(x, x)))
        assert values.mean() == pytest.approx(true[-1])
    assert np.mean(found) == pytest.approx(np.var(true), rel=0.15)


def test_elsewhere_is_the_mean_over_pairs_of_samples():
    runs, seen = np.random.default_rng(0).normal(size=(4, 2, 31)), np.ones((2, 31), bool)
    scores = asked.table(runs, runs, lambda one, other: mean_correlation(one, other, seen))
    by_hand = [mean_correlation(one, other, seen) for one, other in combinations(runs, 2)]
    assert asked.elsewhere(scores) == pytest.approx(np.mean(by_hand))
    np.testing.assert_allclose(np.diag(scores), 1)


def test_at_small_rates_decoder_first_is_right_in_size_and_the_first_force_in_direction():
    rates = {"lr_decoder": 0.1, "lr_attention": 0.01}
    found = asked.one_sample(Text("sotu", 61, 3, 7), 0, 1500, [2, 3], rates)
    run, told, force = (found[name][0] for name in ("run", "decoder first", "first force"))
    assert np.linalg.norm(told - run) < 0.01 * np.linalg.norm(run)
    cosine = (force * run).sum() / np.linalg.norm(force) / np.linalg.norm(run)
    assert cosine > 0.999


def test_the_halves_of_a_text_are_read_by_different_transformers():
    text = Text("sotu", 61, 2, 7)
    first, second, again = (asked.transformer_gains(text, half, 0, [2]) for half in (0, 1, 0))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - second).max() > 1e-6


def test_a_turn_is_found_under_noise_and_noise_alone_is_none():
    rng, time = np.random.default_rng(3), np.linspace(0, 400, 401)
    bump = 0.2 * np.exp(-(((time - 170) / 60) ** 2))
    stays = 0.2 / (1 + np.exp(-(time - 100) / 9))
    for curve, turns in ((bump, 1), (stays, 0)):
        assert stages.turns_back((curve + 0.004 * rng.standard_normal(401))[:, None]) == turns


def test_measures_are_those_of_the_embedded_model_in_the_limit_of_long_contexts():
    chain = MarkovChain.zipf(7, stay=0.3)
    torch.manual_seed(5)
    model = Transformer(TransformerConfig.focus_and_dilution(7, 3, init_scale=0.8))
    found = stages.StageMeasures(chain)(model, 0)
    kept = stages.weights_of(model)
    weights = type(kept)(*(matrix.numpy() for matrix in kept))
    with jax.enable_x64(True):
        loss = float(population_loss(composite(weights, 3**-0.5), chain))
    assert found["population_loss"] == pytest.approx(loss)
    values = np.linalg.svd(weights.embedding, compute_uv=False)
    assert found["top_share"] == pytest.approx(values[0] ** 2 / (values**2).sum())
    often = np.repeat(np.arange(7), np.round(1000 * chain.stationary).astype(int))
    ids = torch.from_numpy(np.append(often, 4))[None]
    logits = model(ids, last_only=True).detach().numpy().ravel()
    attention = jax.nn.softmax(
        composite(weights, 3**-0.5).attention_logits + np.log(chain.stationary), axis=-1
    )
    read = attention[4] @ weights.embedding @ weights.projection
    np.testing.assert_allclose(logits, read, atol=0.01)
    assert found["on_frequent"][1][4] == pytest.approx(float(attention[4, 0]), rel=1e-5)
