"""What pages take from elsewhere while the site is built.

| in a page                                         | becomes                                                |
|---------------------------------------------------|--------------------------------------------------------|
| a block of `math`, or `$$...$$` on a line alone   | that formula, as MathML                                |
| a link to `playground.html`                       | the playground in one file, which is made for the site |
| a figure                                          | a link to itself, so that a phone shows it at its size |

Formulas of one statement, between its marks, become one table. Not here: parts of pages that are
kept in the repository (`docs_parts.py`).
"""

from __future__ import annotations

import re
from typing import Any

from mkdocs.structure.files import File

from saccade.playground.single_file import playground_page
from saccade.report.mathml import mathml

_BLOCK = r"^```math\n(.+)\n```$"
_FORMULA = re.compile(rf"{_BLOCK}|^\$\$(.+)\$\$$", re.MULTILINE)
_FIGURE = re.compile(r'<img [^>]*?src="([^"]*figures/[^"]+\.svg)"[^>]*?/?>')
_STATEMENT = re.compile(r"<!-- equation: (.+?) -->\n(.*?)<!-- end -->", re.DOTALL)


def on_files(files: Any, config: Any, **rest: Any) -> None:
    files.append(File.generated(config, "playground.html", content=playground_page()))


def on_page_markdown(markdown: str, page: Any, **rest: Any) -> str:
    return _FORMULA.sub(_formula, _STATEMENT.sub(_equations, markdown))


def on_page_content(html: str, page: Any, **rest: Any) -> str:
    return _FIGURE.sub(r'<a class="figure" href="\1" title="Open the figure alone">\g<0></a>', html)


def _formula(found: re.Match[str]) -> str:
    """In a box of its own, which scrolls on a narrow page."""
    return f'<div class="formula">{mathml(found[1] or found[2])}</div>'


def _equations(found: re.Match[str]) -> str:
    """The formulas of a statement as one table, and what is noted below them."""
    key, written = found[1], found[2]
    lines = "".join(
        f"<tr><td>{mathml(line)}</td></tr>" for line in re.findall(_BLOCK, written, re.MULTILINE)
    )
    return f'<table aria-label="equations of {key}">{lines}</table>\n\n{re.sub(_BLOCK, "", written, flags=re.MULTILINE).strip()}\n'
