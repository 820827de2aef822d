"""In a record's own charts: what theory says is drawn over the run, and no series is orange, which
is for failures.
"""

from __future__ import annotations

import colorsys

import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import to_rgb

from saccade.report.drawn import draw
from saccade.report.drawn_timeline import COLOURS
from saccade.report.notebook import show
from saccade.report.page import write_report
from saccade.report.roles import token_names
from saccade.report.specs import figures, still
from saccade.report.style import categorical
from tests.browser import expect
from tests.report.made_results import written

N_TIMES, N_TOKENS = 7, 11
TOKENS = [f"token {place}" for place in range(N_TOKENS)]


def record_with_theory():
    """A line, several lines and bars, each with a theory that is half of it; and a theory on other
    axes, without a place there.
    """
    times, rng = np.arange(N_TIMES, dtype=float), np.random.default_rng(3)
    few, many = rng.random((N_TIMES, 3)), rng.dirichlet(np.ones(N_TOKENS), N_TIMES)
    about = {"units": "1"}
    return xr.Dataset(
        {
            "growth": ("time", times + 1, about | {"definition": "how far it has grown"}),
            "growth_by_theory": (
                "time",
                (times + 1) / 2,
                about | {"definition": "the same", "theory_of": "growth"},
            ),
            "pull": (("time", "query"), few, about | {"definition": "of each query"}),
            "pull_by_theory": (
                ("time", "query"),
                few / 2,
                about | {"theory_of": "pull", "called": "Lemma 7"},
            ),
            "attention": (("time", "token"), many, about | {"definition": "of one class"}),
            "attention_by_theory": (
                ("time", "token"),
                many / 2,
                about | {"definition": "the same", "theory_of": "attention"},
            ),
            "elsewhere": (
                ("time", "other"),
                few,
                about | {"definition": "on other axes", "theory_of": "growth"},
            ),
        },
        {"time": times, "token": TOKENS},
    )


def test_theory_is_in_the_chart_of_what_it_predicts_and_has_none_of_its_own():
    found = {figure["name"]: figure for figure in figures(record_with_theory())}
    assert set(found) == {"growth", "pull", "attention", "elsewhere"}
    run, theory = still(found["growth"])["series"]
    assert (run["name"], theory["name"], theory["style"]) == ("run", "growth by theory", "dashes")
    np.testing.assert_allclose(theory["y"], run["y"] / 2)
    lines = still(found["pull"])["series"]
    assert [line.get("tone") for line in lines[3:]] == [
        0,
        1,
        2,
    ]  # the colour of the line that each predicts
    assert lines[3]["name"] == "Lemma 7"
    (bars,) = still(found["attention"])["groups"]
    np.testing.assert_allclose(bars["ghost"], bars["values"] / 2)
    assert still(found["attention"])["ghostName"] == "attention by theory"


def test_figures_without_a_browser_have_the_theory_too():
    found = {figure["name"]: figure for figure in figures(record_with_theory())}
    (axes,) = draw(still(found["attention"])).axes
    assert [words.get_text() for words in axes.get_legend().get_texts()][
        -1
    ] == "attention by theory"
    filled, outlines = axes.containers
    assert [one.get_height() for one in outlines] == pytest.approx(
        [one.get_height() / 2 for one in filled]
    )


def test_a_page_draws_theory_as_dashes_and_outlines_that_move(visit, tmp_path):
    page = visit(show(record_with_theory()).save(tmp_path / "page.html"))
    lines, bars = (page.locator(f"[data-figure={name}]") for name in ("growth", "attention"))
    lines.locator(".chart-dash[d^=M]").first.wait_for(state="attached")
    assert "growth by theory" in lines.inner_text()
    outline = bars.locator(".chart-ghost[d^=M]").last
    outline.wait_for(state="attached")
    seen = []
    for share in (0, 1):
        move = f"e => {{ e.value = {share} * e.max; e.dispatchEvent(new Event('input', {{ bubbles: true }})); }}"
        page.locator("[data-player=slider]").evaluate(move)
        page.wait_for_timeout(200)
        seen.append(outline.get_attribute("d"))
    assert seen[0] != seen[1]


def test_tokens_of_classes_are_named_by_what_they_are():
    prob = np.array([[0.2, 0.5, 0.3, 0.0, 0.0, 0.0], [0.1, 0.0, 0.0, 0.3, 0.6, 0.0]])
    names = ["c1", "d2", "d1", "d1", "d2", "5"]  # nobody shows the last one
    assert token_names(prob) == names
    about = {"units": "1", "definition": "of each class"}
    times = {"time": np.arange(3.0)}
    record = xr.Dataset(
        {
            "token_prob": (("class", "token"), prob),
            "attention": (("time", "class", "token"), np.stack([prob] * 3), about),
        },
        times,
    )
    (figure,) = figures(record)
    assert figure["names"][1] == names
    assert "c1" in figure["caption"]
    assert (figure["y"]["min"], figure["y"]["max"]) == (0, 1)  # a probability, whatever its largest
    (own,) = figures(record.assign_coords(token=list("abcdef")))
    assert (own["names"][1], own["caption"]) == (list("abcdef"), "")


def is_orange(colour):
    hue, _, saturation = colorsys.rgb_to_hls(*to_rgb(colour))
    return 0.03 < hue < 0.13 and saturation > 0.3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_series_is_orange_on_a_page_but_what_failed_is(visit, report, scheme):
    page = visit(report, color_scheme=scheme)
    colour = "(name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()"
    series = [page.evaluate(colour, f"--series-{place}") for place in range(8)]
    assert [one for one in series if is_orange(one)] == []
    assert is_orange(page.evaluate(colour, "--bad"))
    painted = np.reshape(page.evaluate("[...ChartScales.colourTable('diverging')]"), (-1, 3)) / 255
    assert len(painted) == 256
    assert [one for one in painted if is_orange(one)] == []


def test_no_series_is_orange_in_a_figure():
    assert [one for one in (*map(categorical, range(7)), *COLOURS) if is_orange(one)] == []


def two_classes():
    prob = np.array([[0.2, 0.5, 0.3, 0.0, 0.0], [0.1, 0.0, 0.0, 0.3, 0.6]])
    run = {
        "attention": (("time", "class", "token"), np.stack([prob] * 3)),
        "attention_logits": (("time", "token"), np.ones((3, 5))),
    }
    return xr.Dataset({"token_prob": (("class", "token"), prob)} | run, {"time": np.arange(3.0)})


def test_attention_of_each_class_is_bars_by_role_common_grey_and_distinct_by_frequency():
    record = two_classes()
    one, two = (
        figure
        for figure in figures(record, each_class=True)
        if figure["name"].startswith("attention-")
    )
    assert (one["kind"], one["title"], two["title"]) == (
        "bars",
        "Attention: class 1",
        "Attention: class 2",
    )
    assert one["names"][1] == ["c1", "d1", "d2"]
    assert one["tones"] == [{"tone": 6}, {"tone": 0, "opacity": 0.3}, {"tone": 0, "opacity": 1.0}]
    np.testing.assert_array_equal(
        still(one)["groups"][0]["values"], [0.2, 0.3, 0.5]
    )  # the rarest distinct token first
    np.testing.assert_array_equal(still(two)["groups"][0]["values"], [0.1, 0.3, 0.6])
    (both,) = (
        figure for figure in figures(record) if figure["name"] == "attention"
    )  # side by side for Matplotlib
    assert [tone is not None for tone in both["tones"]] == [True, False, False, False, False]
    colours = [bar.get_facecolor() for bar in draw(still(both)).axes[0].patches]
    assert colours[0] == colours[5] == (*to_rgb(categorical(6)), 1.0)
    assert colours[1] != colours[6]


def test_bars_by_role_have_their_colours_on_a_page(visit, tmp_path):
    page = visit(show(two_classes()).save(tmp_path / "page.html"))
    bars = page.locator("[data-figure=attention-1] path[class^=chart-fill]")
    bars.last.wait_for(state="attached")
    assert [one.get_attribute("class") for one in bars.all()] == [
        "chart-fill-6",
        "chart-fill-0",
        "chart-fill-0",
    ]
    assert [one.get_attribute("opacity") for one in bars.all()] == [None, "0.3", "1"]
    assert "common tokens" in page.locator("[data-figure=attention-1]").inner_text()


def test_stages_belong_to_the_run_that_is_shown(visit, tmp_path):
    times = np.geomspace(1, 1e4, 9)
    record = xr.Dataset(
        {"growth": (("flow", "time"), np.stack([times, times**2]))},
        {"time": times, "flow": ["B", "C"]},
    )
    rows = [
        {"flow": flow, "stage": f"{stage} {flow}", "from": at}
        for flow in "BC"
        for stage, at in (("scans", 0), ("snapped", 100))
    ]
    page = visit(
        write_report(
            written(tmp_path / "one", record=record, tables={"stages.csv": rows}),
            tmp_path / "page.html",
        )
    )
    chart = page.locator("[data-figure=growth]")
    expect(chart).to_contain_text("snapped B")
    expect(chart).not_to_contain_text("snapped C")
    page.get_by_label("flow").select_option(label="C")
    expect(chart).to_contain_text("snapped C")
    expect(chart).not_to_contain_text("snapped B")
