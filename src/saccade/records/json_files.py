"""JSON as Saccade writes and reads it: without NaN, and with limits on what is read, since a file
may be damaged or hostile.

A file is read only up to a size, a number of parts and a depth, and only if it has the shape that
is asked for. A shape is a type or several; `[shape]`, a list of such; `{str: shape}`, an object of
such; or `{"name": shape}`, an object with these fields.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from saccade.errors import InputError, shortened
from saccade.records.writing import as_bytes, write_text

MOST_BYTES = 2**26
_MOST_PARTS = (
    2**22
)  # lists and objects: a text of nothing but "[]," would fill memory twenty times its size
_MOST_ITEMS = 2**23  # commas: so would one of nothing but short texts and numbers
_MOST_FIELDS = 2**21  # colons: and one of nothing but short names, all different
_MOST_DEPTH = 64
_NAMES: dict[Any, str] = {
    dict: "an object",
    list: "a list",
    str: "text",
    int: "a whole number",
    float: "a number",
}
_NAMES |= {bool: "true or false"}
_SEAL = re.compile(rb'\{\n "sha256": "([0-9a-f]{64})",\n')


class MisfitError(InputError):
    """JSON of another shape than was asked for."""


def json_ready(value: Any, missing: Callable[[float], Any] = lambda number: None) -> Any:
    """The same value as JSON has it: NumPy's numbers are plain ones, and infinity and NaN are null,
    or what `missing` makes of them (`str`, for settings, which are read back).
    """
    if type(value) is float:  # first, as nearly all are
        return value if math.isfinite(value) else missing(value)
    if type(value) is str:
        return value
    if isinstance(value, Mapping):
        return {str(key): json_ready(item, missing) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(item, missing) for item in value]
    if hasattr(value, "dtype") and getattr(value, "ndim", None) == 0:
        value = value.item()
    return missing(value) if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path: Path, value: Any) -> None:
    write_text(
        path, json.dumps(json_ready(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    )


def write_sealed(path: Path, value: Mapping[str, Any]) -> None:
    """An object in a file that carries the checksum of all its other bytes in its second line."""
    # A line for each field: half the size, where they are long lists.
    ready = json_ready(value)
    fields = (
        f" {json.dumps(name)}: {json.dumps(ready[name], ensure_ascii=False, allow_nan=False)}"
        for name in ready
    )
    body = as_bytes(",\n".join(fields) + "\n}\n")
    if large := _too_large(body):
        raise InputError(f"{path} cannot be written: {large}.")
    write_text(path, f'{{\n "sha256": "{hashlib.sha256(body).hexdigest()}",\n{body.decode()}')


def read_json(path: Path, shape: Any = dict) -> Any:
    """What a file holds, if it is JSON of this shape, of bounded size and depth."""
    with _in_a_sentence(path):
        return parsed_json(_content(path), shape)


def read_sealed(path: Path, shape: Any = dict) -> Any:
    """What `write_sealed` wrote, if not a bit of it has changed."""
    with _in_a_sentence(path):
        content = _content(path)
        seal = _SEAL.match(content)
        if seal is None or hashlib.sha256(content[seal.end() :]).hexdigest() != seal[1].decode():
            raise InputError("it is not what was written.")
        return parsed_json(b"{" + content[seal.end() :], shape)


def parsed_json(content: bytes | str, shape: Any = dict) -> Any:
    """The same of bytes or text, with a sentence that does not name where they are from."""
    if not isinstance(content, bytes | str):
        raise InputError("it is not text.")
    if large := _too_large(content):
        raise InputError(f"{large}.")
    try:
        value = json.loads(content, object_pairs_hook=_object)
    except RecursionError:
        raise InputError(f"it is nested more than {_MOST_DEPTH} deep.") from None
    except InputError:
        raise
    except (ValueError, TypeError) as error:
        raise InputError(f"it is not JSON: {error}.") from None
    level = [value]
    for _ in range(_MOST_DEPTH):
        level = [
            item
            for outer in level
            if isinstance(outer, dict | list)
            for item in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(item, dict | list)
        ]
    if level:
        raise InputError(f"it is nested more than {_MOST_DEPTH} deep.")
    if wrong := misfit(value, shape):
        raise MisfitError(f"{wrong}.")
    return value


def _too_large(content: bytes | str) -> str:
    """What there is too much of in a text, in words; nothing if it is not too large to be read."""
    signs = ("[", "{", ",", ":") if isinstance(content, str) else (b"[", b"{", b",", b":")
    lists, objects, commas, colons = (content.count(sign) for sign in signs)  # type: ignore[arg-type]
    if len(content) > MOST_BYTES:
        return f"it has more than the {MOST_BYTES:,} bytes that are read"
    if lists + objects > _MOST_PARTS:
        return f"it has more than {_MOST_PARTS:,} lists and objects"
    if colons > _MOST_FIELDS:
        return f"it has more than {_MOST_FIELDS:,} fields"
    return f"it has more than {_MOST_ITEMS:,} items" if commas > _MOST_ITEMS else ""


@contextmanager
def regular_file(path: Path) -> Iterator[io.BufferedReader]:
    """A file to read; pipes, devices and folders are refused at once, never waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InputError("it is not a regular file.")
        yield file


@contextmanager
def _in_a_sentence(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None
    except ValueError as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def _content(path: Path) -> bytes:
    with regular_file(path) as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise InputError(f"it has more than the {MOST_BYTES:,} bytes that are read.")
    return content


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object that says nothing twice: of two values under one name a reader would have to
    choose.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise InputError(f"it has the key {shortened(twice)} twice.")
    return found


def misfit(value: Any, shape: Any) -> str:
    """What of a value is not of a shape, in words; nothing if all is."""
    return f"it{wrong}" if (wrong := _misfit(value, shape)) else ""


def _misfit(value: Any, shape: Any) -> str:
    """The place within the value, and what is wrong there: `[2]['title'] is not text`."""
    kinds = (
        shape
        if isinstance(shape, tuple)
        else (type(shape),)
        if isinstance(shape, list | dict)
        else (shape,)
    )
    # True and false are no numbers here.
    if not (
        isinstance(value, kinds)
        and (not isinstance(value, bool) or bool in kinds or object in kinds)
    ):
        return f" is not {' or '.join(_NAMES[kind] for kind in kinds)}"
    parts: Iterable[tuple[Any, Any, Any]] = ()  # place, item, its shape
    if isinstance(shape, list):
        parts = ((place, item, shape[0]) for place, item in enumerate(value))
    elif isinstance(shape, dict) and str in shape:
        parts = ((name, item, shape[str]) for name, item in value.items())
    elif isinstance(shape, dict):
        if missing := [name for name in shape if name not in value]:
            return f" does not say {missing[0]!r}"
        parts = ((name, value[name], inner) for name, inner in shape.items())
    return next(
        (
            f"[{shortened(place)}]{wrong}"
            for place, item, inner in parts
            if (wrong := _misfit(item, inner))
        ),
        "",
    )
