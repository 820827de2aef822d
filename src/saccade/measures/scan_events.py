"""The stages of Scan and Snap in a run on sequence classes: common tokens suppressed, a winner
emerges, attention snaps.

| event               | when                                                                     | value                |
|---------------------|--------------------------------------------------------------------------|----------------------|
| `common_suppressed` | attention on common tokens has lost a tenth of what it was               | that attention       |
| `winner_emerges`    | the leading distinct token has a quarter more of the distinct attention  | its share of it      |
| `attention_snapped` | attention moves a tenth as fast as at its fastest, in ln t, until the end | how fast it moves    |

Means over classes. Levels are ours; what does not reach its level is no event. Not here: what any
theory says about when or why.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from saccade.measures.event import Event

SUPPRESSED = 0.9  # of attention on common tokens at the start
EMERGED = 1.25  # times the share of the leading distinct token at the start
SNAPPED = 0.1  # of the fastest movement
_FEWEST = 5  # samples for a speed
_STILL = 1e-9  # attention that never moves faster stands still: this is rounding

Array = NDArray[np.float64]


def scan_events(time: Array, common: Array, distinct: Array) -> list[Event]:
    """`common` (time, class): attention on tokens of several classes; `distinct` (time, class,
    token): on the class's own, or 0.
    """
    whole = distinct.sum(axis=-1, keepdims=True)
    lasting = (whole > 0).all(axis=(0, 2))
    found = []
    if common[0].any():
        mass = common.mean(axis=1)
        definition = f"attention on common tokens falls to {SUPPRESSED:g} of its start"
        found += _first(time, mass, mass <= SUPPRESSED * mass[0], "common_suppressed", definition)
    if lasting.any():
        share = (distinct / np.where(whole > 0, whole, 1.0))[:, lasting].max(axis=-1).mean(axis=1)
        definition = f"share of the leading distinct token among distinct ones rises to {EMERGED:g} times its start"
        found += _first(time, share, share >= EMERGED * share[0], "winner_emerges", definition)
    return found + _snapped(time, np.concatenate([common[..., None], distinct], axis=-1))


def _snapped(time: Array, attention: Array) -> list[Event]:
    """Speed: half the sum over tokens of |change of attention| per unit of ln t; common tokens
    count as one.
    """
    later = time > 0
    if later.sum() < _FEWEST:
        return []
    t, moved = (
        time[later],
        np.abs(np.gradient(attention[later], np.log(time[later]), axis=0)).sum(axis=-1).mean(axis=1)
        / 2,
    )
    slow = moved < SNAPPED * moved.max()
    since = len(slow) - int(np.argmax(~slow[::-1]))  # the first sample after the last fast one
    if moved.max() < _STILL or since >= len(slow):
        return []
    definition = (
        f"attention moves less than {SNAPPED:g} of its fastest per unit of ln t, until the end"
    )
    return [
        Event(
            "attention_snapped",
            None,
            float(t[since]),
            float(moved[since]),
            float(moved.max() - moved[since]),
            definition,
        )
    ]


def _first(
    time: Array, series: Array, reached: NDArray[np.bool_], name: str, definition: str
) -> list[Event]:
    if not reached.any():
        return []
    i = int(np.argmax(reached))
    return [Event(name, None, float(time[i]), float(series[i]), float(np.ptp(series)), definition)]
