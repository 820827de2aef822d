"""The playground's links: a view comes back as it was, and whatever else is in a link is answered
with a sentence.
"""

from __future__ import annotations

import pytest

from tests.browser import contains_text, expect

from .conftest import until

SHOWN = (
    "({ state: Page.state, seen: Moments.at(Page.run, Page.place), settings: Page.run.settings })"
)


def _messages(page):
    return page.inner_text("#messages")


def _changed_by_hand(page):
    page.locator("#field-stay").press("ArrowRight")
    page.locator("#field-lrAttention").press("PageUp")
    page.locator("#field-tokens").press("ArrowRight")
    page.get_by_role("slider", name="Chance of rain").press("PageUp")
    page.select_option("#row", "2")
    page.select_option("#speed", "2")
    until(page, "Page.settled")  # a run that is made meanwhile begins at its beginning
    page.locator("#moment").fill("120")
    until(page, "Page.shown === 120")


def test_a_shared_link_restores_settings_view_and_moment(visit):
    first = visit("#v=2&model=focus-and-dilution")
    _changed_by_hand(first)
    link = first.evaluate("Page.link")
    second = visit(link)
    until(second, "Page.settled && Page.place > 0")
    mine, yours = first.evaluate(SHOWN), second.evaluate(SHOWN)
    law, law_read = (
        mine["state"]["settings"]["focus-and-dilution"].pop("law"),
        yours["state"]["settings"]["focus-and-dilution"].pop("law"),
    )
    assert law_read[0] == pytest.approx(law[0], abs=1e-4)  # four digits of a chance are in the link
    assert mine["state"].pop("time") == pytest.approx(yours["state"].pop("time"), rel=1e-5)
    assert mine["state"] == yours["state"]
    assert mine["state"]["settings"]["focus-and-dilution"]["tokens"] == 5
    assert yours["seen"]["loss"] == pytest.approx(mine["seen"]["loss"], rel=1e-2)
    assert second.evaluate("Page.link") == link
    assert _messages(second) == ""


def test_a_link_read_and_written_again_gives_the_same_run_to_the_last_bit(visit):
    first = visit("#v=2&model=scan-and-snap&law=0.2,0.5,0.2,0.1;0.3,0.1,0.3,0.3&time=50")
    until(first, "Page.settled")
    second = visit(first.evaluate("Page.link"))
    until(second, "Page.settled")
    assert second.evaluate(SHOWN) == first.evaluate(SHOWN)


def test_the_link_follows_the_page_and_the_page_follows_the_link(visit):
    page = visit()
    page.select_option("#field-optimiser", "adam")
    until(page, "location.hash.includes('optimiser=adam')")
    page.evaluate("location.hash = '#v=2&model=focus-and-dilution&stay=0.25'")
    until(page, "Page.state.model === 'focus-and-dilution' && Page.run.settings.stay === 0.25")


def test_the_copied_link_is_the_page_s_own(visit):
    page = visit(
        "#v=2&model=scan-and-snap&classes=3", permissions=["clipboard-read", "clipboard-write"]
    )
    page.get_by_role("button", name="Copy link").click()
    until(page, "document.getElementById('share-answer').textContent !== ''")
    contains_text(page.locator("#share-answer"), "send the file along")
    field = page.locator("#share-link")
    copied = (
        field.input_value()
        if field.is_visible()
        else page.evaluate("navigator.clipboard.readText()")
    )
    assert copied == page.url
    assert "classes=3" in copied


BAD = {
    "#v=1&model=scan-and-snap": "version",
    "#model=scan-and-snap": "version",
    "#v=2&model=cooking": "is not one of scan-and-snap, focus-and-dilution",
    "#v=2&classes=900": "a whole number from 2 to 4",
    "#v=2&classes=2.5": "a whole number from 2 to 4",
    "#v=2&lrDecoder=NaN": "a number from 0.001 to 100",
    "#v=2&lrDecoder=Infinity": "a number from 0.001 to 100",
    "#v=2&lrDecoder=": "a number from 0.001 to 100",
    "#v=2&lrAttention=-1": "a number from 0.001 to 100",
    "#v=2&optimiser=magic": "is not one of reduced, flow, sgd, momentum, adam",
    "#v=2&law=0.5,0.5": "2 rows of 4 chances",
    "#v=2&law=0.5,0.5,0.5,0.5;1,0,0,0": "add up to 1",
    "#v=2&law=x": "2 rows of 4 chances",
    "#v=2&time=1e99": "a number from 0 to 10000",
    "#v=2&row=7": "a whole number from 0 to 1",
    "#v=2&words=dog": "2 to 4 lines",
    "#v=2&words=dog > barks; cat > barks": "the same answer",
    "#v=2&story=nothing": "is not one of this page's",
    "#v=2&colour=red": "does not know",
    "#v=2&__proto__=1": "does not know",
    "#v=2&law=%E0%A4%A": "cannot be read",
    "#v=2&x=" + "9" * 5000: "longer than",
    "#v=2&model=<img src=x onerror=window.hacked=1>": "<img src=x",
}


def test_a_story_alone_is_a_link(visit):
    page = visit("#story=focus")
    assert _messages(page) == ""
    assert page.evaluate("Page.state.story") == "focus"


def test_a_malformed_link_is_answered_with_a_sentence_and_the_default(visit):
    page = visit()
    default = page.evaluate("Page.state")
    for link, words in BAD.items():
        page.evaluate(
            "(link) => { document.getElementById('messages').replaceChildren(); location.hash = link; }",
            link,
        )
        until(page, "document.getElementById('messages').textContent !== ''")
        assert words in _messages(page), (link, _messages(page))
        assert page.evaluate("Page.state") == default, link
    assert page.evaluate("window.hacked") is None
    expect(page.locator("#messages img")).to_have_count(0)
