"""The real browser that pages are tested in: one Chromium for a module.

It is the one `SACCADE_CHROMIUM` names, else one on the path. Without it, or without Playwright, the tests are skipped with a
sentence, except where `CI_BROWSER=required` says that they must run: there they fail.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

try:
    from playwright.sync_api import expect
except ImportError:  # then every test that would ask is skipped
    expect: Any = None
else:
    expect.set_options(timeout=30_000)  # a page may take its time to answer; asked at once, a busy machine makes the answer wrong

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def give_up(sentence: str) -> NoReturn:
    """Fail where a browser is required, skip elsewhere."""
    if os.environ.get("CI_BROWSER") == "required":
        pytest.fail(f"CI_BROWSER=required, but: {sentence}")
    pytest.skip(sentence)


def browser_path() -> str:
    found = os.environ.get("SACCADE_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    return found or give_up("no Chromium was found: install Debian's `chromium`, or name one in SACCADE_CHROMIUM.")


def playwright() -> Any:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        give_up("Playwright is not installed: `pip install playwright`.")
    return sync_playwright()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = browser_path()
    with playwright() as driver:
        # --no-sandbox: Chromium refuses to run as root with its sandbox, and containers run tests as root.
        opened = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()
