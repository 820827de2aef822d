"""Every head of a watched model over time as a panel: a row each, coloured by what it does, pale
once it is frozen.

What it shows, and from which numbers, is in `measures/timeline.py`; the page draws it
(`web/chart_timeline.js`), and for print `drawn_timeline.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.measures.timeline import NAMED, PLACE_NAMES, STATES, Timeline, timeline

if TYPE_CHECKING:
    import xarray as xr

LEGEND = (
    f"Every row is a head, coloured by where its attention goes (a place needs at least {NAMED:g} of it, beyond what uniform "
    "attention would give), pale once it is frozen; a bar marks when it took its place. The axis is logarithmic, step 0 first."
)
_TITLE = "What heads do, and since when"
_MOST_SENTENCES = 12  # on the page; `saccade.timeline(record)` has all
_MOST_OF_RUNS = (
    4  # before the ends of several runs that are compared; below, each run has its own page
)


def shown_timelines(
    *records: xr.Dataset, names: Sequence[str] = ("",)
) -> tuple[list[list[dict[str, Any]]], str]:
    """Rows of panels, one for each run with one axis for all, and what they show in words."""
    timelines = [timeline(record) for record in records]
    span = {
        "label": "step",
        "min": min(timeline.steps[0] for timeline in timelines),
        "max": max(_end(timeline.steps) for timeline in timelines),
    }
    panels = [_panel(timeline, name, span) for timeline, name in zip(timelines, names, strict=True)]
    return [[panel] for panel in panels], sentences_of(*timelines, names=names)


def sentences_of(*timelines: Timeline, names: Sequence[str] = ("",)) -> str:
    """The sentences, a line each, and what the colours mean; of many the first, and the last. Of
    several runs a line each, by its name.
    """
    if len(timelines) == 1:
        lines = _shortened(timelines[0].sentences, _MOST_SENTENCES)
    else:
        most = max(1, _MOST_OF_RUNS // len(timelines))
        told = (" ".join(_shortened(timeline.sentences, most)) for timeline in timelines)
        lines = [f"{name}: {said}" for name, said in zip(names, told, strict=True)]
    return "\n".join([*lines, "", LEGEND])


def _shortened(sentences: Sequence[str], most: int) -> Sequence[str]:
    left = len(sentences) - most - 2
    if left < 2:
        return sentences
    return [
        *sentences[:most],
        f"… and {left} more sentences: print(saccade.timeline(record)).",
        *sentences[-2:],
    ]


def _panel(timeline: Timeline, name: str, span: dict[str, Any]) -> dict[str, Any]:
    heads = [
        of
        for of in np.ndindex(timeline.states.shape[1:])
        if (timeline.states[(slice(None), *of)] >= 0).any()
    ]
    takings: dict[
        tuple[int, int], list[float]
    ] = {}  # a head takes a place, changes it, or collapses
    for event in timeline.events:
        if event.name in (*PLACE_NAMES, "collapsed") and np.isfinite(event.before):
            takings.setdefault((event.layer, event.head), []).append(event.step)

    def pieces(layer: int, head: int) -> list[list[float]]:
        """The step at which each stretch of one state begins, and the state."""
        states = timeline.states[:, layer, head]
        begins = np.flatnonzero(np.append(True, states[1:] != states[:-1]))
        return [[float(timeline.steps[at]), int(states[at])] for at in begins]

    return {
        "kind": "timeline",
        "title": f"{name}: {_TITLE[0].lower()}{_TITLE[1:]}" if name else _TITLE,
        "x": span,
        "y": {"label": ""},
        "states": list(STATES),
        "steps": timeline.steps.tolist(),
        "unseen": unseen(timeline.steps),
        "end": _end(timeline.steps),
        "rows": [
            {
                "name": f"{timeline.layers[layer]} head {head}",
                "group": timeline.layers[layer],
                "first": head == 0,
                "pieces": pieces(layer, head),
                "still": float(still)
                if np.isfinite(still := timeline.frozen[layer, head])
                else None,
                "takes": takings.get((layer, head), []),
            }
            for layer, head in heads
        ],
    }


def unseen(steps: np.ndarray) -> list[list[float]]:
    """Stretches between two observations in which the step more than doubled: nobody knows what
    happened there.
    """
    return [[float(a), float(b)] for a, b in pairwise(steps) if b > 2 * max(a, 1)]


def _end(steps: np.ndarray) -> float:
    """A little beyond the last observation, so that it is seen."""
    return max(float(steps[-1]) * 1.15, float(steps[-1]) + 0.5)
