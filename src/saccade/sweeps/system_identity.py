"""What a system is, whatever made it: a hash of its class and of all that its methods can reach, by
value.

| reached                                 | counts                                                                              |
|-----------------------------------------|-------------------------------------------------------------------------------------|
| attributes of the system                | their values: numbers, arrays, tables, functions, other objects                     |
| code of one's own                       | bytecode, defaults, values from around it, the globals it names, the modules it     |
|                                         | imports, and so on from there                                                       |
| Saccade and other installed libraries   | the names that are used, and their versions                                         |

So comments and layout do not count, but a helper's constant does, wherever it stands. What a method
reads from a file each time it is called is not seen, nor is a module whose name it computes; what
it read before, into an attribute or a global, is.
"""

from __future__ import annotations

import dis
import hashlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property, partial
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from saccade.errors import InputError, shortened
from saccade.identity import computation, digest, distributions, is_installed, library_version
from saccade.later import jax
from saccade.models.system import System

_ATOMS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented))
_WITH_RULES, _RULES = (
    (jax.custom_vjp, jax.custom_jvp),
    ("fwd", "bwd", "jvp"),
)  # functions whose slope is given by others
_NO_PART = (
    "_abc_impl",
    "_equations",
)  # of a class, of a system: what Python and Saccade keep there for themselves


def system_identity(system: System, *settings: Any) -> str:
    """With these settings of an engine: equal for two systems only if the engine computes the same
    from both.
    """
    try:
        return digest([computation(), _Reached().told((system, *settings))])
    except RecursionError:
        raise InputError(
            f"{type(system).__name__} holds too much data to be compared with other systems; leave out `out`."
        ) from None


class _Reached:
    """Descriptions of values as JSON has them; of one that was described already, only which."""

    def __init__(self) -> None:
        self._known: dict[
            Any, tuple[int, Any]
        ] = {}  # the value too, so that its address stays its own

    def told(self, value: Any) -> Any:
        if isinstance(value, _ATOMS):
            return [type(value).__name__, repr(value)]
        if id(value) in self._known:
            return ["again", self._known[id(value)][0]]
        self._known[id(value)] = len(self._known), value
        describe = next(
            (describe for kinds, describe in self._descriptions() if isinstance(value, kinds)),
            self._object,
        )
        return [type(value).__qualname__, describe(value)]

    def _descriptions(self) -> Iterator[tuple[Any, Callable[[Any], Any]]]:
        yield type, self._class
        yield FunctionType, self._function
        yield CodeType, self._code
        yield ModuleType, lambda module: _named(module.__name__)
        yield (
            (MethodType, BuiltinFunctionType),
            lambda method: [method.__name__, self.told(method.__self__)],
        )
        yield (np.ndarray, np.generic, jax.Array), self._array
        yield (
            (list, tuple),
            lambda values: [self.told(type(values)), [self.told(item) for item in values]],
        )
        yield (
            (set, frozenset),
            lambda values: sorted(digest(_Reached().told(item)) for item in values),
        )
        yield (
            Mapping,
            lambda values: [
                self.told(type(values)),
                [[self.told(key), self.told(values[key])] for key in values],
            ],
        )
        yield property, lambda value: [self.told(part) for part in (value.fget, value.fset)]
        yield (staticmethod, classmethod), lambda value: self.told(value.__func__)
        yield (
            partial,
            lambda value: [self.told(part) for part in (value.func, value.args, value.keywords)],
        )

    def _function(self, function: Any) -> Any:
        """Where it was written, not what it says of itself: `functools.wraps` gives it the name of
        another.
        """
        around = [
            self.told(held) for cell in function.__closure__ or () for held in _contents(cell)
        ]
        code, there = function.__code__, function.__globals__
        if is_installed(home := there.get("__name__", "")):
            return [f"{_named(home)}:{code.co_qualname}", around]
        given = [
            self.told(part)
            for part in (function.__defaults__, function.__kwdefaults__, vars(function))
        ]
        reached = {name: there[name] for name in sorted(_globals_of(code)) if name in there}
        reached |= {
            name: _imported(name)
            for name in sorted(_imports_of(code, there.get("__package__") or ""))
        }
        return [
            self.told(code),
            given,
            around,
            [[name, self._global(value, code)] for name, value in reached.items()],
        ]

    def _global(self, value: Any, code: CodeType) -> Any:
        """Of a module of one's own, what the code may ask of it: the names that it has there."""
        if not isinstance(value, ModuleType) or is_installed(value.__name__):
            return self.told(value)
        if (id(value), id(code)) in self._known:
            return "again"
        self._known[id(value), id(code)] = len(self._known), (value, code)
        return [
            [name, self._global(getattr(value, name), code)]
            for name in sorted(_names_of(code))
            if hasattr(value, name)
        ]

    def _code(self, code: CodeType) -> Any:
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        numbers = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        parts = [
            code.co_code.hex(),
            code.co_exceptiontable.hex(),
            [*map(list, names)],
            list(numbers),
        ]
        return [*parts, [self.told(constant) for constant in code.co_consts]]

    def _class(self, value: type) -> Any:
        if (name := _library(value)) is not None:
            return name
        parts = {name: part for name, part in vars(value).items() if name not in _NO_PART}
        own = {
            name: part
            for name, part in parts.items()
            if not (name.startswith("__") and name.endswith("__")) or isinstance(part, FunctionType)
        }
        return [value.__qualname__, [self.told(base) for base in value.__bases__], self.told(own)]

    def _array(self, values: Any) -> Any:
        held = np.asarray(values)
        if held.dtype.hasobject:
            return [held.shape, [self.told(item) for item in held.ravel()]]
        return [str(held.dtype), held.shape, hashlib.sha256(held.tobytes()).hexdigest()]

    def _object(self, value: Any) -> Any:
        """Anything else: a function in a wrapping of JAX's or Python's, or an object with what it
        holds.
        """
        of_library = is_installed(type(value).__module__)
        if isinstance(value, cached_property):  # before Python 3.12 it holds a lock
            return self.told(value.func)
        if of_library and (inner := getattr(value, "__wrapped__", None)) is not None:
            rules = (
                [getattr(value, name, None) for name in _RULES]
                if isinstance(value, _WITH_RULES)
                else []
            )
            return [self.told(inner), self.told(rules)]
        if of_library and (name := _library(value)) is not None:
            return name
        if of_library and is_dataclass(value):  # which may keep more beside its fields
            return [
                self.told(type(value)),
                self.told(
                    {field.name: getattr(value, field.name, None) for field in fields(value)}
                ),
            ]
        if isinstance(value, System):
            return [
                self.told(type(value)),
                self.told(
                    {name: held for name, held in vars(value).items() if name not in _NO_PART}
                ),
            ]
        try:
            parts = value.__reduce_ex__(4)
        except Exception as error:  # whatever an object says that cannot be written down
            raise InputError(
                f"`sweep` with `out` cannot tell {shortened(value)} from another of its kind ({shortened(error)}): "
                "let the system hold plain values, or leave out `out`."
            ) from None
        return (
            parts
            if isinstance(parts, str)
            else [self.told(list(p) if isinstance(p, Iterator) else p) for p in parts]
        )


def _contents(cell: CellType) -> list[Any]:
    """What stands in a variable around a function; nothing, if nothing does yet."""
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


def _library(value: Any) -> str | None:
    """The name of what an installed library or Python itself defines, with the version; None of
    anything else.
    """
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    return (
        f"{_named(module)}:{name}"
        if isinstance(module, str) and isinstance(name, str) and is_installed(module)
        else None
    )


def _named(module: str) -> str:
    return f"{module} {' '.join(map(library_version, distributions().get(module.partition('.')[0], [])))}"


def _imported(module: str) -> Any:
    """A module that code imports when it is called; of an installed one its name is enough, and one
    that is not there is not.
    """
    if is_installed(module):
        return _named(module)
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def _globals_of(code: CodeType) -> set[str]:
    """Globals that code, or code within it, names."""
    found = {
        str(step.argval)
        for step in dis.get_instructions(code)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    return found.union(
        *(_globals_of(inner) for inner in code.co_consts if isinstance(inner, CodeType))
    )


def _imports_of(code: CodeType, package: str) -> set[str]:
    """Modules that code, or code within it, imports."""
    steps, found = [*dis.get_instructions(code)], set()
    for level, step in zip(
        steps, steps[2:], strict=False
    ):  # between the two stand the names that are imported from there
        if step.opname == "IMPORT_NAME":
            found.add(
                importlib.util.resolve_name("." * level.argval + step.argval, package)
                if level.argval
                else step.argval
            )
    return found.union(
        *(_imports_of(inner, package) for inner in code.co_consts if isinstance(inner, CodeType))
    )


def _names_of(code: CodeType) -> set[str]:
    return {*code.co_names}.union(
        *(_names_of(inner) for inner in code.co_consts if isinstance(inner, CodeType))
    )
