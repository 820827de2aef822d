"""A film: attention as it moves. An experiment says what is seen, the page plays it.

Frames are spread by how far attention travels: a jump takes as long as it is far, a long rest is
short. Between two samples numbers are interpolated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from saccade.errors import InputError, shortened
from saccade.report.pace import pace

N_FRAMES = 180  # six seconds at thirty frames a second


@dataclass(frozen=True)
class Film:
    """Attention over tokens as bars, or of every query over tokens as a map, from the first sample
    to the last.

    | field      | meaning                                                                                             |
    |------------|-----------------------------------------------------------------------------------------------------|
    | `sentence` | what it shows: "Attention scans, then snaps."                                                       |
    | `time`     | ascending times; the first may be 0                                                                 |
    | `values`   | attention (time, token) for bars, (time, query, token) for a map                                    |
    | `tokens`   | names of the tokens                                                                                 |
    | `queries`  | names of the queries, for a map                                                                     |
    | `theory`   | what theory predicts, of the shape of `values`, drawn as outlines; NaN where it says nothing         |
    | `outlines` | what the outlines are: "Theorem 3"                                                                  |
    | `roles`    | "common tokens" (grey) or "distinct tokens" (the fuller the more frequent, rarest first) of each        |
    | `marks`    | moments with a name: time -> "winner emerges"                                                       |
    | `clock`    | what time is: "t (steps)"                                                                           |
    """

    sentence: str
    time: Any
    values: Any
    tokens: Sequence[str]
    queries: Sequence[str] = ()
    theory: Any = None
    outlines: str = "theory"
    roles: Sequence[str] = ()
    marks: Mapping[float, str] = field(default_factory=dict)
    clock: str = "time"

    def spec(self) -> dict[str, Any]:
        """The film as plain data: a row of numbers for each frame."""
        time, values = np.asarray(self.time, float), np.asarray(self.values, float)
        axes = (
            (len(time), len(self.queries), len(self.tokens))
            if self.queries
            else (len(time), len(self.tokens))
        )
        if len(time) < 2 or not (np.diff(time) > 0).all():
            raise InputError(
                f"a film needs two or more times, each later than the one before; it has {shortened(time.tolist())}."
            )
        if values.shape != axes:
            raise InputError(
                f"a film of {len(self.tokens)} tokens needs values of the shape {axes}; it has {values.shape}."
            )
        flat = values.reshape(len(time), -1)
        at = frames(time, flat)
        told = (
            None
            if self.theory is None
            else _rows(np.asarray(self.theory, float).reshape(flat.shape), time, at)
        )
        return {
            "kind": "heat" if self.queries else "bars",
            "sentence": str(self.sentence),
            "clock": str(self.clock),
            "tokens": [str(token) for token in self.tokens],
            "queries": [str(query) for query in self.queries],
            "roles": [str(role) for role in self.roles] or [""] * len(self.tokens),
            "times": at.tolist(),
            "values": _rows(flat, time, at),
            "theory": told,
            "outlines": str(self.outlines),
            "marks": [
                {"time": float(when), "label": str(name)}
                for when, name in sorted(self.marks.items())
            ],
        }


def made_film(film: object) -> dict[str, Any]:
    """What `film` of an experiment gave, as plain data that a page can play."""
    if not isinstance(film, Film):
        raise InputError(f"`film` must give a Film; it gave {shortened(film)}.")
    return film.spec()


def frames(time: np.ndarray, values: np.ndarray, n_frames: int = N_FRAMES) -> np.ndarray:
    """Times of the frames, the first and the last sample among them, from values (time, anything)."""
    return np.interp(np.linspace(0, 1, n_frames), pace(values, time, time), time)


def _rows(values: np.ndarray, time: np.ndarray, at: np.ndarray) -> list[list[float | None]]:
    columns = [np.interp(at, time, column) for column in values.T]
    return [
        [round(value, 5) if np.isfinite(value) else None for value in row]
        for row in np.transpose(columns).tolist()
    ]
