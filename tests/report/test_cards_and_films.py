"""The first screen of a page about several results: films that move, and cards that open, in a real
browser.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import xarray as xr

from saccade.errors import InputError
from saccade.lab.film import N_FRAMES, Film, frames
from saccade.report.page import write_report
from saccade.report.page_data import _rounded
from tests.browser import expect, has_text, until, until_it_moves
from tests.report.made_results import growth_claims, snap, turning, written

WIDTHS = [(1440, 900), (1024, 768), (390, 844)]


def test_frames_go_where_attention_moves_and_keep_both_ends():
    time = np.geomspace(1, 1e6, 701)
    values = np.where(time < 1e3, 0.0, np.minimum(np.log10(time / 1e3), 1.0))[
        :, None
    ]  # rest, a decade of movement, rest
    at = frames(time, values)
    assert (at[0], at[-1], len(at)) == (1.0, 1e6, N_FRAMES)
    assert (np.diff(at) > 0).all()
    moving = ((at > 1e3) & (at < 1e4)).mean()
    assert moving == pytest.approx(
        0.75 + 0.25 / 6, abs=0.02
    )  # one decade of six has three quarters of the film


def test_a_film_of_something_that_never_moves_goes_by_its_samples():
    assert np.allclose(frames(np.arange(5.0), np.ones((5, 3)), 9), np.linspace(0, 4, 9))


def test_a_film_interpolates_and_leaves_out_what_theory_does_not_say():
    spec = snap().spec()
    shares = np.array(spec["values"])
    assert np.allclose(shares.sum(axis=1), 1, atol=1e-4)
    assert [row[0] for row in spec["theory"]] == [None] * N_FRAMES
    assert np.allclose(np.array([row[1:] for row in spec["theory"]]), shares[:, 1:], atol=1e-5)
    assert turning().spec()["kind"] == "heat"
    with pytest.raises(InputError, match="a film of 2 tokens"):
        Film("Wrong.", [0, 1], np.zeros((2, 3)), ["a", "b"]).spec()
    with pytest.raises(InputError, match="two or more times"):
        Film("Short.", [0], np.zeros((1, 2)), ["a", "b"]).spec()


def test_long_lines_are_thinned_and_points_and_broken_lines_are_not():
    x = list(range(2000))
    line = {"x": x, "y": [0.5 * value for value in x], "style": "line"}
    thin = _rounded(line)
    assert len(thin["x"]) <= 601
    assert (thin["x"][0], thin["x"][-1]) == (0, 1999)
    assert all(y == 0.5 * at for at, y in zip(thin["x"], thin["y"], strict=True))
    for kept in (line | {"style": "points"}, line | {"y": [None, *line["y"][1:]]}):
        assert len(_rounded(kept)["x"]) == 2000


@pytest.mark.parametrize("width, height", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_first_screen_moves_by_itself(visit, report, width, height, scheme):
    page = visit(report, viewport={"width": width, "height": height}, color_scheme=scheme)
    stage = page.locator(".film-stage").first
    assert (
        stage.bounding_box()["y"] + stage.bounding_box()["height"] <= height
    )  # whole, above the fold
    assert page.locator(".film-sentence").first.inner_text() == "Attention snaps."
    until_it_moves(page, stage.bounding_box(), share=0.001)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_film_can_be_stopped_and_moved_by_hand(visit, report):
    page = visit(report)
    film = page.locator(".film").first
    film.get_by_role("button", name="Pause the film").click()
    held = film.locator(".film-time").inner_text()
    page.wait_for_timeout(300)
    has_text(film.locator(".film-time"), held)
    film.locator(".film-slider").press("End")
    has_text(film.locator(".film-time"), "t = 10⁶: half is won")
    film.locator(".film-slider").press("Home")
    has_text(film.locator(".film-time"), "t = 1: start")


def test_nothing_moves_by_itself_where_less_motion_is_wanted(visit, report):
    page = visit(report, reduced_motion="reduce")
    first = page.locator(".film-time").all_inner_texts()
    page.wait_for_timeout(400)
    assert page.locator(".film-time").all_inner_texts() == first
    expect(page.get_by_role("button", name="Play the film")).to_have_count(2)


def test_a_card_shows_the_finding_and_the_verdicts_under_its_theory(visit, report, results):
    page = visit(report)
    assert page.locator(".part > h2").all_inner_texts() == ["Scan and Snap", "Focus and Dilution"]
    statements = [
        json.loads((results / name / "about.json").read_text())["statement"]
        for name in ("descent", "growth", "cycle")
    ]
    assert page.locator(".card-said").all_inner_texts() == statements
    words = page.locator("#result-1 .strip-words").inner_text()
    assert words.startswith("6 claims: 3 hold, 2 fail, 1 inconclusive; ")
    assert page.locator("#result-0 .card-picture .chart-line").count() > 3
    assert page.locator(".menu a").all_inner_texts() == [
        "Scan and Snap",
        "Descent",
        "How it grows",
        "Focus and Dilution",
        "Cycle",
        "All claims",
    ]
    assert page.locator(".menu li a").evaluate_all("all => all.map((one) => one.title)") == [
        "descent",
        "growth",
        "cycle",
    ]
    expect(page.locator("#all-claims")).to_contain_text("How it grows")


def test_an_opened_card_has_its_figure_its_time_view_and_its_own_claims(visit, report):
    page = visit(report)
    card = page.locator("#result-0")
    card.locator("summary").first.click()
    card.locator(".panel").first.wait_for()
    expect(card.locator(".panel")).to_have_count(4)
    expect(card.locator("#over-time")).to_be_visible()
    card.locator(".own-claims > summary").click()
    expect(card.locator(".own-claims .opener")).to_have_count(6)
    card.locator(".own-claims .opener").first.click()
    has_text(card.locator(".own-claims .detail code"), "saccade reproduce descent")
    page.locator("#result-2 > summary").click()
    page.locator(
        "#result-2 #over-time"
    ).wait_for()  # there is one, and it goes where it is asked for
    expect(card.locator("#over-time")).to_have_count(0)


def test_a_card_opens_at_the_end_of_a_run_that_has_a_clock_of_its_own(visit, tmp_path):
    clock = np.array([[1.0, 2.0, 4.0], [1.0, 3.0, 9.0]])
    curves = {"curve": (("law", "sample"), clock**2), "curve_time": (("law", "sample"), clock)}
    folders = [
        written(tmp_path / name, growth_claims(), record=xr.Dataset(curves, {"law": ["a", "b"]}))
        for name in ("one", "two")
    ]
    page = visit(write_report(folders, tmp_path / "page.html"))
    page.locator("#result-1 > summary").click()
    has_text(page.locator("#result-1 [data-player=readout]"), "4")
    page.locator("#result-1").get_by_label("law").select_option(label="b")
    has_text(page.locator("[data-player=readout]"), "9")


@pytest.mark.parametrize("width, height", WIDTHS)
def test_the_way_back_to_the_top_is_offered_where_the_top_is_out_of_sight(
    visit, report, width, height
):
    page = visit(report, viewport={"width": width, "height": height})
    expect(page.locator(".to-top")).to_be_hidden()
    page.evaluate("scrollTo(0, document.body.scrollHeight / 2)")
    expect(page.locator(".to-top")).to_be_in_viewport()
    page.locator(".to-top").click()
    expect(page.locator("h1")).to_be_in_viewport()
    menu = page.locator(".menu").bounding_box()
    assert (menu["x"] + menu["width"] <= page.locator(".cards").first.bounding_box()["x"]) == (
        width > 960
    )  # beside it, or after


def test_a_link_to_a_result_opens_its_card(visit, report):
    page = visit(report)
    page.locator(".menu a", has_text="How it grows").click()
    expect(page.locator("#result-1")).to_have_attribute("open", "")
    page.locator(".film-more", has_text="Descent").click()
    expect(page.locator("#result-0")).to_have_attribute("open", "")


def test_a_keyboard_is_soon_at_the_results(visit, report):
    page = visit(report)
    page.locator("body").press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.film') !== null")
    stops = 0
    while not page.evaluate("document.activeElement.closest('.card') !== null"):
        page.keyboard.press("Tab")
        stops += 1
        assert stops < 20, "too many stops before the first card"


def test_the_head_of_the_table_stays_in_sight(visit, report):
    page = visit(report, viewport={"width": 1280, "height": 500})
    page.locator("#claims-list > summary").click()
    page.locator("#claims-table tbody tr").last.scroll_into_view_if_needed()
    shown, head = (
        page.locator(place).first.bounding_box()
        for place in ("#claims-shown", "#claims-table thead th")
    )
    assert 0 <= shown["y"] < 10  # what is filtered, and the way back
    assert 0 <= head["y"] - shown["y"] - shown["height"] < 1


def test_a_film_that_is_none_is_not_shown_and_named(visit, results, tmp_path):
    folder = written(tmp_path / "one", film=snap())
    whole = write_report(folder, tmp_path / "whole.html")
    expect(visit(whole).locator(".film")).to_have_count(1)  # also of a single result
    (folder / "film.json").write_text("{}")
    told = []
    page = visit(write_report(folder, tmp_path / "damaged.html", told.append))
    expect(page.locator(".film")).to_have_count(0)
    assert "film.json" in told[0]


def _frame(page, place):
    """The second film at a share of its length."""
    page.locator(".film-slider").nth(1).evaluate(
        "(one, share) => { one.value = share * one.max; one.dispatchEvent(new Event('input')); }",
        place,
    )
    return page.locator(".film").nth(1)


def test_theory_is_the_rim_of_each_cell_as_long_as_it_speaks(visit, report):
    page = visit(report, reduced_motion="reduce")
    film = _frame(page, 0)
    expect(film.locator(".chart-svg")).to_contain_text("rim: half of it")
    inside = film.locator(".chart-svg .chart-inside")
    expect(inside).to_have_count(6)
    colour = "(share) => ChartScales.sequential(share).replaceAll(' ', '')"
    assert inside.first.get_attribute("fill") == page.evaluate(colour, 1.0)  # the run's own
    pixel = """async (image) => { const copy = new Image(); copy.src = image.getAttribute("href"); await copy.decode();
      const canvas = document.createElement("canvas"), context = canvas.getContext("2d"); context.drawImage(copy, 0, 0);
      return `rgb(${[...context.getImageData(0, 0, 1, 1).data].slice(0, 3)})`; }"""
    assert film.locator(".chart-svg image").first.evaluate(pixel) == page.evaluate(
        colour, 0.4
    )  # theory's, of which the rim is seen
    film = _frame(page, 1)
    expect(inside.first).to_have_attribute("visibility", "hidden")  # it says nothing of the end


def test_a_figure_fills_the_window_at_a_tap_and_comes_back(visit, report):
    page = visit(
        report, viewport={"width": 390, "height": 844}, has_touch=True, reduced_motion="reduce"
    )
    page.locator("#result-0 > summary").tap()
    stage = page.locator("#result-0 .panel .chart-stage").first
    stage.scroll_into_view_if_needed()
    small = stage.bounding_box()
    stage.tap()
    large = page.locator(".zoom[open] .chart-svg")
    expect(large).to_be_visible()
    assert small["width"] < large.bounding_box()["width"] <= 390  # it fits first
    assert float(large.get_attribute("height")) > 1.5 * small["height"]  # drawn anew, not stretched
    has_text(page.locator(".zoom-hint"), "tap the picture for larger")
    large.tap()
    has_text(page.locator(".zoom-hint"), "↔ drag or scroll to move it, tap to fit")
    until(page, "document.querySelector('.zoom .chart-svg').clientWidth > 600")
    assert page.evaluate("document.querySelector('.zoom').scrollWidth > innerWidth")
    page.get_by_role("button", name="Fit", exact=True).tap()
    until(page, "document.querySelector('.zoom .chart-svg').clientWidth < 390")
    page.locator(".zoom-close").tap()
    expect(page.locator(".zoom[open]")).to_have_count(0)
    assert stage.bounding_box()["width"] == small["width"]
    page.get_by_role("button", name="Enlarge descent-1").press("Enter")  # by keyboard as well
    expect(page.locator(".zoom[open] .chart-svg")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#result-0 .panel .chart-svg").first).to_be_visible()
