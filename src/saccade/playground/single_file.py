"""The playground as one HTML file that opens anywhere, without a server and without the network.

The page's own files are put into it as they are: it computes in the browser, so nothing is lost. No
script runs but its own.
"""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from saccade.records.writing import write_html
from saccade.report.policy import policy

_SCRIPT = re.compile(r'\s*<script src="([^"]+)"></script>')
_STYLE = re.compile(r'\s*<link rel="stylesheet" href="([^"]+)">')
_POLICY = re.compile(
    r'\s*<!-- `file:`.*?-->\s*<meta http-equiv="Content-Security-Policy"\s+content="[^"]*">',
    re.DOTALL,
)


def write_playground(out: str | Path) -> Path:
    """Write the page to the file `out` and return its path."""
    write_html(Path(out), playground_page())
    return Path(out)


def playground_page() -> str:
    """The whole page as text."""
    page = _read("index.html")
    script = "\n".join(_read(name) for name in _SCRIPT.findall(page))
    style = "\n".join(_read(name) for name in _STYLE.findall(page))
    head = f'\n  <meta http-equiv="Content-Security-Policy" content="{policy(script)}">\n  <style>{style}</style>'
    page = _POLICY.sub(lambda _: head, _STYLE.sub("", _SCRIPT.sub("", page)), count=1)
    return page.replace("</body>", f"<script>{script}</script>\n</body>")


def _read(name: str) -> str:
    """A file as the page refers to it: its own, or one of the report's after `../`."""
    return (
        files("saccade")
        .joinpath(
            *(("playground", name) if "/" not in name else name.removeprefix("../").split("/"))
        )
        .read_text("utf-8")
    )
