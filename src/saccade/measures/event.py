"""Events of a run, and the stages between them: what observation finds and the report shows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """Something that happens at a time. `query` is None for what concerns the whole model.

    `prominence` is by how much it stands out, in the unit of what is observed: for a turn its
    prominence, for a level that is crossed the highest value after less the lowest before, for
    frozen attention the fall of the loss until then.
    """

    name: str
    query: int | None
    time: float
    value: float
    prominence: float
    definition: str


def stage_bands(events: list[Event], t1: float) -> list[tuple[str, float, float]]:
    """Stages as (name, start, end) from 0 to `t1`, each up to the event that opens the next.

    Dilution begins where the first query turns, and cycle n where the n-th direction opens. A stage
    is left out if nothing opens it, or if a later stage opens before it does.
    """
    starts = [("condensation", 0.0)]
    for name, stage in (
        ("attention_frozen", "frozen"),
        ("focus_onset", "focus"),
        ("focus_peak", "dilution"),
    ):
        starts += [(stage, event.time) for event in events if event.name == name][:1]
    directions = [event.time for event in events if event.name == "new_direction"]
    starts += [(f"cycle {number}", time) for number, time in enumerate(directions, start=2)]
    bands: list[tuple[str, float, float]] = []
    end = float(t1)
    for stage, start in reversed(starts):
        if start < end:
            bands.append((stage, start, end))
            end = start
    return bands[::-1]
