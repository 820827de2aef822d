"""Which values the settings of an experiment may have: their declarations, checked before anything runs.

Numbers are finite, and at most 1e30 in size. Whole numbers are at least 1, or 0 if a default is, and at most 1e9. A setting whose
default lists something lists something. Another range is declared with the type: `stay: Annotated[float, Range(-1, 1)] = 0.5`.
Seeds are names, not sizes: a setting whose name ends in `seed` is a whole number from 0 to 2**63 - 1; `seeds` are checked where
they are used.
"""

from __future__ import annotations

import math
from dataclasses import MISSING, fields
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

from saccade.errors import InputError, checked_count, checked_number, checked_seed

_MOST, _MOST_COUNT = 1e30, 10**9


class Range(NamedTuple):
    """From the lowest value to the highest, both allowed."""

    low: float
    high: float


def check_settings(settings: Any) -> None:
    """An `InputError` that names the first setting that is out of its range."""
    hints = get_type_hints(type(settings), include_extras=True)
    for field in fields(settings):
        value, declared = getattr(settings, field.name), _declared(hints[field.name])
        if field.name.endswith("seed"):
            checked_seed(field.name, value)
        if field.name == "seeds" or field.name.endswith("seed"):
            continue
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if isinstance(default, tuple) and default and value == ():
            raise InputError(f"`{field.name}` must list at least one value; got none.")
        for number in _numbers(value):
            usual = _numbers(default)
            counts = all(isinstance(one, int) for one in (number, *usual))  # 1 may stand for a setting that is 0.5 by default
            _check(field.name, number, declared, min([1, *usual]), counts)


def _check(name: str, number: float, declared: Range | None, low: float, counts: bool) -> None:
    if declared is not None:
        checked_number(name, number, low=declared.low, high=declared.high)
    elif counts:
        checked_count(name, number, low=math.floor(low))
        checked_count(name, number, low=math.floor(low), high=_MOST_COUNT)
    elif not abs(number) <= _MOST:
        raise InputError(f"`{name}` must be a number of at most {_MOST:g} in size; got {number}.")


def _declared(hint: Any) -> Range | None:
    marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((mark for mark in marks if isinstance(mark, Range)), None)


def _numbers(value: Any) -> list[float]:
    """The numbers of a setting: itself, or what it lists."""
    if isinstance(value, list | tuple):
        return [number for item in value for number in _numbers(item)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []
