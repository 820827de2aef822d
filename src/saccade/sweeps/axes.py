"""What is swept: one axis of values for one setting, or for several that go together.

| written                            | values                                             |
|------------------------------------|----------------------------------------------------|
| `lr_attention=0.5,1,2`             | a list                                             |
| `seed=0..9`                        | whole numbers, both ends                           |
| `ratio=1..10:19`                   | 19 values, evenly spaced                           |
| `ratio=1..10:log8`                 | 8 values, evenly spaced in the logarithm           |
| `lr_decoder/lr_attention=1/1,5/0.5`| two settings linked: they change together          |
| `stationary=0.7/0.3,0.5/0.5`       | values of a setting that is itself a list          |
| `n_vocab=1000,none`                | none, where a setting may be left open             |

A setting that lists values, such as `ratios`, is swept one value at a time, and answers to its
singular too: `ratio`.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from saccade.errors import InputError, checked_choice, is_list_like, shortened

_MOST_VALUES = 100_000  # on one axis: beyond it is a typing error, not a sweep


@dataclass(frozen=True)
class Axis:
    """`settings` that change together; `values` has a tuple for each place on the axis, one value
    for each setting.
    """

    settings: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]

    @property
    def name(self) -> str:
        """Of the axis in the dataset: linked settings are named after the first."""
        return self.settings[0]

    @property
    def labels(self) -> list[Any]:
        """Of the places on the axis: numbers and words as they are, lists as text."""
        return [
            value if isinstance(value, int | float | str) else written(value)
            for value, *_ in self.values
        ]


def written(value: Any) -> str:
    """A value as it is typed: a list with / between, `none` for none."""
    return (
        "/".join(map(str, value))
        if isinstance(value, tuple | list)
        else "none"
        if value is None
        else str(value)
    )


def axes_of(over: Mapping[str, Any] | Sequence[str], config: Any) -> list[Axis]:
    """The axes of `over`, `{"lr_attention": [0.5, 1, 2]}` or `["lr_attention=0.5,1,2"]`, for
    settings like those of `config`.
    """
    listed: list[tuple[Any, Any]] = list(over.items()) if isinstance(over, Mapping) else []
    for text in () if isinstance(over, Mapping) else over:
        names, _, values = text.partition("=")
        if not names or not values:
            raise InputError(
                "`--over` must be setting=values, such as lr_attention=0.5,1,2 or "
                f"ratio=1..10:log8; got {text!r}."
            )
        listed.append((names.strip(), values.strip()))
    axes = [_axis(names, values, config) for names, values in listed]
    settings = [setting for axis in axes for setting in axis.settings]
    for setting in settings:
        if settings.count(setting) > 1:
            raise InputError(f"`{setting}` is swept twice; give all its values in one place.")
    return axes


def _axis(names: Any, values: Any, config: Any) -> Axis:
    if not isinstance(names, str | tuple):
        raise InputError(f"the name of what is swept must be a string; got {shortened(names)}.")
    known = [field.name for field in fields(config)]
    settings = tuple(
        f"{name}s"
        if name not in known and f"{name}s" in known
        else checked_choice("setting", name, known)
        for name in (names.split("/") if isinstance(names, str) else names)
    )
    kinds = [typing.get_type_hints(type(config))[setting] for setting in settings]
    places = (
        _written(values, kinds, settings)
        if isinstance(values, str)
        else _given(values, kinds, settings)
    )
    if not places:
        raise InputError(f"`{names}` has no values to sweep.")
    if len(set(places)) < len(places):
        raise InputError(f"`{names}` lists a value twice; the values on an axis must differ.")
    return Axis(settings, tuple(places))


def _given(values: Any, kinds: list[Any], settings: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Values from Python: a list for one setting, a list of tuples for linked ones."""
    if not is_list_like(values):
        raise InputError(f"`{'/'.join(settings)}` must list its values; got {shortened(values)}.")
    rows = [
        tuple(value) if len(settings) > 1 and is_list_like(value) else (value,)
        for value in (values.tolist() if hasattr(values, "tolist") else list(values))
    ]
    for row in rows:
        if len(row) != len(settings):
            raise InputError(
                f"`{'/'.join(settings)}` needs {len(settings)} values at each point; got {shortened(row)}."
            )
    return [
        tuple(
            _converted(value, kind, name)
            for value, kind, name in zip(row, kinds, settings, strict=True)
        )
        for row in rows
    ]


def _written(text: str, kinds: list[Any], settings: tuple[str, ...]) -> list[tuple[Any, ...]]:
    if ".." in text:
        if len(settings) > 1:
            raise InputError(
                f"linked settings are listed, {'/'.join(settings)}=1/1,2/4, not given as a range; got {text!r}."
            )
        return [(_converted(value, kinds[0], settings[0]),) for value in _range(text)]
    rows = []
    for place in text.split(","):
        parts = (
            place.split("/") if len(settings) > 1 else [place.split("/") if "/" in place else place]
        )
        if len(parts) != len(settings):
            raise InputError(
                f"{place!r} must have a value for each of {', '.join(settings)}, with / between them."
            )
        rows.append(
            tuple(
                _converted(part, kind, name)
                for part, kind, name in zip(parts, kinds, settings, strict=True)
            )
        )
    return rows


def _range(text: str) -> list[float]:
    """`1..10:log8`, `0..1:5` or `3..7`."""
    first, _, rest = text.partition("..")
    last, _, spacing = rest.partition(":")
    low, high = _number(first, text), _number(last, text)
    is_log = spacing.startswith("log")
    if not spacing:
        if not (low.is_integer() and high.is_integer() and 0 <= high - low < _MOST_VALUES):
            raise InputError(
                f"a range without a count must increase over whole numbers, 0..9; got {text!r}. Or give a count: 1..10:log8."
            )
        return list(np.arange(low, high + 1))
    count = _number(spacing.removeprefix("log"), text)
    if (
        not (count.is_integer() and 2 <= count <= _MOST_VALUES)
        or low == high
        or (is_log and min(low, high) <= 0)
    ):
        raise InputError(
            f"{text!r} must have two different ends and a count of at least 2; for a log range both ends above 0."
        )
    if not np.isfinite(high - low):
        raise InputError(f"the ends of {text!r} are too far apart.")
    spaced = np.geomspace(low, high, int(count)) if is_log else np.linspace(low, high, int(count))
    return [
        float(f"{value:.12g}") for value in spaced
    ]  # names of places, to be typed again: without the last bits' noise


def _number(text: str, whole: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise InputError(
            f"{text!r} in {whole!r} is not a number; a range is 1..10:log8, 0..1:5 or 0..9."
        ) from None
    if not np.isfinite(number):
        raise InputError(f"{text!r} in {whole!r} must be finite.")
    return number


def _converted(value: Any, kind: Any, setting: str) -> Any:
    """`value` as the type of its setting; a single value of a setting that lists values is a list
    of one.
    """
    options = (
        typing.get_args(kind)
        if typing.get_origin(kind) in (typing.Union, types.UnionType)
        else (kind,)
    )
    if type(None) in options and (value is None or str(value).lower() == "none"):
        return None
    lists_first = sorted(
        options, key=lambda option: typing.get_origin(option) is not tuple
    )  # `seeds=3` is seed 3, not three
    for option in lists_first:
        found = _as(option, value)
        if found is not None:
            return found
    choices = [
        one
        for option in options
        for one in (typing.get_args(option) if _is_choice(option) else (option,))
    ]
    names = " or ".join(
        "none" if one is type(None) else getattr(one, "__name__", str(one)) for one in choices
    )
    raise InputError(f"`{setting}` takes {names}; got {shortened(value)}.")


def _is_choice(kind: Any) -> bool:
    return typing.get_origin(kind) is typing.Literal


def _as(kind: Any, value: Any) -> Any:
    """`value` as `kind`, or None if it is not one."""
    if _is_choice(kind):
        return next((choice for choice in typing.get_args(kind) if str(choice) == str(value)), None)
    if typing.get_origin(kind) is tuple:
        inner = typing.get_args(kind)[0]
        parts = [_as(inner, part) for part in (value if is_list_like(value) else [value])]
        return None if None in parts else tuple(parts)
    if is_list_like(value):
        return None
    if kind is bool:
        return (
            value
            if isinstance(value, bool)
            else {"true": True, "false": False}.get(str(value).lower())
        )
    if kind is str:
        return value if isinstance(value, str) else None
    if kind not in (int, float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if kind is float:
        return number
    try:
        return (
            int(value)
            if isinstance(value, int | str)
            else int(number)
            if number.is_integer()
            else None
        )
    except ValueError:  # written as 1e3
        return int(number) if number.is_integer() else None
