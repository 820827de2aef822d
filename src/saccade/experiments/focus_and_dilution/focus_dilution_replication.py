"""The events that an independent replication sees in the flow on six tokens of a Zipf law, and
claims that compare with them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from saccade.lab.claim import REPLICATION, Case, Claim
from saccade.observe.fits import Array
from saccade.records.events import Event
from saccade.theory.condition import Condition, at_least
from saccade.theory.focus_and_dilution.statements import CYCLE

# Set after first results were seen: where the replication gives a range of times, 10 % is added at
# its ends.
WITHIN_TIME, WITHIN_VALUE = 0.1, 0.02  # of the replication: its own seeds differ by 8 % and .01


class Row(NamedTuple):
    """An event of the replication: the times it was seen at, or None; attention on token 0, or the
    number of directions.
    """

    label: str
    event: str
    query: int | None
    times: tuple[float, float] | None
    value: float | None = None


def _turns(label: str, event: str, seen: dict[int, tuple[float, float]]) -> list[Row]:
    return [Row(label, event, query, (time, time), value) for query, (time, value) in seen.items()]


REPLICATED = (
    Row("condensation", "condensation", None, (29, 34)),
    Row("the first focus", "focus_peak", 1, (174, 181), 0.511),
    *(
        Row("the first focus", "focus_peak", q, None, value)
        for q, value in ((2, 0.452), (3, 0.434), (4, 0.426), (5, 0.422))
    ),
    *_turns(
        "the first dilution",
        "dilution",
        {2: (204, 0.283), 3: (227, 0.139), 4: (314, 0.043), 5: (625, 0.001)},
    ),
    Row("the second direction", "new_direction", None, (492, 542), 2),
    *_turns("the second focus", "focus_peak", {1: (1001, 0.702), 2: (700, 0.470), 3: (611, 0.240)}),
    *_turns(
        "the second dilution", "dilution", {1: (1194, 0.639), 2: (1116, 0.014), 3: (1236, 0.001)}
    ),
    Row("the third direction", "new_direction", None, (941, 973), 3),
    *_turns(
        "the third focus", "focus_peak", {1: (1384, 0.667), 2: (2144, 0.380), 5: (1229, 0.451)}
    ),
    Row("the fourth direction", "new_direction", None, (1320, 1430), 4),
    Row("the fifth direction", "new_direction", None, (2060, 2130), 5),
)
"""Three seeds of the flow on zipf(6), stay 0.5, initial scale 1e-3, to t = 5000, integrated by
another program.
"""
_FIRST_FOCUS = (174, 181)  # of all queries, where only the first one's time is given
_PLATEAU = (55, 150)  # from when to when the replication sees attention frozen


def replicated_claims(
    events: Sequence[Event], time: Array, excess_loss: Array, attention: Array, t1: float
) -> Iterator[Claim]:
    """Of a run with the replication's settings: its events, its excess loss, its mean attention on
    token 0 (time).
    """
    for row in REPLICATED:
        yield from _of_row(row, events, t1)
    for moment in _PLATEAU:
        loss, focus = (_at(moment, time, series) for series in (excess_loss, attention))
        case = Case({"t": moment}, [until(moment, t1)], REPLICATION)
        yield case.near(CYCLE, "loss above the optimum", loss, 0.393, within=WITHIN_VALUE)
        yield case.near(CYCLE, "attention on token 0", focus, 0.408, within=WITHIN_VALUE)
    power = math.log10(max(_at(5000, time, excess_loss), 1e-16))
    yield Case({"t": 5000}, [until(5000, t1)], REPLICATION).near(
        CYCLE, "log₁₀ of the loss above the optimum", power, -10, within=1
    )


def _of_row(row: Row, events: Sequence[Event], t1: float) -> Iterator[Claim]:
    """Time and value of the event of this kind, query and (for a direction) number that is nearest
    to the replicated one.
    """
    is_direction = row.event == "new_direction"
    alike = [event for event in events if (event.name, event.query) == (row.event, row.query)]
    alike = [event for event in alike if not is_direction or event.value == row.value]
    first, last = row.times or _FIRST_FOCUS
    middle = (first + last) / 2
    nearest = min(alike, key=lambda event: abs(math.log(event.time / middle)), default=None)
    at, value = (nearest.time, nearest.value) if nearest else (math.nan, math.nan)
    case = Case(
        {} if row.query is None else {"query": row.query},
        [until((1 + WITHIN_TIME) * last, t1)],
        REPLICATION,
    )
    if row.times:  # where a range was seen, the tolerance is added at its ends
        yield case.near(
            CYCLE,
            f"time of {row.label}",
            at,
            middle,
            within=(last - first) / 2 + WITHIN_TIME * middle,
        )
    if row.value is not None and not is_direction:
        yield case.near(
            CYCLE,
            f"attention on token 0 at {row.label}",
            value,
            row.value,
            within=min(WITHIN_VALUE, row.value),
        )


def _at(moment: float, time: Array, series: Array) -> float:
    return float(np.interp(moment, time, series, right=math.nan))


def until(moment: float, t1: float) -> Condition:
    """A run that ends before an event does not decide it."""
    return at_least("run beyond the event", t1, moment, "t1")
