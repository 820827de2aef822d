"""Training goes on whatever goes wrong in watching it: an error becomes a warning, given once, and
watching goes on if it can.

Mistakes that are found before training are raised as ever: `watch` and entering its block are not
guarded. Ctrl-C and `sys.exit` pass: they are no errors but somebody's wish to end the process. So
does whatever a signal handler of the user raises, a job's that is told to stop say. Only where a
tracker calls `sys.exit` because it failed itself, training goes on.
"""

from __future__ import annotations

import functools
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from saccade.errors import InputError

P = ParamSpec("P")
_OWN = str(Path(__file__).parents[1])  # files of this package
_CONTEXTS = contextmanager.__code__.co_filename


class Guard:
    """Ends errors: each kind is said once. `what` names what could not be done, and what is done
    instead.
    """

    def __init__(self) -> None:
        self._said: set[tuple[str, type]] = set()

    @contextmanager
    def __call__(self, what: str, *, may_exit: bool = True) -> Iterator[None]:
        """`may_exit`: `sys.exit` passes wherever it comes from."""
        try:
            yield
        except BaseException as error:
            if isinstance(
                error, (KeyboardInterrupt, SystemExit) if may_exit else KeyboardInterrupt
            ) or _is_of_a_signal(error):
                raise
            if (what, type(error)) not in self._said:
                self._said.add((what, type(error)))
                kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
                warn(f"{what} ({kind}{_words(error)}); training goes on.")


def _is_of_a_signal(error: BaseException) -> bool:
    """Whether a signal handler raised it, which may run at any moment, in the middle of a tracker's
    code too.
    """
    handlers = {_code(signal.getsignal(number)) for number in signal.valid_signals()}
    return any(frame.f_code in handlers for frame, _ in traceback.walk_tb(error.__traceback__))


def _code(handler: Any) -> Any:
    """Of a function, a method, a partial of either, or an object that can be called; None if it is
    not Python.
    """
    while isinstance(handler, functools.partial):
        handler = handler.func
    called = (
        handler if hasattr(handler, "__code__") or not callable(handler) else type(handler).__call__
    )
    return getattr(called, "__code__", None)


def _words(error: BaseException) -> str:
    """What an error says, if it can."""
    try:
        return str(error).strip().rstrip(".")
    except Exception:
        return "it cannot say why"


class Guarded(Protocol):
    guard: Guard


G = TypeVar("G", bound=Guarded)


def guarded(method: Callable[Concatenate[G, P], None]) -> Callable[Concatenate[G, P], None]:
    """A method out of which no error comes."""

    @functools.wraps(method)
    def call(self: G, /, *arguments: P.args, **named: P.kwargs) -> None:
        with self.guard(f"`{method.__name__}` failed"):
            method(self, *arguments, **named)

    return call


def warn(sentence: str) -> None:
    """A warning; where warnings are errors, or cannot be shown, words on standard error."""
    try:
        warnings.warn(f"saccade: {sentence}", stacklevel=_level_of_the_user())
    except (
        Exception
    ):  # a warning that is an error, or whatever the user's own way of showing one raises
        say(sentence)


def _level_of_the_user() -> int:
    """How many calls above `warn` the user's own code is, which a warning should point to."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(_OWN) or frame.f_code.co_filename == _CONTEXTS
    ):
        level, frame = level + 1, frame.f_back
    return level


def say(sentence: str) -> None:
    """Words on standard error, if that can be written to: it may lie on a full disk."""
    with suppress(Exception):  # whatever stands for standard error
        print(f"saccade: {sentence}", file=sys.stderr)
