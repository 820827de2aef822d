"""A real browser, and results to report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from saccade.report.notebook import show
from saccade.report.page import write_report
from tests.browser import browser
from tests.report.made_results import write_all
from tests.report.watched_records import small_run

__all__ = ["browser"]  # a fixture of the tests here


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a file and wait until it is ready, or, if not `ready`, only an empty page. Where time
    `stands` it passes only as the test says, `page.clock.run_for(300)`: a busy machine may
    otherwise see the end of a film before its beginning. At the end of a test nothing was
    complained of, and nothing was asked of the network.
    """
    pages, complaints, requests = [], [], []

    def opened(path: Path, *, ready: bool = True, stands: bool = False, **settings: Any) -> Any:
        page = browser.new_page(**({"viewport": {"width": 1280, "height": 900}} | settings))
        page.on(
            "console",
            lambda message: (
                complaints.append(message.text) if message.type in ("error", "warning") else None
            ),
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        pages.append(page)
        if stands:
            page.clock.install(time=0)
            page.clock.pause_at(1000)
        if ready:
            page.goto(path.resolve().as_uri())
            page.wait_for_selector(
                "html[data-ready], #numbers:not(:empty)", state="attached"
            )  # a report, or the playground
        return page

    yield opened
    for page in pages:
        page.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_all(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="session")
def report(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(results, tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="session")
def small_record() -> Any:
    return small_run()


@pytest.fixture(scope="session")
def watched(small_record: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a watched run."""
    return show(small_record).save(tmp_path_factory.mktemp("watched") / "page.html")
