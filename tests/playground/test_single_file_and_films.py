"""The playground as one file, and its stories as films: both open without this package, and show
what the page shows.
"""

from __future__ import annotations

import base64
import io
import threading
from itertools import pairwise

import numpy as np
import pytest

from saccade.cli import main
from saccade.errors import InputError
from saccade.playground import film
from saccade.playground.server import make_server
from saccade.playground.single_file import playground_page
from saccade.playground.stories import stories
from tests.browser import contains_text, expect, has_text

from .conftest import until

MOST_BYTES = 400_000


@pytest.fixture(scope="module")
def one_file(tmp_path_factory):
    """Written by the command, into a folder where nothing else is."""
    path = tmp_path_factory.mktemp("elsewhere") / "one.html"
    assert main(["play", "--out", str(path)]) == 0
    return path


def test_the_file_is_small_and_names_no_other(one_file):
    text = one_file.read_text("utf-8")
    assert len(text.encode()) <= MOST_BYTES
    assert text == playground_page()
    assert "<script src" not in text
    assert "stylesheet" not in text
    assert text.count("<script>") == 1


def test_it_opens_from_anywhere_offline_and_tells_a_story_by_its_link(one_file, browser):
    errors, requests = [], []
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.on(
        "console",
        lambda message: message.type in ("error", "warning") and errors.append(message.text),
    )
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    for name, story in stories().items():
        page.goto("about:blank")
        page.goto(one_file.as_uri() + f"#v=2&story={name}")
        until(page, "Page.playing && Page.place > 0")
        assert page.evaluate("[Page.state.model, Page.state.story]") == [story["model"], name]
        has_text(page.locator("#messages"), "")
        assert page.evaluate("Page.run.times.at(-1)") == story["change"]["end"]
        assert page.evaluate("Page.link").startswith(f"#v=2&model={story['model']}&story={name}")
        assert "&law" not in page.url
    context.close()
    assert errors == []
    assert {
        url.split("#")[0] for url in requests if not url.startswith(("data:", "blob:", "about:"))
    } == {one_file.as_uri()}


def test_stories_in_python_have_the_words_laws_and_defaults_of_the_page(visit):
    page = visit()
    told = page.evaluate("""Stories.ALL.map((story) => {
      const settings = Stories.settings(story), { rows, answers } = Words.of(story.model, settings);
      return { name: story.name, rows, answers, law: settings.law, fitting: Laws.fitting(story.model, settings), settings }; })""")
    assert [one["name"] for one in told] == list(stories())
    for one in told:
        story = stories()[one["name"]]
        assert (story["rows"], story["answers"]) == (one["rows"], one["answers"])
        assert one["law"] == story["change"]["law"]
        if one["name"] in ("scanning", "snapping"):  # the others have laws of their own
            for law, fitting in zip(story["change"]["law"], one["fitting"], strict=True):
                assert law == pytest.approx(fitting, abs=1e-4)
        assert one["settings"]["lrDecoder"] == 1  # what the film takes for granted
        assert one["settings"].get("initScale") == (
            0.001 if story["model"] == "focus-and-dilution" else 0.1
        )


@pytest.mark.parametrize("name", ["snapping", "focus"])
def test_a_film_moves_and_shows_the_attention_of_the_page(visit, name, tmp_path, monkeypatch):
    Image = pytest.importorskip("PIL.Image")
    monkeypatch.setattr(film, "_RATE", 1)  # frames a second: a dozen in all
    story = stories()[name]
    run = film._run(story)
    monkeypatch.setattr(film, "_run", lambda told: run)  # once for film and comparison
    path = film.write_film(tmp_path / f"{name}.gif", name)
    frames = Image.open(io.BytesIO(path.read_bytes()))
    assert frames.n_frames == 12
    pictures = []
    for at in range(frames.n_frames):
        frames.seek(at)
        pictures.append(np.asarray(frames.convert("L"), int))
    moved = [(abs(after - before) > 20).mean() for before, after in pairwise(pictures)]
    assert min(moved) > 0.001
    page = visit(f"#v=2&story={name}")
    seen = page.evaluate("{ Page.run.advance(1e9, 1e9); Page.run.seen.at(-1).attention }")
    if story["model"] == "scan-and-snap":  # the chain's start is drawn by another generator
        own = [[share for share in row if share > 0] for row in seen]
        assert run.attention[-1] == pytest.approx(np.array(own), abs=2e-3)
        assert run.marks["onset"] == pytest.approx(page.evaluate("Page.run.theory.onset"))
    else:
        assert run.attention[-1] == pytest.approx(np.array(seen), abs=0.05)


def test_a_film_has_a_name_that_ends_in_gif_and_a_story_that_exists(tmp_path):
    with pytest.raises(InputError, match=r"must end in \.gif"):
        film.write_film(tmp_path / "film.mp4")
    with pytest.raises(InputError, match="story 'cooking' is not known"):
        film.write_film(tmp_path / "film.gif", "cooking")
    assert list(tmp_path.iterdir()) == []


def test_a_link_copied_on_loopback_says_that_others_cannot_open_it(browser):
    with make_server(0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/playground/index.html#v=2")
        page.get_by_role("button", name="Copy link").click()
        until(page, "document.getElementById('share-answer').textContent !== ''")
        contains_text(page.locator("#share-answer"), "opens on this computer only")
        contains_text(page.locator("#share-answer"), "saccade play --out")
        page.close()
        server.shutdown()


def test_the_record_button_saves_a_film_that_moves_and_looks_like_the_page(
    one_file, browser, tmp_path
):
    Image = pytest.importorskip("PIL.Image")
    context = browser.new_context(accept_downloads=True, viewport={"width": 900, "height": 800})
    page = context.new_page()
    page.goto(one_file.as_uri() + "#v=2&story=snapping")
    until(page, "Page.run.done")
    page.locator("#speed").select_option(index=page.locator("#speed option").count() - 1)
    seconds = 12 / float(page.locator("#speed").input_value())
    with page.expect_download() as found:
        page.get_by_role("button", name="Record film").click()
    assert found.value.suggested_filename == "saccade-snapping.webm"
    content = found.value.path().read_bytes()
    assert content.startswith(bytes.fromhex("1a45dfa3"))  # Matroska's mark, of which WebM is a kind
    assert (
        content.count(bytes.fromhex("a30100000000")) > 25 * seconds
    )  # blocks of a frame each, with a size in eight bytes
    expect(page.get_by_role("button", name="Record film")).to_be_enabled()
    screen = context.new_page()
    film = f"data:video/webm;base64,{base64.b64encode(content).decode()}"
    moved, last = screen.evaluate(
        """async (source) => {
      const video = Object.assign(document.createElement("video"), { muted: true, src: source }), pictures = [];
      const canvas = Object.assign(document.createElement("canvas"), { width: 60, height: 40 }), pen = canvas.getContext("2d");
      video.requestVideoFrameCallback(function kept() {
        pen.drawImage(video, 0, 0, 60, 40);
        pictures.push([...pen.getImageData(0, 0, 60, 40).data]);
        video.requestVideoFrameCallback(kept);
      });
      await new Promise((resolve, reject) => { video.onended = resolve; video.onerror = reject; video.play(); });
      const whole = Object.assign(document.createElement("canvas"), { width: video.videoWidth, height: video.videoHeight });
      whole.getContext("2d").drawImage(video, 0, 0);
      return [pictures[0].filter((value, at) => Math.abs(value - pictures.at(-1)[at]) > 40).length, whole.toDataURL()];
    }""",
        film,
    )
    assert moved > 50  # of 9,600: bars that grow, a hill that fills
    stage, picture = page.locator(".stage").bounding_box(), page.locator("#picture").bounding_box()
    shown = Image.open(io.BytesIO(page.screenshot(clip=picture))).convert("L")
    frame = Image.open(io.BytesIO(base64.b64decode(last.split(",")[1]))).convert("L")
    scale, left = (
        frame.width / (stage["width"] + 24),
        picture["x"] - stage["x"] + 12,
    )  # a margin of 12 on either side
    top = picture["y"] - stage["y"]
    box = [scale * one for one in (left, top, left + picture["width"], top + picture["height"])]
    seen, filmed = (
        (np.asarray(one) < 60).sum() for one in (shown, frame.resize(shown.size, box=box))
    )
    assert 0.75 < filmed / seen < 1.5  # ink: the outlines have locked
    context.close()
