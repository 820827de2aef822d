"""The six stories: each sets what it says, plays, and what it tells the reader to look at is what the run does."""

from __future__ import annotations

import numpy as np
import pytest

from .conftest import until

TITLES = ("What is scanning?", "Why it snaps", "Why frequent tokens win", "Condensation", "Focus", "Dilution")


@pytest.fixture
def told(visit):
    """Tells a story, checks that it plays, and gives what the whole run saw."""

    def tell(title):
        page = visit()
        page.get_by_role("button", name=title, exact=True).click()
        until(page, "Page.shown > 3")
        assert page.locator("#story h2").inner_text() == title
        assert page.locator("#story li").count() == 3
        page.evaluate("Page.run.advance(1e9, 1e9)")
        run = page.evaluate("({ seen: Page.run.seen, marks: TheoryView.times(Page.run), task: Page.run.task, state: Page.state })")
        run["time"] = np.array([one["time"] for one in run["seen"]])
        for name in ("attention", "loss", "singularValues"):
            run[name] = np.array([one[name] for one in run["seen"]])
        return page, run

    return tell


def test_there_are_six_stories_and_each_sets_its_controls_and_ends_in_the_link(visit):
    page = visit()
    buttons = page.locator("#stories button")
    assert tuple(buttons.all_inner_texts()) == TITLES
    for index in range(6):
        buttons.nth(index).click()
        story = page.evaluate(f"Stories.ALL[{index}]")
        state = page.evaluate("Page.state")
        assert (state["model"], state["story"]) == (story["model"], story["name"])
        settings = page.evaluate(f"Fields.defaults('{story['model']}')") | story["change"]
        assert {k: v for k, v in state["settings"][story["model"]].items() if k != "law"} == {
            k: v for k, v in settings.items() if k != "law"
        }
        assert page.get_by_role("tab", selected=True).get_attribute("data-model") == story["model"]
        for name in story["change"]:
            assert name == "law" or page.locator(f"#field-{name}").is_visible()
        page.click("#play")
        until(page, "!Page.playing")
        assert f"story={story['name']}" in page.evaluate("Page.link")


def test_scanning_common_tokens_fall_and_distinct_ones_rise(told):
    _, run = told("What is scanning?")
    common = np.array(run["task"]["common"])
    start, end = run["attention"][[0, -1]][..., : len(common)]  # then come the query and the next tokens, which no context shows
    assert (end[:, common] < start[:, common]).all()
    assert (end > start)[~common & (start > 0)].all()


def test_snapping_most_of_the_change_comes_before_the_onset(told):
    _, run = told("Why it snaps")
    mass = run["attention"][:, 0, 0]
    index = np.searchsorted(run["time"], run["marks"]["onset"])
    assert (mass[0] - mass[index]) > 0.5 * (mass[0] - mass[-1])
    assert run["loss"][index] < 0.15 * run["loss"][0]
    assert run["time"][-1] == 1e9


def test_frequent_tokens_win_in_both_classes(told):
    _, run = told("Why frequent tokens win")
    gain = run["attention"][-1] - run["attention"][0]
    names = ["c1", "A1", "A2", "A3", "A4", "B1", "B2", "B3", "B4"]
    assert names[int(gain[0].argmax())] == "A3"
    assert names[int(gain[1].argmax())] == "B1"
    assert run["state"]["settings"]["scan-and-snap"]["optimiser"] == "reduced"


def test_condensation_lifts_one_direction_while_attention_stands_still(told):
    _, run = told("Condensation")
    growth = run["singularValues"][-1] / run["singularValues"][0]
    assert growth[0] > 1000
    assert (growth[1:] < 2).all()
    assert abs(run["attention"] - np.array(run["task"]["stationary"])).max() < 0.01
    assert run["loss"][-1] == pytest.approx(run["task"]["unigramLoss"], abs=0.01)


def test_focus_raises_attention_on_the_frequent_token_in_every_query(told):
    page, run = told("Focus")
    gain = run["attention"][-1, :, 0] - run["attention"][0, :, 0]
    assert (gain > 0.001).all()
    assert gain.argmax() == 0
    before = np.searchsorted(run["time"], run["marks"]["focused"])
    assert abs(run["attention"][before] - run["attention"][0]).max() < 0.01
    page.select_option("#speed", "4")
    until(page, "!Page.playing")
    assert page.locator("#story li[aria-current]").inner_text().startswith("The loss takes its second step")


def test_dilution_turns_rare_queries_away_and_new_directions_open(told):
    _, run = told("Dilution")
    on_frequent = run["attention"][:, 1:, 0]
    peak = on_frequent.max(axis=0)
    assert (peak > on_frequent[0] + 0.001).all()
    assert (on_frequent.min(axis=0) < on_frequent[0] - 0.1).all()
    opened = [run["time"][np.argmax(values > 0.5)] for values in run["singularValues"].T[:3]]
    assert opened == sorted(opened)
    assert min(opened) > 0
    assert opened[1] > run["marks"]["focused"]
