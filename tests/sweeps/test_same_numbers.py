"""The same numbers whatever computes them: one process or two, alone or in company, whole or bit by
bit.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from saccade.experiments import experiment
from saccade.sweeps.grid import Grid
from saccade.sweeps.sweep import sweep
from saccade.sweeps.units import MOST_TOGETHER, units_of
from tests.sweeps.small_sweeps import NAME, assert_same_dataset, manifest_runs, small_config

TOGETHER = "syn-small-attention"


def attention_config():
    return experiment(TOGETHER).settings(batch=2, context=7)


def attention_grid(n_rates: int = 2, n_seeds: int = 12) -> Grid:
    rates = list(np.linspace(0.5, 1.0, n_rates))
    return Grid.of(
        TOGETHER, {"lr_attention": rates, "ratio": [1.0, 10.0]}, n_seeds, attention_config()
    )


@pytest.fixture(scope="module")
def attention_sweeps(tmp_path_factory):
    """The same vectorised sweep by one process, by two, and by two in two goes."""
    over = {"lr_attention": [0.5, 1.0], "ratio": [1.0, 10.0]}
    folders = {}
    for name, workers in (("one", 1), ("two", 2)):
        folders[name] = tmp_path_factory.mktemp("same") / name
        sweep(
            TOGETHER, over, seeds=6, out=folders[name], config=attention_config(), workers=workers
        )
    return folders


def test_one_process_and_two_give_the_same_bits_for_runs_computed_together(attention_sweeps):
    assert_same_dataset(attention_sweeps["one"], attention_sweeps["two"])


def test_runs_computed_together_are_those_that_the_experiment_gives_alone_to_rounding(
    attention_sweeps,
):
    import saccade

    dataset = saccade.load_record(attention_sweeps["one"] / "dataset.zarr")
    module = experiment(TOGETHER)
    alone = module.run(
        module.settings(batch=2, context=7, lr_attention=0.5, ratios=(10.0,), seeds=(3,))
    )
    place = {"lr_attention": 0.5, "ratio": 10.0, "seed": 3}
    np.testing.assert_allclose(
        dataset.loss.sel(place), alone.loss.values.squeeze(), rtol=1e-4, atol=1e-6
    )
    np.testing.assert_allclose(
        dataset.attention.sel(place), alone.attention.values.squeeze(), rtol=1e-4, atol=1e-6
    )


def test_one_process_and_two_give_the_same_bits_for_runs_computed_one_by_one(tmp_path):
    for name, workers in (("one", 1), ("two", 2)):
        sweep(
            NAME,
            {"lr_decoder": [1.0, 2.0]},
            seeds=4,
            out=tmp_path / name,
            config=small_config(),
            workers=workers,
        )
        assert len(manifest_runs(tmp_path / name)) == 8
    assert_same_dataset(tmp_path / "one", tmp_path / "two")


def test_a_sweep_with_more_seeds_computes_only_the_new_ones(tmp_path):
    over, config = {"lr_decoder": [1.0, 2.0]}, small_config()
    sweep(NAME, over, seeds=2, out=tmp_path / "grown", config=config, workers=1)
    first = manifest_runs(tmp_path / "grown")
    sweep(NAME, over, seeds=3, out=tmp_path / "grown", config=config, workers=1)
    assert len(first) == 4
    assert manifest_runs(tmp_path / "grown")[:4] == first
    assert Counter(manifest_runs(tmp_path / "grown")).most_common(1)[0][1] == 1
    sweep(NAME, over, seeds=3, out=tmp_path / "at once", config=config, workers=1)
    assert_same_dataset(tmp_path / "grown", tmp_path / "at once")


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (2, 12), (9, 100), (300, 4)])
def test_units_hold_every_run_once_and_alike_ones_together(shape):
    grid = attention_grid(*shape)
    units = units_of(TOGETHER, grid.runs, {run.identity for run in grid.runs})
    assert Counter(identity for unit in units for identity in unit.identities) == Counter(
        run.identity for run in grid.runs
    )
    assert max(len(unit.identities) for unit in units) <= MOST_TOGETHER
    for unit in units:  # every rate is trained with every seed of a call, so a call that is not a full grid trains for nothing
        rates, seeds = (
            {(s["lr_attention"], s["ratios"]) for s in unit.settings},
            {s["seeds"] for s in unit.settings},
        )
        assert len(rates) * len(seeds) == len(unit.settings)


def test_runs_that_cannot_share_a_call_do_not():
    grid = Grid.of(TOGETHER, {"lr_attention": [0.5, 1.0], "context": [7, 9]}, 2, attention_config())
    units = units_of(TOGETHER, grid.runs, {run.identity for run in grid.runs})
    assert [{settings["context"] for settings in unit.settings} for unit in units] == [{7}, {9}]


def test_what_is_finished_already_does_not_move_the_rest_into_other_company():
    """Units appear whole: after a kill each is there or not, and those that are not are computed as
    they would have been.
    """
    grid = attention_grid(2, 30)
    every = {run.identity for run in grid.runs}
    units = units_of(TOGETHER, grid.runs, every)
    done = {identity for unit in units[::2] for identity in unit.identities}
    assert units_of(TOGETHER, grid.runs, every - done) == units[1::2]


def test_a_failed_run_that_is_tried_again_brings_all_of_its_old_company():
    """Of each of these units one run failed, so that the others were computed alone; those of the
    rest were not.
    """
    grid = attention_grid(2, 30)
    units = units_of(TOGETHER, grid.runs, {run.identity for run in grid.runs})
    assert len(units) > 3
    hurt = units[1::2]
    failed = {unit.identities[number % len(unit.identities)] for number, unit in enumerate(hurt)}
    alone = {identity for unit in hurt for identity in unit.identities}
    assert units_of(TOGETHER, grid.runs, failed, apart=alone) == hurt
