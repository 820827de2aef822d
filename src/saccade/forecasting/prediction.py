"""A prediction of a forecast: a sentence, its source, its assumptions, and whether it carries over
to Adam.

Assumptions are those of the papers, with the numbers of this source. A prediction may be right even
if some are not met; `saccade reproduce text-forecast` measures how good predictions are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from saccade.theories.condition import Condition

CLOSED_FORM, FLOW, RANK_ONE = (
    "closed form",
    "population flow of the classes",
    "rank-one flow from random starts",
)
DECODER_FIRST = "attention's force along the decoder's path"


@dataclass(frozen=True)
class Prediction:
    """`about` groups predictions: a query or a stage. `topic` is what it is on, `under_adam` what
    Adam leaves of it.
    """

    about: str
    topic: str
    text: str
    method: str
    source: str
    under_adam: str
    assumptions: tuple[Condition, ...] = field(default=())

    @property
    def unmet(self) -> tuple[Condition, ...]:
        return tuple(condition for condition in self.assumptions if not condition.holds)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"assumptions": [asdict(condition) for condition in self.assumptions]}


def prediction_of(entry: dict[str, Any]) -> Prediction:
    """A prediction as it was kept in a record."""
    return Prediction(**{**entry, "assumptions": tuple(map(Condition.of, entry["assumptions"]))})


def chosen(conditions: Iterable[Condition], prefixes: Sequence[str]) -> tuple[Condition, ...]:
    """The conditions whose names begin with one of `prefixes`."""
    return tuple(
        condition for condition in conditions if condition.name.startswith(tuple(prefixes))
    )


def listed(words: Sequence[str], most: int = 6) -> str:
    """Words as they are printed in a sentence, quoted, the rest counted."""
    quoted = [f'"{word}"' for word in words[:most]]
    left = len(words) - len(quoted)
    return ", ".join(quoted) + (f" and {left} more" if left else "")


def spread(values: Sequence[float]) -> str:
    """The middle of some times, and their range where they differ."""
    times = sorted(value for value in values if value == value)
    if not times:
        return "never"
    middle = times[len(times) // 2]
    return (
        f"{middle:.3g}"
        if f"{times[0]:.3g}" == f"{times[-1]:.3g}"
        else f"{middle:.3g} ({times[0]:.3g} to {times[-1]:.3g})"
    )
