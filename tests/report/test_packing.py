"""Arrays come back as they went in, to the precision that is promised, and short."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from saccade.report.packing import packed, packed_map
from tests.report.unpacking import unpacked

RNG = np.random.default_rng(7)


@pytest.mark.parametrize(
    "values, mode, relative, absolute",
    [
        (RNG.uniform(-3, 5, (7, 11, 13)), "linear16", 0, 8 / 131_000),
        (RNG.dirichlet(np.ones(13), (7, 11)), "linear16", 0, 1 / 131_000),
        (np.array([1.0, -1e20, 3.0, np.inf]), "float32", 1e-7, 0),
        (np.array([1e-300, 1e300]), "float64", 0, 0),
    ],
)
def test_an_array_comes_back_to_the_promised_precision(values, mode, relative, absolute):
    for axis in (None, 0, values.ndim - 1):
        pack = packed(values, axis)
        assert pack["mode"] == mode
        np.testing.assert_allclose(unpacked(pack), values, rtol=relative, atol=absolute)


def test_values_of_many_orders_keep_their_relative_precision_where_that_is_asked():
    values = np.geomspace(1e-12, 1, 143).reshape(11, 13)
    for axis in (None, 0):
        pack = packed(values, axis, log=True)
        assert pack["mode"] == "log16"
        np.testing.assert_allclose(unpacked(pack), values, rtol=1 / 2000)


@given(
    hnp.arrays(np.float64, hnp.array_shapes(max_dims=3, max_side=5), elements=st.floats(width=64))
)
def test_anything_can_be_packed_and_what_is_missing_stays_missing(values):
    back = unpacked(packed(values, 0))
    assert back.shape == values.shape
    np.testing.assert_array_equal(np.isnan(back), np.isnan(values))
    np.testing.assert_array_equal(np.isposinf(back), np.isposinf(values))


def test_maps_keep_small_weights_apart_from_none():
    weights = np.array([[0.0, 1e-4, 0.5, 1.0, np.nan]])
    back = unpacked(packed_map(weights))
    np.testing.assert_allclose(back, weights, atol=4e-3)
    assert back[0, 0] == 0 < back[0, 1]


def test_a_slow_curve_is_much_shorter_than_its_numbers():
    time = np.linspace(0, 1, 1500)
    values = np.stack([np.tanh(5 * time * rate) for rate in np.linspace(0.1, 1, 36)], axis=1)
    assert len(packed(values, 0)["data"]) < values.nbytes / 8
    assert len(packed(values, 0)["data"]) < 0.8 * len(packed(values)["data"])  # differences help
