"""Runs of a sweep in one dataset: what differs between them in shape or in axes is left out, and named."""

from __future__ import annotations

import json

import numpy as np
import pytest

from saccade.sweeps.axes import axes_of
from saccade.sweeps.gathering import Gathered
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
