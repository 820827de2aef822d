"""What pages take from elsewhere while the site is built, so that each fact stands once.

| in a page                                | becomes                                                       |
|------------------------------------------|---------------------------------------------------------------|
| `<!-- equation: tian2023, Theorem 4 -->` | the equations behind claims of that source, as MathML         |
| `<!-- include: NOTATION.md -->`          | that file of the repository                                   |

A name that is not known stops the build. Not here: parts of pages that are kept in the repository (`docs_parts.py`).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

from saccade.report.equations import EQUATIONS

ROOT = Path(__file__).parents[1]
_EQUATION = re.compile(r"<!-- equation: (.+?) -->")
_INCLUDE = re.compile(r"<!-- include: (.+?) -->")


def on_page_markdown(markdown: str, page: Any, **rest: Any) -> str:
    return _EQUATION.sub(lambda found: _equations(found[1]), _INCLUDE.sub(lambda found: _file(found[1]), markdown))


def _file(name: str) -> str:
    path = ROOT / name
    if not path.is_file():
        raise PluginError(f"there is no {name} to include")
    return path.read_text("utf-8")


def _equations(source: str) -> str:
    if source not in EQUATIONS:
        raise PluginError(f"there is no equation of {source!r}; known: {', '.join(EQUATIONS)}")
    lines = "".join(f"<tr><td>{what}</td><td>{mathml}</td></tr>" for what, mathml in EQUATIONS[source])
    return f'<table aria-label="equations of {source}">{lines}</table>'
