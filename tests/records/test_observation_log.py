"""Looks that are written are read again when they are wanted: memory holds none of them."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import xarray as xr

torch = pytest.importorskip("torch")

import saccade  # noqa: E402
from saccade.records import observation_log  # noqa: E402
from tests.observe import model_zoo as zoo  # noqa: E402


def test_looks_that_are_on_disk_are_not_held_in_memory_and_large_arrays_of_the_record_lie_on_disk(tmp_path, monkeypatch):
    model = zoo.HandWritten("fused")
    found = {}
    for name, out in (("memory", None), ("disk", tmp_path / "run")):
        with saccade.watch(model, zoo.ids(), every=1, budget=None, out=out) as recorder:
            for step in range(3):
                recorder.step(step)
        found[name] = recorder
    assert all(isinstance(look, Path) for look in found["disk"]._log.observations.values())
    monkeypatch.setattr(observation_log, "_LARGE", 1)
    large = found["disk"].record
    assert isinstance(large.attention_map.data.base, np.memmap) or isinstance(large.attention_map.data, np.memmap)
    same = [name for name in large.data_vars if name != "look_seconds"]
    xr.testing.assert_equal(large[same], found["memory"].record[same])
    monkeypatch.setattr(observation_log.os, "posix_fallocate", mock.Mock(side_effect=OSError(28, "No space left on device")))
    xr.testing.assert_equal(found["disk"].record[same], large[same])  # in memory then
