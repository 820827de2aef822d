"""What a number depends on, in one place: two runs have one identity only if all of this is equal.

| part                  | what counts                                                             |
|-----------------------|-------------------------------------------------------------------------|
| Saccade               | every .py and .c file of the package, as written                        |
| compiled C            | which libraries are used, and the instructions they chose at run time   |
| libraries             | their versions, and that of Python                                      |
| a user's experiment   | its file and the files that it imports, as written; installed packages  |
|                       | by version                                                              |
| settings              | all of them; texts and tables of classes that they name by content      |

Not here: the instructions that XLA, BLAS and PyTorch choose, which may move last bits between
processors of different kinds.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from typing import Any

from saccade.compiled import compiled_code
from saccade.data.text.cache import content_hash
from saccade.data.text.sources import found_source
from saccade.errors import InputError, shortened
from saccade.records.json_files import json_ready

_JSON = json.JSONEncoder(sort_keys=True, allow_nan=False)
_LIBRARIES = ("jax", "jaxlib", "numpy", "optax", "scipy", "tokenizers", "torch", "xarray")
_TEXTS, _TABLE = ("text", "texts"), "classes"  # settings that name files


def computation(own: str = "") -> dict[str, str]:
    """All that computes, by name. `own`: the file of a user's experiment, which is read, not run."""
    return _saccade() | (_own_code(own) if own else {})


def user_files(settings: Any, own: str = "") -> dict[str, str]:
    """What a result depends on beside Saccade and its libraries."""
    return (_own_code(own) if own else {}) | contents(vars(settings).items())


@cache
def _saccade() -> dict[str, str]:
    root = Path(__file__).parent
    files = sorted(path for path in root.rglob("*") if path.suffix in (".py", ".c"))
    written = digest([[str(path.relative_to(root)), _hash(path)] for path in files])[:20]
    python = ".".join(map(str, sys.version_info[:2]))
    versions = {name: library_version(name) for name in _LIBRARIES}
    return {"Saccade": written, "compiled C": compiled_code(), "Python": python} | versions


def _own_code(file: str) -> dict[str, str]:
    """A user's file and what it imports, by names that do not say in which folder they are."""
    found: dict[str, str] = {}
    waiting = [(Path(file).name, Path(file))]
    while waiting:
        name, path = waiting.pop()
        if name in found:
            continue
        found[name] = _hash(path)
        for imported in _imported(path) if path.suffix == ".py" else ():
            if is_installed(imported):
                found |= {of: library_version(of) for of in distributions().get(imported, ())}
            else:
                waiting += _files_of(imported).items()
    return found


def _imported(path: Path) -> Iterator[str]:
    """Top-level names of the modules that a file imports, wherever in it."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{path} cannot be read: {shortened(error)}.") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


def _files_of(module: str) -> dict[str, Path]:
    """Files of a module that is not installed; all those of a package, so that its own imports
    count.
    """
    spec = _spec(module)
    found: dict[str, Path] = {}
    for folder in map(Path, (spec and spec.submodule_search_locations) or ()):
        found |= {str(file.relative_to(folder.parent)): file for file in folder.rglob("*.py")}
    if spec and spec.has_location and not found:
        found[Path(spec.origin).name] = Path(spec.origin)
    return found


def _spec(module: str) -> Any:
    """Where a top-level module comes from; nothing is imported."""
    try:
        known = sys.modules.get(module)
        return known.__spec__ if known is not None else importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None


@cache
def is_installed(module: str) -> bool:
    """Whether a module is Saccade's, a library's or Python's own; all else may change from one call
    to the next.
    """
    top = module.partition(".")[0]
    if top == "saccade" or top in sys.stdlib_module_names:
        return top != "__main__"
    spec = _spec(top)
    parts = [spec.origin, *(spec.submodule_search_locations or ())] if spec is not None else []
    places = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    return any(Path(part).is_relative_to(place) for part in parts if part for place in places)


@cache
def distributions() -> Mapping[str, list[str]]:
    """From top-level modules to what they were installed as."""
    return packages_distributions()


def library_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def contents(settings: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Hashes of the texts and tables that settings name, by those names."""
    found = {}
    for setting, value in settings:
        for name in _files_in(setting, value):
            if setting in _TEXTS:
                found[name] = content_hash(found_source(name).files)
            elif os.path.isfile(name):
                found[name] = _hash(Path(name))
    return found


def _files_in(setting: str, value: Any) -> list[str]:
    if setting not in (*_TEXTS, _TABLE) or not value:
        return []
    return [str(name) for name in (value if isinstance(value, list | tuple) else [value])]


def identities(
    name: str,
    settings: Mapping[str, Any],
    code: Any,
    files: Mapping[str, str],
) -> Callable[[Mapping[str, Any]], str]:
    """From changed settings to the identity of the run that has them, and all others as in
    `settings`, also as JSON has them. `files`: contents of what all of them name.

    Twenty hexadecimal digits: two of a million runs share one by chance once in 10^12 sweeps.
    """

    def written(setting: str, value: Any) -> str:
        held = [files.get(file, "") for file in _files_in(setting, value)]
        return f"{setting}={json_ready(value, str)!r}{held or ''}"

    texts = {setting: written(setting, value) for setting, value in sorted(settings.items())}
    first = f"{name};{digest(code)}"

    def identity(changed: Mapping[str, Any]) -> str:
        parts = texts | {setting: written(setting, value) for setting, value in changed.items()}
        return hashlib.sha256(";".join((first, *parts.values())).encode()).hexdigest()[:20]

    return identity


def digest(value: Any) -> str:
    return hashlib.sha256(_JSON.encode(value).encode()).hexdigest()


def differences(
    one: Mapping[str, str], other: Mapping[str, str], words: tuple[str, str] = ("then", "now")
) -> str:
    """Of two computations, part by part; nothing if they are equal."""
    return ", ".join(
        f"{name}: {one.get(name, 'nothing')!r} {words[0]}, {other.get(name, 'nothing')!r} {words[1]}"
        for name in {**one, **other}
        if one.get(name) != other.get(name)
    )


def _hash(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()[:20]
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}.") from None
