"""Outcomes in a file: to the last bit, the same bytes for the same outcomes, and damage is a
sentence.
"""

from __future__ import annotations

import json
import pickle
import zipfile

import numpy as np
import pytest
import xarray as xr

from saccade.errors import InputError
from saccade.experiments import experiment
from saccade.records import expansion
from saccade.sweeps.outcome_file import FAILED, FINISHED, Outcome, as_bytes, packed, read_outcomes
from tests.sweeps.small_sweeps import computed, small_grid


@pytest.fixture(scope="module")
def odd_record() -> xr.Dataset:
    """All kinds of values that are lost easily."""
    floats = np.array([0.1, -0.0, np.nan, np.inf, 5e-324, 1 / 3])
    return xr.Dataset(
        {
            "double": ("place", floats, {"units": "1", "definition": "odd numbers"}),
            "single": ("place", floats.astype(np.float32)),
            "whole": ("place", np.arange(6) - 3),
            "truth": ("place", np.arange(6) % 2 == 0),
            "words": ("place", np.array(["", "a", "ü", "<b>", "long word", "0"])),
            "objects": ("place", np.array(["a", "bb", "", "d", "e", "f"], dtype=object)),
            "scalar": ((), np.float64(0.1)),
            "turned": (
                ("row", "place"),
                np.asfortranarray(np.random.default_rng(0).normal(size=(3, 6))),
            ),
            "none": (("nothing",), np.empty(0)),
        },
        {"place": np.arange(6) / 10, "named": ("place", list("abcdef"))},
        {"config": "{}"},
    )


def outcomes_of(record: xr.Dataset) -> list[Outcome]:
    return [
        Outcome("first", FINISHED, "", 0.25, packed(record)),
        Outcome("second", FINISHED, "", 0.25, packed(record)),
        Outcome("third", FAILED, "it said “no”", 1.5),
    ]


def test_records_come_back_to_the_bit_with_axes_and_units(tmp_path, odd_record):
    path = tmp_path / "outcomes.npz"
    path.write_bytes(as_bytes(outcomes_of(odd_record)))
    first, _, third = read_outcomes(path)
    for name, variable in odd_record.variables.items():
        back = first.record.variables[name]
        assert back.dims == variable.dims
        assert back.attrs == variable.attrs
        if variable.dtype != object:
            assert (back.dtype, back.values.tobytes()) == (
                variable.dtype,
                variable.values.tobytes(),
            )
    assert list(first.record.objects.values) == list(odd_record.objects.values)
    assert set(first.record.coords) == set(odd_record.coords)
    assert (third.status, third.reason, third.seconds, third.record) == (
        FAILED,
        "it said “no”",
        1.5,
        None,
    )


def test_only_wanted_runs_are_read(tmp_path, odd_record):
    path = tmp_path / "outcomes.npz"
    path.write_bytes(as_bytes(outcomes_of(odd_record)))
    assert [outcome.identity for outcome in read_outcomes(path, {"third", "second"})] == [
        "second",
        "third",
    ]


def test_the_same_outcomes_give_the_same_bytes(odd_record):
    assert as_bytes(outcomes_of(odd_record)) == as_bytes(outcomes_of(odd_record.copy(deep=True)))


def test_a_computed_run_is_the_same_record_as_the_experiment_gives(tmp_path):
    grid = small_grid(1)
    path = tmp_path / "outcomes.npz"
    path.write_bytes(as_bytes(computed(grid)))
    first = next(iter(read_outcomes(path))).record
    direct = experiment(grid.name).run(grid.runs[0].config).record
    for name in direct.variables:
        np.testing.assert_array_equal(first[name].values, direct[name].values)


def _written_and_read(path, content):
    path.write_bytes(content)
    return list(read_outcomes(path))


def test_foreign_files_are_input_errors(tmp_path):
    path = tmp_path / "outcomes.npz"
    np.savez(path, a=np.arange(3))
    foreign = [path.read_bytes(), b"", b"hello", np.arange(3).tobytes()]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("outcomes.json", '{"runs": [3]}')
    foreign.append(path.read_bytes())
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("outcomes.json", "[]")
    foreign.append(path.read_bytes())
    for content in foreign:
        with pytest.raises(InputError, match="is damaged"):
            _written_and_read(path, content)
    with pytest.raises(InputError, match="is damaged"):
        list(read_outcomes(tmp_path / "not there"))


def test_pickled_objects_are_refused_not_loaded(tmp_path):
    path = tmp_path / "outcomes.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("0.values", pickle.dumps([{"a": 1}]))
        layout = {"coords": [], "variables": {"x": [["d"], {}]}, "arrays": {"x": ["|O", [1]]}}
        entry = {
            "run": "r",
            "status": "finished",
            "reason": "",
            "seconds": 1,
            "layout": 0,
            "attrs": {},
        }
        archive.writestr("outcomes.json", json.dumps({"runs": [entry], "layouts": [layout]}))
    with pytest.raises(InputError, match=r"is damaged: .*OBJECT"):
        list(read_outcomes(path))


def test_a_file_that_would_unpack_to_far_more_than_it_is_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(expansion, "_ANY", 1000)
    with zipfile.ZipFile(tmp_path / "runs.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("outcomes.json", '{"runs": [], "layouts": []}' + " " * 10**6)
    with pytest.raises(InputError, match="but would take 1,000,027 in memory"):
        list(read_outcomes(tmp_path / "runs.npz"))
