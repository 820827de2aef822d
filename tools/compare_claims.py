"""What moved between two folders of results: `python -m tools.compare_claims BEFORE AFTER [NAME ...]`, claim by claim.

Claims of an experiment are matched by their labels. One has moved if it has another measurement, another bound, another verdict or
another expectation. Prints those that moved, those that are gone and how many are new; exits with 1 if any moved or are gone.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from saccade.records.store import load_claims

_SAME = 1e-9  # relative: further than rounding of one and the same computation


class Told(NamedTuple):
    """What decides a claim: the measurement, with the ends of its interval, the ends allowed, the verdict and the expected one."""

    values: tuple[float, ...]
    bounds: tuple[float, ...]
    verdict: str
    expected: str


def told(claims: Sequence[dict[str, Any]]) -> dict[tuple[str, str], Told]:
    """By label, and by what a negative control breaks."""
    return {
        (claim["label"], claim["breaks"]): Told(
            tuple(map(_number, (claim["measured"], *(claim["interval"] or ())))),
            tuple(map(_number, claim["bounds"])),
            claim["verdict"],
            claim["expected"],
        )
        for claim in claims
    }


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


class Differences(NamedTuple):
    """A line for each claim that moved, and the labels of those that only one folder has."""

    moved: list[str]
    gone: list[str]
    new: list[str]


def differences(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> Differences:
    old, new = told(before), told(after)
    moved = [f"{key[0]}: {why}" for key in old if key in new and (why := _moved(old[key], new[key]))]
    return Differences(moved, [key[0] for key in old if key not in new], [key[0] for key in new if key not in old])


def _moved(old: Told, new: Told) -> str:
    if old[2:] != new[2:]:
        return f"{old.verdict} (expected {old.expected}) -> {new.verdict} (expected {new.expected})"
    for word, a, b in (("measured", old.values, new.values), ("allowed", old.bounds, new.bounds)):
        if len(a) != len(b) or not all(map(_same, a, b)):
            return f"{word} {', '.join(map(str, a))} -> {', '.join(map(str, b))}"
    return ""


def _same(a: float, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=_SAME, abs_tol=1e-12)


def main(arguments: Sequence[str]) -> int:
    before, after, *names = arguments
    there = [{path.parent.name for path in Path(folder).glob("*/claims.json")} for folder in (before, after)]
    for folder, only in ((before, there[0] - there[1]), (after, there[1] - there[0])):
        if only and not names:
            print(f"only in {folder}: {', '.join(sorted(only))}")
    worse = 0
    for name in names or sorted(there[0] & there[1]):
        found = differences(*(load_claims(Path(folder) / name) for folder in (before, after)))
        print(f"{name}: {len(found.moved)} moved, {len(found.gone)} gone, {len(found.new)} new")
        print("".join(f"  {line}\n" for line in (*found.moved, *(f"gone: {label}" for label in found.gone))), end="")
        worse += len(found.moved) + len(found.gone)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
