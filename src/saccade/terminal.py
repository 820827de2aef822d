"""Terminal input and output: flags, progress bars, and text that may be piped."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import field, is_dataclass, make_dataclass
from itertools import takewhile
from typing import Annotated, Any, get_args

from saccade.errors import InputError

_ENDLESS = 10_000  # columns of a pipe or file: nothing is broken or cut there
JSON = (bool, False, "print the result as JSON")


def flags(arguments: list[str], purpose: str, example: str, **fields: tuple[Any, Any, str]) -> Any:
    """A command's arguments, read by tyro into a dataclass with these fields: name=(type, default,
    help). Its `--help` begins with `purpose`, one sentence, and `example`, a call that works.
    """
    import tyro

    declared = []
    for name, (kind, default, meaning) in fields.items():
        shown: dict[str, Any] = {"help": meaning}
        if default is None or default is False or default in ("", ()):
            shown["help_behavior_hint"] = ""  # "(default: None)" would say nothing
        if type(None) in get_args(kind):
            shown["metavar"] = get_args(kind)[0].__name__.upper()  # INT, not {None}|INT
        elif "Positional" in map(str, getattr(kind, "__metadata__", ())):
            shown["metavar"] = name.upper() if default is tyro.MISSING else f"[{name.upper()}]"
        kind = Annotated[kind, tyro.conf.arg(**shown)]
        if not (is_dataclass(default) and any(value is True for value in vars(default).values())):
            kind = Annotated[
                kind, tyro.conf.FlagCreatePairsOff
            ]  # else `--no-x` alone, which the words of `x` do not describe
        declared.append((name, kind, field(default=default)))
    kind = make_dataclass("Options", declared, namespace={"__doc__": None})
    words = example.rpartition(" && ")[2].split()
    said, prog = io.StringIO(), " ".join(words[: 3 if words[1] == "run" else 2])
    try:
        with contextlib.redirect_stderr(said), _seeds_as_typed():
            description = f"{purpose}\n\nExample: {example}"
            return tyro.cli(
                kind,
                args=arguments,
                prog=prog,
                description=description,
                config=(tyro.conf.OmitArgPrefixes,),
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        raise InputError(
            _sentence(said.getvalue(), prog)
        ) from None  # tyro's boxed error as one sentence


_COUNT_OR_LIST = int | tuple[int, ...]


def _seeds_as_typed() -> Any:
    """How tyro reads a count or a list: `3` is a count; `4 7`, `4,7` and, of one, `7,` are lists."""
    from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

    registry = ConstructorRegistry()

    @registry.primitive_rule
    def count_or_list(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
        if info.type != _COUNT_OR_LIST:
            return None
        return PrimitiveConstructorSpec(
            nargs="*",
            metavar="COUNT|SEED,|SEED SEED ...",
            instance_from_str=_count_or_list,
            is_instance=lambda value: isinstance(value, int | tuple),
            str_from_instance=_as_typed,
        )

    return registry


def _as_typed(value: int | tuple[int, ...]) -> list[str]:
    if isinstance(value, tuple):
        return [f"{value[0]},"] if len(value) == 1 else list(map(str, value))
    return [str(value)]


def _count_or_list(words: list[str]) -> int | tuple[int, ...]:
    text = " ".join(words)
    parts = [part for part in re.split(r"[\s,]+", text) if part]
    for part in parts:
        if not re.fullmatch(r"[+-]?\d+", part):
            raise ValueError(
                f"must be a whole number, or several of them (one seed has a comma: 7,); got {part!r}"
            )
    numbers = tuple(map(int, parts))
    return numbers[0] if len(numbers) == 1 and "," not in text else numbers


_RULE = re.compile(r"^\s*[─-]+$")


def _sentence(boxed: str, prog: str) -> str:
    """The first sentence in a box of tyro's, with the option it thinks was meant."""
    either = re.search(
        r"Error parsing (\S+): no type matching .*?invalid literal for int\(\) with base 10: ('.*?')",
        boxed,
        re.DOTALL,
    )
    if either:
        return f"`{either[1]}` must be a whole number; got {either[2]}. See `{prog} --help`."
    lines = [re.sub(r"^[│|]\s?|\s*[│|]$", "", line).rstrip() for line in boxed.splitlines()]
    text = [line for line in lines if line and not re.match(r"^[╭╰]", line)]
    if "╭" not in boxed:  # where boxes cannot be drawn, the title stands on a rule
        text = text[2:]
    first = " ".join(map(str.strip, takewhile(lambda line: not _RULE.match(line), text))).rstrip(
        "."
    )
    first = re.sub(
        r"Error parsing (\S+): invalid literal for int\(\) with base 10: ",
        r"`\1` must be a whole number; got ",
        first,
    )
    first = re.sub(
        r"Error parsing (\S+): could not convert string to float: ",
        r"`\1` must be a number; got ",
        first,
    )
    first = re.sub(r"Error parsing (\S+): must be", r"`\1` must be", first)
    meant = re.search(r"Perhaps you meant:\s*\n\s*(--[\w-]+)", "\n".join(text))
    return f"{first}." + (f" Did you mean {meant[1]}?" if meant else "") + f" See `{prog} --help`."


@contextlib.contextmanager
def progress(label: str) -> Iterator[Callable[..., None]]:
    """A bar on the terminal's error stream that goes when the work is done; nothing where there is
    no terminal.

    Call it with the fraction that is done and, when the work changes, another label.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    errors = Console(stderr=True)
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task(label, total=1.0)
        yield lambda fraction, label=None: bar.update(task, completed=fraction, description=label)


def console() -> Any:
    from rich.console import Console

    class Pipeable(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would exit with 1; `main` knows better

    return Pipeable(width=None if sys.stdout.isatty() else _ENDLESS)
