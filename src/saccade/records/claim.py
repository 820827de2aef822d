"""A claim: one sentence that a run can confirm or refute, with the numbers beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

HOLDS, FAILS, OUTSIDE = "holds", "fails", "outside its assumptions"


@dataclass(frozen=True)
class Claim:
    """`measured` within `tolerance` of `predicted`, given `assumptions` (name -> met by this run).

    `expected` is the verdict we expect: `fails` for what is known to be wrong in a paper. A claim outside its assumptions
    still shows its numbers, but neither confirms nor refutes anything.
    """

    statement: str
    source: str
    predicted: float
    measured: float
    tolerance: float
    assumptions: Mapping[str, bool] = field(default_factory=dict)
    expected: str = HOLDS

    @property
    def verdict(self) -> str:
        if not all(self.assumptions.values()):
            return OUTSIDE
        return HOLDS if abs(self.measured - self.predicted) <= self.tolerance else FAILS  # NaN fails

    @property
    def as_expected(self) -> bool:
        return self.verdict == self.expected

    def as_dict(self) -> dict[str, Any]:
        """The keys of `claims.json`."""
        values = asdict(self) | {"assumptions": dict(self.assumptions), "verdict": self.verdict}
        order = ("statement", "source", "assumptions", "predicted", "measured", "tolerance", "verdict", "expected")
        return {key: values[key] for key in order}
