"""Parts of pages that are made from the source: `python -m tools.docs_parts` writes them anew, a test tells when they have drifted.

| part                     | made from                                                                        |
|--------------------------|----------------------------------------------------------------------------------|
| `commands` of index.md   | what `saccade` alone prints                                                      |
| `names` of index.md      | every public name of `saccade`, with the first sentence of its docstring         |
| `names` of api.md        | the same names, for mkdocstrings                                                 |

A part stands between `<!-- made: NAME -->` and `<!-- end -->`; what is around it is written by hand. The source is read, not
imported, so that no extra needs to be installed; only the command line is asked for its own words.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
SOURCE = DOCS.parent / "src"

_PART = r"(<!-- made: {} -->\n).*?(<!-- end -->)"


def commands_part() -> str:
    from saccade.cli import main

    with contextlib.redirect_stdout(io.StringIO()) as said:
        main(["--help"])
    return f"```text\n{said.getvalue().strip()}\n```\n"


def names_part() -> str:
    rows = [f"| [`{name}`](api.md#{_anchor(name)}) | {_summary(name)} |" for name in _public()]
    return "\n".join(["| `saccade.` | what it is |", "|---|---|", *rows, ""])


def api_part() -> str:
    return "\n\n".join(f"::: {_anchor(name)}" + _options(name) for name in _public()) + "\n"


PARTS: dict[tuple[str, str], Callable[[], str]] = {
    ("index.md", "commands"): commands_part,
    ("index.md", "names"): names_part,
    ("api.md", "names"): api_part,
}


def regenerated(page: str) -> str:
    """The text of a page with its parts made anew."""
    text = (DOCS / page).read_text("utf-8")
    for (owner, name), make in PARTS.items():
        if owner == page:
            text = _replaced(text, name, make())
    return text


def _replaced(text: str, name: str, made: str) -> str:
    whole, count = re.subn(_PART.format(name), lambda found: found[1] + made + found[2], text, count=1, flags=re.DOTALL)
    if not count:
        raise ValueError(f"no part {name!r} is marked in the page")
    return whole


def _public() -> dict[str, str]:
    """Public name -> module that holds it."""
    import saccade

    return saccade._PUBLIC


def _anchor(name: str) -> str:
    module = _public()[name]
    return f"{module}.{name}"


def _options(name: str) -> str:
    """Classes and modules show their own members; functions and constants have none."""
    kind = type(_node(name)).__name__
    members = "\n      members: null" if kind in ("ClassDef", "Module") else ""
    return f"\n    options:\n      heading: saccade.{name}\n      toc_label: {name}{members}"


def _summary(name: str) -> str:
    node = _node(name)
    words = ast.get_docstring(node) if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.Module) else None
    return _first_sentence(words) if words else _of_constant(name)


def _of_constant(name: str) -> str:
    """A constant has no docstring: its module's."""
    return _first_sentence(ast.get_docstring(_module(_public()[name])) or "")


def _first_sentence(words: str) -> str:
    paragraph = " ".join(words.split("\n\n")[0].split())
    return re.split(r"(?<=\.) (?=[A-Z`(])", paragraph)[0].replace("|", "\\|")


def _node(name: str) -> ast.AST:
    """Where a public name is defined; it may be a module."""
    module = _public()[name]
    tree = _module(module)
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return node
    inside = SOURCE.joinpath(*module.split("."), f"{name}.py")
    return ast.parse(inside.read_text("utf-8")) if inside.is_file() else ast.Constant(None)


def _module(dotted: str) -> ast.Module:
    path = SOURCE.joinpath(*dotted.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text("utf-8"))


if __name__ == "__main__":
    for page in dict.fromkeys(page for page, _ in PARTS):
        (DOCS / page).write_text(regenerated(page), encoding="utf-8")
