"""The slider, comparing, watched models and their text, in a real browser."""

from __future__ import annotations

import csv
import re

import numpy as np
import pytest
import xarray as xr

from saccade.records.store import load_record
from saccade.report.notebook import show
from saccade.report.page import write_report
from saccade.report.specs import figures, still
from tests.browser import Work, contains_text, expect, has_text, saved_rows, slide, until
from tests.report.watched_records import watched_record

SLIDER = '[data-player="slider"]'


@pytest.fixture(scope="module")
def cycle(results, tmp_path_factory):
    return write_report(results / "cycle", tmp_path_factory.mktemp("cycle") / "cycle.html")


@pytest.fixture(scope="module")
def large_record():
    return watched_record(200, 12, 12, 1024, n_rows=8)


@pytest.fixture(scope="module")
def large(large_record, tmp_path_factory):
    """A watched run of 200 looks at 12 layers of 12 heads, with a text of 1024 tokens."""
    out = tmp_path_factory.mktemp("large")
    return show(large_record).save(out / "large.html")


def test_the_slider_moves_attention_and_the_cursors_of_all_curves(visit, cycle, results):
    page = visit(cycle)
    page.locator('[data-figure="loss"]').scroll_into_view_if_needed()
    page.locator('[data-figure="loss"] .chart-cursor').wait_for(state="attached")
    lines = page.locator('[data-figure="loss"] .chart-cursor')

    def cursor():
        return lines.first.evaluate("line => line.outerHTML + line.parentNode.outerHTML")

    before = cursor()
    slide(page, 150)
    assert cursor() != before
    record = load_record(results / "cycle" / "record.zarr").isel(seed=0, time=150)
    has_text(page.locator('[data-player="readout"]'), f"{float(record.time):.6g}")
    rows = saved_rows(page, page.locator('[data-figure="attention"]'))
    saved = np.array(
        [[float(value) for value in list(row.values())[1:]] for row in rows]
    )  # query by token
    np.testing.assert_allclose(saved, record.attention.values, atol=2e-5)  # sixteen bits of [0, 1]


def test_a_step_is_one_look_by_button_and_by_key(visit, cycle):
    page = visit(cycle)
    slide(page, 10)
    page.get_by_role("button", name="One step ahead").click()
    expect(page.locator(SLIDER)).to_have_value("11")
    page.locator(SLIDER).press("ArrowLeft")
    page.locator(SLIDER).press("ArrowLeft")
    expect(page.locator(SLIDER)).to_have_value("9")


def test_play_moves_on_and_stops_at_the_end(visit, cycle):
    page = visit(cycle)
    page.locator('[data-player="play"]').click()  # from the end it starts over
    until(page, "Number(document.querySelector('[data-player=\"slider\"]').value) > 5")
    slide(page, 398)
    page.locator('[data-player="play"]').click()
    until(page, "document.querySelector('[data-player=\"play\"]').textContent.includes('Play')")
    expect(page.locator(SLIDER)).to_have_value(page.locator(SLIDER).get_attribute("max"))


def test_an_event_can_be_jumped_to_and_stages_are_shaded(visit, cycle, results):
    page = visit(cycle)
    with (results / "cycle" / "events.csv").open() as file:
        events = sorted(csv.DictReader(file), key=lambda row: float(row["time"]))
    page.select_option('[data-player="events"]', index=3)
    record = load_record(results / "cycle" / "record.zarr")
    nearest = int(np.abs(record.time.values - float(events[2]["time"])).argmin())
    expect(page.locator(SLIDER)).to_have_value(str(nearest))
    page.locator('[data-figure="loss"]').scroll_into_view_if_needed()
    page.locator('[data-figure="loss"] .chart-band').first.wait_for(state="attached")


def test_two_seeds_stand_side_by_side_and_differ(visit, report, results):
    page = visit(report)
    page.locator("#result-0 > summary").click()
    page.locator("#compare").click()
    expect(page.locator(".view")).to_have_count(2)
    plots = page.locator('.view [data-figure="loss"]')
    plots.nth(1).locator(".chart-save-button").first.wait_for()
    record = load_record(results / "descent" / "record.zarr")
    for seed in (0, 1):
        saved = [float(list(row.values())[-1]) for row in saved_rows(page, plots.nth(seed))]
        np.testing.assert_allclose(saved, record.loss.isel(rate=0, seed=seed).values, rtol=1e-3)
    first, second = (plots.nth(place).bounding_box() for place in (0, 1))
    assert second["x"] > first["x"] + first["width"] - 1
    page.locator("#compare").click()
    expect(page.locator(".view")).to_have_count(1)


def test_the_page_fits_the_axis_of_a_line_to_its_run_as_python_does(visit, report, results):
    page = visit(report)
    for name in ("descent", "cycle"):
        for figure in figures(load_record(results / name / "record.zarr")):
            if figure["kind"] != "line":
                continue
            choice = [len(one["labels"]) - 1 for one in figure["choices"]]
            shown = page.evaluate(
                """async ([name, figure, choice]) => {
                  const { records } = JSON.parse(document.getElementById("data").textContent);
                  const found = records.find((record) => record.name === name).figures.find((one) => one.name === figure);
                  return Stills.still(await Stills.load(found), choice, 0).y;
                }""",
                [name, figure["name"], choice],
            )
            expected = still(figure, choice)["y"]
            assert shown.keys() == expected.keys()
            np.testing.assert_allclose(
                [shown["min"], shown["max"]],
                [expected["min"], expected["max"]],
                rtol=1e-2,
                atol=1e-12,
            )


def test_another_record_brings_its_own_clock(visit, report, results):
    page = visit(report)
    page.locator("#result-0 > summary").click()
    page.locator(".view select").first.select_option(label="Cycle")
    record = load_record(results / "cycle" / "record.zarr")
    until(
        page,
        f"document.querySelector('[data-player=\"slider\"]').max === '{record.sizes['time'] - 1}'",
    )


def test_every_clock_and_every_run_can_be_played_to_its_own_end(visit, tmp_path):
    """The updates of a run beside the flow time of another; and runs of one clock that end at
    different times.
    """
    ends = np.array([100.0, 70.0])
    samples = np.where(
        np.arange(11) < [[11], [8]], np.linspace(0, 1, 11) * 100, np.nan
    )  # the second run has fewer
    record = xr.Dataset(
        {
            "attention": ("time", np.linspace(0, 1, 21)),
            "flow_attention": ("flow_time", np.linspace(0, 1, 5)),
            "curve": (("law", "sample"), np.nan_to_num(samples)),
            "curve_time": (("law", "sample"), samples),
        },
        {
            "time": np.linspace(0, 10_000, 21),
            "flow_time": np.linspace(0, 2000, 5),
            "law": ["a", "b"],
        },
    )
    record.time.attrs["units"] = "updates"
    page = visit(show(record).save(tmp_path / "page.html"))
    now, record_list = page.locator("[data-player=readout]"), page.locator(".view select").first
    has_text(now, "10000")
    record_list.select_option(label="record, by flow time")
    has_text(now, "2000")
    record_list.select_option(index=2)
    has_text(now, f"{ends[0]:g}")
    page.get_by_label("law").select_option(label="b")
    has_text(now, f"{ends[1]:g}")
    page.locator(SLIDER).press("Home")
    page.get_by_label("law").select_option(label="a")
    has_text(now, "0")  # where it was


def test_a_large_watched_run_is_small_and_opens_within_two_seconds(visit, large):
    assert large.stat().st_size < 10_000_000
    page = visit(large, ready=False)
    work = Work(page)
    page.goto(large.as_uri())
    page.wait_for_selector("html[data-ready]", state="attached")
    page.locator(SLIDER).press("ArrowLeft")
    assert 0.05 < work.seconds() < 2


def test_heads_are_coloured_by_the_value_at_this_step(visit, large):
    page = visit(large, reduced_motion="reduce")
    page.locator(".plot-heads").scroll_into_view_if_needed()
    page.locator(".plot-heads rect").first.wait_for()
    fills = "cells => cells.map(cell => cell.getAttribute('fill'))"
    cells = page.locator(".plot-heads .chart-svg > rect:not(.chart-cell)")
    expect(cells).to_have_count(144)
    last = cells.evaluate_all(fills)
    slide(page, 0)
    first = cells.evaluate_all(fills)
    assert len(set(first)) < len(set(last))  # all uniform at the start
    page.locator(".plot-heads select").select_option(label="sink mass")
    assert cells.evaluate_all(fills) != first


def test_a_head_is_chosen_for_the_text_by_keyboard(visit, large):
    page = visit(large, reduced_motion="reduce")
    page.locator(".plot-text").scroll_into_view_if_needed()
    page.locator(".plot-text .token").first.wait_for()
    page.locator(".plot-heads svg").press("ArrowDown")
    page.locator(".plot-heads svg").press("ArrowRight")
    expect(page.locator(".plot-text select").nth(1)).to_have_value("1")
    expect(page.locator(".plot-text select").nth(2)).to_have_value("1")


def test_screen_readers_are_told_of_a_head_once_the_slider_rests(visit, watched):
    page = visit(watched, stands=True, reduced_motion="reduce")
    page.locator(".plot-heads").scroll_into_view_if_needed()
    page.locator(".plot-heads rect").first.wait_for()
    spoken = page.locator(".plot-heads [role=status]")
    page.clock.run_for(1000)
    before = spoken.text_content()
    assert before
    for place in (12, 8, 4):
        slide(page, place)
        page.clock.run_for(200)
    assert spoken.text_content() == before
    page.clock.run_for(1000)
    assert spoken.text_content() != before
    assert page.locator(".plot-heads .chart-readout").inner_text().startswith(spoken.text_content())


def test_a_text_of_1024_tokens_shows_its_attention_without_freezing(visit, large, large_record):
    page = visit(large, reduced_motion="reduce")
    page.locator(".plot-text").scroll_into_view_if_needed()
    page.locator(".plot-text .token").first.wait_for()
    expect(page.locator(".plot-text .token")).to_have_count(1024)
    work = Work(page)
    before = work.seconds()
    page.evaluate("""async () => {
      const tokens = document.querySelectorAll('.plot-text .token:not(.absent)');
      for (let turn = 0; turn < 8; turn += 1) {
        tokens[turn].click();
        await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
      }
    }""")
    assert (work.seconds() - before) / 8 < 0.1  # seconds: where a pause begins to be felt
    page.locator(".plot-text .token").last.click()
    until(
        page,
        "document.querySelector('.plot-text .chart-readout').textContent.includes('token 1023 “word1023” attends')",
    )
    rows = saved_rows(page, page.locator(".plot-text"))
    truth = large_record.attention_map.values[-1, 0, 0, 0, -1].astype(float)
    np.testing.assert_allclose(
        [float(row["attention"]) for row in rows], truth, atol=4e-3
    )  # 254 steps of the square root


def test_a_model_that_was_really_watched_has_all_its_figures(visit, tmp_path):
    torch = pytest.importorskip("torch")
    import saccade
    from tests.watching import model_zoo as zoo

    model = zoo.HandWritten("fused")
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    with saccade.watch(model, zoo.ids(), every=1, budget=None, out=tmp_path / "run") as recorder:
        for step in range(4):
            loss = model(zoo.ids()).square().mean()
            recorder.step(step, loss)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    page = visit(tmp_path / "run" / "report.html")
    contains_text(page.locator(".asked"), "5 observations from step 0 to 4")
    names = page.locator(".plot[data-figure]").evaluate_all(
        "plots => plots.map(plot => plot.dataset.figure)"
    )
    assert {"heads", "relative_entropy", "loss", "qk_effective_rank"} <= set(names)
    expect(page.locator(".plot-text")).to_have_count(1)


def test_what_is_equal_lies_in_a_page_once(results, tmp_path):
    blobs = re.findall(
        r'id="blob-\d+">([^<]*)<',
        write_report(results, tmp_path / "page.html").read_text(encoding="utf-8"),
    )
    assert len(blobs) > 10
    assert len(set(blobs)) == len(blobs)
