"""The same numbers whatever computes them: one process or two, at once or bit by bit."""

from __future__ import annotations

from saccade.sweeps.sweep import sweep
from tests.sweeps.small_sweeps import NAME, assert_same_dataset, manifest_runs

OVER = {"lr_decoder": [1.0, 2.0]}


def test_one_process_and_two_give_the_same_bits(tmp_path):
    for name, workers in (("one", 1), ("two", 2)):
        sweep(NAME, OVER, seeds=4, out=tmp_path / name, workers=workers)
        assert len(manifest_runs(tmp_path / name)) == 8
    assert_same_dataset(tmp_path / "one", tmp_path / "two")


def test_a_sweep_with_more_seeds_computes_only_the_new_ones(tmp_path):
    for seeds in (2, 3):
        sweep(NAME, OVER, seeds=seeds, out=tmp_path / "grown", workers=1)
        assert len(manifest_runs(tmp_path / "grown")) == 2 * seeds
    sweep(NAME, OVER, seeds=3, out=tmp_path / "at once", workers=1)
    assert_same_dataset(tmp_path / "grown", tmp_path / "at once")
