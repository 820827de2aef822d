"""Progress of an experiment that is made of several runs."""

from __future__ import annotations

from collections.abc import Callable


def stretch(on_progress: Callable[[float], None], low: float, high: float) -> Callable[[float], None]:
    """What a run reports as 0 to 1 is the stretch from `low` to `high` of the whole."""
    return lambda fraction: on_progress(low + (high - low) * fraction)
