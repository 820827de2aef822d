"""Every statement has a claim, and every claim a statement: experiments use all of the listed ones and make none themselves.

Read from the source, since claims exist only after experiments have run.
"""

from __future__ import annotations

import ast
from pathlib import Path

import saccade.experiments
from saccade.theory.statement import Statement
from saccade.theory.statements import LISTS

FILES = sorted(Path(saccade.experiments.__file__).parent.rglob("*.py"))


def used(path: Path) -> set[tuple[str, str]]:
    """Module and name of every statement that a file uses: imported by name, or as an attribute of an imported module."""
    tree = ast.parse(path.read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = {alias.asname or alias.name: (node.module or "", alias.name) for node in imports for alias in node.names}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names:
            found.add(names[node.id])
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names:
            found.add((".".join(names[node.value.id]), node.attr))
    return found


def test_every_statement_has_a_claim():
    tested = {place for path in FILES for place in used(path)}
    listed = {(module.__name__, name) for module in LISTS for name, value in vars(module).items() if isinstance(value, Statement)}
    assert sorted(listed - tested) == []


def test_every_claim_has_one_of_these_statements():
    """A claim cannot be made without a statement, so it is enough that no experiment makes its own."""
    calls = [
        (path.name, node.lineno)
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "Statement"
    ]
    assert calls == []
