"""Panels drawn by Matplotlib: what a description says is on the axes, and a small figure stays
readable.
"""

from __future__ import annotations

import io
import warnings

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.container import BarContainer

from saccade.panels import DASHES, DOTS, POINTS, RINGS, Bars, Heat, Line, Lines, specs
from saccade.report.drawn import draw, draw_panels

T = np.geomspace(1, 1e6, 23)
CURVES = Lines(
    "Growth of $x_0$ and its bound over the whole of training, for the slowest query",
    "t",
    "‖x‖ at λ → 0",
    [
        Line(T, T**0.5, "measured", low=T**0.4, high=T**0.6),
        Line(T, T**0.5 * 1.1, "theory $3", DASHES, None),
        Line(T, T**0.3, "", DOTS, 0.5),
        Line(T[::5], T[::5] ** 0.2, "_seeds", POINTS, 2),
        Line(T[::5], T[::5] ** 0.1, "rings", RINGS, 3),
    ],
    log="xy",
    ylim=(0.5, None),
    levels={100.0: "ceiling"},
    marks={1e3: "snap"},
)
BARS = Bars(
    "Fates",
    "fate",
    "share",
    ["fades", "stays", "grows"],
    {"one": [0.2, 0.3, 0.5], "two": [0.8, np.nan, -0.5]},
    levels={0.5: "half"},
)
HEAT = Heat(
    "Map",
    "key",
    "query",
    np.arange(35.0).reshape(5, 7),
    [f"token {i}" for i in range(7)],
    list("abcde"),
    unit="nats",
)
TICKS = Lines(
    "Places",
    "law",
    "rate",
    [Line([1, 2, 3], [1, 2, 3], style=POINTS)],
    ticks={1: "zipf-6", 2: "geometric", 3: "user's own"},
)


def drawn(layout, *size):
    """The figure, rendered with every warning an error: a collapsed layout is one."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = draw_panels(specs(layout), *size)
        figure.savefig(io.BytesIO(), format="svg")
    return figure


def panels_of(figure):
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]


@pytest.mark.parametrize("size", [(), (5.5,), (5.5, 4.0), (2.0, 1.0), (14.0, 4.0)])
@pytest.mark.parametrize(
    "layout", [[CURVES, BARS, HEAT], [[CURVES], [TICKS, HEAT]], [[CURVES, BARS, HEAT]] * 3]
)
def test_no_panel_collapses_at_any_size(layout, size):
    for axes in panels_of(drawn(layout, *size)):
        box = axes.get_window_extent().transformed(axes.figure.dpi_scale_trans.inverted())
        assert box.width > 0.6
        assert box.height > 0.4


def test_a_row_is_broken_where_its_panels_would_be_narrower_than_can_be_read():
    figure = drawn([CURVES, BARS, HEAT], 5.5)
    assert figure.get_size_inches()[0] == 5.5
    assert figure.get_size_inches()[1] > 10
    assert {axes.get_subplotspec().colspan.start for axes in panels_of(figure)} == {0}
    assert tuple(drawn([CURVES, BARS, HEAT], 5.5, 4).get_size_inches()) == (5.5, 4.0)
    assert tuple(drawn([CURVES, BARS, HEAT]).get_size_inches()) == pytest.approx((14.1, 4.2))


def test_styles_tones_bands_and_lines_are_those_described():
    (axes,) = drawn([CURVES]).axes
    measured, theory, shade, points, rings, level, mark = axes.get_lines()
    assert [line.get_linestyle() for line in (measured, theory, shade)] == ["-", "--", ":"]
    assert {line.get_linestyle() for line in (points, rings)} == {"None"}
    assert rings.get_markerfacecolor() == "none"
    assert points.get_markerfacecolor() != "none"
    assert to_rgba(theory.get_color()) == to_rgba("black")
    assert (
        len({to_rgba(line.get_color()) for line in (measured, theory, shade, points, rings)}) == 5
    )
    assert len(axes.collections) == 1
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_ylim()[0] == 0.5
    assert axes.get_ylim()[1] > 1000
    assert level.get_ydata()[0] == 100
    assert mark.get_xdata()[0] == 1e3
    assert [words.get_text() for words in axes.texts] == ["ceiling", "snap"]
    assert [words.get_text() for words in axes.get_legend().get_texts()] == [
        "measured",
        "theory $3",
        "seeds",
        "rings",
    ]


def boxes_of(axes):
    """Where the words by lines are, in shares of the panel."""
    return [
        words.get_window_extent().transformed(axes.transAxes.inverted()) for words in axes.texts
    ]


def test_numbers_along_a_logarithmic_axis_are_written_as_everywhere_else():
    t = np.geomspace(1e-8, 1e6, 15)
    across = drawn([Lines("Growth", "t", "x", [Line(t, t)], log="xy")]).axes[0].xaxis
    assert {"10⁻⁸", "10⁻²", "1", "10000"} <= {label.get_text() for label in across.get_ticklabels()}


def test_words_by_a_line_keep_clear_of_curves_of_each_other_and_of_the_edge():
    x = np.linspace(0, 1, 50)
    curves = [
        Line(x, 0.9 - 0.3 * x),
        Line(x[20:], 0.53 + 0 * x[20:]),
        Line(x[20:], 0.47 + 0 * x[20:]),
    ]
    panel = Lines(
        "",
        "",
        "",
        curves,
        ylim=(0, 1),
        levels={0.5: "level", 0.99: "top"},
        marks={0.5: "a mark", 0.52: "another"},
    )
    (axes,) = drawn([panel]).axes
    boxes = boxes_of(axes)
    for place, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[place + 1 :])
        assert min(box.extents) > 0
        assert max(box.extents) < 1
        for line in axes.get_lines():
            ends = (line.get_transform() - axes.transAxes).transform(line.get_xydata())
            between = np.linspace(ends[0], ends[-1], 500)  # every curve here is straight
            assert not any(box.contains(*point) for point in between)
    assert boxes[0].x1 < 0.5  # at the left end, since curves run along the right one
    assert boxes[1].y1 < 0.99  # below its line: above it is no room


def test_words_by_a_line_may_stand_anywhere_along_it():
    taken = (0.02, 0.1, 0.4, 0.5, 0.6, 0.9, 0.98)  # both ends and the middle
    curves = [Line([0, 1], [height, height]) for height in taken]
    (axes,) = drawn([Lines("", "", "", curves, ylim=(0, 1), marks={0.5: "cycle 2"})]).axes
    (box,) = boxes_of(axes)
    assert not any(box.y0 < height < box.y1 for height in taken)


def test_a_level_of_bars_is_named_in_the_legend_and_not_on_a_bar():
    (axes,) = drawn(
        [
            Bars(
                "",
                "",
                "",
                list("abcd"),
                {"": [0.1, 0.2, 0.9, 0.9]},
                ylim=(0, 1),
                levels={0.5: "half"},
            )
        ]
    ).axes
    assert [words.get_text() for words in axes.get_legend().get_texts()] == ["half"]
    assert boxes_of(axes) == []
    assert [line.get_ydata()[0] for line in axes.get_lines()] == [0.5]


def test_a_lighter_shade_is_lighter():
    (axes,) = drawn(
        [Lines("", "", "", [Line([0, 1], [0, 1], tone=tone) for tone in (0.0, 0.5, 1.0)])]
    ).axes
    light, middle, dark = (sum(to_rgba(line.get_color())[:3]) for line in axes.get_lines())
    assert light > middle > dark
    assert axes.get_legend() is None


def test_stacked_bars_stand_on_each_other_and_grouped_ones_side_by_side():
    stacked = Bars("Fates", "fate", "share", BARS.labels, BARS.groups, stacked=True)
    one, two = (
        bars for bars in drawn([stacked]).axes[0].containers if isinstance(bars, BarContainer)
    )
    assert next(bar.get_y() for bar in two) == 0.2
    assert two[2].get_y() == 0
    assert two[2].get_height() == -0.5
    assert one[0].get_x() == two[0].get_x()
    one, two = (bars for bars in drawn([BARS]).axes[0].containers if isinstance(bars, BarContainer))
    assert one[0].get_x() + one[0].get_width() == pytest.approx(two[0].get_x())


def test_names_along_an_axis_are_kept_and_too_many_are_thinned():
    (axes,) = drawn([TICKS]).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        "zipf-6",
        "geometric",
        "user's own",
    ]
    (axes,) = drawn(
        [
            Bars(
                "",
                "",
                "",
                ["momentum", "no momentum, 10 x steps", "a uniform start"],
                {"": np.ones(3)},
            )
        ]
    ).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        "momentum",
        "no momentum, 10 x\nsteps",
        "a uniform start",
    ]
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {0}
    many = Bars("", "", "", [f"a long name {i}" for i in range(200)], {"": np.ones(200)})
    (axes,) = drawn([many]).axes
    assert 10 < len(axes.get_xticks()) < 60
    assert axes.get_legend() is None


@pytest.mark.parametrize(
    "panel",
    [
        Lines("nothing", "x", "y", []),
        Lines("missing", "x", "y", [Line([1, 2], [np.nan, np.inf], "a")], log="xy"),
        Lines(
            "none positive",
            "x",
            "y",
            [Line([-1, 0], [0, -1], "a", low=[-2, -2], high=[-1, -1])],
            log="xy",
            xlim=(0, 1),
            ylim=(0, 0),
        ),
        Bars("nothing", "x", "y", [], {}),
        Heat("missing", "x", "y", np.full((2, 3), np.nan), "abc", "ab"),
        Heat("constant", "x", "y", np.ones((2, 3)), "abc", "ab", diverging=True),
        Lines(
            "a" * 500,
            "b" * 500,
            "\\frac{$",
            [Line([0, 1], [0, 1], "$\\frac{")],
            levels={0.5: "$\\x{"},
        ),
    ],
)
def test_what_cannot_be_drawn_leaves_an_empty_place_and_no_warning(panel):
    assert len(panels_of(drawn([panel], 4.0, 3.0))) == 1


def test_a_figure_over_time_goes_the_same_way():
    spec = {
        "kind": "line",
        "title": "loss",
        "x": {"label": "t"},
        "y": {"label": "loss"},
        "series": [{"name": "loss", "x": T, "y": 1 / T}],
    }
    (axes,) = draw(spec, moment=5.0).axes
    assert len(axes.get_lines()) == 2
    assert axes.get_legend() is None


def test_numbers_on_a_figure_are_written_as_people_do():
    tiny, narrow = [6.4e-5, 7.2e-5], [0.992, 1.008]
    words = Lines(
        "start 1e-05, slope -0.5",
        "t - T",
        "E",
        [Line([1, 2], tiny, "ε = 1e-06")],
        levels={6.6e-5: "-1/2"},
    )
    (axes,) = drawn([words]).axes
    assert axes.get_title(loc="left") == "start 10⁻⁵, slope −0.5"
    assert axes.get_xlabel() == "t − T"
    assert {text.get_text() for text in (*axes.get_legend().get_texts(), *axes.texts)} == {
        "ε = 10⁻⁶",
        "−1/2",
    }
    ticks = [text.get_text() for text in axes.get_yticklabels()]
    assert "7×10⁻⁵" in ticks
    assert len(set(ticks)) == len(ticks)
    assert axes.yaxis.get_offset_text().get_text() == ""
    (axes,) = drawn([Lines("narrow", "t", "E", [Line([1, 2], narrow)])]).axes
    assert "1.000" in [text.get_text() for text in axes.get_yticklabels()]
    bar = drawn([Heat("Map", "key", "query", np.array([[1e-6, 2e-6]]), ["a", "b"], ["c"])]).axes[1]
    assert "2×10⁻⁶" in [text.get_text() for text in bar.get_yticklabels()]
