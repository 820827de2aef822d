"""The first screen of the playground at three widths, light and dark: it moves, it names what it
shows, and nothing on it jumps.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tests.browser import Work, has_text, until_it_moves

from .conftest import STILL, until

SCREENS = {"desk": (1440, 900), "docs": (938, 780), "laptop": (1024, 768), "phone": (390, 844)}
SCHEMES = ("light", "dark")
MARKS = {
    "scanning": "scanning",
    "snapping": "snapped",
    "frequent-tokens": "scanning",
    "condensation": "condensing",
    "focus": "focus",
    "dilution": "dilution",
}
ALWAYS = (
    "#caption",
    "#picture",
    "#timeline .hill",
    "#timeline .ribbon",
    "#play",
)  # what is on the first screen, whatever its size


@pytest.fixture(
    scope="module",
    params=[(screen, scheme) for screen in SCREENS for scheme in SCHEMES],
    ids="-".join,
)
def screen(request, browser):
    """A page of one size and scheme, which the tests of that size share; nothing may go wrong on
    it, and nothing leaves it.
    """
    from .conftest import Visit

    visit = Visit(browser)
    width, height = SCREENS[request.param[0]]
    page = visit("", width=width, height=height, color_scheme=request.param[1])
    yield page
    visit.close()
    assert visit.errors == []
    assert [
        url for url in visit.requests if not url.startswith(("file://", "data:", "blob:"))
    ] == []


def _places(page, selectors=ALWAYS):
    return {one: page.locator(one).first.bounding_box() for one in selectors}


def _tell(page, name):
    """Tells a story from its beginning."""
    page.evaluate(
        """(name) => { scrollTo(0, 0);
        document.querySelectorAll("[data-stories] button")[Stories.ALL.indexOf(Stories.byName(name))].click(); }""",
        name,
    )
    until(page, f"Page.playing && Page.run.model === Stories.byName('{name}').model")
    until(
        page,
        f"Page.run.times.at(-1) === Stories.byName('{name}').change.end && Page.state.story === '{name}'",
    )


def _play_from(page, place):
    page.evaluate(
        """(place) => { const moment = document.getElementById("moment");
        moment.value = place; moment.dispatchEvent(new Event("input")); }""",
        place,
    )
    until(page, f"Page.settled && Page.place >= {place}")
    page.evaluate("document.getElementById('play').click()")


def _play_at_speed(page, speed):
    page.evaluate(
        """(speed) => { const chosen = document.getElementById("speed");
        chosen.value = speed; chosen.dispatchEvent(new Event("change")); }""",
        str(speed),
    )


@pytest.mark.parametrize("width, height", SCREENS.values(), ids=SCREENS)
def test_nothing_of_the_picture_is_cut_off_when_the_page_opens(visit, width, height):
    page = visit("#v=2&story=focus", width=width, height=height)
    assert page.evaluate(
        "(({ scrollHeight, clientHeight }) => scrollHeight <= clientHeight)(document.getElementById('picture'))"
    )


def test_it_plays_by_itself_and_the_picture_moves(screen):
    _tell(screen, "scanning")
    _play_from(screen, 130)
    assert screen.evaluate("[scrollX, scrollY]") == [0, 0]
    again = "Page.playing || document.getElementById('play').click()"  # should a busy machine have come to the end before we look
    until_it_moves(
        screen, screen.locator("#picture").bounding_box(), 0.002, lambda: screen.evaluate(again)
    )  # a bar by a hundredth


def test_what_tells_the_story_is_on_the_first_screen_and_nothing_is_wider(screen):
    _tell(screen, "focus")
    size = screen.viewport_size
    for name, box in _places(screen).items():
        assert box["y"] >= 0, name
        assert box["y"] + box["height"] <= size["height"], name
    assert screen.evaluate("document.documentElement.scrollWidth") <= size["width"]
    if size["width"] < 900:
        assert _places(screen)["#picture"]["y"] < 0.2 * size["height"]  # the picture first


@pytest.mark.parametrize("story", MARKS)
def test_the_mark_of_a_story_is_named_in_view_and_its_sentences_are_whole(screen, story):
    _tell(screen, story)
    until(screen, "Page.run.done")
    said = screen.evaluate(
        """(mark) => {
      const story = Stories.byName(Page.state.story), caption = document.getElementById("caption"), kept = caption.textContent;
      const cut = story.look.filter(({ say }) => {
        caption.textContent = say;
        return caption.scrollWidth > caption.clientWidth || caption.scrollHeight > caption.clientHeight + 1;
      }).map(({ say }) => say);
      caption.textContent = kept;
      return { mark: story.mark, cut };
    }""",
    )
    assert said == {"mark": MARKS[story], "cut": []}
    stage = screen.evaluate(
        "TheoryView.stages(Page.run).find((one) => one.name === Stories.byName(Page.state.story).mark)"
    )
    screen.evaluate(
        "(time) => { const moment = document.getElementById('moment'); moment.value = Math.ceil(Page.run.placeOf(time));"
        " moment.dispatchEvent(new Event('input')); }",
        stage["at"],
    )
    until(screen, "Page.settled")
    label = screen.locator(".stage-part.is-now")
    has_text(label, MARKS[story])
    box, size = label.bounding_box(), screen.viewport_size
    assert label.evaluate("(one) => one.scrollWidth <= one.clientWidth + 1")
    assert 0 <= box["y"] < box["y"] + box["height"] <= size["height"]


def test_numbers_of_any_length_are_whole_and_move_nothing(screen):
    _tell(screen, "scanning")
    screen.evaluate("Page.playing && document.getElementById('play').click()")

    def shown(time, loss):
        screen.evaluate(
            "(said) => ['now', 'loss'].forEach((id, at) => { document.getElementById(id).textContent = said[at]; })",
            [time, loss],
        )
        cut = "(one) => one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1"
        assert not screen.locator("#numbers").evaluate(cut)
        return _places(screen, ("#picture", "#play", ".linear", "#numbers"))

    assert shown("time 0 of 45", "loss 1") == shown("time 1.78×10⁻⁵ of 1.78×10⁻⁵", "loss 1.01×10⁻⁵")


def test_a_short_stage_is_named_before_it_comes_where_the_next_one_has_room(visit):
    page = visit("#v=2&story=focus", width=1440, height=900)
    until(page, "Page.run.done")
    visible = "(name) => getComputedStyle(name).visibility === 'visible' && name.textContent"
    names = page.locator(".stage-name").evaluate_all(f"(all) => all.map({visible})")
    assert names == ["condensing", "waiting", "focus", "dilution"]
    edges = "(all) => all.map((one) => { const { left, right } = one.getBoundingClientRect(); return [left, right]; })"
    assert all(
        one[1] < other[0]
        for one, other in pairwise(page.locator(".stage-name").evaluate_all(edges))
    )


def test_dragging_a_bar_while_it_plays_neither_scrolls_nor_moves_anything_nor_stops_it(screen):
    _tell(screen, "scanning")
    _play_at_speed(screen, 0.25)  # or a busy machine would come to the end while we drag
    _play_from(screen, 110)
    bar = screen.get_by_role("slider", name="Chance of dog before barks")
    bar.scroll_into_view_if_needed()
    track = bar.locator(".law-track").bounding_box()
    scrolled, places = screen.evaluate("scrollY"), _places(screen)
    charts = screen.evaluate(
        "{ window.charts = [...document.querySelectorAll('#picture figure')]; charts.length }"
    )
    x, bottom = track["x"] + track["width"] / 2, track["y"] + track["height"]
    screen.mouse.move(x, bottom - 4)
    screen.mouse.down()
    for share in np.linspace(0.1, 0.8, 8):
        screen.mouse.move(x, bottom - share * track["height"])
        screen.wait_for_timeout(30)
        assert screen.evaluate("Page.place") > 90, "the run began anew"
    screen.mouse.up()
    until(screen, "Page.run.task.tokenProb[0][1] > .75")
    assert screen.evaluate("[scrollY, Page.playing]") == [scrolled, True]
    assert {name: (box["width"], box["height"]) for name, box in _places(screen).items()} == {
        name: (box["width"], box["height"]) for name, box in places.items()
    }
    assert screen.evaluate("charts.every((one) => one.isConnected)"), "the charts were made anew"
    assert charts == 2


def test_few_tab_stops_come_before_the_stage_and_space_plays(screen):
    screen.evaluate("(link) => { document.activeElement.blur(); location.hash = link; }", STILL)
    until(screen, "Page.state.story === '' && Page.settled")
    stops = 0
    screen.locator(
        "#skip"
    ).focus()  # the first; the browser would go on from where a test before left off
    assert (
        screen.evaluate(
            "document.querySelector('a, button, input, select, summary, [tabindex]').id"
        )
        == "skip"
    )
    while not screen.evaluate("document.activeElement.closest('.stage') !== null"):
        stops += 1
        assert stops <= 10
        screen.keyboard.press("Tab")
    screen.locator("#moment").focus()
    screen.keyboard.press(" ")
    until(screen, "Page.playing")
    screen.keyboard.press(" ")
    until(screen, "!Page.playing")


@pytest.mark.parametrize("story", ["snapping", "focus"])
def test_a_frame_leaves_time_for_fifty_a_second(screen, story):
    """Over a whole film at the highest speed, which leaves most to draw anew; over several where a
    busy machine skips frames.
    """
    _tell(screen, story)
    until(screen, "Page.run.done")
    _play_at_speed(screen, 4)
    screen.evaluate(
        """() => { window.drawn = 0;
        requestAnimationFrame(function count() { drawn += Page.playing; requestAnimationFrame(count); }); }"""
    )
    screen.evaluate("document.getElementById('play').click()")
    until(screen, "!Page.playing")
    work = Work(screen)
    started, before = screen.evaluate("drawn"), work.seconds()

    def drawn():
        until(screen, "!Page.playing")
        return screen.evaluate("drawn") - started

    while drawn() < 50:
        _play_from(screen, 0)
    assert (work.seconds() - before) / drawn() < 0.02  # seconds of processor time
