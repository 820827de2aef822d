"""The same numbers whatever computes them: one process or two, alone or in company, whole or bit by
bit.
"""

from __future__ import annotations

from collections import Counter

from saccade.sweeps.sweep import sweep
from tests.sweeps.small_sweeps import NAME, assert_same_dataset, manifest_runs, small_config


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
