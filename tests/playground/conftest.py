"""A real browser for the playground's pages: one Chromium for all, a fresh page for a test, and
nothing may go wrong unseen.

Which browser, and what happens without one, is in `tests/browser.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import saccade
from tests.browser import browser, until

from .engine_page import engine_page

PAGE = Path(saccade.__file__).parent / "playground" / "index.html"
STILL = "#v=2&model=scan-and-snap"  # the defaults, without a story: nothing plays by itself

__all__ = ["browser", "until"]  # a fixture of the tests here, and what they wait with


@pytest.fixture(scope="module")
def page(browser: Any) -> Any:
    """A blank page with the engine on it, which the tests of a file share."""
    return engine_page(browser)


class Visit:
    """Opens the playground and keeps what went wrong and what was asked for."""

    def __init__(self, browser: Any):
        self._browser = browser
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._contexts: list[Any] = []

    def __call__(
        self, link: str = STILL, *, width: int = 1280, height: int = 900, **settings: Any
    ) -> Any:
        context = self._browser.new_context(viewport={"width": width, "height": height}, **settings)
        self._contexts.append(context)
        page = context.new_page()
        page.on(
            "console",
            lambda message: (
                message.type in ("error", "warning") and self.errors.append(message.text)
            ),
        )
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
    """Call it with what stands after the page's name. At the end of a test there must be no error
    and no request to the outside.
    """
    made = Visit(browser)
    yield made
    made.close()
    assert made.errors == []
    assert [url for url in made.requests if not url.startswith(("file://", "data:", "blob:"))] == []
