"""The first screen and the claims, in a real browser."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from saccade.records.claim import Claim
from saccade.records.schema import make_record
from saccade.records.store import save_record
from saccade.report.page import write_report


@pytest.fixture(scope="module")
def claims(results: Path) -> list[dict]:
    return [claim for path in sorted(results.glob("*/claims.json")) for claim in json.loads(path.read_text())]


def shown(page) -> list[str]:
    return page.locator("#claims-table tbody tr[data-claim]:visible .opener").all_inner_texts()


def test_the_first_screen_says_what_was_asked_and_how_it_came_out(visit, report, results, claims):
    page = visit(report)
    n_hold = sum(claim["verdict"] == claim["expected"] == "holds" for claim in claims)
    assert page.locator(".tile-holds b").inner_text() == str(n_hold)
    assert page.locator(".commands code", has_text="saccade reproduce growth-figures").count() == 1
    statements = [json.loads(path.read_text())["statement"] for path in results.glob("*/about.json")]
    listed = page.locator(".asked-list li").all_inner_texts()
    assert sorted(line.split(": ", 1)[1] for line in listed) == sorted(statements)
    assert page.locator("#story .claim-dot").count() == len(claims)
    assert page.locator("#story .chart-svg").bounding_box()["y"] < 900  # on the first screen


def test_beyond_six_results_what_was_asked_is_folded(visit, tmp_path):
    for place in range(8):
        (tmp_path / f"result-{place}").mkdir()
        (tmp_path / f"result-{place}" / "about.json").write_text(json.dumps({"statement": f"Question {place}."}))
    page = visit(write_report(tmp_path, tmp_path / "report.html"))
    listed = page.locator(".asked-list li")
    assert [listed.nth(place).is_visible() for place in range(8)] == [True] * 6 + [False] * 2
    page.get_by_text("2 more").click()
    assert listed.last.inner_text() == "result-7: Question 7."
    assert listed.last.is_visible()


def test_text_that_a_spreadsheet_would_run_is_saved_as_text(visit, report):
    cells = visit(report).evaluate("""ChartSave.csv([["=1+1", "+a", "@b", "-c", "-2", -3, "a=b"]])""")
    assert cells == "'=1+1,'+a,'@b,'-c,-2,-3,a=b\n"


def test_a_page_of_one_result_tells_its_story_with_that_results_own_figure(visit, results, tmp_path):
    page = visit(write_report(results / "growth-figures", tmp_path / "one.html"))
    image = page.locator("#story img")
    assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") > 100
    about = json.loads((results / "growth-figures" / "about.json").read_text())
    assert page.locator(".asked").inner_text() == about["statement"]


def test_claims_are_filtered_by_theorem_verdict_and_words(visit, report, claims):
    page = visit(report)
    assert len(shown(page)) == len(claims)
    page.select_option('[data-filter="theorem"]', "derived, invariants")
    assert len(shown(page)) == 2
    page.select_option('[data-filter="theorem"]', "")
    page.fill('[data-filter="words"]', "iteration LOSS")
    expected = [
        claim["statement"] for claim in claims if "iteration" in claim["statement"] and "loss" in claim["statement"].lower()
    ]
    assert sorted(shown(page)) == sorted(expected)
    page.fill('[data-filter="words"]', "")
    page.locator(".tile-surprise").click()
    surprises = [claim for claim in claims if claim["verdict"] not in (claim["expected"], "outside its assumptions")]
    assert len(shown(page)) == len(surprises)
    assert page.locator("#claims-count").inner_text() == f"{len(surprises)} of {len(claims)} claims"


def test_claims_are_sorted_by_a_column_up_and_down(visit, report, claims):
    page = visit(report)
    page.get_by_role("button", name="measured", exact=True).click()
    up = [
        float(value)
        for value in page.locator('td[data-title="measured"]').evaluate_all("cells => cells.map(cell => cell.dataset.value)")
        if value
    ]
    assert up == sorted(float(claim["measured"]) for claim in claims if claim["measured"] is not None)
    page.get_by_role("button", name="measured", exact=True).click()
    down = [
        float(value)
        for value in page.locator('td[data-title="measured"]').evaluate_all("cells => cells.map(cell => cell.dataset.value)")
        if value
    ]
    assert down == up[::-1]


def test_an_opened_claim_shows_its_equation_its_numbers_over_time_and_the_command(visit, report, claims):
    page = visit(report)
    page.locator(".opener", has_text="loss at iteration 6,").click()
    detail = page.locator("tr.detail")
    assert detail.locator("math").count() >= 1
    assert detail.locator("code", has_text="saccade reproduce syn-small-attention").count() == 1
    (claim,) = [claim for claim in claims if claim["statement"].startswith("loss at iteration 6,")]
    assert detail.locator("dd").first.inner_text() == f"{claim['predicted']:g}"
    assert all(name in detail.locator(".assumptions").inner_text() for name in claim["assumptions"])
    detail.locator("figcaption", has_text="First run of the record").wait_for()  # of three seeds
    titles = detail.locator("figcaption").all_inner_texts()
    assert titles == ["Predicted against measured over iteration", "First run of the record: Loss"]
    page.locator(".opener", has_text="loss at iteration 6,").press("Enter")  # by keyboard
    assert page.locator("tr.detail").count() == 0


def of_two_cases(folder: Path) -> Path:
    """A result whose record has two cases, with onsets at 300 and 600; its claims are about the second."""
    onset, time = np.array([[300.0], [600.0]]), np.linspace(0, 1000, 101)
    record = make_record(
        dynamics="C",
        variables={"growth": (("case", "time"), np.log1p(time / onset))},
        coords={"case": ["base", "slow"], "time": time},
        time_unit="steps",
        config={},
        wall_time=0.0,
        definitions={"growth": ("1", "log growth")},
    )
    save_record(record, folder / "record.zarr")
    tail = ", M = 1000, rates {} and 100"
    statements = [f"onset time of growth, flow (C), K = {K}{tail.format(1)}" for K in (2, 5, 10)]
    statements += [f"slope of growth, flow (C){tail.format(rate)}" for rate in (1, 2, 3)]
    claims = [Claim(statement, "[tian2023, Theorem 4]", 600.0, 590.0, 60.0).as_dict() for statement in statements]
    (folder / "claims.json").write_text(json.dumps(claims))
    (folder / "about.json").write_text(json.dumps({"statement": "Growth slows down.", "command": "saccade reproduce growth"}))
    return folder


def test_a_claim_about_another_case_is_not_marked_on_the_curve_of_the_first(visit, tmp_path):
    page = visit(write_report(of_two_cases(tmp_path), tmp_path / "report.html"))
    page.locator(".opener", has_text="K = 5").click()
    detail = page.locator("tr.detail")
    detail.locator("figcaption", has_text="First run of the record: Growth").wait_for()
    assert detail.locator("figcaption").all_inner_texts()[0] == "Predicted against measured over K"
    drawn = detail.locator("figure", has=page.locator("figcaption", has_text="First run"))
    assert "The run with case base; the claim may be about another." in drawn.inner_text()
    assert drawn.locator(".chart-mark").count() == 0


def test_a_number_whose_name_is_not_certain_is_not_named(visit, tmp_path):
    page = visit(write_report(of_two_cases(tmp_path), tmp_path / "report.html"))
    page.locator(".opener", has_text="rates 2").click()
    title = page.locator("tr.detail figcaption").first
    assert title.inner_text() == "Predicted against measured over the claims of this statement"


def test_a_point_of_the_overview_opens_its_claim_even_if_it_is_filtered_away(visit, report):
    page = visit(report)
    page.fill('[data-filter="words"]', "nothing is called so")
    assert shown(page) == []
    dot = page.locator(".claim-dot").first
    statement = dot.locator("title").text_content().split(": ", 1)[1]
    dot.click(force=True)
    assert page.locator("tr.detail").count() == 1
    assert page.locator(".opener[aria-expanded=true]").inner_text() == statement


def test_figures_are_saved_as_svg_png_and_csv(visit, report, claims):
    page = visit(report)
    saved = {}
    for kind in ("SVG", "PNG", "CSV"):
        with page.expect_download() as download:
            page.locator("#story .chart-save-button", has_text=kind).click()
        saved[kind] = Path(download.value.path()).read_bytes()
        assert download.value.suggested_filename == f"claims.{kind.lower()}"
    assert saved["PNG"].startswith(b"\x89PNG")
    assert b"<svg" in saved["SVG"]
    rows = list(csv.DictReader(io.StringIO(saved["CSV"].decode())))
    assert sorted(float(row["measured"]) for row in rows) == sorted(float(claim["measured"]) for claim in claims)


def test_a_results_own_figure_and_table_can_be_saved_as_they_were_written(visit, report, results):
    page = visit(report)
    section = page.locator("section.result", has=page.locator("h2", has_text="growth-figures"))
    section.scroll_into_view_if_needed()
    section.locator("img").wait_for()
    with page.expect_download() as download:
        section.locator(".own-figure .chart-save-button", has_text="CSV").click()
    written = (results / "growth-figures" / "table.csv").read_text().splitlines()
    assert Path(download.value.path()).read_text().splitlines() == written


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_wider_than_the_window(visit, report, width):
    page = visit(report, viewport={"width": width, "height": 800})
    page.locator(".opener").first.click()
    page.locator("#compare").click()
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    too_wide = """all => all.filter((part) => part.getBoundingClientRect().right > innerWidth + 1
      && !part.closest('.wide, .equation, .table-holder')).length"""
    assert page.locator("button, select, input, figure, td").evaluate_all(too_wide) == 0


def test_dark_pages_have_light_letters_that_can_be_read(visit, report):
    page = visit(report, color_scheme="dark")
    contrast = """(() => {
      const linear = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
      const light = (colour) => {
        const [red, green, blue] = colour.match(/[\\d.]+/g).map((part) => linear(part / 255));
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
      };
      const style = getComputedStyle(document.body);
      const soft = getComputedStyle(document.querySelector('.note')).color;
      return [style.color, soft].map((colour) => (light(colour) + 0.05) / (light(style.backgroundColor) + 0.05));
    })()"""
    assert all(ratio > 4.5 for ratio in page.evaluate(contrast))  # what WCAG asks of text


def test_the_tables_can_be_read_without_javascript(browser, report, claims):
    page = browser.new_page(java_script_enabled=False)
    page.goto(report.as_uri())
    assert page.locator("#claims-table tbody tr").count() == len(claims)
    assert page.locator("noscript").count() == 1
    page.close()
