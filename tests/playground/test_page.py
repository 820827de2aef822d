"""The playground in a real Chromium: it plays, its laws can be dragged, and it works on a phone, in
the dark and without motion.
"""

from __future__ import annotations

import re

import pytest

from tests.browser import expect

from .conftest import STILL, until

FOCUS = "#v=2&model=focus-and-dilution"
LAW = "Page.state.settings[Page.state.model].law"


def test_under_adam_a_stage_of_the_theory_is_not_said_of_the_run(visit):
    said = "TheoryView.stages(Page.run).map((one) => one.say)"
    theirs = visit("#v=2&model=scan-and-snap&optimiser=reduced").evaluate(said)
    under_adam = visit("#v=2&model=scan-and-snap&optimiser=adam").evaluate(said)
    rests = [each.removeprefix("Scanning").removeprefix("Snapped") for each in theirs]
    assert rests[1].startswith(": the answer is learnt")
    assert under_adam == [f"Theory, not this run{rest}" for rest in rests]


@pytest.mark.parametrize("link", [STILL, FOCUS])
def test_play_advances_and_the_onset_is_marked_before_it_happens(visit, link):
    page = visit(link)
    assert page.evaluate("[Page.place, Page.playing]") == [0, False]
    assert page.evaluate("TheoryView.marks(Page.run)[0].x") > 0
    assert page.locator("#timeline .hill-mark").count() >= 1
    assert page.locator("#lines .chart-mark").count() >= page.locator("#lines figure").count()
    page.get_by_role("button", name="Play", exact=True).click()
    until(page, "Page.shown > 30")
    page.get_by_role("button", name="Pause", exact=True).click()
    shown = page.evaluate("Page.shown")
    page.wait_for_timeout(200)
    assert page.evaluate("[Page.shown, Page.playing]") == [shown, False]
    page.get_by_role("button", name="Step", exact=True).click()
    until(page, f"Page.shown > {shown}")
    page.get_by_role("button", name="Reset", exact=True).click()
    until(page, "Page.shown === 0")


def test_the_bars_on_the_page_are_the_attention_of_the_run(visit):
    page = visit("#v=2&model=scan-and-snap&time=100")
    until(page, "Page.settled")
    paths = page.eval_on_selector_all(
        "#picture figure:first-child [class^=chart-fill]",
        "all => all.map((one) => one.getAttribute('d'))",
    )
    bars = sorted(
        re.findall(r"M([\d.]+) ([\d.]+)V([\d.]+)", " ".join(paths)), key=lambda bar: float(bar[0])
    )
    heights = [float(foot) - float(top) for _, foot, top in bars]
    expected = page.evaluate(
        "Moments.at(Page.run, Page.place).attention[0].filter((share) => share > 0)"
    )
    assert len(heights) == len(expected) == 4
    assert [h / heights[0] for h in heights] == pytest.approx(
        [e / expected[0] for e in expected], abs=0.01
    )


def test_a_run_is_the_same_at_any_speed(visit):
    slow, fast = visit(FOCUS + "&end=100"), visit(FOCUS + "&end=100&speed=4")
    for page in (slow, fast):
        page.click("#play")
        until(page, "Page.run.seen.length > 60")
    attention = "Page.run.seen[50].attention"
    assert slow.evaluate(attention) == fast.evaluate(attention)


def test_arrow_keys_move_a_chance_and_the_law_still_adds_up_to_one(visit):
    page = visit()
    slider = page.get_by_role("slider", name="Chance of dog before barks")
    before = page.evaluate(LAW)
    slider.focus()
    for key in ("ArrowUp", "ArrowUp", "PageUp", "ArrowDown"):
        slider.press(key)
    until(page, "Page.settled")
    after = page.evaluate(LAW)
    assert after[0][1] == pytest.approx(before[0][1] + 0.11, abs=1e-9)
    assert sum(after[0]) == pytest.approx(1, abs=1e-12)
    assert after[0][2] / after[0][0] == pytest.approx(before[0][2] / before[0][0], rel=1e-9)
    assert after[1] == before[1]
    assert float(slider.get_attribute("aria-valuenow")) == pytest.approx(after[0][1], abs=1e-4)
    slider.press("End")
    until(page, "Page.settled")
    law = page.evaluate(LAW)[0]
    assert sum(law) == pytest.approx(1, abs=1e-12)
    assert min(law) >= 0.005 - 1e-12
    assert page.evaluate("Page.run.seen[0].attention[0].slice(0, 4)") == pytest.approx(
        law, abs=1e-12
    )


def test_dragging_a_bar_moves_its_chance_to_the_pointer(visit):
    page = visit(FOCUS)
    track = page.get_by_role("slider", name="Chance of cloud").locator(".law-track").bounding_box()
    x, bottom = track["x"] + track["width"] / 2, track["y"] + track["height"]
    page.mouse.move(x, bottom - 5)
    page.mouse.down()
    page.mouse.move(x, bottom - 0.45 * track["height"], steps=5)
    page.mouse.up()
    until(page, "Page.settled")
    law = page.evaluate(LAW)[0]
    assert law[1] == pytest.approx(0.45, abs=0.01)
    assert sum(law) == pytest.approx(1, abs=1e-12)


def test_more_classes_and_tokens_make_more_bars(visit):
    page = visit()
    page.locator("#field-classes").press("End")
    page.locator("#field-distinct").press("Home")
    until(page, "Page.settled")
    assert page.evaluate(
        "Page.run.task.tokenProb.map((row) => row.filter((p) => p > 0).length)"
    ) == [2, 2, 2, 2]
    expect(page.locator("#picture figure")).to_have_count(4)
    expect(page.locator(".law-bar")).to_have_count(8)


@pytest.mark.parametrize("optimiser", ["reduced", "sgd", "momentum", "adam"])
def test_every_dynamics_can_be_chosen(visit, optimiser):
    page = visit("#v=2&model=scan-and-snap&end=1000")
    page.select_option("#field-optimiser", optimiser)
    until(page, "Page.settled")
    assert page.evaluate("Page.run.settings.optimiser") == optimiser
    assert page.locator("#field-momentum").is_visible() == (optimiser == "momentum")


@pytest.mark.parametrize("link", [STILL, FOCUS, "", "#v=2&model=focus-and-dilution&story=focus"])
def test_nothing_is_wider_than_a_phone(visit, link):
    page = visit(link, width=360, height=740)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    sizes = page.eval_on_selector_all(
        "svg text", "all => all.map((one) => parseFloat(getComputedStyle(one).fontSize))"
    )
    assert min(sizes) >= 11


_CONTRAST = """(names) => {
  const light = (colour) => {
    const probe = document.body.appendChild(document.createElement("i"));
    probe.style.color = `var(${colour})`;
    const [r, g, b] = getComputedStyle(probe).color.match(/\\d+/g).map((one) => one / 255)
      .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    probe.remove();
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [high, low] = names.map(light).sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_lines_stand_out_in_light_and_dark(visit, scheme):
    page = visit(color_scheme=scheme)
    assert (
        page.evaluate("getComputedStyle(document.body).backgroundColor")
        == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 22, 26)"}[scheme]
    )
    for name in ("--ink", "--soft", "--accent", "--bad"):  # WCAG's 4.5 for text
        assert page.evaluate(_CONTRAST, [name, "--ground"]) >= 4.5, name
    for index in range(
        3
    ):  # and its 3 for what a drawing needs; lighter ones carry a marker and a name
        assert page.evaluate(_CONTRAST, [f"--series-{index}", "--ground"]) >= 3, index


def test_with_reduced_motion_the_run_moves_in_few_steps(visit):
    page = visit(reduced_motion="reduce")
    page.evaluate("{ window.places = new Set(); setInterval(() => places.add(Page.shown), 5) }")
    begun = page.evaluate("{ document.getElementById('play').click(); performance.now() }")
    until(page, "places.size > 3")
    places, now = page.evaluate("[[...places], performance.now()]")
    assert len(places) <= 1 + (now - begun) / 800  # it rests for .8 s before each
    assert all(place % 20 == 0 for place in places)


def test_every_control_has_a_name_and_can_be_reached(visit):
    page = visit()
    nameless = page.evaluate("""() => {
      const named = (one) => one.getAttribute("aria-label") || one.labels?.length || one.textContent.trim();
      const all = [...document.querySelectorAll("button, select, input, [role=slider], svg[role=img]")];
      return all.filter((one) => !named(one)).map((one) => one.outerHTML.slice(0, 80));
    }""")
    assert nameless == []
    page.get_by_role("tab", name="Scan and Snap").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("[Page.state.model, document.activeElement.id]") == [
        "focus-and-dilution",
        "tab-focus-and-dilution",
    ]
    for _ in range(7):  # six stories, then the stage
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")
