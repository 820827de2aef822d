"""Calls between files are counted once for each pair of functions, whatever lies between them."""

from __future__ import annotations

from saccade.cli import main
from saccade.engines.randomness import checked_seeds
from saccade.experiments import module_of
from tools.file_crossings import crossings


def test_each_pair_of_functions_in_different_files_counts_once():
    found = crossings(
        lambda: [
            module_of("focus"),
            module_of("condensation"),
            checked_seeds((2, 3)),
            checked_seeds((5,)),
        ]
    )
    assert sorted(map(str, found)) == [
        "engines/randomness.py:checked_seeds -> errors.py:checked_seed",
        "experiments/__init__.py:module_of -> errors.py:checked_choice",
    ]


def test_a_run_of_the_centrepiece_crosses_files_at_most_240_times(tmp_path):
    """A bar on how many files a reader has to hold in mind at once."""
    assert len(crossings(lambda: main(["run", "scan-then-snap", "--out", str(tmp_path)]))) <= 240
