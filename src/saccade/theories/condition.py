"""One assumption of a theory: a number compared with a bound. Every validator of this package
returns these.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from saccade.numerals import numeral

__all__ = ["Condition", "above", "at_least", "at_most", "below", "equal", "met", "tally"]

_WORDS = {"<": "below ", ">": "above ", "<=": "at most ", ">=": "at least ", "=": ""}


@dataclass(frozen=True)
class Condition:
    """`value relation bound`, such as 0.57 < 0.333.

    | field      | meaning                                                                                                     |
    |------------|-------------------------------------------------------------------------------------------------------------|
    | `name`     | what is assumed, after its source in the paper where it has one: "Assumption 2, classes overlap little"       |
    | `quantity` | what the value is: "largest eigenvalue of the overlaps"                                                       |
    | `why`      | why it is needed                                                                                              |
    """

    name: str
    value: float
    relation: str
    bound: float
    quantity: str = ""
    why: str = ""

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> "Condition":
        """As a record keeps it, where infinity is text."""
        numbers = {"value": float(stored["value"]), "bound": float(stored["bound"])}
        return cls(
            **{each.name: stored[each.name] for each in fields(cls) if each.name in stored}
            | numbers
        )

    @property
    def holds(self) -> bool:
        value, bound = self.value, self.bound
        return {
            "<": value < bound,
            ">": value > bound,
            "<=": value <= bound,
            ">=": value >= bound,
            "=": value == bound,
        }[self.relation]

    def as_dict(self) -> dict[str, Any]:
        """The fields, whether it holds, and how it is said."""
        return asdict(self) | {"holds": self.holds, "says": str(self)}

    def __str__(self) -> str:
        """`Assumption 2, classes overlap little: largest eigenvalue of the overlaps is 0.57, must
        be below 0.3333`; without a number, the name alone.
        """
        if (
            self.relation == "="
            and self.bound == 1.0
            and self.value in (0.0, 1.0)
            and not self.quantity
        ):
            return self.name
        of = f"{self.quantity} is " if self.quantity else ""
        return f"{self.name}: {of}{numeral(self.value)}, must be {_WORDS[self.relation]}{numeral(self.bound)}"


def tally(whose: str, conditions: Iterable[Condition]) -> list[str]:
    """`These claims rest on 9 assumptions; 2 are not met:`, then what each of these says. An
    assumption that is asked in several cases counts once, and is not met if it is not met in one of
    them. Nothing if all are met.
    """
    asked: dict[str, Condition] = {}
    for condition in conditions:
        if asked.setdefault(condition.name, condition).holds and not condition.holds:
            asked[condition.name] = condition
    unmet = [condition for condition in asked.values() if not condition.holds]
    if not unmet:
        return []
    assumed = f"{len(asked)} assumption{'s' if len(asked) > 1 else ''}"
    return [
        f"{whose} rest on {assumed}; {len(unmet)} {'are' if len(unmet) > 1 else 'is'} not met:",
        *map(str, unmet),
    ]


def below(name: str, value: float, bound: float, quantity: str = "", why: str = "") -> Condition:
    return Condition(name, float(value), "<", float(bound), quantity, why)


def above(name: str, value: float, bound: float, quantity: str = "", why: str = "") -> Condition:
    return Condition(name, float(value), ">", float(bound), quantity, why)


def at_most(name: str, value: float, bound: float, quantity: str = "", why: str = "") -> Condition:
    return Condition(name, float(value), "<=", float(bound), quantity, why)


def at_least(name: str, value: float, bound: float, quantity: str = "", why: str = "") -> Condition:
    return Condition(name, float(value), ">=", float(bound), quantity, why)


def equal(name: str, value: float, bound: float, quantity: str = "", why: str = "") -> Condition:
    return Condition(name, float(value), "=", float(bound), quantity, why)


def met(name: str, holds: bool, why: str = "") -> Condition:
    """A condition that is true or false, without a number of its own."""
    return Condition(name, float(bool(holds)), "=", 1.0, why=why)
