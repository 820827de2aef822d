"""Runs of a sweep in one dataset: what differs between them in shape or in axes is left out, and
named.
"""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from saccade.records.store import load_record
from saccade.sweeps.axes import axes_of
from saccade.sweeps.gathering import Gathered, write_dataset
from saccade.sweeps.gathering import gathered as gathered_from
from saccade.sweeps.grid import Grid
from tests.sweeps.small_sweeps import NAME
from tests.sweeps.test_axes import Settings


def gathered(*runs: dict[str, tuple[tuple[str, ...], np.ndarray]]):
    (axis,) = axes_of([f"steps=1..{len(runs)}"], Settings())
    whole = Gathered(Grid(NAME, Settings(), (axis,)))
    for place, run in enumerate(runs):
        about = {"variables": {name: (dims, {}) for name, (dims, _) in run.items()}, "coords": []}
        whole.put((place,), about, {name: values for name, (_, values) in run.items()})
    return whole.dataset()


KEPT = {"loss": (("time",), np.arange(3.0))}


@pytest.mark.parametrize(
    "other",
    [
        {"map": (("token", "query"), np.ones((3, 3)))},  # the same shape along other axes
        {"map": (("query", "token"), np.ones((3, 5)))},  # the same axes in another shape
        {"map": (("query",), np.ones(3))},
    ],
)
def test_what_differs_in_shape_or_in_axes_is_left_out_and_named(other):
    found = gathered(KEPT | {"map": (("query", "token"), np.ones((3, 3)))}, KEPT | other)
    assert list(found) == ["loss"]
    assert json.loads(found.attrs["left_out"]) == ["map"]
    assert found.loss.dims == ("steps", "time")
    assert found.loss.values.tolist() == [[0, 1, 2], [0, 1, 2]]


def test_a_reason_that_names_a_file_outside_utf8_is_kept_as_it_can_be_written(tmp_path):
    (axis,) = axes_of(["steps=1,2"], Settings())
    grid = Grid(NAME, Settings(), (axis,))
    entries = {
        run.identity: {"status": "failed", "reason": "no file caf\udce9.csv"} for run in grid.runs
    }
    dataset = gathered_from(
        SimpleNamespace(entries=entries, outcomes=lambda known, as_packed: []), grid
    )
    write_dataset(
        tmp_path, dataset, [{"reason": str(reason)} for reason in dataset.reason.values], None
    )
    assert (
        load_record(tmp_path / "dataset.zarr").reason.values.tolist()
        == [r"no file caf\udce9.csv"] * 2
    )
