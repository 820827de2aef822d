"""The drawing module on the playground's page: what is saved is what is shown, and no data is lost
or breaks a drawing.
"""

from __future__ import annotations

import csv
import io
import struct
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.browser import contains_text, has_text

from .conftest import until

_SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def page(visit):
    opened = visit("#v=2&model=scan-and-snap&time=100")
    until(opened, "Page.settled")
    opened.evaluate(
        "document.body.replaceChildren(Object.assign(document.createElement('div'), { id: 'chart' }))"
    )
    return opened


def _saved(page, kind):
    with page.expect_download() as waiting:
        page.get_by_role("button", name=f"Save scan-and-snap-row as {kind}").click()
    assert waiting.value.suggested_filename == f"scan-and-snap-row.{kind.lower()}"
    return Path(waiting.value.path()).read_bytes()


def test_a_chart_is_saved_as_svg_png_and_csv(visit):
    page = visit("#v=2&model=scan-and-snap&time=100")
    until(page, "Page.settled")
    drawing = ElementTree.fromstring(_saved(page, "SVG"))
    assert "Attention of class barks over time" in [one.text for one in drawing.iter(f"{_SVG}text")]
    assert "stroke:#0072b2" in drawing.find(f"{_SVG}style").text
    assert "var(" not in drawing.find(f"{_SVG}style").text  # it stands alone
    picture = _saved(page, "PNG")
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    width, _ = struct.unpack(">II", picture[16:24])
    assert width == 2 * int(drawing.get("width"))
    rows = list(csv.DictReader(io.StringIO(_saved(page, "CSV").decode())))
    saved = [float(row["attention"]) for row in rows if row["series"] == "dog"]
    *before, now = saved  # the last point is the moment shown, between two samples
    assert before == page.evaluate(
        "Page.run.seen.slice(1, Page.shown + 1).map((one) => one.attention[0][1])"
    )
    assert now == page.evaluate("Moments.at(Page.run, Page.place).attention[0][1]")


def test_labels_of_marks_stand_above_the_plot_and_no_words_lie_on_others(page):
    boxes, top = page.evaluate("""() => {
      const series = ["common", "wwwwwwwww", "MMMM"].map((name, at) => ({ name, x: [1, 1000], y: [at, 1] }));
      const marks = [[20, "condensed"], [67, "focus"], [900, "last"]].map(([x, word]) => ({ x, label: `predicted: ${word}` }));
      const spec = { title: "t", x: { label: "x", log: true }, y: { label: "y", min: 0, max: 2 }, series, marks };
      const { element } = Charts.line(document.getElementById("chart"), spec);
      const words = [...element.querySelectorAll("text")].filter((one) => /[a-z]{4}|MMMM/.test(one.textContent));
      const plot = element.querySelector("svg svg").getBoundingClientRect().top;
      const edges = (one) => ["left", "right", "top", "bottom"].map((edge) => one.getBoundingClientRect()[edge]);
      return [words.map((one) => [one.textContent, ...edges(one)]), plot];
    }""")
    assert len(boxes) == 6
    for place, (name, left, right, above, below) in enumerate(boxes):
        if name.startswith("predicted"):
            assert below < top + 6  # the window on the plot begins five pixels above it
        for _, other_left, other_right, other_above, other_below in boxes[:place]:
            across, up = (
                min(right, other_right) - max(left, other_left),
                min(below, other_below) - max(above, other_above),
            )
            assert across < -4 or up < 4, name  # a line of text is higher than its letters


def test_no_line_runs_through_the_words_of_a_mark_or_a_level(page):
    words, lines, curves = page.evaluate("""() => {
      const x = Array.from({ length: 200 }, (_, at) => 1 + at);
      const series = [{ name: "", x, y: x.map((at) => (at > 150 ? 0.3 + 0.01 * (at - 150) : 0.2)) }];
      const marks = [[60, "frozen"], [75, "focus"], [90, "dilution"], [110, "cycle 2"], [120, "cycle 3"], [192, "end"]];
      const levels = [{ y: 0.5, label: "share of it" }];
      const spec = { title: "t", x: { label: "" }, y: { label: "", min: 0, max: 1 }, series, levels };
      spec.marks = marks.map(([at, label]) => ({ x: at, label }));
      document.getElementById("chart").style.width = "420px";
      const { element } = Charts.line(document.getElementById("chart"), spec);
      const names = [...marks.map(([, label]) => label), "share of it"];
      const box = (one) => (({ left, right, top, bottom }) => [left, right, top + 3, bottom - 3])(one.getBoundingClientRect());
      const curve = element.querySelector(".chart-line");
      const matrix = curve.getScreenCTM();
      const along = (at) => curve.getPointAtLength((at / 2000) * curve.getTotalLength()).matrixTransform(matrix);
      const points = Array.from({ length: 2000 }, (_, at) => along(at));
      const words = [...element.querySelectorAll("text")].filter((one) => names.includes(one.textContent));
      return [
        words.map((one) => [one.textContent, ...box(one)]),
        [...element.querySelectorAll(".chart-mark")].map(box).filter(([left, right]) => right - left < 3),
        points.map(({ x, y }) => [x, x, y, y]),
      ];
    }""")
    assert (len(words), len(lines)) == (7, 6)
    for name, left, right, top, bottom in words:
        crossed = [
            one
            for one in (*lines, *curves)
            if one[0] < right and one[1] > left and one[2] < bottom and one[3] > top
        ]
        assert crossed == [], name


def test_thinning_keeps_the_peak_and_the_csv_keeps_everything(page):
    drawn, saved = page.evaluate("""() => {
      const x = Array.from({ length: 100000 }, (_, at) => at);
      const y = x.map((at) => (at === 77777 ? 1 : 0));
      const spec = { title: "t", x: { label: "x" }, y: { label: "y", min: 0, max: 1 }, series: [{ name: "s", x, y }] };
      const chart = Charts.line(document.getElementById("chart"), spec);
      return [chart.element.querySelector("svg svg .chart-line").getAttribute("d"), chart.toCSV()];
    }""")
    heights = [float(point.split()[1]) for point in drawn[1:].replace("M", "L").split("L")]
    assert len(heights) < 8000
    assert min(heights) < max(heights) - 50
    assert sum(height < max(heights) - 1 for height in heights) == 1
    assert saved.count("\n") == 100_001


def test_missing_values_break_a_line_and_are_empty_in_the_csv(page):
    drawn, saved = page.evaluate("""() => {
      const series = [{ name: 'a,"b"', x: [1, 2, 3, 4, 5], y: [1, 2, null, NaN, 3] }];
      const spec = { title: "t", x: { label: "x", log: true }, y: { label: "y", log: true }, series };
      const chart = Charts.line(document.getElementById("chart"), spec);
      return [chart.element.querySelector("svg svg .chart-line").getAttribute("d"), chart.toCSV()];
    }""")
    assert drawn.count("M") == 2
    assert list(csv.reader(io.StringIO(saved)))[1:] == [
        ['a,"b"', x, y] for x, y in zip("12345", ["1", "2", "", "", "3"], strict=True)
    ]


def test_extreme_numbers_and_many_bars_draw_finite_paths(page):
    paths = page.evaluate("""() => {
      const place = document.getElementById("chart");
      const hard = [[1e308, -1e308], [0, 0], [5, 5], [NaN, NaN], [Infinity, 1], [1e-300, 1e300], []];
      for (const y of hard) for (const log of [false, true]) {
        const series = [{ name: "s", x: y.map((_, at) => at + 1), y }];
        Charts.line(place, { title: "t", x: { label: "x", log }, y: { label: "y", log }, series, marks: [{ x: NaN, label: "m" }] });
      }
      const many = Array.from({ length: 10000 }, (_, at) => at / 10000);
      const bars = { title: "b", x: { label: "token" }, y: { label: "p", min: 0, max: 1 } };
      Charts.bars(place, { ...bars, labels: many.map(String), groups: [{ name: "g", values: many }] });
      Charts.bars(place, { ...bars, labels: [], groups: [] });
      const heat = { title: "h", x: { label: "x", ticks: [] }, y: { label: "y", ticks: [] }, min: 0, max: 1, unit: "u" };
      Charts.heat(place, { ...heat, rows: 1, columns: 2, values: [NaN, 1e308] });
      return [...place.querySelectorAll("path, text, rect")].flatMap((one) => [...one.attributes].map((value) => value.value));
    }""")
    assert not [
        path for path in paths if "NaN" in path or "Infinity" in path or "undefined" in path
    ]


def test_of_many_shades_only_the_ends_are_named(page):
    names = page.evaluate("""() => {
      const shade = (at) => (at ? { shade: at / 6 } : {});
      const groups = ["grey", ..."abcdef"].map((name, at) => ({ name: `group ${name}`, values: [0.1], ...shade(at) }));
      const spec = { title: "t", x: { label: "x" }, y: { label: "y" }, labels: ["one"], stacked: true, groups };
      const { element } = Charts.bars(document.getElementById("chart"), spec);
      return [...element.querySelectorAll("text")].map((one) => one.textContent).filter((word) => word.startsWith("group"));
    }""")
    assert names == ["group grey", "group a", "group f"]


def test_a_heat_map_can_be_read_with_the_arrow_keys(page):
    page.evaluate("""() => { Charts.heat(document.getElementById("chart"), {
      title: "h", x: { label: "head", ticks: ["h0", "h1", "h2"] }, y: { label: "layer", ticks: ["l0", "l1"] },
      rows: 2, columns: 3, values: [0, 1, 2, 3, 4, NaN], min: 0, max: 4, scale: "sequential", unit: "nats" }); }""")
    cells = page.locator(".chart-stage")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        cells.press(key)
    has_text(page.locator(".chart-readout"), "layer l1, head h1: 4 nats")
    cells.press("ArrowRight")
    contains_text(page.locator(".chart-readout"), "missing")


def test_the_band_at_the_cursor_is_named_where_bands_have_no_room_for_their_names(page):
    names, words = page.evaluate("""() => {
      const place = document.getElementById("chart");
      place.style.width = "300px";
      const bands = Array.from({ length: 12 }, (_, at) => ({ from: at, to: at + 1, label: `a long stage ${at}.` }));
      const spec = { title: "t", x: { label: "x" }, y: { label: "y" }, series: [{ name: "one", x: [0, 12], y: [0, 1] }], bands };
      const chart = Charts.line(place, spec);
      const shown = () => [...chart.element.querySelectorAll("text")].map((one) => one.textContent);
      const named = bands.map((band, at) => {
        chart.cursor(at + 0.5);
        return shown().filter((word) => word === band.label).length;
      });
      chart.cursor(7.5);
      const words = [...chart.element.querySelectorAll("text")].filter((one) => one.textContent.startsWith("a long")).map((one) => {
        const { left, right, top, bottom } = one.getBoundingClientRect();
        return [left, right, top, bottom];
      });
      return [named, words];
    }""")
    assert names == [1] * 12
    for place, (left, right, above, below) in enumerate(words):
        for other in words[:place]:
            assert (
                left >= other[1]
                or other[0] >= right
                or above >= other[3] - 2
                or other[2] >= below - 2
            )


def test_a_chart_with_a_long_legend_keeps_room_for_its_curves(page):
    height = page.evaluate("""() => {
      const place = document.getElementById("chart");
      place.style.width = "330px";
      const series = Array.from({ length: 8 }, (_, at) => ({ name: `direction number ${at}`, x: [0, 1], y: [0, at] }));
      const bands = [{ from: 0, to: 0.5, label: "first" }, { from: 0.5, to: 1, label: "then" }];
      const { element } = Charts.line(place, { title: "t", x: { label: "x" }, y: { label: "y" }, series, bands });
      return element.querySelector("svg svg").getBoundingClientRect().height;
    }""")
    assert height > 100


def test_a_long_name_at_the_end_of_an_axis_is_not_cut(page):
    inside = page.evaluate("""() => {
      const place = document.getElementById("chart");
      place.style.width = "360px";
      const labels = ["SGD, large values", "SGD, small values", "Adam, large values", "Adam, small values"];
      const spec = { title: "t", x: { label: "" }, y: { label: "y" }, labels, groups: [{ name: "one", values: [1, 2, 3, 4] }] };
      const { element } = Charts.bars(place, spec);
      const last = [...element.querySelectorAll("text")].find((one) => one.textContent === labels[3]);
      return element.querySelector("svg").getBoundingClientRect().right - last.getBoundingClientRect().right;
    }""")
    assert inside >= 0


def test_what_the_rim_of_cells_is_stands_in_full_on_a_phone(page):
    words = page.evaluate("""() => {
      const place = document.getElementById("chart");
      place.style.width = "240px";
      const axes = { x: { label: "token", ticks: ["a", "b"] }, y: { label: "query", ticks: ["a", "b"] } };
      const size = { rows: 2, columns: 2, min: 0, max: 1, unit: "attention", values: [0, 1, 1, 0], outline: [0, 0.5, 0.5, 0] };
      const { element } = Charts.heat(place, { title: "t", ...axes, ...size, outlineName: "theory with one direction" });
      const picture = element.querySelector("svg").getBoundingClientRect();
      const all = [...element.querySelectorAll("text")].map((one) => [one.textContent, one.getBoundingClientRect()]);
      const [, key] = all.find(([said]) => said === "rim: theory with one direction");
      const [, name] = all.find(([said]) => said === "token");
      const isInside = key.right <= picture.right && key.bottom <= picture.bottom + 1;
      return { isInside, isApart: key.top >= name.bottom - 2 || key.right <= name.left };
    }""")
    assert words == {"isInside": True, "isApart": True}
