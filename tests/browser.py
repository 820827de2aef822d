"""The real browser that pages are tested in: one Chromium for a folder of tests.

It is the one `SACCADE_CHROMIUM` names, else one on the path. Without it, or without Playwright, the
tests are skipped with a sentence, except where `CI_BROWSER=required` says that they must run: there
they fail.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from tests.leaks import shared
from tests.patience import ANSWER

try:
    from playwright.sync_api import expect
except ImportError:  # then every test that would ask is skipped
    expect: Any = None
else:
    expect.set_options(
        timeout=1000 * ANSWER
    )  # asked at once, a busy machine makes the answer wrong

_NAMES = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)


def has_text(place: Any, words: str) -> None:
    """Wait until these words are all that is read at a place, as a reader sees them."""
    expect(place).to_have_text(words, use_inner_text=True)


def contains_text(place: Any, words: str) -> None:
    expect(place).to_contain_text(words, use_inner_text=True)


def saved_rows(page: Any, place: Any) -> list[dict[str, str]]:
    """The rows of the CSV file that the button of a figure saves."""
    with page.expect_download() as download:
        place.locator(".chart-save-button", has_text="CSV").first.click()
    return list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text("utf-8"))))


def slide(page: Any, place: int) -> None:
    """Move the player of a report to a look."""
    page.locator('[data-player="slider"]').evaluate(
        "(slider, place) => { slider.value = place; slider.dispatchEvent(new Event('input')); }",
        str(place),
    )


def until(page: Any, expression: str, seconds: float = ANSWER) -> None:
    """Wait for an expression to be true. Playwright's own wait evaluates strings in the page, which
    the page's policy forbids.
    """
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"waited {seconds} s for {expression}"
        page.wait_for_timeout(20)


def until_it_moves(
    page: Any, box: dict[str, float], share: float, go_on: Callable[[], object] = lambda: None
) -> None:
    """Wait until so much of what is on the screen within `box` looks different; `go_on` is called
    again and again meanwhile.
    """
    from PIL import Image

    def pixels() -> Any:
        return np.asarray(Image.open(io.BytesIO(page.screenshot(clip=box))).convert("L"), int)

    first, end = pixels(), time.monotonic() + ANSWER
    while (abs(pixels() - first) > 20).mean() < share:
        assert time.monotonic() < end, f"nothing moved within {ANSWER} s"
        go_on()


class Work:
    """Processor time of a page's own thread, in seconds, which other work on the machine does not
    lengthen.
    """

    def __init__(self, page: Any):
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def seconds(self) -> float:
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))


def give_up(sentence: str) -> NoReturn:
    """Fail where a browser is required, skip elsewhere."""
    if os.environ.get("CI_BROWSER") == "required":
        pytest.fail(f"CI_BROWSER=required, but: {sentence}")
    pytest.skip(sentence)


def browser_path() -> str:
    found = os.environ.get("SACCADE_CHROMIUM") or next(
        filter(None, map(shutil.which, _NAMES)), None
    )
    return found or give_up(
        "no Chromium was found: install Debian's `chromium-headless-shell`, or name one in SACCADE_CHROMIUM."
    )


def playwright() -> Any:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        give_up("Playwright is not installed: `pip install playwright`.")
    return sync_playwright()


def _patient(make: Callable[..., Any]) -> Callable[..., Any]:
    """Pages wait half a minute unless told otherwise, which a busy machine may take to open one."""

    def made(**settings: Any) -> Any:
        opened = make(**settings)
        opened.set_default_timeout(1000 * ANSWER)
        return opened

    return made


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    path = browser_path()
    with ExitStack() as stack:
        with shared():
            driver = stack.enter_context(playwright())
            # --no-sandbox: Chromium refuses to run as root with its sandbox, and containers run
            # tests as root.
            opened = driver.chromium.launch(
                executable_path=path, args=["--no-sandbox"], timeout=1000 * ANSWER
            )
            for name in ("new_page", "new_context"):
                setattr(opened, name, _patient(getattr(opened, name)))
        yield opened
        opened.close()
