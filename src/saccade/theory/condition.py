"""One assumption of a theory, turned into a number and a bound: what every validator of this package returns."""

from dataclasses import dataclass

__all__ = ["Condition", "at_least", "at_most", "below"]


@dataclass(frozen=True)
class Condition:
    """One condition: the number that decides it, the bound it is held against, and what the number is.

    The name opens with its source in the paper where it has one: 1(b) for Assumption 1(b), T for a theorem, C for a
    corollary.
    """

    name: str
    holds: bool
    value: float
    bound: float
    why: str


def below(name: str, value: float, bound: float, why: str) -> Condition:
    """Holds if value < bound."""
    return Condition(name, bool(value < bound), float(value), float(bound), why)


def at_most(name: str, value: float, bound: float, why: str) -> Condition:
    """Holds if value <= bound."""
    return Condition(name, bool(value <= bound), float(value), float(bound), why)


def at_least(name: str, value: float, bound: float, why: str) -> Condition:
    """Holds if value >= bound."""
    return Condition(name, bool(value >= bound), float(value), float(bound), why)
