"""Panels as described: mistakes are named, several are numbered, and lines show mean, range and
intervals of seeds.
"""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from saccade.errors import InputError
from saccade.measures.fits import Interval
from saccade.panels import (
    DASHES,
    Bars,
    Heat,
    Line,
    Lines,
    over_seeds,
    specs,
    table_rows,
    with_intervals,
)


def test_several_panels_are_numbered_in_reading_order_and_a_single_one_is_not() -> None:
    one, two, three = (Lines(title, "x", "y", []) for title in ("first", "second", "third"))
    assert [[spec["title"] for spec in row] for row in specs([[one], [two, three]])] == [
        ["1. first"],
        ["2. second", "3. third"],
    ]
    assert [[spec["title"] for spec in row] for row in specs([one, two])] == [
        ["1. first", "2. second"]
    ]
    assert specs([one])[0][0]["title"] == "first"


def test_an_axis_or_a_style_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InputError, match=r"`log` names the logarithmic axes.*'q'"):
        specs([Lines("", "x", "y", [], log="q")])
    with pytest.raises(InputError, match=r"style 'dashed' is not known\. Did you mean 'dashes'"):
        specs([Lines("", "x", "y", [Line([1], [1], style="dashed")])])


def test_lines_in_the_legend_have_colours_of_their_own_and_a_dashed_one_goes_with_its_line() -> (
    None
):
    names = ["one", "two", "", "three", "four"]
    lines = [
        Line([1], [1], name, tone=1) if name == "two" else Line([1], [1], name) for name in names
    ]
    (panel,) = specs([Lines("", "x", "y", [*lines, Line([1], [1], "theory of one", DASHES)])])[0]
    assert [series["tone"] for series in panel["series"]] == [0, 1, 0, 2, 3, 0]


def test_the_numbers_of_a_figure_are_a_table_with_a_row_for_each_point_bar_and_cell() -> None:
    lines = Lines(
        "a",
        "x",
        "y",
        [Line([1, 2], [3, np.nan], "one", low=[2, 3], high=[4, 5])],
        levels={0.5: "half"},
        marks={7: "t0"},
    )
    bars = Bars("b", "x", "y", ["left", "right"], {"two": [6.0, 8.0]})
    heat = Heat("c", "x", "y", [[1.0, 2.0]], ["p", "q"], [])
    rows = table_rows(specs([lines, bars, heat]))
    assert all(list(row) == ["panel", "series", "x", "y", "low", "high", "value"] for row in rows)
    assert [tuple(row.values()) for row in rows] == [
        ("1. a", "one", 1.0, 3.0, 2.0, 4.0, None),
        ("1. a", "one", 2.0, None, 3.0, 5.0, None),
        ("1. a", "half", None, 0.5, None, None, None),
        ("1. a", "t0", 7.0, None, None, None, None),
        ("2. b", "two", "left", 6.0, None, None, None),
        ("2. b", "two", "right", 8.0, None, None, None),
        ("3. c", None, "p", 0, None, None, 1.0),
        ("3. c", None, "q", 0, None, None, 2.0),
    ]
    assert list(table_rows(specs([Lines("a", "x", "y", [Line([1], [3])])]))[0]) == [
        "panel",
        "series",
        "x",
        "y",
    ]


def test_a_band_over_seeds_goes_from_the_lowest_to_the_highest() -> None:
    curves = xr.DataArray(
        [[1.0, 5.0, 2.0], [2.0, np.nan, 8.0]], {"seed": [0, 1], "time": [1, 2, 4]}, ("seed", "time")
    )
    line = over_seeds(curves, "loss", tone=3)
    assert (line.label, line.tone, line.x.values.tolist()) == ("loss", 3, [1, 2, 4])
    assert (line.low.values.tolist(), line.y.values.tolist(), line.high.values.tolist()) == (
        [1, 5, 2],
        [1.5, 5, 5],
        [2, 5, 8],
    )


def test_each_mean_has_a_line_of_its_own_from_end_to_end_of_its_interval() -> None:
    reach, means = with_intervals(
        [0, 3], [Interval(0.5, 0.2, 0.7), Interval(1.5, 1.1, 1.8)], "share", tone=2
    )
    np.testing.assert_array_equal(reach.x, [0, 0, 0, 3, 3, 3])
    np.testing.assert_array_equal(reach.y, [0.2, 0.7, np.nan, 1.1, 1.8, np.nan])
    assert (means.label, means.tone, list(means.y)) == ("share", 2, [0.5, 1.5])


@pytest.mark.parametrize(
    ("panels", "says"),
    [
        (None, r"`panels` must give a list of Lines, Bars and Heat, or rows of them; it gave None"),
        (["a"], "it gave 'a'"),
        (
            [Lines("", "x", "y", [Line([1, 2], [1, 2, 3], "b")])],
            "line 'b' has 2 values of x, 3 values of y",
        ),
        (
            [Lines("", "x", "y", [Line([1, 2], [1, 2], "b", low=[0], high=[1, 1])])],
            "2 values of y, 1 values of low",
        ),
        (
            [Bars("", "x", "y", ["a"], {"b": [1.0, 2.0]})],
            "bars 'b': there are 1 labels and 2 values",
        ),
        (
            [Heat("c", "x", "y", [[1.0, 2.0]], ["p"], [])],
            "map 'c': there are 1 columns and 2 values",
        ),
        ([Heat("c", "x", "y", [1.0], ["p"], ["q"])], r"'c' has the shape \(1,\)"),
    ],
)
def test_what_cannot_be_drawn_is_a_sentence(panels: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        specs(panels)


def test_a_single_panel_and_rows_that_are_yielded_are_drawn_like_a_list() -> None:
    panel = Lines("first", "x", "y", [])
    assert specs(panel) == specs([panel])
    assert specs(row for row in ([panel, panel], [panel])) == specs([[panel, panel], [panel]])
