"""What pages take from elsewhere while the site is built, so that each fact stands once.

| in a page                                | becomes                                                       |
|------------------------------------------|---------------------------------------------------------------|
| `<!-- equation: tian2023, Theorem 4 -->` | the formula of that statement, as MathML                      |
| `<!-- include: NOTATION.md -->`          | that file of the repository                                   |
| `<!-- outcomes: scan-and-snap -->`       | the README's table of that theory                             |
| `<!-- found: text-cycle -->`             | what came of an experiment, in the words of that table        |
| `$$E = m c^2$$`, a line of its own       | that formula, as MathML                                       |
| a link to `playground.html`              | the playground in one file, which is made for the site        |

A name that is not known stops the build. Not here: parts of pages that are kept in the repository (`docs_parts.py`).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

from saccade.playground.single_file import playground_page
from saccade.report.mathml import mathml
from saccade.theory.statements import STATEMENTS

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # mkdocs loads this file by its path

from tools.readme_tables import table  # noqa: E402

_FORMULA = re.compile(r"^\$\$(.+)\$\$$", re.MULTILINE)
_MARK = re.compile(r"<!-- (equation|include|outcomes|found): (.+?) -->")


def on_files(files: Any, config: Any, **rest: Any) -> None:
    files.append(File.generated(config, "playground.html", content=playground_page()))


def on_page_markdown(markdown: str, page: Any, **rest: Any) -> str:
    written = _FORMULA.sub(lambda found: mathml(found[1]), markdown)
    return _MARK.sub(lambda found: _MADE[found[1]](found[2]), written)


def _file(name: str) -> str:
    path = ROOT / name
    if not path.is_file():
        raise PluginError(f"there is no {name} to include")
    return path.read_text("utf-8")


def _equations(key: str) -> str:
    if key not in STATEMENTS:
        raise PluginError(f"there is no statement {key!r}; known: {'; '.join(STATEMENTS)}")
    lines = "".join(f"<tr><td>{mathml(line)}</td></tr>" for line in STATEMENTS[key].formula)
    return f'<table aria-label="equations of {key}">{lines}</table>'


def _table(kind: str) -> str:
    try:
        return table(kind, _outcomes())
    except KeyError:
        raise PluginError(f"there is no table {kind!r}") from None


def _found(name: str) -> str:
    outcomes = _outcomes()
    if name not in outcomes:
        raise PluginError(f"there is no experiment {name!r}")
    return outcomes[name]["finding"]


def _outcomes() -> dict[str, dict[str, Any]]:
    return json.loads((ROOT / "docs" / "outcomes.json").read_text("utf-8"))


_MADE: dict[str, Callable[[str], str]] = {"equation": _equations, "include": _file, "outcomes": _table, "found": _found}
