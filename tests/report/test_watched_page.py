"""The page of a watched run in a real browser: maps of all heads that move, every query row, runs
in one picture.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

import saccade
from saccade.records.json_files import parsed_json
from saccade.records.store import save_record
from saccade.report.column import write_figure
from saccade.report.maps import ROOM, text_map
from saccade.report.notebook import show
from saccade.report.page import write_report
from saccade.report.specs_watched import watched_figures
from saccade.report.timeline import unseen
from saccade.report.watched_files import write_watched
from tests.browser import contains_text, expect, has_text, saved_rows, slide, until_it_moves
from tests.report.watched_records import N_HEADS, N_LAYERS, N_TOKENS, small_run, watched_record

Image = pytest.importorskip("PIL.Image")
STILL = {"reduced_motion": "reduce"}  # at its last look, and stays there


@pytest.fixture(scope="module")
def two(small_record, tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    for name, one in (("fast", small_record), ("slow", small_run(1))):
        save_record(one, folder / f"{name}.zarr")
    return write_report([folder / "fast.zarr", folder / "slow.zarr"], folder / "page.html")


def colours(canvas):
    """Red, green and blue of each pixel (row, column)."""
    data = base64.b64decode(canvas.evaluate("(one) => one.toDataURL()").split(",")[1])
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), int)


def expected(page, weights):
    """The colour map of the square roots of weights."""
    table = np.array(list(page.evaluate("[...ChartScales.colourTable('sequential')]"))).reshape(
        256, 3
    )
    shades = np.round(np.sqrt(weights) * 254) / 254
    return table[np.round(255 * shades).astype(int)]


def test_the_map_of_every_head_is_drawn_as_it_was_recorded_and_moves_with_the_player(
    visit, watched, small_record
):
    page = visit(watched, **STILL)
    thumbnails = page.locator(".head-thumbnail canvas")
    expect(thumbnails).to_have_count(N_LAYERS * N_HEADS)
    contains_text(page.locator(".plot-text .chart-readout"), "Step 2000")
    maps = small_record.attention_map.values[:, 0].astype(float)
    for place, (layer, head) in enumerate(np.ndindex(N_LAYERS, N_HEADS)):
        np.testing.assert_allclose(
            colours(thumbnails.nth(place)), expected(page, maps[-1, layer, head]), atol=12
        )
    slide(page, 0)
    contains_text(page.locator(".plot-text .chart-readout"), "Step 0")
    np.testing.assert_allclose(colours(thumbnails.nth(4)), expected(page, maps[0, 1, 1]), atol=12)
    assert (
        abs(expected(page, maps[0, 1, 1]) - expected(page, maps[-1, 1, 1])).max() > 50
    )  # or the test could not fail


def test_a_map_is_enlarged_by_a_click_and_tells_the_words_under_the_pointer(
    visit, watched, small_record
):
    page = visit(watched, **STILL)
    page.locator(".head-thumbnail").nth(5).click()
    contains_text(page.locator(".head-large figcaption"), "layer 1, head 2")
    expect(page.locator(".plot-text select").nth(2)).to_have_value("2")
    canvas = page.locator(".head-large canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    query, key = 17, 5
    at = {"x": (key + 0.5) * box["width"] / N_TOKENS, "y": (query + 0.5) * box["height"] / N_TOKENS}
    canvas.hover(position=at)
    said = page.locator(".head-under")
    contains_text(said, "token 17 “word17” on token 5 “word5”: ")
    truth = float(small_record.attention_map.values[-1, 0, 1, 2, query, key])
    assert float(said.inner_text().rsplit(": ", 1)[1].replace("×10⁻", "e-")) == pytest.approx(
        truth, abs=4e-3
    )
    canvas.click(position=at)
    has_text(page.locator(".token.query"), "word17")


def test_all_tokens_of_a_short_text_can_be_chosen(visit, watched):
    page = visit(watched, **STILL)
    expect(page.locator(".token")).to_have_count(N_TOKENS)
    expect(page.locator(".token.absent")).to_have_count(0)
    for place in (0, 7, 22):
        page.locator(".token").nth(place).click()
        contains_text(
            page.locator(".plot-text .chart-readout"), f": token {place} “word{place}” attends"
        )


def test_a_token_without_a_row_is_never_shown_as_its_neighbour(visit, tmp_path):
    page = visit(show(watched_record(4, 1, 1, 40, n_rows=5)).save(tmp_path / "page.html"), **STILL)
    expect(page.locator(".token:not(.absent)")).to_have_count(5)
    before = page.locator(".token.query").inner_text()
    page.locator(".token").nth(1).click()
    contains_text(
        page.locator(".plot-text .chart-readout"),
        "There is no map of token 1 “word1” as a query: 5 of 40 query rows are kept",
    )
    has_text(page.locator(".token.query"), before)


def test_each_row_may_have_a_scale_of_its_own(visit, watched):
    page = visit(watched, **STILL)
    canvas = page.locator(".head-large canvas")
    has_text(page.locator(".head-scale"), "0 to 1 in every row")
    page.get_by_label("each row on its own scale").check()
    contains_text(page.locator(".head-scale"), "largest of each row")
    brightest = colours(canvas).sum(axis=2).max(axis=1)
    assert (brightest == brightest[0]).all()  # each row reaches the end of the colours


def test_of_128_tokens_all_rows_of_144_heads_fit_a_page_at_several_looks():
    text = text_map(watched_record(5, 12, 12, 128, n_rows=128))
    assert text["queries"] == list(range(128))
    assert len(text["looks"]) >= 4
    assert sum(len(look["pack"]["data"]) for look in text["looks"]) <= ROOM


def test_step_0_has_its_place_on_a_logarithmic_axis(visit, watched):
    page = visit(watched, **STILL)
    plot = page.locator('[data-figure="loss"]')
    plot.scroll_into_view_if_needed()
    plot.locator(".chart-save-button").first.wait_for()
    ticks = plot.locator("svg text").all_text_contents()
    assert [tick for tick in ticks if tick in ("0", "1", "10", "100", "1000")][-5:] == [
        "0",
        "1",
        "10",
        "100",
        "1000",
    ]
    first = plot.locator("path.chart-line").first.get_attribute("d").split("L")[0]
    axis = plot.locator(".chart-axis").first.bounding_box()
    slide(page, 0)
    cursor = plot.locator("path.chart-cursor").bounding_box()
    assert first.startswith("M")
    assert cursor["x"] == pytest.approx(axis["x"], abs=3)  # at the left end, not left out


def test_no_figure_is_empty_and_tied_embeddings_are_drawn_once(small_record):
    names = [figure["name"] for figure in watched_figures(small_record)]
    assert "masses" in names
    common_only = small_record.assign(distinct_mass=0 * small_record.distinct_mass)
    assert "masses" not in {
        figure["name"] for figure in watched_figures(common_only)
    }  # nothing to compare
    values = np.exp(-np.arange(12.0))[None] * np.linspace(1, 2, 17)[:, None]
    tied = small_record.assign(
        {
            f"{name}_singular_values": (("time", "rank"), values)
            for name in ("embedding", "unembedding")
        }
        | {"sink_share": (("time",), np.zeros(17))}
        | {name: small_record[name] * 0 for name in ("distinct_mass", "common_mass", "judged_mass")}
    )
    figures = {figure["name"]: figure for figure in watched_figures(tied)}
    assert "masses" not in figures
    assert "sink_share" not in figures
    assert "unembedding_singular_values" not in figures
    assert figures["embedding_singular_values"]["title"].endswith("(tied with the unembedding)")
    assert "distinct_mass" not in figures["heads"]["choices"][0]["labels"]
    apart = tied.assign(unembedding_singular_values=2 * tied.unembedding_singular_values)
    assert "unembedding_singular_values" in {figure["name"] for figure in watched_figures(apart)}


def test_two_runs_are_in_one_picture_with_shared_axes_and_the_second_stands_beside_the_first(
    visit, two, small_record
):
    page = visit(two, **STILL)
    assert page.locator("h1").inner_text() == "2 runs: fast, slow"
    expect(page.locator("#story .panel-timeline")).to_have_count(2)
    said = page.locator(".told .caption-place > .caption").all_inner_texts()
    assert [one[:6] for one in said] == ["fast: ", "slow: "]  # a block each
    for one, record in zip(said, (small_record, small_run(1)), strict=True):
        assert one.endswith(
            saccade.timeline(record).sentences[-1]
        )  # how it ended is not folded away
    loss = page.locator("#overlay figure", has_text="Loss")
    assert {"fast", "slow"} <= set(loss.locator("svg text").all_text_contents())
    rows = saved_rows(page, loss)
    last = {
        name: max(float(row["step, updates"]) for row in rows if row["series"] == name)
        for name in ("fast", "slow")
    }
    assert last == {"fast": 2000, "slow": 4000}
    expect(page.locator(".view")).to_have_count(2)
    assert [
        one.input_value() for one in page.locator(".view > .controls:first-child select").all()
    ] == ["0", "1"]
    for name in ("relative_entropy", "qk_effective_rank", "loss"):
        beside = page.locator(f'.view [data-figure="{name}"]')
        beside.first.scroll_into_view_if_needed()
        beside.nth(1).locator(".chart-save-button").first.wait_for()
        words = [set(plot.locator("svg text").all_text_contents()) for plot in beside.all()]
        assert words[0] == words[1]
        axis = beside.first.locator("path.chart-axis").first.bounding_box()
        line = beside.first.locator("path.chart-line").last.bounding_box()
        assert (
            line["x"] + line["width"] < axis["x"] + axis["width"] - 10
        )  # the first run ends before the second
    assert (
        page.locator('[data-player="readout"]').inner_text() == "4000"
    )  # the longer run is played to its end
    page.locator("#overlay select").first.select_option(label="layer 1")
    expect(page.locator("#compare")).to_have_attribute("aria-pressed", "true")


@pytest.mark.parametrize("width, height", [(1440, 900), (1024, 768), (390, 844)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_maps_move_by_themselves_on_the_first_screen(visit, watched, width, height, scheme):
    page = visit(
        watched, stands=True, viewport={"width": width, "height": height}, color_scheme=scheme
    )
    box = page.locator(".head-thumbnail").first.bounding_box()
    fold = page.locator("#player").bounding_box()["y"]
    assert box["y"] + 30 < fold
    until_it_moves(
        page,
        box | {"height": min(box["height"], fold - box["y"])},
        0.01,
        lambda: page.clock.run_for(300),
    )
    assert page.evaluate("scrollY") == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    timeline = page.locator(".panel-timeline")
    assert timeline.evaluate(
        "one => one.scrollWidth <= one.clientWidth"
    )  # all of it is seen, its end too
    assert timeline.locator("svg").bounding_box()["y"] < fold / 2


def test_the_timeline_is_what_when_says_of_every_head_at_every_step(visit, watched, small_record):
    timeline = saccade.timeline(small_record)
    page = visit(watched, **STILL)
    panel = page.locator(".panel-timeline")
    with page.expect_download() as found:
        panel.locator(".chart-save-button", has_text="CSV").click()
    head, *rows = csv.reader(io.StringIO(Path(found.value.path()).read_text()))
    assert [float(step) for step in head[1:]] == timeline.steps.tolist()
    for row, (layer, number) in zip(rows, np.ndindex(N_LAYERS, N_HEADS), strict=True):
        assert [cell.split(",")[0] for cell in row[1:]] == timeline.state(layer, number)
        frozen = [float(step) >= timeline.frozen[layer, number] for step in head[1:]]
        assert ["frozen" in cell for cell in row[1:]] == frozen
    stage = panel.locator(".chart-stage")
    stage.focus()
    page.keyboard.press("ArrowDown")
    said = panel.locator(".chart-readout").inner_text()
    assert said.startswith(
        f"layer 0 head 0 at step {timeline.steps[-1]:.0f}: {timeline.state(0, 0)[-1]}"
    )


def test_the_player_moves_a_line_through_the_timeline_and_tells_whole_steps(visit, watched):
    page = visit(watched, stands=True)
    told, places = [], []
    for _ in range(8):
        page.clock.run_for(650)
        told.append(page.locator('[data-player="readout"]').inner_text())
        places.append(
            page.evaluate(
                "document.querySelector('.panel-timeline .chart-cursor').getBoundingClientRect().x"
            )
        )
    assert len(set(told)) > 4
    assert [step for step in told if not step.isdigit()] == []
    assert places == sorted(places)
    assert places[-1] > places[0]


def test_the_words_under_the_pointer_and_the_text_are_seen_without_scrolling(visit, watched):
    page = visit(watched, **STILL, viewport={"width": 1440, "height": 900})
    fold = page.locator("#player").bounding_box()["y"]
    canvas = page.locator(".head-large canvas").bounding_box()
    words = page.locator(".tokens").bounding_box()
    assert words["y"] + words["height"] < fold
    lowest = min(0.9, (fold - 12 - canvas["y"]) / canvas["height"])  # of the map that is seen
    for x, y in ((0.2, 0.3), (0.8, 0.3), (0.2, lowest), (0.8, lowest)):
        at = canvas["x"] + x * canvas["width"], canvas["y"] + y * canvas["height"]
        page.mouse.move(*at)
        tip = page.locator(".head-under").bounding_box()
        assert tip["y"] > 0
        assert tip["y"] + tip["height"] < fold
        sides = zip(at, (tip["x"], tip["y"]), (tip["width"], tip["height"]), strict=True)
        gaps = [max(low - one, one - low - size, 0) for one, low, size in sides]
        assert 0 < max(gaps) < 20  # beside it, never under it
    page.mouse.move(5, 5)
    expect(page.locator(".head-under")).to_be_hidden()
    assert page.evaluate("scrollY") == 0


def test_a_run_is_called_by_its_label_and_its_folder(small_record, tmp_path):
    config = parsed_json(small_record.attrs["config"]) | {"label": "lr 0.1"}
    labelled = small_record.assign_attrs(config=json.dumps(config))
    titles = []
    for name in ("first", "second"):
        save_record(labelled, tmp_path / name / "record.zarr")
        page = write_watched(tmp_path / name, labelled)
        titles.append(re.search("<h1>(.*)</h1>", page.read_text("utf-8"))[1])
    assert titles == ["lr 0.1 (first)", "lr 0.1 (second)"]
    read_again = write_report(tmp_path / "first", tmp_path / "page.html").read_text("utf-8")
    assert "<title>Saccade report: lr 0.1 (first)</title>" in read_again


def test_what_a_statistic_means_is_a_sentence(visit, tmp_path):
    record = small_run()
    record.relative_entropy.attrs["definition"] = "entropy over the log of the visible keys"
    page = visit(show(record).save(tmp_path / "page.html"), **STILL)
    heads = page.locator(".plot-heads")
    heads.scroll_into_view_if_needed()
    contains_text(
        heads.locator(".chart-readout"), "(light). Entropy over the log of the visible keys."
    )


@pytest.fixture(scope="module")
def sparse_record(small_record):
    """Nobody looked between steps 2 and 300."""
    steps = ("time", np.array([0, 1, 2, 300]), small_record.time.attrs)
    return small_record.isel(time=[0, 1, 2, -1]).assign_coords(time=steps)


def test_what_nobody_observed_is_striped_and_has_no_step_of_its_own(
    visit, watched, sparse_record, tmp_path
):
    page = visit(show(sparse_record).save(tmp_path / "page.html"), stands=True)
    panel = page.locator(".panel-timeline")
    expect(panel.locator(".chart-unseen")).to_have_count(1)
    ends = "all => all.map((one) => [one.getPointAtLength(0).x, one.getPointAtLength(1e9).x])"
    ticks = [tick for tick, _ in panel.locator(".chart-look").evaluate_all(ends)]
    assert len(ticks) == 4
    assert panel.locator(".chart-unseen").evaluate_all(ends)[0] == pytest.approx(ticks[2:], abs=2)
    assert "striped: not observed" in panel.locator("svg text").all_text_contents()
    told = set()
    for _ in range(12):
        page.clock.run_for(650)
        told.add(page.locator(".player-time").inner_text())
    assert "between steps 2 and 300" in told
    assert told <= {"step 0", "step 1", "step 2", "step 300", "between steps 2 and 300"}
    phone = visit(tmp_path / "page.html", stands=True, viewport={"width": 390, "height": 844})
    heights = set()
    for _ in range(12):
        phone.clock.run_for(650)
        heights.add(phone.locator("#player").bounding_box()["height"])
    assert len(heights) == 1  # the foot of the window stands still
    dense = visit(watched, **STILL).locator(".panel-timeline")
    expect(dense.locator(".chart-unseen, .chart-look, .chart-unseen-key")).to_have_count(0)
    assert "observed" not in dense.locator("svg text").all_text_contents()


def test_what_nobody_observed_is_striped_in_print_too(small_record, sparse_record, tmp_path):
    for name, record, is_striped in (
        ("dense", small_record, False),
        ("sparse", sparse_record, True),
    ):
        save_record(record, tmp_path / f"{name}.zarr")
        drawn = write_figure(tmp_path / f"{name}.zarr", tmp_path / f"{name}.svg").read_text("utf-8")
        assert ("striped: not observed" in drawn) == is_striped
        assert ("<pattern" in drawn) == is_striped
        assert "What heads do, and since when" in drawn
        assert "layer 0 head 0" in drawn


def test_only_what_more_than_doubles_the_step_counts_as_not_observed():
    assert unseen(np.array([0.0, 1, 2, 4, 8])) == []
    assert unseen(np.array([0.0, 2, 4, 9, 18])) == [[4, 9]]
    assert unseen(np.array([0.0, 3])) == [[0, 3]]
