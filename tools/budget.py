"""How large the project is, in syntax nodes and names, against its budget: `make budget`.

Nodes: `ast.walk` over every file. Tokens a line: tokens without comments, docstrings and line ends,
over lines that have any. Used once: private functions whose name occurs once in their file beyond
their definition. Lines say little where they are dense, and are not counted.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
_SILENT = {
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.COMMENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
LIMITS = {
    "nodes of the package": 425_000,
    "nodes of experiments": 125_000,
    "nodes of tests": 300_000,
    "questions": 36,
    "claims": 600,
    "functions": 3_000,
    "private functions used once": 0.15,
    "tokens a line": 9.0,
    "public names": 26,
    "words of the README": 1_300,
    "lines of the README": 150,
}


class Size(NamedTuple):
    nodes: int
    functions: int
    used_once: int
    tokens: int
    lines: int


def size(folder: Path) -> Size:
    """Summed over all Python files below a folder."""
    return Size(*map(sum, zip(*(_of_file(path) for path in sorted(folder.rglob("*.py"))))))


def _of_file(path: Path) -> Size:
    source = path.read_text(encoding="utf-8")
    nodes = list(ast.walk(ast.parse(source)))
    named = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    private = {one.name for one in named if re.match(r"_(?!_)", one.name)}
    uses = Counter(node.id for node in nodes if isinstance(node, ast.Name))
    uses += Counter(node.attr for node in nodes if isinstance(node, ast.Attribute))
    said = {line for node in nodes for line in _docstring(node)}
    tokens = [
        token.start[0]
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in _SILENT and token.start[0] not in said
    ]
    once = sum(uses[name] == 1 for name in private)
    return Size(len(nodes), len(named), once, len(tokens), len(set(tokens)))


def _docstring(node: ast.AST) -> Iterator[int]:
    if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
        first = node.body[0]
        yield from range(first.lineno, (first.end_lineno or 0) + 1)


def measured() -> dict[str, float]:
    """Every number of the budget."""
    package, tests = size(ROOT / "src/saccade"), size(ROOT / "tests")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    answers = json.loads((ROOT / "src/saccade/experiments/answers.json").read_text())
    stub = ast.parse((ROOT / "src/saccade/__init__.pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {
        "nodes of the package": package.nodes,
        "nodes of experiments": size(ROOT / "src/saccade/experiments").nodes,
        "nodes of tests": tests.nodes,
        "questions": len(answers),
        "claims": sum(sum(one["counts"].values()) + one["controls"] for one in answers.values()),
        "functions": package.functions,
        "private functions used once": package.used_once / package.functions,
        "tokens a line": package.tokens / package.lines,
        "public names": sum(len(one.names) for one in imports),
        "words of the README": len(readme.split()),
        "lines of the README": len(readme.splitlines()),
    }


def main() -> int:
    found = measured()
    for name, limit in LIMITS.items():
        mark = "" if found[name] <= limit else "  over"
        print(f"{name:28} {found[name]:>10,.4g} of {limit:>9,.4g}{mark}")
    return int(any(found[name] > limit for name, limit in LIMITS.items()))


if __name__ == "__main__":
    sys.exit(main())
