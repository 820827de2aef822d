"""Whatever a record holds is shown as text: nothing breaks, nothing runs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from saccade.lab.case import Case
from saccade.panels import Bars, Heat, Line, Lines, specs
from saccade.records.checksums import seal
from saccade.records.json_files import write_json
from saccade.records.schema import make_record
from saccade.records.store import save_record
from saccade.report.page import write_report
from saccade.theories.condition import Condition
from saccade.theories.statement import Statement
from tests.browser import expect, has_text
from tests.report.watched_records import watched_record

MARKUP = '</script><img src=x onerror="window.ran=1"><style>*{display:none}</style>{{script}}'


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """10,000 tokens, giant numbers, nothing, and markup wherever words can be."""
    folder = tmp_path_factory.mktemp("hostile") / "<b>name<img src=x onerror=alert(1)>".replace(
        "/", ""
    )
    folder.mkdir()
    attention = np.random.default_rng(3).dirichlet(np.full(10_000, 0.1), (6, 2))
    variables = {
        "attention": (("time", "class", "token"), attention),
        "loss": (("time",), np.array([1, np.nan, np.inf, -np.inf, 1e300, -1e300])),
        "giant": (("time",), np.array([1e-300, 1.0, 1e308, np.nan, 2.0, 3.0])),
        "nothing": (("time",), np.full(6, np.nan)),
    }
    coords = {
        "time": np.arange(6),
        "token": [f"{MARKUP}{place}" for place in range(10_000)],
        "class": [MARKUP, "$x_1$"],
    }
    definitions = {"giant": (MARKUP, MARKUP), "nothing": ("", MARKUP)}
    record = make_record(
        dynamics=MARKUP,
        variables=variables,
        coords=coords,
        time_unit=MARKUP,
        config={"task": MARKUP},
        wall_time=1.0,
        definitions=definitions,
    )
    save_record(record, folder / "record.zarr")
    condition = Condition(MARKUP, 1.0, "<", 0.0, MARKUP)
    statement = Statement(MARKUP, MARKUP, MARKUP, place=MARKUP)
    case = Case({MARKUP: MARKUP}, [condition])
    claims = [
        case.near(statement, MARKUP, 1e308, float("nan"), within=1e-300, sentence=MARKUP),
        Case().between(statement, "giant", 1e308, -1e308, -1e307),
    ]
    giant = np.array([1.0, 1e308, -1e308, np.nan, np.inf])
    panels = [
        Lines(
            MARKUP,
            MARKUP,
            MARKUP,
            [Line(giant, giant, MARKUP)],
            levels={1e308: MARKUP},
            marks={1.0: MARKUP},
            ticks={1.0: MARKUP},
        ),
        Bars(MARKUP, MARKUP, MARKUP, [MARKUP], {MARKUP: [1e308]}, stacked=True),
        Heat(MARKUP, MARKUP, MARKUP, [[1.0, np.nan]], [MARKUP, MARKUP], [MARKUP], unit=MARKUP),
    ]
    write_json(folder / "claims.json", [claim.as_dict() for claim in claims])
    write_json(folder / "panels.json", specs(panels))
    (folder / "about.json").write_text(
        json.dumps({"statement": MARKUP, "caption": MARKUP, "command": MARKUP, MARKUP: MARKUP})
    )
    (folder / "events.csv").write_text(
        f'event,query,time,value\n"{MARKUP.replace(chr(34), chr(34) * 2)}",1,2,3\nnan,1,nan,1\n'
    )
    picture = '<script>window.top.ran = 2</script><image href="http://127.0.0.1:9/x.png"/>'
    picture += '<rect width="9" height="9" onload="window.ran = 3"/>'
    (folder / "figure.svg").write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10">{picture}</svg>'
    )
    seal(folder)
    return folder


def test_markup_in_a_record_is_text_and_runs_nothing(visit, hostile, tmp_path):
    page = visit(write_report(hostile, tmp_path / "page.html"))
    for opener in page.locator(".opener").all():
        opener.click()
    page.locator("#compare").click()
    page.locator('[data-player="play"]').click()
    page.wait_for_timeout(500)
    assert page.evaluate("window.ran") is None
    has_text(page.locator(".asked"), MARKUP)
    has_text(page.locator("h1"), hostile.name)
    assert page.locator("#claims-table .opener").first.inner_text() == MARKUP
    assert page.locator("tr.detail").first.inner_text().count(MARKUP) >= 4
    assert page.locator(".panel figcaption").all_inner_texts() == [
        f"{number}. {MARKUP}" for number in (1, 2, 3)
    ]
    expect(page.locator("img[src=x]")).to_have_count(0)
    assert "The 60 largest of 10000" in page.locator('[data-figure="attention"]').first.inner_text()


def test_a_phone_shows_it_too(visit, hostile, tmp_path):
    page = visit(
        write_report(hostile, tmp_path / "page.html"), viewport={"width": 360, "height": 700}
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_tokens_with_markup_are_text_in_the_text(visit, tmp_path):
    record = watched_record(3, 2, 2, 7, words=[MARKUP, "<b>", "&amp;", "\n", " ", "", "x" * 5000])
    save_record(record, tmp_path / "words.zarr")
    page = visit(
        write_report(tmp_path / "words.zarr", tmp_path / "page.html"),
        viewport={"width": 360, "height": 700},
    )
    page.locator(".token").first.wait_for()
    words = page.locator(".token").all_text_contents()
    assert words[:5] == [
        MARKUP[:79] + "…" if len(MARKUP) > 80 else MARKUP,
        "<b>",
        "&amp;",
        "⏎",
        "␣",
    ]
    assert page.evaluate("[window.ran, document.documentElement.scrollWidth <= 360]") == [
        None,
        True,
    ]


def test_no_script_but_the_pages_own_may_run(browser, hostile, tmp_path):
    path = write_report(hostile, tmp_path / "page.html")
    path.write_text(
        path.read_text("utf-8").replace("</main>", "<script>window.ran = 4</script></main>"),
        "utf-8",
    )
    page, complaints = browser.new_page(), []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]", state="attached")
    assert page.evaluate("window.ran") is None
    assert any("Content Security Policy" in complaint for complaint in complaints)
    page.close()
