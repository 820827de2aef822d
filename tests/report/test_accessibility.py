"""What axe, the usual checker of web pages, finds wrong with the pages for people who cannot see or
point well: nothing serious.
"""

from __future__ import annotations

import pytest

from saccade.playground.single_file import write_playground

sync = pytest.importorskip("axe_playwright_python.sync_playwright")
WIDTHS = [(1440, 900), (1024, 768), (390, 844)]


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    return write_playground(tmp_path_factory.mktemp("playground") / "one.html")


def found(page):
    """(impact, rule, where) of everything that is wrong, and how many rules were tried."""
    told = sync.Axe().run(page).response
    wrong = [
        (rule["impact"], rule["id"], node["html"][:200])
        for rule in told["violations"]
        for node in rule["nodes"]
    ]
    return wrong, len(told["passes"])


@pytest.mark.parametrize("width, height", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("which", ["report", "playground", "watched"])
def test_axe_finds_nothing_serious(visit, request, which, width, height, scheme):
    page = visit(
        request.getfixturevalue(which),
        viewport={"width": width, "height": height},
        color_scheme=scheme,
    )
    if which == "report":
        page.locator("#result-0 > summary").click()
        page.locator("#result-0 .panel").first.wait_for()
    if which == "watched":
        page.locator(".head-thumbnail").first.wait_for()
    wrong, n_passed = found(page)
    assert n_passed > 20
    assert [one for one in wrong if one[0] in ("serious", "critical")] == []


def test_axe_would_find_it(visit, report):
    page = visit(report)
    page.evaluate("document.querySelector('.film-slider').removeAttribute('aria-label')")
    assert ("critical", "label") in {one[:2] for one in found(page)[0]}
