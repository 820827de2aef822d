"""The first screen and the claims, in a real browser."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from saccade.lab.case import Case
from saccade.records.checksums import seal
from saccade.report.claims_table import claims_of
from saccade.report.page import write_report
from saccade.report.sources import Result
from saccade.theories.statement import Statement
from tests.browser import contains_text, expect, has_text, saved_rows
from tests.report.made_results import THEOREM_4, descent_panels, written


@pytest.fixture(scope="module")
def claims(results):
    return [
        claim
        for name in ("descent", "growth", "cycle")
        for claim in json.loads((results / name / "claims.json").read_text())
    ]


def shown(page):
    return page.locator("#claims-table tbody tr[data-claim]:visible .opener").all_inner_texts()


def with_claims(page):
    """The page of several results with its table of claims unfolded."""
    page.locator("#claims-list > summary").click()
    return page


def test_verdicts_are_counted_and_explained(visit, report, claims):
    page = visit(report)
    tiles = page.locator(".tile b").all_inner_texts()
    assert tiles == ["8", "2", "1", "1", "1", "1"]  # in the order of `KINDS`
    assert sum(map(int, tiles)) == len(claims)
    assert "12 claims (5 published): 8 hold" in page.locator(".verdict-note").text_content()
    expect(page.locator(".commands code", has_text="saccade reproduce growth")).to_have_count(1)
    expect(page.locator("#all-claims .claim-square")).to_have_count(len(claims))
    expect(page.locator('#all-claims .claim-square[data-kind="fails"]')).to_have_count(2)


def test_text_that_a_spreadsheet_would_run_is_saved_as_text(visit, report):
    cells = visit(report).evaluate(
        """ChartSave.csv([["=1+1", "+a", "@b", "-c", "-2", -3, "a=b"]])"""
    )
    assert cells == "'=1+1,'+a,'@b,'-c,-2,-3,a=b\n"


def test_panels_are_drawn_in_place_of_the_picture(visit, results, tmp_path):
    page = visit(write_report(results / "descent", tmp_path / "one.html"))
    panels = page.locator("#story .panel")
    assert panels.locator("figcaption").all_inner_texts() == [
        "1. Loss of ⟨two⟩ classes",
        "2. Fates",
        "3. Map",
        "4. Rates by law",
    ]
    expect(page.locator("img")).to_have_count(0)
    first, second = (panels.nth(place).bounding_box() for place in (0, 1))
    assert first["y"] == second["y"]  # side by side
    lines = panels.first.locator(".chart-line")
    drawn = lines.evaluate_all(
        "all => all.filter((one) => one.closest('svg svg')).map((one) => [one.getAttribute('class'), one.getAttribute('d') !== ''])"
    )
    assert [is_line for _, is_line in drawn] == [True] * 5 + [
        False
    ] * 2  # rings and points have no line
    assert "chart-dash" in drawn[1][0]
    assert "chart-stroke-7" in drawn[1][0]  # ink
    assert panels.first.locator(".chart-ribbon").first.get_attribute("d").startswith("M")
    expect(panels.first.locator(".chart-ring[d*=a]")).to_have_count(2)  # its points, and its key
    words = panels.first.locator("svg text").all_text_contents()
    assert {"measured", "theory", "published", "replicated", "one nat", "snap", "late"} <= set(
        words
    )  # the axis reaches the late mark
    assert {"zipf", "flat", "own"} <= set(panels.nth(3).locator("svg text").all_text_contents())


def test_stacked_bars_stand_on_each_other_in_the_page(visit, results, tmp_path):
    page = visit(write_report(results / "descent", tmp_path / "one.html"))
    one, two = (
        page.locator("#story .panel")
        .nth(1)
        .locator("svg > path[class^=chart-fill]")
        .evaluate_all("all => all.map((one) => one.getAttribute('d'))")
    )
    foot, top = (
        [float(bar.split()[1].split("V")[0]) for bar in path[1:].split("M")] for path in (one, two)
    )
    tops = [float(bar.split("V")[1].split("h")[0]) for bar in one[1:].split("M")]
    assert top[0] == tops[0]  # the second stands where the first ends
    assert top[1] == foot[1]  # below zero it hangs from the base line


def test_numbers_of_a_panel_are_saved_with_their_band(visit, results, tmp_path):
    page = visit(write_report(results / "descent", tmp_path / "one.html"))
    saved = saved_rows(page, page.locator("#story .panel").first)
    rows = [row for row in saved if row["series"] == "measured"]
    (line, *_) = descent_panels()[0].lines
    for key, values in (
        ("step", line.x),
        ("loss, nats", line.y),
        ("low", line.low),
        ("high", line.high),
    ):
        np.testing.assert_allclose([float(row[key]) for row in rows], values, rtol=1e-5)


def test_a_result_without_panels_shows_its_own_figure(visit, results, tmp_path):
    page = visit(write_report(results / "growth", tmp_path / "one.html"))
    image = page.locator("#story img")
    assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") > 100
    has_text(
        page.locator(".asked"),
        json.loads((results / "growth" / "about.json").read_text())["statement"],
    )


def test_claims_of_another_version_are_not_shown_and_the_page_says_so(visit, tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "about.json").write_text(json.dumps({"statement": "Found."}))
    old = {
        "statement": "loss",
        "source": "[x]",
        "predicted": 0,
        "measured": 0,
        "tolerance": 0,
        "verdict": "holds",
        "expected": "holds",
    }
    (tmp_path / "old" / "claims.json").write_text(json.dumps([old]))
    seal(tmp_path / "old")
    told = []
    page = visit(write_report(tmp_path, tmp_path / "report.html", told.append))
    expect(page.locator("#claims-table")).to_have_count(0)
    contains_text(page.locator(".warning[role=alert]"), "written by another version of Saccade")
    assert "written by another version of Saccade" in told[0]


def test_claims_are_filtered_by_statement_verdict_and_words(visit, report, claims):
    page = with_claims(visit(report))
    assert len(shown(page)) == len(claims)
    page.select_option('[data-filter="statement"]', "saccade, invariants")
    assert len(shown(page)) == 5
    page.select_option('[data-filter="statement"]', "")
    page.select_option('[data-filter="against"]', "published")
    assert len(shown(page)) == 5
    page.select_option('[data-filter="against"]', "")
    page.fill('[data-filter="words"]', "iteration LOSS")
    assert shown(page) == ["loss"] * 4
    page.fill('[data-filter="words"]', "")
    page.locator(".tile-fails").click()
    assert len(shown(page)) == 2
    has_text(page.locator("#claims-count"), f"2 of {len(claims)} claims")


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1024, 768), (390, 844)])
def test_a_verdict_brings_what_it_filtered_into_view_and_says_the_way_back(
    visit, report, claims, width, height
):
    page = visit(report, viewport={"width": width, "height": height})
    page.evaluate(
        "document.getElementById('all-claims').style.minHeight = '2000px'"
    )  # as of many results
    page.locator(".tile-fails").click()
    rows = page.locator("#claims-table tr[data-claim]:visible")
    expect(rows).to_have_count(2)
    for place in (rows.first.locator(".opener"), page.locator("#claims-shown")):
        expect(place).to_be_in_viewport(ratio=1)
    contains_text(page.locator("#claims-shown"), f"2 of {len(claims)} claims: fails")
    full = page.locator('#all-claims .claim-square[opacity="1"]')
    assert (
        full.evaluate_all("all => all.map((one) => one.dataset.kind)") == ["fails"] * 2
    )  # the plot is filtered too
    page.get_by_role("button", name="Show all claims").click()
    expect(rows).to_have_count(len(claims))
    expect(full).to_have_count(len(claims))
    expect(page.get_by_role("button", name="Show all claims")).to_have_count(0)
    expect(page.locator(".tile-fails")).to_have_attribute("aria-pressed", "false")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_verdict_has_one_colour_everywhere_and_orange_is_for_surprises(visit, report, scheme):
    """In tiles, strips, rows and squares."""
    page = visit(report, color_scheme=scheme)
    found = page.evaluate("""() => {
      const made = (name, look, parent) => parent.appendChild(Object.assign(document.createElement(name), { className: look }));
      const strip = document.querySelector(".strip"), style = getComputedStyle;
      const colours = (kind) => {
        const square = document.querySelector(`.claim-square[data-kind="${kind}"] path`);
        const lines = square && style(square)[square.classList.contains("chart-ring") ? "stroke" : "fill"];
        const piece = style(made("i", `strip-${kind}`, strip)), row = style(made("span", `verdict verdict-${kind}`, document.body));
        return [style(made("button", `tile tile-${kind}`, document.body)).borderLeftColor, row.borderLeftColor,
          kind === "inconclusive" ? piece.borderLeftColor : piece.backgroundColor, lines ?? row.borderLeftColor];
      };
      const bad = style(made("i", "chart-bad", document.body)).fill;
      const kinds = ["holds", "fails", "unmet", "inconclusive", "control", "surprise"];
      return { bad, kinds: Object.fromEntries(kinds.map((one) => [one, colours(one)])) };
    }""")
    kinds = {kind: set(colours) for kind, colours in found["kinds"].items()}
    assert all(len(colours) == 1 for colours in kinds.values()), kinds
    assert [kind for kind, colours in kinds.items() if found["bad"] in colours] == ["surprise"]
    assert kinds["fails"] not in (kinds["holds"], kinds["control"], kinds["unmet"])


def test_claims_are_sorted_by_verdict_and_by_words(visit, report, claims):
    page = with_claims(visit(report))
    page.get_by_role("button", name="verdict", exact=True).click()
    page.get_by_role(
        "button", name="verdict", exact=True
    ).click()  # the other way round: surprises on top
    kinds = page.locator("#claims-table tr[data-kind]").evaluate_all(
        "rows => rows.map((row) => row.dataset.kind)"
    )
    last = ["surprise", "control", "inconclusive", "unmet", "fails", "fails"]
    assert kinds == last + ["holds"] * 8
    page.get_by_role("button", name="claim", exact=True).click()
    assert sorted(claim["title"] for claim in claims) == sorted(shown(page), key=str.lower)
    assert shown(page)[0] == "a number that is missing"


def test_a_row_says_the_claim_its_case_its_result_and_its_verdict(visit, report):
    page = with_claims(visit(report))
    row = page.locator("tr[data-claim]", has_text="share of pairs")
    has_text(
        row.locator("td").nth(1), "tian2023, Theorem 4\ngrowth is logarithmic, then log-logarithmic"
    )
    has_text(row.locator("td").nth(2), "measured 0.43 [0.4, 0.47], needed > 0.56")
    has_text(row.locator(".verdict"), "fails")
    unmet = page.locator("tr[data-kind=unmet]")
    has_text(unmet.locator(".verdict"), "assumptions not met (1 of 2); the numbers do not agree")
    assert unmet.locator("small").all_inner_texts()[:2] == ["ratio 1", "descent"]
    inconclusive = page.locator("tr[data-kind=inconclusive]")
    has_text(
        inconclusive.locator("td").nth(2),
        "measured 0.2 [0.1, 0.3], needed ≥ 0.5; ceiling 0.27 (two seeds)\nbound set after trial runs",
    )
    has_text(inconclusive.locator(".verdict"), "inconclusive; about 2.7 times the windows would do")
    control = page.locator("tr[data-kind=control]")
    has_text(control.locator(".verdict"), "fails, as a control must (broken: one common token)")
    contains_text(control, "control: one common token is broken")


def opened(page, words):
    page.locator("tr[data-claim]", has_text=words).locator(".opener").click()
    return page.locator("tr.detail")


def test_an_opened_claim_shows_its_formula_its_assumptions_and_the_command(visit, report):
    page = with_claims(visit(report))
    detail = opened(page, "assumptions not met (1 of 2")
    assert detail.locator("math").count() >= 1
    has_text(detail.locator("code"), "saccade reproduce descent")
    met, unmet = detail.locator(".assumptions li").all()
    has_text(met, "met: Assumption 2: largest eigenvalue is 0.2, must be below 0.3333\nof E")
    has_text(unmet, "not met: rate of the decoder: 0.5, must be above 1")
    page.locator(".opener[aria-expanded=true]").press("Enter")  # by keyboard
    expect(page.locator("tr.detail")).to_have_count(0)
    assert (
        opened(page, "growth bound at zero").locator("math").count() == 3
    )  # the statement, as printed, corrected


def test_the_line_of_a_claim_shows_measured_inside_or_outside_what_is_allowed(visit, report):
    page = with_claims(visit(report))

    def places(words):
        detail = opened(page, words)
        bar, dot = detail.locator(".claim-allowed"), detail.locator(".claim-bar circle")
        left, width, at = (
            float(part.get_attribute(name))
            for part, name in ((bar, "x"), (bar, "width"), (dot, "cx"))
        )
        page.locator(".opener[aria-expanded=true]").click()
        return left, left + width, at

    left, right, at = places("snap onset")
    assert left < at < right
    assert (at - left) / (right - left) == pytest.approx((46.6 - 35) / (91 - 35), abs=1e-3)
    left, right, at = places(
        "share of pairs"
    )  # needed more than .56: allowed up to the end of the line
    assert at < left
    assert right == 290
    left, right, at = places("drift of the norm")
    assert left == 10
    assert at < right
    detail = opened(page, "share of pairs")
    expect(detail.locator(".claim-interval")).to_have_count(1)
    assert "missing" in opened(page, "a number that is missing").last.inner_text()


def test_claims_that_differ_in_one_setting_are_drawn_over_it(visit, report):
    page = with_claims(visit(report))
    page.locator(".opener", has_text="loss").first.click()
    chart = page.locator("tr.detail figure")
    has_text(chart.locator("figcaption"), "loss, over iteration")
    rows = saved_rows(page, chart)
    assert [float(row["iteration"]) for row in rows if row["series"] == "measured"] == [2, 4, 6, 8]
    assert {row["series"] for row in rows} == {"measured", "lower bound", "upper bound"}


def test_markup_in_every_part_of_a_claim_is_text(visit, tmp_path):
    markup = '<img src=x onerror="window.ran=1">'
    claim = next(
        iter([Case({markup: markup}).at_most(THEOREM_4, markup, 1.0, 2.0, sentence=markup)])
    ).as_dict()
    condition = {
        "name": markup,
        "value": 1,
        "relation": markup,
        "bound": 2,
        "holds": False,
        "says": markup,
        "why": markup,
    }
    statement = dict.fromkeys(claim["statement"], markup) | {"formula": [markup], "errata": []}
    words = dict.fromkeys(("label", "says", "verdict_says", "breaks", "against"), markup)
    folder = written(tmp_path / "hostile", panels=[])
    (folder / "claims.json").write_text(
        json.dumps(
            [
                claim
                | words
                | {"assumptions": [condition], "statement": statement, "bounds": [None, 2.0]}
            ]
        )
    )
    seal(folder)
    page = with_claims(
        visit(write_report([folder, written(tmp_path / "other")], tmp_path / "report.html"))
    )
    page.locator(".opener").click()
    row, detail = (
        page.locator("tr[data-claim]").inner_text(),
        page.locator("tr.detail").inner_text(),
    )
    assert row.count(markup) >= 6
    assert detail.count(markup) >= 6
    assert page.locator(".claim-square title").text_content().count(markup) == 3
    assert page.evaluate("window.ran") is None
    expect(page.locator("img[src=x]")).to_have_count(0)


def test_a_square_of_the_overview_opens_its_claim_even_if_it_is_filtered_away(visit, report):
    page = with_claims(visit(report))
    page.fill('[data-filter="words"]', "nothing is called so")
    assert shown(page) == []
    assert page.locator("#claims-none").inner_text().startswith("No claim matches")
    assert "filtering" in page.locator('[data-filter="words"]').get_attribute("class")
    page.locator("#claims-list > summary").click()
    square = page.locator(".claim-square", has=page.locator("title", has_text="snap onset"))
    assert (
        square.locator("title").text_content()
        == "snap onset: measured 46.6, must lie in [35, 91]; holds"
    )
    square.click()
    expect(page.locator("tr.detail")).to_have_count(1)
    has_text(page.locator(".opener[aria-expanded=true]"), "snap onset")


def test_figures_are_saved_as_svg_png_and_csv(visit, report, claims):
    page = visit(report)
    saved = {}
    for kind in ("SVG", "PNG", "CSV"):
        with page.expect_download() as download:
            page.locator("#all-claims .chart-save-button", has_text=kind).click()
        saved[kind] = Path(download.value.path()).read_bytes()
        assert download.value.suggested_filename == f"claims.{kind.lower()}"
    assert saved["PNG"].startswith(b"\x89PNG")
    assert b"<svg" in saved["SVG"]
    rows = list(csv.DictReader(io.StringIO(saved["CSV"].decode())))
    measured = [None if row["measured"] == "" else float(row["measured"]) for row in rows]
    assert measured == [claim["measured"] for claim in claims]
    assert [row["says"] for row in rows] == [claim["says"] for claim in claims]


def test_a_results_own_figure_and_table_can_be_saved_as_they_were_written(visit, report, results):
    page = visit(report)
    section = page.locator(
        "details.result", has=page.locator(".card-name", has_text="How it grows")
    )
    section.locator("summary").first.click()
    section.locator(".own-figure img").wait_for()
    with page.expect_download() as download:
        section.locator(".own-figure .chart-save-button", has_text="CSV").click()
    written = (results / "growth" / "table.csv").read_text().splitlines()
    assert Path(download.value.path()).read_text().splitlines() == written


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_wider_than_the_window(visit, report, width):
    page = with_claims(visit(report, viewport={"width": width, "height": 800}))
    page.locator(".opener").first.click()
    page.locator("details.card > summary").first.click()
    page.locator("#compare").click()
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    too_wide = """all => all.filter((part) => part.getBoundingClientRect().right > innerWidth + 1
      && !part.closest('.wide, .equation, .table-holder')).length"""
    assert page.locator("button, select, input, figure, td").evaluate_all(too_wide) == 0


def test_the_tables_can_be_read_without_javascript(browser, report, claims):
    page = browser.new_page(java_script_enabled=False)
    page.goto(report.as_uri())
    expect(page.locator("#claims-table tbody tr")).to_have_count(len(claims))
    expect(page.locator("noscript")).to_have_count(1)
    page.close()


def test_only_sources_of_the_claims_shown_are_named_and_unknown_ones_by_their_key():
    def sources(*papers):
        claims = [
            Case().at_most(Statement(paper, "Lemma 1", "it falls"), "loss", 0.1, 0.2).as_dict()
            for paper in papers
        ]
        return claims_of([Result("mine", {}, claims)])[1]["sources"]

    assert sources("me2026") == "Sources: me2026."
    assert sources("<b>2026", "me2026") == "Sources: &lt;b&gt;2026; me2026."
    assert sources("saccade", "me2026", "tian2023", "me2026") == (
        "Sources: tian2023 is Scan and Snap, arXiv 2305.16380; saccade: derived or asked here; me2026."
    )
