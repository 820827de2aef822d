"""Which values the settings of an experiment may have: their declarations, checked before anything
runs.

A setting is a number, a text, a bool, one of some choices (`Literal["sgd", "adam"]`), or a tuple of
these: a record can keep it. Numbers are finite, and at most 1e30 in size. Whole numbers are at
least 1, or 0 if a default is, and at most 1e9. A setting whose default lists something lists
something. Another range is declared with the type: `stay: Annotated[float, Range(-1, 1)] = 0.5`. A
setting whose name ends in `ratio` or `ratios` is above 0, since rates are divided by it. Seeds are
names, not sizes: a setting whose name ends in `seed` is a whole number from 0 to 2**63 - 1, and so
is every number of `seeds`; how many there may be is checked where they are used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import MISSING, asdict, fields
from functools import cache
from typing import Any, NamedTuple, get_args, get_type_hints

from saccade.errors import InputError, checked_count, checked_number, checked_seed
from saccade.records.schema import restored_settings

_MOST, _MOST_COUNT = 1e30, 10**9


class Range(NamedTuple):
    """From the lowest value to the highest, both allowed; a setting that lists some has at least so
    many.
    """

    low: float
    high: float
    least: int = 1


def check_settings(settings: Any) -> None:
    """An `InputError` that names the first setting that a record could not keep, or that is out of
    its range.
    """
    restored_settings(asdict(settings), type(settings))
    for field in fields(settings):
        check_values(type(settings), field.name, [getattr(settings, field.name)])


def check_values(kind: type, name: str, values: Iterable[Any]) -> None:
    """The same of many values of one setting of that kind of settings: whether one may be so never
    depends on the others.
    """
    declared, default = _declarations(kind)[name]
    usual = _numbers(default)
    low, counted = min([1, *usual]), all(isinstance(one, int) for one in usual)
    for value in values:
        if name == "seeds" or name.endswith("seed"):
            for seed in _numbers(value) if name == "seeds" else [value]:
                checked_seed(name, seed)
            continue
        least = declared.least if declared is not None else 1
        if isinstance(default, tuple) and default and len(value) < least:
            raise InputError(
                f"`{name}` must list at least {'one value' if least == 1 else f'{least} values'}; got {len(value) or 'none'}."
            )
        for number in _numbers(value):
            counts = counted and isinstance(
                number, int
            )  # 1 may stand for a setting that is 0.5 by default
            if declared is not None:
                checked_number(name, number, low=declared.low, high=declared.high)
            elif name.endswith(("ratio", "ratios")):
                checked_number(name, number, low=0.0, high=_MOST, open_low=True)
            elif counts:
                checked_count(name, number, low=math.floor(low))
                checked_count(name, number, low=math.floor(low), high=_MOST_COUNT)
            elif not abs(number) <= _MOST:
                raise InputError(
                    f"`{name}` must be a number of at most {_MOST:g} in size; got {number}."
                )


@cache
def _declarations(kind: type) -> dict[str, tuple[Range | None, Any]]:
    """The declared range, if there is one, and the default of every setting."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        field.name: (
            next((mark for mark in get_args(hints[field.name]) if isinstance(mark, Range)), None),
            field.default if field.default_factory is MISSING else field.default_factory(),
        )
        for field in fields(kind)
    }


def _numbers(value: Any) -> list[float]:
    """The numbers of a setting: itself, or what it lists."""
    if isinstance(value, list | tuple):
        return [number for item in value for number in _numbers(item)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []
