"""Dynamics (A): what a training run promises, whatever it is packed with, saved at or resumed from."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from saccade.data.sequence_classes import SequenceClasses
from saccade.engines import descent_scan
from saccade.models.pairwise import Pairwise
from saccade.runs import train

SMALL = {"steps": 23, "batch": 17, "context": 29, "momentum": 0.9}


def test_a_run_does_not_depend_on_what_else_is_trained_or_saved():
    """A seed alone, among others, among other rates, with other saves: one trajectory, up to the
    order of sums.
    """
    task = SequenceClasses.syn_medium(3)
    alone = train(task, **SMALL, lr_decoder=2.0, seeds=[2], save=[23], dtype="float64")
    among_seeds = train(
        task, **SMALL, lr_decoder=2.0, seeds=[0, 1, 2, 3, 4], save="linear", dtype="float64"
    )
    rates = [*np.geomspace(0.5, 8, 7).tolist(), 2.0]
    among_rates = train(
        task, **SMALL, lr_decoder=rates, seeds=[1, 2], save=[3, 23], dtype="float64"
    )
    expected = alone.attention.sel(seed=2, time=23).values
    np.testing.assert_allclose(
        among_seeds.attention.sel(seed=2, time=23).values, expected, atol=1e-13
    )
    np.testing.assert_allclose(
        among_rates.attention.isel(rate=7).sel(seed=2, time=23).values, expected, atol=1e-13
    )


def test_a_long_run_drawn_in_stretches_equals_one_drawn_at_once(monkeypatch):
    task = SequenceClasses.syn_small()
    whole = train(task, **SMALL, seeds=2, save="linear", dtype="float64")
    monkeypatch.setattr(
        descent_scan, "_BYTES_DRAWN_AHEAD", 3 * 2 * 2 * 17 * 20 * 4
    )  # three steps at a time
    stretched = train(task, **SMALL, seeds=2, save="linear", dtype="float64")
    np.testing.assert_allclose(stretched.attention.values, whole.attention.values, atol=1e-13)
    np.testing.assert_allclose(stretched.loss.values, whole.loss.values, atol=1e-13)


@pytest.mark.parametrize(("room", "longest"), [(1, 1), (10, 10), (10.9, 10), (10_000, 101)])
def test_stretches_are_as_long_as_their_batches_fit_in_memory_and_cover_every_step_once(
    monkeypatch, room, longest
):
    """A step draws 3 seeds x 5 contexts x 7 tokens, four bytes each, twice."""
    monkeypatch.setattr(descent_scan, "_BYTES_DRAWN_AHEAD", room * 2 * 3 * 5 * 7 * 4)
    plan, blocks = (
        SimpleNamespace(seeds=(4, 6, 9), batch=5, steps=100),
        SimpleNamespace(token_prob=np.ones((2, 7))),
    )
    found = list(descent_scan.stretches(plan, blocks))
    assert [step for stretch in found for step in stretch] == list(range(101))
    assert max(map(len, found)) == -(-101 // -(-101 // longest))


def test_the_first_loss_from_a_zero_start_is_that_of_guessing():
    record = train(SequenceClasses.syn_small(), steps=0, save=[0], dtype="float64")
    np.testing.assert_allclose(record.loss.values, math.log(34), rtol=1e-14)
    np.testing.assert_allclose(
        record.attention.values[0, 0], SequenceClasses.syn_small().token_prob, atol=1e-15
    )


def test_a_merged_column_trains_like_the_tokens_it_stands_for():
    """A zero start keeps one column for all tokens that are never predicted; a vanishing random
    start keeps them apart.
    """
    task = SequenceClasses.syn_medium(2)
    merged = train(task, **SMALL, save=[23], dtype="float64")
    apart = train(
        task, **SMALL, save=[23], dtype="float64", model=Pairwise(init="uniform", init_scale=1e-14)
    )
    np.testing.assert_allclose(merged.attention.values, apart.attention.values, atol=1e-12)
    np.testing.assert_allclose(merged.loss.values, apart.loss.values, atol=1e-12)


def test_a_rate_that_is_far_too_high_ends_as_diverged_and_spares_the_others():
    record = train(
        SequenceClasses.syn_small(),
        **SMALL,
        lr_decoder=[1.0, 1e9, 1e30],
        lr_attention=[1.0, 1e9, 1e30],
        seeds=2,
    )
    assert record.stop_reason.values.tolist() == [
        ["finished"] * 2,
        ["diverged"] * 2,
        ["diverged"] * 2,
    ]
    assert np.isfinite(record.loss.isel(rate=0)).all()
    assert (record.stop_time.isel(rate=0) == 23).all()
    for rate in (1, 2):
        for seed in (0, 1):
            run = record.isel(rate=rate, seed=seed)
            before = run.time < run.stop_time
            assert np.isfinite(run.loss.where(before, drop=True)).all()
            assert run.loss.where(~before, drop=True).isnull().all()
            assert run.attention.where(~before, drop=True).isnull().all()


def test_rates_that_learn_stay_far_from_the_bound_that_means_diverged():
    """The harshest published setting: attention rate 3, decoder rate 30, momentum."""
    task = SequenceClasses.syn_medium(1)
    model = Pairwise(init="uniform")
    record = train(
        task,
        lr_decoder=30.0,
        lr_attention=3.0,
        momentum=0.9,
        seeds=10,
        save=range(101),
        model=model,
        keep=(),
    )
    assert (record.stop_reason == "finished").all()
    assert float(record.loss.max()) < 10 * math.log(task.n_vocab)


def test_longer_contexts_approach_the_infinite_one_like_one_over_the_root():
    task = SequenceClasses.syn_small()
    settings = {"steps": 5, "batch": 512, "seeds": 4, "save": [5], "dtype": "float64"}
    limit = train(task, context=math.inf, **settings).attention
    lengths = np.array([100, 1600, 25600])
    finite = [train(task, context=int(n), **settings).attention for n in lengths]
    gaps = [float(np.abs(attention - limit).max(["class", "token"]).mean()) for attention in finite]
    slope = np.polyfit(np.log(lengths), np.log(gaps), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.15)


def test_every_record_says_which_dynamics_made_it():
    record = train(SequenceClasses.syn_small(), steps=1)
    assert record.attrs["dynamics"] == "A: mini-batch training"
    for name, variable in record.variables.items():
        if name in record.data_vars:
            assert {"units", "definition"} <= set(variable.attrs), name
