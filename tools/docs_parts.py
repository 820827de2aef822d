"""Parts of pages that are made from the source: `python -m tools.docs_parts` writes them anew, a
test tells when they have drifted.

| part                                     | made from                                                                |
|------------------------------------------|--------------------------------------------------------------------------|
| `<!-- made: commands -->` of commands.md | what `saccade` alone prints                                              |
| `<!-- made: names -->` of names.md       | every public name of `saccade`, with the first sentence of its docstring |
| `<!-- made: names -->` of api.md         | the same names, for mkdocstrings                                         |
| `<!-- equation: tian2023, Theorem 4 -->` | the formula of that statement, and which errata it has                   |
| `<!-- include: NOTATION.md -->`          | that file of the repository                                              |
| `<!-- made: totals -->`                  | how many comparisons of each part have which verdict                     |
| `<!-- answers: scan-and-snap -->`        | the questions of that part with their answers                            |
| `<!-- outcomes: scan-and-snap -->`       | its experiments with their findings in full                              |
| `<!-- found: text-cycle -->`             | what came of an experiment, in the words of that table                   |

A part ends with `<!-- end -->`, which is written too where it is missing; what is around it is
written by hand. So a page reads the same in the repository and on the site, which shows formulas as
MathML (`docs_hooks.py`).
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from saccade.experiments import ANSWERS
from saccade.lab.errata import anchor
from saccade.theories.statement import Statement
from saccade.theories.statements import STATEMENTS
from tools.results_tables import answers_table, table, totals_table

DOCS = Path(__file__).parents[1] / "docs"
SOURCE = DOCS.parent / "src"
PAGES = ["../README.md", *sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))]

MARK = re.compile(
    r"<!-- (?P<kind>made|equation|include|answers|outcomes|found): (?P<name>.+?) -->(?:(?:(?!<!-- ).)*<!-- end -->)?",
    re.DOTALL,
)


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


def equation_part(name: str, page: str) -> str:
    """Each line of the formula as GitHub shows it; below them the errata of what is printed."""
    lines = "\n".join(f"```math\n{line}\n```\n" for line in _named(name, STATEMENTS).formula)
    noted = erratum_note(STATEMENTS[name], os.path.relpath("errata.md", Path(page).parent))
    return f"\n{lines}\n{noted}\n" if noted else f"\n{lines}"


def erratum_note(statement: Statement, errata: str) -> str:
    """Which entries of the page of errata concern this statement, by what their first form is."""
    kinds: dict[str, list[str]] = {}
    for each in statement.errata:
        kinds.setdefault(_named(each.said, _NOTES), []).append(
            f"[{each.number}]({errata}#{anchor(each)})"
        )
    return " ".join(f"{kind}: {', '.join(numbers)}." for kind, numbers in kinds.items())


_NOTES = {
    "as printed": "As printed; corrected in the errata",
    "as printed, and true": "True as printed, and sharper in the errata",
    "as assumed": "A hypothesis that is not met, in the errata",
    "as defined": "As defined; corrected in the errata",
    "as stated": "As stated; corrected in the errata",
    "as read": "True as printed; a common misreading is corrected in the errata",
    "as captioned": "Not reproduced as captioned, in the errata",
}


def include_part(name: str, page: str) -> str:
    return f"\n{(DOCS.parent / name).read_text('utf-8')}"


def answers_part(name: str, page: str) -> str:
    return f"\n{answers_table(name)}"


def outcomes_part(name: str, page: str) -> str:
    return f"\n{table(name)}"


def found_part(name: str, page: str) -> str:
    return _named(name, ANSWERS)["answer"]


def _named(name: str, known: Mapping[str, Any]) -> Any:
    if name not in known:
        raise ValueError(f"there is no {name!r}; known: {'; '.join(known)}")
    return known[name]


def made_part(name: str, page: str) -> str:
    makers = {
        "commands": commands_part,
        "names": api_part if page == "api.md" else names_part,
        "totals": totals_table,
    }
    return "\n" + makers[name]()


PARTS: dict[str, Callable[[str, str], str]] = {
    "made": made_part,
    "equation": equation_part,
    "include": include_part,
    "answers": answers_part,
    "outcomes": outcomes_part,
    "found": found_part,
}


def regenerated(page: str) -> str:
    """The text of a page with its parts made anew."""

    def made(found: re.Match[str]) -> str:
        kind, name = found["kind"], found["name"]
        return f"<!-- {kind}: {name} -->{PARTS[kind](name, page)}<!-- end -->"

    return MARK.sub(made, (DOCS / page).read_text("utf-8"))


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
    words = (
        ast.get_docstring(node)
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.Module)
        else None
    )
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
    for page in PAGES:
        (DOCS / page).write_text(regenerated(page), encoding="utf-8")
