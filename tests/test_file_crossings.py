"""Calls between files are counted once for each pair of functions, whatever lies between them."""

from __future__ import annotations

from saccade.experiments import finding_of, module_of
from tools.file_crossings import crossings


def test_each_pair_of_functions_in_different_files_counts_once():
    found = crossings(lambda: [finding_of("focus-growth"), finding_of("condensation"), module_of("condensation")])
    assert sorted(map(str, found)) == [
        "experiments/__init__.py:finding_of -> errors.py:checked_choice",
        "experiments/__init__.py:module_of -> errors.py:checked_choice",
    ]
