"""How often a command of Saccade crosses files: `python -m tools.file_crossings run scan-then-snap
--t1 1e6 [--list]`.

Counts distinct pairs (caller, callee) of functions in different files of the package, in this
process: a measure of how many files a reader has to hold in mind at once. Calls by way of a library
(JAX tracing a loss, SciPy asking for a velocity) count for the nearest function of the package on
the stack. Bodies of modules and classes are no functions, and lambdas and comprehensions belong to
the function around them. Importing is no call, also where it waits for a library's first use
(`later.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import saccade
from saccade import cli

PACKAGE = str(Path(saccade.__file__).parent)
IMPORTING = "later.py"


class Function(NamedTuple):
    file: str
    name: str


class Crossing(NamedTuple):
    caller: Function
    callee: Function

    def __str__(self) -> str:
        return f"{self.caller.file}:{self.caller.name} -> {self.callee.file}:{self.callee.name}"


def crossings(act: Callable[[], Any]) -> set[Crossing]:
    """The pairs met while `act` runs; it may end in SystemExit."""
    found: set[Crossing] = set()
    known: dict[CodeType, Function | None] = {}

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or (callee := _function(frame.f_code, known)) is None:
            return
        back = frame.f_back
        while back is not None and (caller := _function(back.f_code, known)) is None:
            if back.f_code.co_filename.startswith(PACKAGE) and back.f_code.co_name == "<module>":
                return  # what an import does is not a call of one function by another
            back = back.f_back
        if back is not None and caller is not None and caller.file != callee.file:
            found.add(Crossing(caller, callee))

    sys.setprofile(watch)
    try:
        act()
    except SystemExit:
        pass
    finally:
        sys.setprofile(None)
    return found


def _function(code: CodeType, known: dict[CodeType, Function | None]) -> Function | None:
    """The function of the package that a piece of code belongs to; None for other code, and for
    bodies of modules and classes.
    """
    if code not in known:
        inside = code.co_filename.startswith(PACKAGE)
        name = code.co_qualname.split(".<locals>")[0]
        is_function = (
            inside and not name.startswith("<") and bool(code.co_flags & 0x2)
        )  # CO_NEWLOCALS: classes and modules lack it
        file = code.co_filename.removeprefix(PACKAGE).lstrip("/")
        known[code] = Function(file, name) if is_function and file != IMPORTING else None
    return known[code]


def main(arguments: list[str]) -> None:
    wanted = [argument for argument in arguments if argument != "--list"]
    found = crossings(lambda: cli.main(wanted))
    if "--list" in arguments:
        print("\n".join(sorted(map(str, found))))
    print(
        f"{len(found)} calls between functions of different files, {len({pair.callee.file for pair in found})} files called"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
