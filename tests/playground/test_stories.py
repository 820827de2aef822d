"""The six stories: each sets what it says, plays, and what it tells the reader to look at is what
the run does.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.browser import contains_text, has_text

from .conftest import until

TITLES = (
    "What is scanning?",
    "Why it snaps",
    "Why frequent tokens win",
    "Condensation",
    "Focus",
    "Dilution",
)
LEAST_SECONDS = 1.8  # that a sentence of eighty letters is on the page: what a fluent reader needs
_BEGINS = """() => {
  const story = Stories.byName(Page.state.story), pace = Pace.shares(Page.run.way), times = TheoryView.times(Page.run);
  return story.look.map((_, at) => pace[Page.run.seen.findIndex((one) => Stories.pointAt(story, times, one.time) >= at)] ?? null);
}"""


@pytest.fixture
def told(visit):
    """Tells a story, checks that it plays, and gives what the whole run saw."""

    def tell(title):
        page = visit()
        page.get_by_role("button", name=title, exact=True).click()
        until(page, "Page.place > 0 && Page.playing")
        has_text(
            page.locator("#caption"), page.evaluate("Stories.byName(Page.state.story).look[0].say")
        )
        page.evaluate("Page.run.advance(1e9, 1e9)")
        run = page.evaluate(
            "({ seen: Page.run.seen, marks: TheoryView.times(Page.run), task: Page.run.task, state: Page.state })"
        )
        run["time"] = np.array([one["time"] for one in run["seen"]])
        for name in ("attention", "loss", "singularValues"):
            run[name] = np.array([one[name] for one in run["seen"]])
        return page, run

    return tell


def test_there_are_six_stories_and_each_sets_its_controls_and_ends_in_the_link(visit):
    page = visit()
    buttons = page.locator("[data-stories] button")
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
        page.click("#play")
        until(page, "!Page.playing")
        assert f"story={story['name']}" in page.evaluate("Page.link")


@pytest.mark.parametrize("title", TITLES)
def test_every_sentence_is_said_in_its_turn_and_long_enough_to_be_read(told, title):
    page, _ = told(title)
    begins = [12 * share for share in page.evaluate(_BEGINS)] + [12.0]
    print(title, np.round(begins, 1))
    assert min(np.diff(begins[:-1])) >= LEAST_SECONDS
    page.get_by_role("slider", name="Moment of the run").press("End")
    until(page, "Page.settled")
    has_text(
        page.locator("#caption"), page.evaluate("Stories.byName(Page.state.story).look.at(-1).say")
    )


def test_scanning_common_tokens_fall_and_distinct_ones_rise(told):
    _, run = told("What is scanning?")
    common = np.array(run["task"]["common"])
    start, end = run["attention"][[0, -1]][
        ..., : len(common)
    ]  # then come the query and the next tokens, which no context shows
    onset = run["attention"][np.searchsorted(run["time"], run["marks"]["onset"])][:, : len(common)]
    assert (end[:, common] < start[:, common]).all()
    frequent = start * ~common == (start * ~common).max(axis=1, keepdims=True)
    assert (onset > start)[~common & (start > 0)].all()
    assert ((end - start)[frequent] > 0.3).all()


def test_snapping_attention_has_lost_its_speed_at_the_onset(told):
    page, run = told("Why it snaps")
    moved = np.abs(np.diff(run["attention"], axis=0)).sum(axis=(1, 2))
    speed = moved / np.diff(run["time"])
    assert speed == pytest.approx(
        page.evaluate("Timeline.speeds(Page.run.seen.map((one) => one.attention), Page.run.times)")
    )
    onset = np.searchsorted(run["time"], run["marks"]["onset"])
    assert speed[onset] < 0.1 * speed.max()
    assert moved[:onset].sum() > 0.6 * moved.sum()
    assert run["loss"][onset] < 0.15 * run["loss"][0]


def test_theory_and_run_agree_in_the_theorys_own_flow_and_part_in_plain_descent(visit):
    page = visit()
    gap = """{ Page.run.advance(1e9, 1e9); TheoryView.attention(Page.run).reduce((most, rows, at) => Math.max(most,
      ...rows.flatMap((row, n) => row.map((share, token) => Math.abs(share - Page.run.seen[at].attention[n][token])))), 0) }"""
    assert page.evaluate(gap) < 1e-3
    page.get_by_role("button", name="plain descent").click()
    until(page, "Page.settled && Page.run.settings.optimiser === 'flow'")
    assert page.evaluate(gap) > 0.1


def test_frequent_tokens_win_in_both_classes(told):
    _, run = told("Why frequent tokens win")
    gain = run["attention"][-1] - run["attention"][0]
    names = ["the", "dog", "bone", "leash", "kennel", "cat", "milk", "yarn", "mouse"]
    assert names[int(gain[0].argmax())] == "leash"
    assert names[int(gain[1].argmax())] == "cat"
    assert run["state"]["settings"]["scan-and-snap"]["optimiser"] == "reduced"


def _arrows(page, at):
    """Coordinates of the embeddings in the plane of the run, the longest one long."""
    return np.array(
        page.evaluate(
            """(at) => { const axes = Arrows.plane(Page.run), rows = Page.run.seen.at(at).embedding;
        const plane = rows.map((row) => axes.map((axis) => axis.reduce((sum, x, i) => sum + x * row[i], 0)));
        const longest = Math.max(...rows.map((row) => Math.hypot(...row)));
        return plane.map((row) => row.map((x) => x / longest)); }""",
            at,
        )
    )


def test_condensation_lifts_one_direction_while_attention_stands_still(told):
    page, run = told("Condensation")
    growth = run["singularValues"][-1] / run["singularValues"][0]
    assert growth[0] > 100
    assert (growth[1:] < 2).all()
    condensed = np.searchsorted(run["time"], 1.1 * run["marks"]["condensed"])
    assert abs(run["attention"][condensed] - np.array(run["task"]["stationary"])).max() < 0.005
    speed = page.evaluate(
        "Timeline.speeds(Page.run.seen.map((one) => one.attention), Page.run.times)"
    )
    assert (
        speed[-1] == max(speed) > 0
    )  # a hill that is seen to rise: attention moves, by less than .001
    assert abs(run["attention"] - run["attention"][0]).max() < 0.001
    assert "attention has hardly moved yet" in page.evaluate(
        "Stories.byName('condensation').look.at(-1).say"
    )
    assert run["loss"][condensed] < run["task"]["unigramLoss"] + 0.1
    assert abs(_arrows(page, 0)[:, 1]).max() > 0.2
    assert abs(_arrows(page, int(condensed))[:, 1]).max() < 0.02


def test_focus_is_marked_where_attention_moves_and_goes_past_its_peak(told):
    page, run = told("Focus")
    on_frequent = run["attention"][:, :, 0]
    change = abs(run["attention"] - run["attention"][0]).max(axis=(1, 2))
    begun = run["time"][np.argmax(change >= 0.02)]
    assert run["marks"]["focused"] == pytest.approx(begun, rel=0.03)
    assert run["marks"]["focused"] > page.evaluate(
        "Page.run.theory.focusOnset"
    )  # where queries have grown, long before
    peak = on_frequent[:, 1:].mean(axis=1).argmax()
    assert run["marks"]["diluted"] == pytest.approx(run["time"][peak], rel=0.03)
    assert (on_frequent[peak] > on_frequent[0] + 0.1).all()  # every row is seen to turn
    assert (on_frequent[-1, 1:] < on_frequent[peak, 1:] - 0.1).all()


def test_dilution_turns_rare_queries_away_and_then_the_diagonal_lights(told):
    page, run = told("Dilution")
    on_frequent = run["attention"][:, 1:, 0]
    assert (on_frequent.max(axis=0) > on_frequent[0] + 0.1).all()
    assert (on_frequent[-1] < on_frequent[0] - 0.1).all()
    opened = np.searchsorted(run["time"], run["marks"]["opened"])
    assert run["singularValues"][opened, 1] > 0.5 * run["singularValues"][opened, 0]
    assert (
        run["marks"]["condensed"]
        < run["marks"]["focused"]
        < run["marks"]["diluted"]
        < run["marks"]["opened"]
    )
    assert (np.diagonal(run["attention"][-1]) > 0.6).all()
    assert abs(_arrows(page, -1)[:, 1]).max() > 0.4


def test_the_key_names_rims_only_while_theory_draws_them(told):
    page, run = told("Dilution")
    key, guide = page.locator("#key"), page.evaluate("Page.run.theory.guideUntil")
    assert run["time"][-1] > guide
    for time, said in (
        (0.9 * guide, "dashes and rims: theory with one direction"),
        (1.1 * guide, "ends at time"),
    ):
        place = int(page.evaluate(f"Page.run.placeOf({time})"))
        page.locator("#moment").fill(str(place))
        until(page, "Page.settled")
        contains_text(key, said)
        drawn = page.locator("#picture .chart-inside[visibility=visible]").count()
        assert bool(drawn) == ("rims" in said)
