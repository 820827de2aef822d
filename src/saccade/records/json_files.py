"""JSON as Saccade writes and reads it: without NaN, and with limits on what is read, since a file may be damaged or hostile."""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from saccade.errors import InputError
from saccade.records.writing import write_text

_MOST_BYTES = 2**28  # a quarter of a gigabyte: more than the vocabulary of any tokeniser
_MOST_DEPTH = 64
_NAMES: dict[type, str] = {dict: "an object", list: "a list"}


def json_ready(value: Any, missing: Callable[[float], Any] = lambda number: None) -> Any:
    """The same value as JSON has it: NumPy's numbers are plain ones, and infinity and NaN are null, or what `missing` makes of them
    (`str`, for settings, which are read back).
    """
    if isinstance(value, Mapping):
        return {str(key): json_ready(item, missing) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(item, missing) for item in value]
    if hasattr(value, "dtype") and getattr(value, "ndim", None) == 0:
        value = value.item()
    return missing(value) if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(json_ready(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path, kind: type = dict) -> Any:
    """What a file holds, if it is JSON of this kind, of bounded size and depth."""
    try:
        return parsed_json(_content(path), kind)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None
    except ValueError as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def parsed_json(content: bytes | str, kind: type = dict) -> Any:
    """The same of bytes or text, with a sentence that does not name where they are from."""
    try:
        value = json.loads(content)
    except RecursionError:
        raise InputError(f"it is nested more than {_MOST_DEPTH} deep.") from None
    except ValueError as error:
        raise InputError(f"it is not JSON: {error}.") from None
    if not isinstance(value, kind):
        raise InputError(f"it is not {_NAMES.get(kind, kind.__name__)}.")
    _check_depth(value)
    return value


def _content(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe must not be waited for
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise InputError("it is not a regular file.")
        if about.st_size > _MOST_BYTES:
            raise InputError(f"it has {about.st_size:,} bytes, more than the {_MOST_BYTES:,} that are read.")
        return file.read(_MOST_BYTES + 1)


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(_MOST_DEPTH):
        level = [
            item
            for outer in level
            if isinstance(outer, dict | list)
            for item in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(item, dict | list)
        ]
        if not level:
            return
    raise InputError(f"it is nested more than {_MOST_DEPTH} deep.")
