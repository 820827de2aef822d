"""Panels as described: mistakes are named, several are numbered, and lines show mean, range and intervals of seeds."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from saccade.errors import InputError
from saccade.lab.panel import Line, Lines, over_seeds, specs, with_intervals
from saccade.observe.fits import Interval


def test_several_panels_are_numbered_in_reading_order_and_a_single_one_is_not() -> None:
    one, two, three = (Lines(title, "x", "y", []) for title in ("first", "second", "third"))
    assert [[spec["title"] for spec in row] for row in specs([[one], [two, three]])] == [["1. first"], ["2. second", "3. third"]]
    assert [[spec["title"] for spec in row] for row in specs([one, two])] == [["1. first", "2. second"]]
    assert specs([one])[0][0]["title"] == "first"


def test_an_axis_or_a_style_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InputError, match=r"`log` names the logarithmic axes.*'q'"):
        specs([Lines("", "x", "y", [], log="q")])
    with pytest.raises(InputError, match=r"style 'dashed' is not known\. Did you mean 'dashes'"):
        specs([Lines("", "x", "y", [Line([1], [1], style="dashed")])])


def test_a_band_over_seeds_goes_from_the_lowest_to_the_highest() -> None:
    curves = xr.DataArray([[1.0, 5.0, 2.0], [2.0, np.nan, 8.0]], {"seed": [0, 1], "time": [1, 2, 4]}, ("seed", "time"))
    line = over_seeds(curves, "loss", tone=3)
    assert (line.label, line.tone, line.x.values.tolist()) == ("loss", 3, [1, 2, 4])
    assert (line.low.values.tolist(), line.y.values.tolist(), line.high.values.tolist()) == ([1, 5, 2], [1.5, 5, 5], [2, 5, 8])


def test_each_mean_has_a_line_of_its_own_from_end_to_end_of_its_interval() -> None:
    reach, means = with_intervals([0, 3], [Interval(0.5, 0.2, 0.7), Interval(1.5, 1.1, 1.8)], "share", tone=2)
    np.testing.assert_array_equal(reach.x, [0, 0, 0, 3, 3, 3])
    np.testing.assert_array_equal(reach.y, [0.2, 0.7, np.nan, 1.1, 1.8, np.nan])
    assert (means.label, means.tone, list(means.y)) == ("share", 2, [0.5, 1.5])
