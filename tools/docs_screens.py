"""The screenshots of the tutorials, each made by the tutorial's own code: `python -m
tools.docs_screens [NAME ...]`, two minutes.

A tutorial is run in an empty folder from top to bottom, then its page is opened in a real browser
(`tests/browser.py` says which) and its first screen kept, in few colours. Browsers and fonts
differ, so tests ask for the files and their size only.
"""

from __future__ import annotations

import io
import os
import re
import runpy
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

from saccade.cli import main
from saccade.report.page import write_report
from tests.browser import browser_path, playwright

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "screens"
SIZE = {"width": 1100, "height": 760}
_COLOURS = 96  # of a picture: enough for viridis and grey letters, and a third of the bytes
_BLOCK = re.compile(
    r'^```python(?: title="(?P<title>[^"]+)")?\n(?P<code>.*?)^```', re.DOTALL | re.MULTILINE
)


def told(tutorial: str) -> None:
    """Run the code of a tutorial, from top to bottom."""
    names: dict[str, Any] = {"__name__": "page"}
    for block in _BLOCK.finditer(
        (ROOT / "docs" / "tutorials" / f"{tutorial}.md").read_text("utf-8")
    ):
        if block["title"]:
            Path(block["title"]).write_text(block["code"], "utf-8")
        else:
            exec(compile(block["code"], tutorial, "exec"), names)


def test_a_theory() -> Path:
    main(["reproduce", "long-contexts"])
    return Path("results/report.html")


def your_own_data() -> Path:
    told("your_own_data")
    main(["forecast", "my.csv"])
    return write_report("results/forecast/my", "my.html")


def watch_your_model() -> Path:
    told("watch_your_model")
    return Path("results/my-run/report.html")


def induction_heads() -> Path:
    """Of `examples/induction_heads.py`, which the tutorial on watching names."""
    runpy.run_path(str(ROOT / "examples" / "induction_heads.py"), run_name="__main__")
    return Path("results/examples/induction_heads/report.html")


def bring_your_own_theory() -> Path:
    told("bring_your_own_theory")
    return write_report("results/own", "own.html")


SCREENS: tuple[Callable[[], Path], ...] = (
    test_a_theory,
    your_own_data,
    watch_your_model,
    induction_heads,
    bring_your_own_theory,
)


def taken(browser: Any, page: Path) -> bytes:
    """The first screen of a page as a small PNG, at its last moment."""
    shown = browser.new_page(viewport=SIZE, reduced_motion="reduce")
    shown.goto(page.resolve().as_uri())
    shown.wait_for_selector("html[data-ready]", state="attached")
    shown.wait_for_load_state("networkidle")
    content = io.BytesIO()
    Image.open(io.BytesIO(shown.screenshot())).convert("RGB").quantize(_COLOURS).save(
        content, "png", optimize=True
    )
    shown.close()
    return content.getvalue()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    pages = {}
    for make in (make for make in SCREENS if make.__name__ in sys.argv[1:] or not sys.argv[1:]):
        os.chdir(tempfile.mkdtemp())
        pages[make.__name__] = make().resolve()
    with playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path(), args=["--no-sandbox"])
        for name, page in pages.items():
            (FOLDER / f"{name}.png").write_bytes(taken(browser, page))
        browser.close()
