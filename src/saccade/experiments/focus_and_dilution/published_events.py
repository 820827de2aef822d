"""Events of the published run: how each is read, and the range in which a separate program of ours
found it in six runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from saccade.observe.fits import Array, first_time


class Path(NamedTuple):
    """One run over time, as its events read it."""

    time: Array
    share: float  # of token 0
    on_first: Array  # time, query: attention on token 0
    probe: Array  # time, query: the same where every token comes once
    loss: Array
    norms: Array  # time, token
    off_first: Array  # time, token
    second: Array
    top_share: Array

    @property
    def joint(self) -> Array:
        return self.on_first.min(axis=1)

    @property
    def peak(self) -> int:
        return int(self.joint.argmax())

    def shortest(self, row: int) -> int:
        return self.peak + int(self.norms[self.peak :, row].argmin())

    def longest(self, row: int) -> int:
        return int(self.norms[: self.shortest(row) + 1, row].argmax())

    def when(self, reached: Any) -> float:
        return first_time(self.time, reached)

    def then(self, reached: Any) -> float:
        """After the peak."""
        return self.when((np.arange(len(self.time)) > self.peak) & reached)


class Event(NamedTuple):
    """How it is read from a run, and the range that a replication of six runs found: of a step, or
    of a value.
    """

    read: Callable[[Path], float]
    low: float
    high: float
    is_step: bool = True


PEAK = "joint focus at its peak"
EVENTS = {
    "embedding condensed, σ₂ < 0.2 σ₁": Event(lambda p: p.when(p.second < 0.2), 70, 70),
    "queries condensed, half of their square norm in one direction": Event(
        lambda p: p.when(p.top_share > 0.5), 80, 90
    ),
    "all queries above 0.8 on token 0": Event(lambda p: p.when(p.joint > 0.8), 120, 130),
    "all queries above 0.95 on token 0": Event(lambda p: p.when(p.joint > 0.95), 150, 160),
    PEAK: Event(lambda p: p.time[p.peak], 200, 220),
    "least attention on token 0 at the peak": Event(
        lambda p: p.joint[p.peak], 0.9987, 0.9992, False
    ),
    "every token once: least attention on token 0 at the peak": Event(
        lambda p: p.probe[p.peak].min(), 0.985, 0.994, False
    ),
    "σ₂ / σ₁ of the embedding at the peak": Event(lambda p: p.second[p.peak], 0.099, 0.125, False),
    "loss at the peak": Event(lambda p: p.loss[p.peak], 0.94, 0.99, False),
    "query 1 back below the share of token 0": Event(
        lambda p: p.then(p.on_first[:, 1] < p.share), 290, 330
    ),
    "query 1 below 0.1 on token 0": Event(lambda p: p.then(p.on_first[:, 1] < 0.1), 310, 350),
    "query 2 below 0.1 on token 0": Event(lambda p: p.then(p.on_first[:, 2] < 0.1), 320, 360),
    "query 3 below 0.1 on token 0": Event(lambda p: p.then(p.on_first[:, 3] < 0.1), 330, 370),
    "least attention of query 0 on token 0 after the peak": Event(
        lambda p: p.on_first[p.peak :, 0].min(), 1.0, 1.0, False
    ),
    "row 1 of the embedding longest before it shrinks": Event(
        lambda p: p.time[p.longest(1)], 150, 170
    ),
    "row 2 of the embedding longest before it shrinks": Event(
        lambda p: p.time[p.longest(2)], 150, 170
    ),
    "row 3 of the embedding longest before it shrinks": Event(
        lambda p: p.time[p.longest(3)], 150, 170
    ),
    "norm of row 1 when longest": Event(lambda p: p.norms[p.longest(1), 1], 0.42, 0.50, False),
    "norm of row 2 when longest": Event(lambda p: p.norms[p.longest(2), 2], 0.44, 0.48, False),
    "norm of row 3 when longest": Event(lambda p: p.norms[p.longest(3), 3], 0.44, 0.50, False),
    "row 1 of the embedding smallest after the focus": Event(
        lambda p: p.time[p.shortest(1)], 290, 340
    ),
    "row 2 of the embedding smallest after the focus": Event(
        lambda p: p.time[p.shortest(2)], 310, 520
    ),
    "row 3 of the embedding smallest after the focus": Event(
        lambda p: p.time[p.shortest(3)], 580, 630
    ),
    "norm of row 1 when smallest": Event(lambda p: p.norms[p.shortest(1), 1], 0.21, 0.25, False),
    "norm of row 2 when smallest": Event(lambda p: p.norms[p.shortest(2), 2], 0.19, 0.21, False),
    "norm of row 3 when smallest": Event(lambda p: p.norms[p.shortest(3), 3], 0.13, 0.14, False),
    "σ₂ above 0.3 σ₁ after the focus": Event(lambda p: p.then(p.second > 0.3), 320, 360),
    "σ₂ above 0.5 σ₁ after the focus": Event(lambda p: p.then(p.second > 0.5), 560, 580),
    "row 1 off the direction of row 0 by 0.3": Event(
        lambda p: p.then(p.off_first[:, 1] > 0.3), 370, 390
    ),
    "row 2 off the direction of row 0 by 0.3": Event(
        lambda p: p.then(p.off_first[:, 2] > 0.3), 760, 790
    ),
    "row 3 off the direction of row 0 by 0.3": Event(
        lambda p: p.then(p.off_first[:, 3] > 0.3), 890, 950
    ),
    "row 1 longer than 1": Event(lambda p: p.then(p.norms[:, 1] > 1), 680, 690),
    "row 2 longer than 1": Event(lambda p: p.then(p.norms[:, 2] > 1), 1180, 1350),
}
AT_STEP = {  # values at a step: (what, of which token) -> step -> range, over the full-batch runs
    ("probe entropy of query", 1): {200: (0.04, 0.09), 300: (1.27, 1.39), 500: (0.0, 0.06)},
    ("probe entropy of query", 2): {
        200: (0.05, 0.07),
        300: (1.29, 1.37),
        500: (0.38, 0.45),
        700: (1.05, 1.12),
        1500: (0.0, 0.0),
    },
    ("loss after token", 0): {700: (0.249, 0.249), 1000: (0.24, 0.24), 1500: (0.24, 0.24)},
    ("loss after token", 1): {700: (0.75, 0.75), 1000: (0.54, 0.54), 1500: (0.50, 0.50)},
    ("loss after token", 2): {700: (1.38, 1.44), 1000: (1.12, 1.12), 1500: (0.78, 0.78)},
    ("loss after token", 3): {700: (1.45, 1.47), 1000: (1.24, 1.24), 1500: (1.09, 1.13)},
}
COSINES = {
    ("embedding", 100): (0.95, 0.96),
    ("query", 50): (0.05, 0.05),
    ("query", 150): (0.97, 0.98),
}  # of rows, full batch
ORDER = (
    *list(EVENTS)[:2],
    PEAK,
    "query 1 back below the share of token 0",
    "σ₂ above 0.5 σ₁ after the focus",
)
OPENING = [f"row {row} off the direction of row 0 by 0.3" for row in (1, 2, 3)]
