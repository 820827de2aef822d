"""Names of modules, short enough for a label."""

from __future__ import annotations

from collections.abc import Sequence


def short_names(names: Sequence[str]) -> list[str]:
    """Without what all of them share: `transformer.h.3.attn` -> `layer 3`; as they are if there is
    one, or nothing is left.

    The model itself has no name, and `#2` for a second call of its own.
    """
    front = _shared(names)
    back = _shared([name[front:][::-1] for name in names])
    parts = [name[front : len(name) - back] for name in names]
    if len(names) < 2 or not all(parts):
        return [f"the model{name}" if not name or name.startswith("#") else name for name in names]
    return [f"layer {part}" if part.isdigit() else part for part in parts]


def _shared(names: Sequence[str]) -> int:
    """How many letters at their beginning all names share."""
    columns = list(zip(*names, strict=False))
    return next(
        (place for place, letters in enumerate(columns) if len(set(letters)) > 1), len(columns)
    )
