"""What a run is: the hash of its experiment, of its complete settings, and of the code that matters to its numbers.

That code is every module of Saccade that the experiment's module imports, directly or not, without what only shows (`report`), and
the versions of the numerical libraries. Comments, docstrings and layout do not count: a module is hashed as its syntax tree.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import saccade
from saccade.records.schema import json_ready

_SHOWS = ("saccade.report", "saccade.cli", "saccade.playground", "saccade.sweeps")
_LIBRARIES = ("jax", "jaxlib", "numpy", "optax", "scipy")
_OF_TEXT = ("saccade.experiments.real_text", ("torch", "tokenizers"))  # experiments there use these as well


def run_identity(name: str, config: Any, code: str) -> str:
    """Twenty hexadecimal digits: two of a million runs share one by chance once in 10^12 sweeps."""
    return digest({"experiment": name, "settings": json_ready(asdict(config)), "code": code})[:20]


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()


@cache
def code_version(module: str) -> str:
    """Hash of all code that the numbers of `module` come from."""
    trees = {name: hashlib.sha256(_meaning(_tree(name)).encode()).hexdigest() for name in sorted(_closure(module))}
    package, more = _OF_TEXT
    libraries = (*_LIBRARIES, *(more if module.startswith(package) else ()))
    return digest({"modules": trees, "libraries": {name: _version(name) for name in libraries}})[:20]


def _closure(module: str) -> set[str]:
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [imported for imported in _imported(name) if not imported.startswith(_SHOWS)]
    return found


def _imported(module: str) -> Iterator[str]:
    """Modules of Saccade that `module` names: in imports, wherever they stand, and as public names, `saccade.train`."""
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith("saccade."))
        elif isinstance(node, ast.ImportFrom) and (source := _source(node, module)).split(".")[0] == "saccade":
            for name in node.names:
                inner = f"{source}.{name.name}"
                yield inner if _path(inner) else saccade._PUBLIC.get(name.name, source) if source == "saccade" else source
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "saccade":
            yield from [saccade._PUBLIC[node.attr]] if node.attr in saccade._PUBLIC else []


def _source(node: ast.ImportFrom, module: str) -> str:
    """The module that something is imported from, with the dots of a relative import resolved."""
    path = _path(module)
    package = module if path is not None and path.name == "__init__.py" else module.rpartition(".")[0]
    return importlib.util.resolve_name("." * node.level + (node.module or ""), package)


@cache
def _path(module: str) -> Path | None:
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return None
    return Path(found.origin) if found is not None and found.origin is not None else None


@cache
def _tree(module: str) -> ast.Module:
    path = _path(module)
    return ast.parse(path.read_text(encoding="utf-8") if path is not None else "")


def _meaning(tree: ast.Module) -> str:
    """The tree as text, without positions and without text that stands by itself, as docstrings do."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [line for line in node.body if not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))]
    return ast.dump(tree)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
