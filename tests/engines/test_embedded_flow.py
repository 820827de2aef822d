"""Dynamics (B) and (C) of the embedded model: what they conserve, against each other, against
descent and against the theory.
"""

from __future__ import annotations

import json
import math

import jax
import numpy as np
import pytest

import saccade
from saccade import flow, train
from saccade import reduced_flow as rank_one_flow
from saccade.data.markov import MarkovChain
from saccade.errors import InputError
from saccade.models import rank_one as reduced
from saccade.models.embedded import Embedded, Setting, Weights, invariants, weights_of
from saccade.models.rank_one import RankOne
from saccade.theories import focus_and_dilution as theory

CHAIN = MarkovChain.zipf(5, stay=0.4)
MODEL = Embedded(d_model=7, d_key=3, init_scale=0.05)
WEIGHTS = ("embedding", "query_matrix", "key_matrix", "projection")


def test_the_invariants_know_a_separate_rate_of_attention():
    record = flow(CHAIN, model=MODEL, t1=300.0, lr_attention=5.0, n_times=50).isel(seed=0)
    first, second = invariants(weights_of(record), lr_attention=5.0)
    wrong, _ = invariants(weights_of(record))
    assert max(np.abs(first - first[0]).max(), np.abs(second - second[0]).max()) < 1e-8
    assert np.abs(wrong - wrong[0]).max() > 1e-2


def test_the_loss_never_rises_along_the_flow():
    record = flow(MarkovChain.paper(), t1=2000.0)
    assert np.diff(record.loss.values[0]).max() < 1e-12
    assert record.loss.values[0, -1] >= MarkovChain.paper().optimal_loss


def test_the_flow_ends_at_the_optimal_loss():
    chain = MarkovChain.zipf(6, stay=0.5)
    assert flow(chain).loss.values[0, -1] - chain.optimal_loss == pytest.approx(0, abs=1e-8)


def test_halving_the_learning_rate_halves_the_distance_to_the_flow():
    model, stretch = Embedded(d_model=7, d_key=3, init_scale=0.3), 30.0
    end = flow(CHAIN, model=model, t1=stretch, lr_attention=2.0, n_times=2).isel(time=-1)
    distances = []
    for n_steps in (300, 600, 1200):
        rate = stretch / n_steps
        settings = {
            "optimiser": "sgd",
            "batch": math.inf,
            "context": math.inf,
            "dtype": "float64",
            "save": [n_steps],
        }
        last = train(
            CHAIN, model=model, steps=n_steps, lr_decoder=rate, lr_attention=2 * rate, **settings
        ).isel(time=-1)
        distances.append(
            max(np.abs(last[name].values - end[name].values).max() for name in WEIGHTS)
        )
    assert distances[0] / distances[1] == pytest.approx(2, rel=0.1)
    assert distances[1] / distances[2] == pytest.approx(2, rel=0.05)


def test_rotating_the_width_rotates_the_path():
    rng = np.random.default_rng(4)
    start = MODEL.initial(5, rng)
    turn = np.linalg.qr(rng.standard_normal((7, 7)))[0]
    turned = Weights(
        start.embedding @ turn, turn.T @ start.query, turn.T @ start.key, turn.T @ start.projection
    )
    paths = [
        flow(CHAIN, model=MODEL, t1=200.0, n_times=20, start=first) for first in (start, turned)
    ]
    np.testing.assert_allclose(paths[0].attention.values, paths[1].attention.values, atol=1e-7)
    np.testing.assert_allclose(
        paths[0].embedding.values @ turn, paths[1].embedding.values, atol=1e-7
    )


def test_a_start_of_rank_one_follows_the_rank_one_flow():
    point = RankOne(
        np.array([0.5, 0.2, 0.1, 0.3, -0.1]), np.array([0.4, 0.0, -0.1, 0.2, -0.3]), 0.3, 0.1
    )
    alpha, a = np.eye(7)[2], np.eye(3)[1]
    start = Weights(
        np.outer(point.gamma, alpha),
        0.3 * np.outer(alpha, a),
        0.1 * np.outer(alpha, a),
        np.outer(alpha, point.beta),
    )
    whole = flow(CHAIN, model=MODEL, start=start, t1=100.0, n_times=30).isel(seed=0)
    small = rank_one_flow(CHAIN, start=point, t1=100.0, n_times=30)
    np.testing.assert_allclose(whole.embedding.values @ alpha, small.gamma.values, atol=1e-7)
    np.testing.assert_allclose(whole.attention.values, small.attention.values, atol=1e-7)
    np.testing.assert_allclose(whole.loss.values, small.loss.values, atol=1e-9)


def test_the_rank_one_velocity_equals_the_closed_form_of_the_theory():
    point = RankOne(
        np.array([0.5, 0.2, 0.1, 0.3, -0.1]),
        np.array([0.4, 0.0, -0.1, 0.2, -0.3]),
        np.float64(0.9),
        np.float64(1.3),
    )
    with jax.enable_x64(True):
        ours = reduced.velocity(point, Setting(CHAIN.stationary, CHAIN.transition, 1.7, 0.6, 2.0))
    closed = theory.rank_one_velocity(
        theory.RankOneState(*point),
        stationary=CHAIN.stationary,
        transition=CHAIN.transition,
        phi_scale=1.7,
        lr_decoder=0.6,
        lr_attention=2.0,
    )
    for mine, theirs in zip(ours, closed, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-14)


def test_a_small_start_of_the_rank_one_flow_favours_no_sign_of_attention():
    for stay, side in ((0.4, 1), (-0.05, -1)):
        record = rank_one_flow(MarkovChain.lazy([0.6, 0.3, 0.1], stay), t1=1e5)
        strength = record.query_scale.values * record.key_scale.values
        assert np.sign(strength[np.abs(strength) > 1e-3][0]) == side


def test_each_seed_has_its_own_start_and_is_the_same_alone():
    together = flow(CHAIN, model=MODEL, t1=50.0, n_times=10, seeds=[3, 8])
    alone = flow(CHAIN, model=MODEL, t1=50.0, n_times=10, seeds=[8])
    np.testing.assert_array_equal(together.embedding.values[1], alone.embedding.values[0])
    assert not np.allclose(together.embedding.values[0], together.embedding.values[1])


def test_a_record_of_a_chain_says_which_assumptions_it_meets():
    record = saccade.flow(CHAIN, model=MODEL, t1=10.0, n_times=5)
    ((entry,),) = [json.loads(record.attrs["assumptions"])]
    assert {condition["holds"] for condition in entry["conditions"]} <= {True, False}
    assert record.attrs["dynamics"].startswith("B")


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"t1": -1.0}, "t1"),
        ({"model": "wide"}, "model"),
        ({"keep": ["weights"]}, "keep"),
        ({"start": MODEL.initial(4, np.random.default_rng(0))}, "start"),
        ({"seeds": 2, "start": MODEL.initial(5, np.random.default_rng(0))}, "seeds"),
        ({"lr_attention": float("nan")}, "lr_attention"),
    ],
)
def test_bad_settings_are_named(settings, word):
    with pytest.raises(InputError, match=word):
        flow(CHAIN, **({"model": MODEL} | settings))


def test_a_setting_that_is_not_known_and_a_task_of_another_kind_are_named():
    with pytest.raises(TypeError, match="init_scale"):
        saccade.flow(CHAIN, init_scale=1e-3)
    with pytest.raises(
        InputError, match=r"`sequences` is not a setting of training classes; it has steps"
    ):
        saccade.train(saccade.SequenceClasses.syn_small(), sequences=3)
    with pytest.raises(InputError, match="MarkovChain"):
        saccade.train(3)
