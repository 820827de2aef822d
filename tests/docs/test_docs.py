"""The documentation as a reader uses it: it builds without a warning and without the network, its
code runs, its commands exist.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import tyro

import saccade
from saccade import cli
from saccade.experiments import EXPERIMENTS
from saccade.playground.single_file import playground_page
from saccade.playground.stories import stories
from saccade.report.mathml import mathml
from saccade.theories.statements import STATEMENTS
from tests.docs.pages import DOCS, PAGES, ROOT, blocks, shown_commands
from tests.patience import PATIENCE
from tools import docs_figures, docs_parts, docs_screens, speed_table

# Not scale.md: its blocks are for clusters.
WITH_CODE = [
    DOCS / "index.md",
    *sorted(DOCS.glob("tutorials/*.md")),
    *sorted(DOCS.glob("extend/*.md")),
]
MOST_FIGURE = 200_000  # bytes
MOST_SCREEN = 60_000


def build(root: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """A strict build. Not `--quiet`: what it does not say it does not count. Proxies lead nowhere:
    the network would fail it.
    """
    nowhere = dict.fromkeys(
        ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9"
    )
    environment = os.environ | nowhere | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    return subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("site")
    built = build(ROOT, out)
    assert built.returncode == 0, built.stdout + built.stderr
    return out


def test_the_site_builds_strictly_and_has_every_page(site):
    for page in DOCS.rglob("*.md"):
        assert (site / page.relative_to(DOCS).with_suffix(".html")).is_file(), page
    assert not list(site.rglob("*.py"))


def test_the_home_page_holds_the_playground_with_a_link_for_each_story(site):
    home = (site / "index.html").read_text("utf-8").replace("&amp;", "&")
    assert 'src="playground.html#v=2&story=scanning"' in home
    assert set(re.findall(r'href="playground\.html#v=2&story=([\w-]+)"', home)) == set(stories())
    assert (site / "playground.html").read_text("utf-8") == playground_page()


def test_a_figure_is_a_link_to_itself_and_keeps_the_colours_of_its_caption_on_a_dark_page(
    site, browser
):
    page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
    page.goto((site / "open_questions" / "starts.html").as_uri())
    figure = page.locator("a.figure", has=page.locator("img"))
    assert figure.get_attribute("href") == figure.locator("img").get_attribute("src")
    assert figure.locator("img").evaluate("(one) => getComputedStyle(one).filter") == "none"
    assert "tap to enlarge" in figure.evaluate("(one) => getComputedStyle(one, '::after').content")
    page.close()


@pytest.mark.parametrize("name", ["findings", "errata", "theory/scan_and_snap"])
def test_a_phone_shows_claims_in_full_and_says_where_there_is_more_at_the_side(site, browser, name):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto((site / f"{name}.html").as_uri())
    cells = "[...document.querySelectorAll('tr:has(td:nth-child(3)) td:first-child')]"
    wide = f"{cells}.map((cell) => cell.getBoundingClientRect().width)"
    assert min(page.evaluate(wide), default=165) >= 165
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    scrolling = """[...document.querySelectorAll("article *")].filter((one) => one.scrollWidth > one.clientWidth + 1
        && one.clientWidth && getComputedStyle(one).overflowX === "auto").map((one) => getComputedStyle(one).backgroundImage)"""
    assert all("gradient" in sign for sign in page.evaluate(scrolling))
    page.close()


def test_a_link_that_leads_nowhere_stops_the_build(tmp_path):
    """A site of one page with the settings of ours: all others would be built for nothing."""
    config = re.sub(
        r"^nav:.*", "", (ROOT / "mkdocs.yml").read_text("utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    for inside, name in (
        ("paths: [src]", "src"),
        ("hooks: [tools/docs_hooks.py]", "tools/docs_hooks.py"),
    ):
        config = config.replace(inside, inside.replace(name, str(ROOT / name)))
    (tmp_path / "mkdocs.yml").write_text(config, encoding="utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("[nowhere](no_such_page.md)\n", encoding="utf-8")
    built = build(tmp_path, tmp_path / "site")
    said = built.stdout + built.stderr
    assert built.returncode != 0
    assert "no_such_page.md" in said
    assert "Aborted with 1 warnings in strict mode" in said  # nothing else is wrong with it


def test_no_page_asks_the_network_for_anything(site):
    loaded = re.compile(
        r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?(?:https?:)?//|<link\b(?=[^>]*stylesheet)[^>]*href=\"?(?:https?:)?//"
    )
    for page in site.rglob("*.html"):
        assert not loaded.search(page.read_text("utf-8")), page
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(?:https?:)?//", style.read_text("utf-8")), style


def test_the_reference_holds_every_public_name_with_its_docstring(site):
    page = (site / "api.html").read_text("utf-8")
    known = docs_parts.public()
    assert set(saccade.__all__) <= {name.removeprefix("saccade.") for name in known}
    assert [name for name, place in known.items() if f'id="{place}"' not in page] == []
    assert "how often each class is drawn" in page  # from the docstring of `SequenceClasses`


def test_equations_and_notation_come_from_their_one_place(site):
    page = (site / "theory" / "scan_and_snap.html").read_text("utf-8")
    shown = STATEMENTS["tian2023, Theorem 4"].formula
    assert all(mathml(line) in page for line in shown)
    assert "```math" not in page
    assert 'class="language-math' not in page
    assert "decoder_height_discrete" in (site / "notation.html").read_text("utf-8")


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    known, names = dict(EXPERIMENTS), {"__name__": "page"}
    try:
        for block in blocks(page):
            if block.language == "python" and block.title:
                (tmp_path / Path(block.title).name).write_text(block.code, encoding="utf-8")
            elif block.language == "python":
                code = compile(
                    "\n" * block.line + block.code, str(page), "exec"
                )  # an error names the page's own line
                exec(code, names)
    finally:
        EXPERIMENTS.clear()
        EXPERIMENTS.update(known)


QUESTIONS = [*sorted(DOCS.glob("open_questions/*.md")), DOCS / "theory" / "plain_descent.md"]


@pytest.mark.parametrize("page", QUESTIONS, ids=lambda page: page.stem)
def test_a_page_about_an_open_question_starts_with_its_answer_and_ends_with_what_would_change_it(
    page,
):
    text = re.sub(r"\A---\n.*?---\n", "", page.read_text("utf-8"), flags=re.DOTALL).strip()
    title, answer = text.split("\n\n")[:2]
    assert title.startswith("# ")
    assert re.match(r"\*\*[^*]{30,400}\*\*", answer), answer
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings[0] in ("The evidence", "Why it differs")
    assert headings[-1] == "What would change the answer"
    assert "![" in text[: text.index("\n## ")], "one picture before the evidence"
    assert "<!-- found:" in text[: text.index("\n## ")]
    linked = f"]({page.relative_to(DOCS).as_posix()})"
    assert (DOCS / "open_questions.md").read_text("utf-8").count(linked) == 1


class Parsed(Exception):
    """Raised instead of running a command whose flags were understood."""


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if shown_commands(page)],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_every_command_shown_is_known_with_its_flags(page, monkeypatch, capsys):
    read = tyro.cli

    def only_read(*arguments, **settings):
        raise Parsed(read(*arguments, **settings))

    monkeypatch.setattr(tyro, "cli", only_read)
    cli.main(["--help"])
    known = {"--help", *re.findall(r"^  saccade (\w+)", capsys.readouterr().out, re.MULTILINE)}
    for arguments in shown_commands(page):
        assert arguments[0] in known, arguments
        if len(arguments) == 1:
            continue  # the command is only named
        code, options = _understood(arguments)
        assert code == 0, f"saccade {' '.join(arguments)}: {capsys.readouterr().err}"
        assert set(getattr(options, "names", ())) <= set(EXPERIMENTS), arguments


def _understood(arguments):
    """Exit code, and the options if the flags were read."""
    try:
        return cli.main(arguments), None
    except Parsed as parsed:
        return 0, parsed.args[0]


MARKED = [
    page for page in docs_parts.PAGES if docs_parts.MARK.search((DOCS / page).read_text("utf-8"))
]


@pytest.mark.parametrize("page", MARKED)
def test_parts_made_from_the_source_are_up_to_date(page):
    written, made = (DOCS / page).read_text("utf-8"), docs_parts.regenerated(page)
    assert written == made, "the source has changed: run `python -m tools.docs_parts`"


@pytest.mark.parametrize("page", MARKED)
def test_no_marked_part_is_empty_for_a_reader_of_the_repository(page):
    text = (DOCS / page).read_text("utf-8")
    parts = [found[0] for found in docs_parts.MARK.finditer(text)]
    assert text.count("<!-- end -->") == len(parts)
    assert all(re.sub(r"<!--.*?-->", "", part).strip() for part in parts)


def test_a_mark_without_an_end_is_filled_and_does_not_swallow_the_next_part(tmp_path, monkeypatch):
    monkeypatch.setattr(docs_parts, "DOCS", tmp_path)
    answers = {"a": {"answer": "one"}, "b": {"answer": "two"}}
    monkeypatch.setattr(docs_parts, "ANSWERS", answers)
    (tmp_path / "page.md").write_text(
        "A: <!-- found: a -->. B: <!-- found: b -->old<!-- end -->.\n"
    )
    made = docs_parts.regenerated("page.md")
    assert made == "A: <!-- found: a -->one<!-- end -->. B: <!-- found: b -->two<!-- end -->.\n"
    (tmp_path / "page.md").write_text("<!-- found: nothing -->")
    with pytest.raises(ValueError, match="there is no 'nothing'"):
        docs_parts.regenerated("page.md")


def test_a_printed_formula_that_is_wrong_is_marked_with_the_errata_that_correct_it():
    part = docs_parts.equation_part("chen2026, Theorem 3.5", "theory/focus_and_dilution.md")
    assert "As printed; corrected in the errata: [1.5](../errata.md#erratum-1-5)." in part
    assert "A hypothesis that is not met, in the errata: [1.11](../errata.md#erratum-1-11)." in part
    assert "errata" not in docs_parts.equation_part(
        "saccade, growth rate of attention", "theory/focus_and_dilution.md"
    )


def test_a_reading_is_not_called_printed():
    """Every kind of first form has its own words, and one without any is an error."""
    read = STATEMENTS["tian2023, Theorem 3"]
    assert "a common misreading is corrected" in docs_parts.erratum_note(read, "errata.md")
    for statement in STATEMENTS.values():
        for each in statement.errata:
            note = docs_parts.erratum_note(replace(statement, errata=(each,)), "errata.md")
            assert note.startswith("As printed") == (each.said == "as printed")
    unknown = replace(read, errata=(replace(read.errata[0], said="as sung"),))
    with pytest.raises(ValueError, match="no 'as sung'"):
        docs_parts.erratum_note(unknown, "errata.md")


def test_figures_are_there_and_small():
    made = {f"{make.__name__}.svg" for make in docs_figures.FIGURES}
    kept = {
        name
        for page in ("findings.md", "long_runs.md")
        for name in re.findall(r"figures/(\S+)\)", (DOCS / page).read_text())
    }
    kept |= {f"{name}.svg" for name in speed_table.PLOTS} & set(
        re.findall(r"figures/(\S+)\)", (DOCS / "speed.md").read_text())
    )
    found = {path.name: path.stat().st_size for path in (DOCS / "figures").iterdir()}
    assert found.keys() == made | kept
    assert all(0 < size < MOST_FIGURE for size in found.values())


def test_every_tutorial_has_a_screenshot_that_its_own_code_made():
    made = {f"{make.__name__}.png" for make in docs_screens.SCREENS}
    found = {path.name: path.stat().st_size for path in (DOCS / "screens").iterdir()}
    assert found.keys() == made
    assert all(0 < size < MOST_SCREEN for size in found.values())
    for tutorial in DOCS.glob("tutorials/*.md"):
        assert f"../screens/{tutorial.stem}.png" in tutorial.read_text("utf-8")
