"""One assumption of a theory: a number compared with a bound. Every validator of this package returns these."""

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Condition", "above", "at_least", "at_most", "below", "equal", "met"]


@dataclass(frozen=True)
class Condition:
    """`value relation bound`, such as 0.57 < 0.333.

    The name opens with its source in the paper where it has one: 1(b) for Assumption 1(b), T for a theorem, C for a
    corollary. `why` says what the value is.
    """

    name: str
    value: float
    relation: str
    bound: float
    why: str = ""

    @property
    def holds(self) -> bool:
        value, bound = self.value, self.bound
        return {"<": value < bound, ">": value > bound, "<=": value <= bound, ">=": value >= bound, "=": value == bound}[
            self.relation
        ]

    def as_dict(self) -> dict[str, Any]:
        """The fields, whether it holds, and how it is said."""
        return asdict(self) | {"holds": self.holds, "says": str(self)}

    def __str__(self) -> str:
        """`2 largest eigenvalue: 0.57, needed < 0.3333`; a condition without a number is its name alone."""
        if self.relation == "=" and self.bound == 1.0 and self.value in (0.0, 1.0):
            return self.name
        return f"{self.name}: {self.value:.4g}, needed {self.relation} {self.bound:.4g}"


def below(name: str, value: float, bound: float, why: str = "") -> Condition:
    return Condition(name, float(value), "<", float(bound), why)


def above(name: str, value: float, bound: float, why: str = "") -> Condition:
    return Condition(name, float(value), ">", float(bound), why)


def at_most(name: str, value: float, bound: float, why: str = "") -> Condition:
    return Condition(name, float(value), "<=", float(bound), why)


def at_least(name: str, value: float, bound: float, why: str = "") -> Condition:
    return Condition(name, float(value), ">=", float(bound), why)


def equal(name: str, value: float, bound: float, why: str = "") -> Condition:
    return Condition(name, float(value), "=", float(bound), why)


def met(name: str, holds: bool, why: str = "") -> Condition:
    """A condition that is true or false, without a number of its own."""
    return Condition(name, float(bool(holds)), "=", 1.0, why)
