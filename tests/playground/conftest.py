"""A real browser for the playground's pages: one Chromium for a module, a fresh page for a test, and nothing may go wrong unseen.

The browser is the one `SACCADE_CHROMIUM` names, else one on the path. Without any the tests are skipped with a sentence, except
where `CI_BROWSER=required` says that they must run.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

import saccade

PAGE = Path(saccade.__file__).parent / "playground" / "index.html"
_NAMES = ("chromium", "chromium-browser", "google-chrome")


def _browser_path() -> str:
    found = os.environ.get("SACCADE_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if found:
        return found
    _give_up("No Chromium was found: install Debian's `chromium`, or name one in SACCADE_CHROMIUM.")


def _give_up(sentence: str) -> NoReturn:
    if os.environ.get("CI_BROWSER") == "required":
        pytest.fail(sentence)
    pytest.skip(sentence)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = _browser_path()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _give_up("Playwright is not installed: `pip install playwright`.")
    with sync_playwright() as driver:
        # --no-sandbox: Chromium refuses to run as root with its sandbox, and containers run tests as root.
        opened = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


def until(page: Any, expression: str, seconds: float = 10.0) -> None:
    """Wait for an expression to be true. Playwright's own wait evaluates strings in the page, which the page's policy forbids."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"waited {seconds} s for {expression}"
        page.wait_for_timeout(20)


class Visit:
    """Opens the playground and keeps what went wrong and what was asked for."""

    def __init__(self, browser: Any):
        self._browser = browser
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._contexts: list[Any] = []

    def __call__(self, link: str = "", *, width: int = 1280, height: int = 900, **settings: Any) -> Any:
        context = self._browser.new_context(viewport={"width": width, "height": height}, **settings)
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: message.type in ("error", "warning") and self.errors.append(message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(PAGE.as_uri() + link)
        until(page, "document.getElementById('numbers').textContent !== ''")
        return page

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Visit]:
    """Call it with what stands after the page's name. At the end of a test there must be no error and no request to the outside."""
    made = Visit(browser)
    yield made
    made.close()
    assert made.errors == []
    assert [url for url in made.requests if not url.startswith(("file://", "data:", "blob:"))] == []
