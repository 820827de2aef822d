"""Every statement has a claim, and every claim a statement: experiments use all of the listed ones
and make none themselves.

Claims exist only after experiments have run: `docs/outcomes.json` has the statements that those of
the last full run tested, and tests of the experiments hold it to their own runs. What a run on text
alone tests is read from the source.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

import saccade.experiments
from saccade.experiments import REAL_TEXT, SYNTHETIC
from saccade.theory.statement import Statement
from saccade.theory.statements import LISTS

OF_TEXT = {name.replace("-", "_") for name in REAL_TEXT}
FILES = sorted(Path(saccade.experiments.__file__).parent.rglob("*.py"))


def used(path: Path) -> set[tuple[str, str]]:
    """Module and name of every statement that a file uses: imported by name, or as an attribute of
    an imported module.
    """
    tree = ast.parse(path.read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in imports
        for alias in node.names
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names:
            found.add(names[node.id])
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in names
        ):
            found.add((".".join(names[node.value.id]), node.attr))
    return found


def test_every_statement_has_a_claim():
    tested = {place for path in FILES for place in used(path)}
    listed = {
        (module.__name__, name)
        for module in LISTS
        for name, value in vars(module).items()
        if isinstance(value, Statement)
    }
    assert sorted(listed - tested) == []


def test_every_statement_is_tested_by_a_claim_that_a_run_has_made():
    """Of the experiments on synthetic data. A statement that is named where no claim is made would
    pass the test above.
    """
    kept = json.loads((Path(__file__).parents[2] / "docs" / "outcomes.json").read_text("utf-8"))
    claimed = {key for name in SYNTHETIC for key in kept[name]["statements"]}
    of_text = {
        place
        for path in FILES
        if path.parent.name == "real_text" or path.stem in OF_TEXT
        for place in used(path)
    }
    listed = {
        value.key: (module.__name__, name)
        for module in LISTS
        for name, value in vars(module).items()
        if isinstance(value, Statement)
    }
    assert claimed <= set(listed)
    assert (
        sorted(key for key, place in listed.items() if key not in claimed and place not in of_text)
        == []
    )


def test_every_claim_has_one_of_these_statements():
    """A claim cannot be made without a statement, so it is enough that no experiment makes its own."""
    calls = [
        (path.name, node.lineno)
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", getattr(node.func, "attr", "")) == "Statement"
    ]
    assert calls == []
