"""Names, colours, pace and rates on the playground's page."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.report.pace import pace
from tests.browser import contains_text, expect

from .conftest import until

OWN = "the sun sun sky > day\nthe moon sky stars > night"


def test_typed_classes_become_the_data_and_go_into_the_link(visit):
    page = visit()
    page.locator("summary", has_text="Your own classes").click()
    page.locator("#field-words").fill(OWN)
    until(page, "Page.settled && Page.run.task.tokenProb[0].length === 5")
    prob = np.array(page.evaluate("Page.run.task.tokenProb"))
    names = page.evaluate(
        "Words.tokens(Words.of('scan-and-snap', Page.state.settings['scan-and-snap']).rows)"
    )
    assert names == ["the", "sky", "sun", "moon", "stars"]
    assert page.evaluate("Page.run.task.common") == [True, True, False, False, False]
    assert prob == pytest.approx(
        np.array([[1, 1, 2, 0, 0], [1, 1, 0, 1, 1]]) / 4
    )  # a word that is typed twice is twice as frequent
    assert page.locator("#picture .chart-title").all_inner_texts() == [
        "before “day”",
        "before “night”",
    ]
    expect(page.locator("#field-classes")).not_to_be_visible()
    again = visit(page.evaluate("Page.link"))
    assert again.evaluate(
        "[Page.run.task.tokenProb, Page.state.settings['scan-and-snap'].words]"
    ) == page.evaluate("[Page.run.task.tokenProb, Page.state.settings['scan-and-snap'].words]")
    page.locator("#field-words").fill("only one line")
    contains_text(page.locator("#hint-words"), "2 to 4 lines")
    assert page.evaluate("Page.run.task.tokenProb[0].length") == 5
    page.get_by_role("button", name="Back to the page's words").click()
    until(page, "Page.settled && Page.state.settings['scan-and-snap'].words === ''")
    expect(page.get_by_role("slider", name="Chance of dog before barks")).to_be_visible()


def test_markup_in_typed_words_is_text(visit):
    page = visit("#v=2&model=focus-and-dilution")
    page.locator("summary", has_text="Your own words").click()
    page.locator("#field-words").fill("<img/src=x> <b>y</b> z")
    until(page, "Page.settled && Page.run.task.stationary.length === 3")
    expect(page.locator("main img, main b")).to_have_count(0)
    contains_text(page.locator("#picture"), "<b>y</b>")


@pytest.mark.parametrize("model", ["scan-and-snap", "focus-and-dilution"])
def test_playing_time_follows_the_rule_of_the_report(visit, model):
    page = visit(f"#v=2&model={model}")
    shares = page.evaluate("{ Page.run.advance(1e9, 1e9); Pace.shares(Page.run.way) }")
    seen = page.evaluate("Page.run.seen")
    rows = [np.ravel(one["attention"]) for one in seen]
    if model == "focus-and-dilution":  # embeddings are on the page as well, scaled to the longest
        for at, one in enumerate(seen):
            arrows = np.array(one["embedding"])
            rows[at] = np.concatenate(
                [rows[at], 0.5 * arrows.ravel() / np.linalg.norm(arrows, axis=1).max()]
            )
    places = np.arange(len(rows))
    assert shares == pytest.approx(pace(np.array(rows), places, places), abs=1e-9)


def test_between_two_samples_numbers_are_interpolated(visit):
    page = visit()
    page.evaluate("Page.run.advance(1e9, 1e9)")
    low, high, middle = page.evaluate(
        "[Page.run.seen[150], Page.run.seen[151], Moments.at(Page.run, 150.25)]"
    )
    assert middle["attention"][0][1] == pytest.approx(
        0.75 * low["attention"][0][1] + 0.25 * high["attention"][0][1]
    )
    assert middle["time"] == pytest.approx(low["time"] ** 0.75 * high["time"] ** 0.25)
    assert page.evaluate("Page.run.placeOf(Moments.at(Page.run, 150.25).time)") == pytest.approx(
        150.25, abs=1e-6
    )


@pytest.mark.parametrize(
    ("model", "rate"), [("scan-and-snap", 0.01), ("focus-and-dilution", 0.003)]
)
def test_adam_gets_a_rate_of_its_own_and_says_whose_the_outlines_are(visit, model, rate):
    page = visit(f"#v=2&model={model}")
    before = page.evaluate("[Page.run.settings.lrDecoder, Page.run.settings.lrAttention]")
    page.select_option("#field-optimiser", "adam")
    until(page, "Page.settled && Page.run.settings.optimiser === 'adam'")
    assert page.evaluate("[Page.run.settings.lrDecoder, Page.run.settings.lrAttention]") == [
        rate,
        rate,
    ]
    contains_text(page.locator("#key"), "gradient flow")
    contains_text(page.locator("#theory-note"), "Theory is of gradient flow")
    losses = page.evaluate("{ Page.run.advance(1e9, 1e9); Page.run.seen.map((one) => one.loss) }")
    assert page.evaluate("Page.run.stopped") is None
    assert losses[-1] < 0.75 * losses[0]
    assert max(np.diff(losses)) < 0.02 * losses[0]  # it does not jump about
    page.select_option("#field-optimiser", "flow")
    until(page, "Page.settled && Page.run.settings.optimiser === 'flow'")
    assert page.evaluate("[Page.run.settings.lrDecoder, Page.run.settings.lrAttention]") == before


def test_colours_tell_roles_and_are_the_same_in_bars_lines_and_controls(visit):
    page = visit("#v=2&model=scan-and-snap&law=0.2,0.1,0.2,0.5;0.2,0.5,0.2,0.1&time=100")
    until(page, "Page.settled")
    roles = page.evaluate("[0, 1].map((row) => Tones.ofRun(Page.run, row).slice(0, 7))")
    assert [roles[0][at] for at in (0, 1, 2, 3)] == [6, 5, 2, 0]  # the, dog, bone, leash
    assert [roles[1][at] for at in (0, 4, 5, 6)] == [6, 0, 2, 5]  # the, cat, milk, yarn
    bars = page.evaluate(
        "[...document.querySelectorAll('.law-fill')].map((one) => Number(one.className.match(/tone-(\\d)/)[1]))"
    )
    assert bars == [6, 5, 2, 0, 6, 0, 2, 5]
    orange = "svg .chart-fill-1[d]:not([d='']), svg .chart-stroke-1[d]:not([d='']), svg .chart-fill-4[d]:not([d=''])"
    expect(page.locator(orange)).to_have_count(0)
