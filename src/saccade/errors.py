"""The one error a user's input may raise, and the checks that several parts share.

An `InputError` is a sentence for the person who typed the input: which argument, what came, what is
allowed, what to do. The command line prints it and exits with code 2; anything else that is raised
is a defect of Saccade itself.
"""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


class InputError(ValueError):
    """Invalid input, explained in one sentence."""


def checked_number(
    name: str, value: object, *, low: float, high: float = math.inf, open_low: bool = False
) -> float:
    """`value` as a float in [low, high] (or (low, high]); `high=math.inf` admits infinity itself."""
    allowed = f"a number {'above' if open_low else 'of at least'} {low:g}" + (
        f", at most {high:g}" if high < math.inf else ""
    )
    number = _as_float(value)
    if number is None:
        raise InputError(f"`{name}` must be {allowed}; got {shortened(value)}.")
    if math.isnan(number) or number < low or number > high or (open_low and number == low):
        raise InputError(f"`{name}` must be {allowed}; got {number:g}.")
    return number


def checked_count(name: str, value: object, *, low: int = 1, high: float = math.inf) -> int:
    """`value` as a whole number from `low` to `high`."""
    number = _as_float(value)
    if number is None or not number.is_integer() or not low <= number <= high:
        allowed = f"of at least {low}" if high == math.inf else f"from {low} to {high:g}"
        raise InputError(f"`{name}` must be a whole number {allowed}; got {shortened(value)}.")
    return int(number)


def checked_seed(name: str, value: object) -> int:
    """`value` as the name of a random stream, kept to the last digit."""
    if (
        isinstance(value, bool)
        or not isinstance(value, numbers.Integral)
        or not 0 <= int(value) < 2**63
    ):
        wanted = "whole numbers" if name.endswith("s") else "a whole number"
        raise InputError(f"`{name}` must be {wanted} from 0 to 2**63 - 1; got {shortened(value)}.")
    return int(value)


def checked_size(name: str, value: object, *, high: float) -> float:
    """A whole number from 1 to `high`, or infinity."""
    infinite = isinstance(value, float) and value == math.inf
    return math.inf if infinite else float(checked_count(name, value, high=high))


def checked_list(name: str, values: object, *, low: float, high: float = 1e30) -> list[float]:
    """`values` as numbers in [low, high], at least one and none twice."""
    if not isinstance(values, list | tuple) or len(values) == 0:
        raise InputError(f"`{name}` must list at least one number; got {shortened(values)}.")
    numbers = [checked_number(name, value, low=low, high=high) for value in values]
    if len(set(numbers)) < len(numbers):
        raise InputError(f"`{name}` must not list a value twice; got {shortened(values)}.")
    return numbers


def _as_float(value: object) -> float | None:
    """A real number that fits a float; None for anything else, and for True and False."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def shortened(value: object) -> str:
    """`value` as it would be typed, cut to what fits a sentence."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def checked_choice(name: str, value: object, choices: Iterable[str], shown_by: str = "") -> str:
    """`value` if it is one of `choices`; otherwise an error that names the nearest, and all, or the
    command that shows them.
    """
    options = list(choices)
    if isinstance(value, str) and value in options:
        return value
    near = difflib.get_close_matches(str(value), options, n=3 if shown_by else 1)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    between = "; " if any("," in option for option in options) else ", "
    rest = f"`{shown_by}` shows all" if shown_by else f"Known: {between.join(options)}"
    raise InputError(f"{name} {shortened(value)} is not known.{hint} {rest}.")


def checked_kind(name: str, value: object, kind: type[T]) -> T:
    """`value` if it is a `kind`."""
    if not isinstance(value, kind):
        raise InputError(f"`{name}` must be a {kind.__name__}; got {shortened(value)}.")
    return value


def checked_kept(keep: object, choices: Sequence[str]) -> None:
    """Names of variables to keep: a list of some of `choices`."""
    if not is_list_like(keep):
        raise InputError(
            f"`keep` must be a list of variables, of {', '.join(choices)}; got {shortened(keep)}."
        )
    for name in keep:  # type: ignore[attr-defined]
        checked_choice("`keep` variable", name, choices)


def is_list_like(value: object) -> bool:
    """Lists, tuples and arrays with an axis; not text, sets, mappings or single values."""
    return isinstance(value, list | tuple | range) or getattr(value, "ndim", 0) > 0
