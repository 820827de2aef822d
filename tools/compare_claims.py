"""What moved between two folders of results: `python -m tools.compare_claims BEFORE AFTER [NAME ...]`, claim by claim.

Claims of one experiment are matched by their place. A claim may be said in another way (a bound instead of `predicted 0`, a
relation instead of a tolerance, an erratum as one claim instead of two), but not have another measurement, another bound that
decides it, another verdict or another expectation. Prints each claim that moved and exits with 1 if there are any. Negative
controls have no counterpart in folders written before there were controls; they are counted and left out.
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
    """A claim as both ways of writing have it. `values` holds the numbers of which one was measured, `bounds` the ends allowed."""

    text: str
    values: tuple[float, ...]
    bounds: tuple[float, ...]
    verdict: str
    expected: str


def told(claims: Sequence[dict[str, Any]]) -> list[Told]:
    """Claims of either way of writing; the two halves of an erratum as one."""
    found: list[Told] = []
    for claim in claims:
        if "relation" in claim:
            if not claim.get("breaks"):
                found.append(_of_relation(claim))
        elif "erratum" in claim["source"] and claim["source"].endswith("corrected"):
            found[-1] = _of_pair(found[-1], claim)
        else:
            found.append(_of_tolerance(claim))
    return found


def _of_tolerance(claim: dict[str, Any]) -> Told:
    predicted, tolerance = _number(claim["predicted"]), _number(claim["tolerance"])
    ends = (predicted - tolerance, predicted + tolerance)
    return Told(claim["statement"], (_number(claim["measured"]),), ends, _word(claim["verdict"]), _word(claim["expected"]))


def _of_pair(printed: Told, corrected: dict[str, Any]) -> Told:
    """The printed form fails and the corrected one holds, or the erratum does not hold."""
    right = _of_tolerance(corrected)
    verdict = (
        right.verdict
        if right.verdict == "outside"
        else "holds"
        if (printed.verdict, right.verdict) == ("fails", "holds")
        else "fails"
    )
    return right._replace(verdict=verdict)


def _of_relation(claim: dict[str, Any]) -> Told:
    values = [claim["measured"], *(claim.get("interval") or ())]
    ends = [math.inf if end is None else float(end) for end in claim["bounds"]]
    return Told(claim["label"], tuple(map(_number, values)), tuple(ends), claim["verdict"], claim["expected"])


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _word(verdict: str) -> str:
    return "outside" if verdict.startswith("outside") else verdict


def differences(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each claim that moved."""
    old, new = told(before), told(after)
    lines = [] if len(old) == len(new) else [f"{len(old)} claims became {len(new)}"]
    return lines + [f"{a.text}\n    -> {b.text}\n    {why}" for a, b in zip(old, new, strict=False) if (why := _moved(a, b))]


def _moved(old: Told, new: Told) -> str:
    if (old.verdict, old.expected) != (new.verdict, new.expected):
        return f"{old.verdict} (expected {old.expected}) -> {new.verdict} (expected {new.expected})"
    if not any(_same(abs(a), abs(b)) for a in old.values for b in new.values):  # a size may be told without its sign
        return f"measured {old.values} -> {new.values}"
    decisive = [end for end in new.bounds if math.isfinite(end)]
    if not any(_same(abs(a), abs(b)) for a in old.bounds for b in decisive):
        return f"allowed {old.bounds} -> {new.bounds}"
    return ""


def _same(a: float, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=_SAME, abs_tol=1e-12)


def main(arguments: Sequence[str]) -> int:
    before, after, *names = arguments
    there = [{path.parent.name for path in Path(folder).glob("*/claims.json")} for folder in (before, after)]
    for folder, only in ((before, there[0] - there[1]), (after, there[1] - there[0])):
        if only and not names:
            print(f"only in {folder}: {', '.join(sorted(only))}")
    moved = 0
    for name in names or sorted(there[0] & there[1]):
        old, new = (load_claims(Path(folder) / name) for folder in (before, after))
        lines = differences(old, new)
        controls = sum(bool(claim.get("breaks")) for claim in new)
        print(f"{name}: {len(told(new))} claims, {len(lines)} moved" + (f", {controls} negative controls" if controls else ""))
        print("".join(f"  {line}\n" for line in lines), end="")
        moved += len(lines)
    return 1 if moved else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
