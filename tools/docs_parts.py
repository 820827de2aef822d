"""Parts of pages that are made from the source: `python -m tools.docs_parts` writes them, a test
fails when they have drifted.

| part                                     | made from                                                                |
|------------------------------------------|--------------------------------------------------------------------------|
| `<!-- made: commands -->` of commands.md | what `saccade` alone prints                                              |
| `<!-- made: names -->` of names.md       | every public name of the stubs, with the first sentence of its docstring |
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
    rows = [
        f"| [`{name.removeprefix('saccade.')}`](api.md#{place}) | {_summary(place)} |"
        for name, place in public().items()
    ]
    return "\n".join(["| `saccade.` | what it is |", "|---|---|", *rows, ""])


def api_part() -> str:
    parts = (f"::: {place}" + _options(name, place) for name, place in public().items())
    return "\n\n".join(parts) + "\n"


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


def public() -> dict[str, str]:
    """What users import -> where it is defined: `saccade.models.Pairwise` ->
    `saccade.models.pairwise.Pairwise`. A name of `saccade` itself is not listed again in its room.
    """
    found = {}
    for stub in sorted(SOURCE.glob("saccade/**/*.pyi"), key=lambda path: (len(path.parts), path)):
        package = ".".join(stub.parent.relative_to(SOURCE).parts)
        for node in ast.parse(stub.read_text("utf-8")).body:
            if isinstance(node, ast.ImportFrom):
                for name in node.names:
                    place = f"{node.module}.{name.name}"
                    if place not in found.values():
                        found[f"{package}.{name.asname or name.name}"] = place
    return found | {module: module for module in ("saccade.measures", "saccade.panels")}


def _options(name: str, place: str) -> str:
    """Classes and modules show their own members; functions have none."""
    members = "" if isinstance(_node(place), ast.FunctionDef) else "\n      members: null"
    label = name.removeprefix("saccade.")
    return f"\n    options:\n      heading: {name}\n      toc_label: {label}{members}"


def _summary(place: str) -> str:
    paragraph = " ".join((ast.get_docstring(_node(place)) or "").split("\n\n")[0].split())
    return re.split(r"(?<=\.) (?=[A-Z`(])", paragraph)[0].replace("|", "\\|")


def _node(place: str) -> ast.ClassDef | ast.FunctionDef | ast.Module:
    """The definition of a name, or of a module."""
    if module := _module(place):
        return module
    inside, name = place.rsplit(".", 1)
    module = _module(inside) or ast.Module([], [])
    for node in module.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return node
    raise ValueError(f"{inside} does not define {name}")


def _module(dotted: str) -> ast.Module | None:
    path = SOURCE.joinpath(*dotted.split("."))
    files = (path / "__init__.py", path.with_suffix(".py"))
    return next((ast.parse(file.read_text("utf-8")) for file in files if file.is_file()), None)


if __name__ == "__main__":
    for page in PAGES:
        (DOCS / page).write_text(regenerated(page), encoding="utf-8")
