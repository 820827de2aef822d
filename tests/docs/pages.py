"""What the documentation shows as code: blocks of Python, and command lines."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *sorted(path for path in DOCS.rglob("*.md") if path.name not in ("findings.md", "errata.md")),
]
_BLOCK = re.compile(
    r"^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_INLINE = re.compile(r"`(saccade [^`]+)`")


class Block(NamedTuple):
    """`title` is the name of the file that a block holds; empty for code that is run as it stands."""

    language: str
    title: str
    code: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    return [
        Block(
            found["language"],
            found["title"] or "",
            found["code"],
            text[: found.start("code")].count("\n"),
        )
        for found in _BLOCK.finditer(text)
    ]


def shown_commands(page: Path) -> list[list[str]]:
    """Command lines of `saccade`, as arguments: those in blocks of shell, and those in running text
    that name no placeholder.
    """
    lines = [
        line for block in blocks(page) if block.language == "sh" for line in block.code.splitlines()
    ]
    prose = _BLOCK.sub("", page.read_text("utf-8"))
    inline = [
        line for line in _INLINE.findall(prose) if not re.search(r"[{|]|\.\.\.|\b[A-Z]{2,}\b", line)
    ]
    return [
        shlex.split(line, comments=True)[1:]
        for line in [*lines, *inline]
        if line.startswith("saccade ")
    ]
