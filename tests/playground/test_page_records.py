"""Records on the playground: laid beside the live run when they are good, answered with a sentence
when they are not.
"""

from __future__ import annotations

import json
import math

import pytest

import saccade
from saccade.playground.export import playground_record
from tests.browser import contains_text, expect

from .conftest import until

NAMES = ["the", "cat", "dog"]
PROB = [[0.4, 0.6, 0.0], [0.4, 0.0, 0.6]]
_DROP = """([name, text]) => {
  const carried = new DataTransfer();
  carried.items.add(new File([text], name, { type: "application/json" }));
  document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: carried, bubbles: true, cancelable: true }));
}"""


def _drop(page, content, name="record.json"):
    page.evaluate(_DROP, [name, content if isinstance(content, str) else json.dumps(content)])


def _messages(page):
    until(page, "document.getElementById('messages').textContent !== ''")
    return page.inner_text("#messages")


@pytest.fixture
def page(visit):
    return visit()


def _record(page, **changes):
    """A record of the browser's own engine; `changes` replace its parts."""
    settings = {"tokenProb": PROB, "lrDecoder": 1, "lrAttention": 2}
    seen = page.evaluate(
        """(settings) => { const run = ScanAndSnap.create(settings);
        return [0, 1, 3, 10, 30, 100].map((t) => { run.advance(t); return run.observe(); }); }""",
        settings,
    )
    record = {
        "saccade": "playground-record",
        "model": "scan-and-snap",
        "settings": settings,
        "time": [one["time"] for one in seen],
        "attention": [one["attention"] for one in seen],
        "loss": [one["loss"] for one in seen],
    }
    return record | changes


def _bars(page, group):
    return page.get_attribute(f"#picture figure:first-child path.chart-fill-{group}", "d")


def test_a_dropped_record_is_laid_beside_the_run_that_its_settings_make(page):
    record = _record(page)
    names = [*NAMES, *(f"t{n}" for n in range(len(record["attention"][0][0]) - 3))]
    _drop(page, record | {"tokens": names}, "mine.json")
    until(page, "!document.getElementById('record-shown').hidden")
    contains_text(page.locator("#record-name"), "mine.json")
    until(page, "Page.run.settings.lrAttention === 2")  # computed after the name is shown
    assert page.evaluate("Page.run.settings.tokenProb") == PROB
    expect(page.locator("#controls fieldset:visible")).to_have_count(
        1
    )  # the rates; data and start are the record's
    page.locator("#moment").fill("400")
    until(page, "Page.shown === 400")
    assert page.evaluate("Page.run.seen.at(-1).attention")[0] == pytest.approx(
        record["attention"][-1][0], rel=1e-6
    )
    tops = [
        [float(part.split("h")[0]) for part in _bars(page, group).split("V")[1::2]]
        for group in (0, 6)
    ]
    assert tops[0] == pytest.approx(tops[1], abs=0.2)  # pixels
    expect(page.locator("#lines figure:first-child .chart-dots")).to_have_count(2)
    assert "the" in page.locator("#picture figure").first.inner_text()
    page.get_by_role("button", name="Remove the record").click()
    until(
        page,
        "Page.run.settings.lrAttention === 2 && document.querySelectorAll('.chart-dots').length === 0",
    )
    expect(page.locator("#controls fieldset:visible")).to_have_count(3)


def test_a_run_exported_by_python_lies_on_the_live_run(page):
    chain = saccade.MarkovChain.lazy([0.5, 0.3, 0.2], stay=0.4)
    record = playground_record(
        saccade.flow(
            chain,
            t1=60,
            n_times=12,
            model=saccade.models.Embedded(d_model=4, d_key=3, init_scale=1e-2),
        )
    )
    _drop(page, record)
    until(page, "Page.state.model === 'focus-and-dilution'")
    page.locator("#moment").fill("400")
    until(page, "Page.shown === 400")
    last = page.evaluate("Page.run.seen.at(-1)")
    assert last["time"] == record["time"][-1]
    for live, kept in zip(last["attention"], record["attention"][-1], strict=True):
        assert live == pytest.approx(kept, rel=1e-5)
    assert last["loss"] == pytest.approx(record["loss"][-1], rel=1e-6)
    assert last["singularValues"] == pytest.approx(record["singularValues"][-1], rel=1e-4)


def test_classes_of_a_record_keep_their_names(page):
    rows = [{"class": "day", "sun": 0.6, "sky": 0.4}, {"class": "night", "moon": 0.6, "sky": 0.4}]
    _drop(
        page,
        playground_record(
            saccade.reduced_flow(saccade.SequenceClasses.from_table(rows), t1=10, n_times=4)
        ),
    )
    for place, words in enumerate((("Class day", "sun"), ("Class night", "moon"))):
        for word in words:
            contains_text(page.locator("#picture figure").nth(place), word)
    assert page.locator("#row option").all_inner_texts() == ["Class day", "Class night"]
    contains_text(page.locator("#lines"), "class night")  # of the attention on common tokens


def test_a_rate_outside_the_limits_is_said_and_the_record_is_shown(page):
    record = _record(page)
    _drop(page, record | {"settings": record["settings"] | {"lrDecoder": 1e9}})
    assert "Rate of the decoder of the record, 1000000000, is outside" in _messages(page)
    expect(page.locator("#record-shown")).to_be_visible()


def test_a_record_can_be_picked_with_the_file_button(page, tmp_path):
    file = tmp_path / "picked.json"
    file.write_text(json.dumps(_record(page)), encoding="utf-8")
    page.set_input_files("#record-file", str(file))
    until(page, "!document.getElementById('record-shown').hidden")
    contains_text(page.locator("#record-name"), "picked.json")


def test_markup_in_names_is_text_and_runs_nothing(page):
    record = _record(page)
    attack = "<img src=x onerror=window.hacked=1><script>window.hacked=2</script>"
    _drop(page, record | {"tokens": [attack] * len(record["attention"][0][0])}, f"{attack}.json")
    until(page, "!document.getElementById('record-shown').hidden")
    page.locator("#picture svg").first.hover()
    page.wait_for_timeout(100)
    assert page.evaluate("window.hacked") is None
    expect(page.locator("main img, main script, #picture script")).to_have_count(0)
    contains_text(page.locator(".chart-tip:visible"), "<img")
    assert "<script" not in page.evaluate(
        "ChartSave.toSVG(document.querySelector('#lines svg'), '<script>')"
    ).replace("&lt;script", "")


def _bad(record):
    wide = len(record["attention"][0][0])
    many = [[[1e-4] * 10_000] * 2] * len(record["time"])
    start = {"decoder": [[math.pi]], "attentionLogits": [[0]]}
    return {
        "not json at all": "not JSON",
        json.dumps(record).replace("0.4", "NaN", 1): "not JSON",
        "[" * 100_000: "not JSON",
        "null": "not an export",
        "[]": "not an export",
        json.dumps({"saccade": "something else"}): "not an export",
        json.dumps(record | {"model": "cooking"}): "`model` must be one of",
        json.dumps(record | {"settings": None}): "`settings` must be an object",
        json.dumps(record | {"settings": {"tokenProb": [[2, -1]]}}): "`tokenProb`",
        json.dumps(record | {"settings": record["settings"] | {"nVocab": 1e6}}): "`nVocab`",
        json.dumps(record | {"settings": record["settings"] | {"start": start}}): "not shown",
        json.dumps(record | {"settings": record["settings"] | {"tokenProb": [[1.0]]}}): "rows of",
        json.dumps(record | {"time": record["time"][::-1]}): "must start at 0 or later and grow",
        json.dumps(record | {"time": list(range(100_000))}): "at most 5000",
        json.dumps(record | {"time": "now"}): "`time` must be a list of numbers",
        json.dumps(record | {"attention": many}): "up to 2000 tokens",
        json.dumps(
            record | {"attention": record["attention"][:-1]}
        ): "one entry for each of the 6 times",
        json.dumps(record | {"attention": [[[1e300] * wide] * 2] * 6}): "numbers from 0 to 1",
        json.dumps(record | {"attention": [[["x"] * wide] * 2] * 6}): "numbers from 0 to 1",
        json.dumps(record | {"loss": [1]}): "`loss` must have one number",
        json.dumps(record | {"loss": [None] * 6}): "`loss` must have one number",
        json.dumps(record | {"singularValues": {"a": 1}}): "`singularValues`",
        json.dumps(record | {"tokens": ["a"]}): "one name for each",
    }


def test_a_bad_record_is_answered_with_one_sentence_and_the_page_stays_as_it_was(page):
    before = page.evaluate("[Page.state, Page.run.settings]")
    for content, words in _bad(_record(page)).items():
        page.evaluate("document.getElementById('messages').replaceChildren()")
        _drop(page, content)
        said = _messages(page)
        assert words in said, (content[:80], said)
        assert page.evaluate("[Page.state, Page.run.settings]") == before, content[:80]
        expect(page.locator("#record-shown")).to_be_hidden()


def test_huge_losses_and_values_are_drawn_without_breaking_the_page(page):
    huge = [1e308, -1e308, 0, 1e-308, 5, 1e308]
    _drop(page, _record(page, loss=huge, singularValues=[[value] for value in huge]))
    until(page, "!document.getElementById('record-shown').hidden")
    page.locator("#moment").fill("200")
    until(page, "Page.shown === 200")
    paths = page.eval_on_selector_all(
        "#lines path", "all => all.map((one) => one.getAttribute('d'))"
    )
    assert not [path for path in paths if "NaN" in path or "Infinity" in path]
