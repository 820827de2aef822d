"""Promises of `docs/scale.md` about files: each names tests that exist, and the attack is as large
as the page says.
"""

from __future__ import annotations

import ast
import re

import pytest

from tests.attack.harness import FULL
from tests.attack.subjects import SUBJECTS
from tests.docs.pages import DOCS, ROOT

KEPT = (DOCS / "scale.md").read_text("utf-8").split("\n## What is kept\n")[1].split("\n## ")[0]
ROWS = [
    line
    for line in KEPT.splitlines()
    if line.startswith("| ") and not re.match(r"\| (promise|what) \|", line)
]


def names_in(file: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2:60])
def test_every_promise_names_tests_that_exist(row):
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", row.split(" | ")[-1])
    assert named, row
    assert [name for file, name in named if name not in names_in(file)] == []


def test_every_attack_is_behind_a_promise():
    attacks = {
        f"attack/{path.name}": names_in(f"attack/{path.name}")
        for path in (ROOT / "tests" / "attack").glob("test_*.py")
    }
    named = set(re.findall(r"`(attack/\w+\.py)::(\w+)`", KEPT))
    assert {
        (file, name)
        for file, names in attacks.items()
        for name in names
        if name.startswith("test_")
    } == named


def test_the_size_of_the_attack_is_the_one_that_is_made():
    words = " ".join(KEPT.split())
    assert f"{FULL.lines} fuzzed command lines, more than {FULL.flips} flipped bits" in words
    assert f"{FULL.forgeries * len(SUBJECTS)} forged values, {FULL.kills} kills" in words
    assert FULL.thorough  # a flip in every file
