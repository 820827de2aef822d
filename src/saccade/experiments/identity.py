"""What a run is: the hash of its experiment, of its complete settings, and of the code that matters
to its numbers.

That code is every module of Saccade that the experiment's module imports, directly or not, without
what only shows (`report`), the two modules of sweeps that compute runs, and the versions of the
numerical libraries; beside it, the texts that the settings name. Comments, docstrings and layout do
not count: a module is hashed as its syntax tree.

A result has an identity too. It takes milliseconds, since nothing is parsed: all of Saccade but
what only shows counts, as written.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import saccade
from saccade.data.text.cache import content_hash
from saccade.data.text.sources import NAMES, found_source
from saccade.records.json_files import json_ready

_JSON = json.JSONEncoder(sort_keys=True, allow_nan=False)
_COMPUTES = (
    "saccade.sweeps.execution",
    "saccade.sweeps.units",
)  # who is computed with whom, and what is kept of a record
_SHOWS = ("saccade.report", "saccade.cli", "saccade.playground", "saccade.sweeps")
_LIBRARIES = ("jax", "jaxlib", "numpy", "optax", "scipy")
_OF_TEXT = (
    "saccade.experiments.real_text",
    ("torch", "tokenizers"),
)  # experiments there use these as well


def result_identity(name: str, settings: Any, files: Mapping[str, str]) -> str:
    """Of a result of the experiment `name` with these `user_files`: the same as long as its numbers
    would be.
    """
    return digest(
        [name, repr(settings), written_code(), list(files.values()), text_version(settings)]
    )


def user_files(settings: Any, own: str = "") -> dict[str, str]:
    """Hashes of the user's files that a result comes from: an experiment of their own, a table of
    classes, files of text.
    """
    files = (
        file
        for file in (own, getattr(settings, "classes", ""))
        if isinstance(file, str) and os.path.isfile(file)
    )
    texts = (text for text in _texts(settings) if text not in NAMES)
    return {file: _hash(Path(file)) for file in files} | {
        str(text): content_hash(found_source(text).files) for text in texts
    }


@cache
def written_code() -> str:
    """Hash of all files of Saccade that numbers may come from, and of the versions of the numerical
    libraries.
    """
    root = Path(saccade.__file__).parent
    files = {
        ".".join(("saccade", *file.relative_to(root).with_suffix("").parts)): file
        for file in root.rglob("*.py")
    }
    files |= {file.name: file for file in root.rglob("*.c")}
    hashes = {name: _hash(file) for name, file in files.items() if not name.startswith(_SHOWS)}
    return digest([hashes, {name: library_version(name) for name in (*_LIBRARIES, *_OF_TEXT[1])}])


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def text_version(config: Any) -> str:
    """Hash of the whole texts that settings name."""
    return digest([content_hash(found_source(name).files) for name in _texts(config)])[:20]


def _texts(settings: Any) -> list[str]:
    return [
        name for name in (*getattr(settings, "texts", ()), getattr(settings, "text", "")) if name
    ]


def identities(
    name: str, settings: Mapping[str, Any], code: str
) -> Callable[[Mapping[str, Any]], str]:
    """From changed settings to the identity of the run that has them, and all others as in
    `settings`, also as JSON has them.

    Twenty hexadecimal digits: two of a million runs share one by chance once in 10^12 sweeps.
    """
    texts = {setting: _written(setting, value) for setting, value in sorted(settings.items())}

    def identity(changed: Mapping[str, Any]) -> str:
        all_texts = texts | {
            setting: _written(setting, value) for setting, value in changed.items()
        }
        return hashlib.sha256(";".join((name, code, *all_texts.values())).encode()).hexdigest()[:20]

    return identity


def _written(setting: str, value: Any) -> str:
    """A setting as text; of a CSV file of classes also what it holds."""
    text = f"{setting}={json_ready(value, str)!r}"
    if setting == "classes" and isinstance(value, str) and os.path.isfile(value):
        return f"{text} {_hash(Path(value))}"
    return text


def digest(value: Any) -> str:
    return hashlib.sha256(_JSON.encode(value).encode()).hexdigest()


def code_version(module: str) -> str:
    """Hash of all code that the numbers of `module` come from, a module of Saccade or the path of a
    user's file.
    """
    return _code_version(
        module, Path(module).read_text(encoding="utf-8") if _is_own(module) else ""
    )


@cache
def _code_version(module: str, own: str) -> str:
    """`own`: what a user's file holds, which may change while this process lives."""
    names = sorted(_closure(module) | {*_COMPUTES})
    trees = {
        Path(name).name: hashlib.sha256(_meaning(_tree(name)).encode()).hexdigest()
        for name in names
    }  # wherever a file lies
    for name in ("descent_kernel", "flow_kernel"):
        if f"saccade.dynamics.{name}" in names:
            trees[f"{name}.c"] = _hash(Path(saccade.__file__).with_name("dynamics") / f"{name}.c")
    package, more = _OF_TEXT
    libraries = (*_LIBRARIES, *(more if any(name.startswith(package) for name in names) else ()))
    return digest(
        {"modules": trees, "libraries": {name: library_version(name) for name in libraries}}
    )[:20]


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
    """Modules of Saccade that `module` names: in imports, wherever they stand, and as public names,
    `saccade.train`.
    """
    called = {"saccade"}  # also `import saccade as sc`
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            called |= {name.asname for name in node.names if name.name == "saccade" and name.asname}
            yield from (name.name for name in node.names if name.name.startswith("saccade."))
        elif (
            isinstance(node, ast.ImportFrom)
            and (source := _source(node, module)).split(".")[0] == "saccade"
        ):
            for name in node.names:
                inner = f"{source}.{name.name}"
                yield (
                    inner
                    if _path(inner)
                    else saccade._PUBLIC.get(name.name, source)
                    if source == "saccade"
                    else source
                )
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in called
        ):
            yield from [saccade._PUBLIC[node.attr]] if node.attr in saccade._PUBLIC else []


def _source(node: ast.ImportFrom, module: str) -> str:
    """The module that something is imported from, with the dots of a relative import resolved."""
    path = _path(module)
    package = (
        module if path is not None and path.name == "__init__.py" else module.rpartition(".")[0]
    )
    return importlib.util.resolve_name("." * node.level + (node.module or ""), package)


@cache
def _path(module: str) -> Path | None:
    """The file of a module of Saccade; found by its place, since asking Python would import the
    packages around it.
    """
    if _is_own(module):
        return Path(module)
    package, *parts = module.split(".")
    folder = Path(saccade.__file__).parent.joinpath(*parts)
    found = (folder / "__init__.py", folder.with_suffix(".py"))
    return next((path for path in found if package == "saccade" and path.is_file()), None)


def _is_own(module: str) -> bool:
    """Whether it is the path of a user's own file."""
    return module.endswith(".py")


def _tree(module: str) -> ast.Module:
    path = _path(module)
    return _parsed(path.read_text(encoding="utf-8") if path is not None else "")


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _meaning(tree: ast.Module) -> str:
    """The tree as text, without positions and without text that stands by itself, as docstrings do."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [
                line
                for line in node.body
                if not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
            ]
    return ast.dump(tree)


def library_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
