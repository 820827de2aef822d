"""A sweep over a system of one's own: every cell is the flow of its own system, and a second call computes nothing."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import saccade
from saccade.errors import InputError


class Well(saccade.System):
    """One parameter in a parabola: x(t) = exp(-steepness t)."""

    def __init__(self, steepness: float = 1.0, depth: float = 0.0) -> None:
        self.steepness, self.depth = steepness, depth

    def start(self, rng):
        return jnp.ones(())

    def loss(self, x):
        return self.steepness * x**2 / 2 - self.depth

    def observe(self, x):
        return {"place": saccade.Seen((), x, "1", "where it is")}


OVER = {"steepness": [1.0, 2.0, 3.0], "depth": [0.0, 5.0]}


def test_every_cell_is_the_flow_of_its_own_system():
    found = saccade.sweep(Well, OVER, t1=2.0, n_times=20).squeeze("seed")
    assert dict(found.sizes) | {"steepness": 3, "depth": 2, "time": 21} == dict(found.sizes)
    np.testing.assert_allclose(found.place.sel(depth=5.0), np.exp(-found.steepness * found.time), rtol=1e-6)
    np.testing.assert_allclose(found.loss.sel(depth=0.0) - found.loss.sel(depth=5.0), 5.0)


def test_a_second_call_computes_nothing_and_other_settings_do(tmp_path):
    first = saccade.sweep(Well, OVER, out=tmp_path, t1=2.0, n_times=20)
    written = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(written) == 6
    assert saccade.sweep(Well, OVER, out=tmp_path, t1=2.0, n_times=20).identical(first)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == written
    saccade.sweep(Well, {"steepness": [1.0]}, out=tmp_path, t1=3.0, n_times=20)
    assert len(list(tmp_path.iterdir())) == 7


def test_mistakes_are_sentences():
    with pytest.raises(InputError, match="`over` must list values"):
        saccade.sweep(Well, {"steepness": 1.0})
    with pytest.raises(InputError, match=r"must give a saccade.System"):
        saccade.sweep(lambda steepness: 3, {"steepness": [1.0]})
