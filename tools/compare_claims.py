"""What moved between two folders of results: `python -m tools.compare_claims BEFORE AFTER [NAME
...]`, claim by claim.

Claims of an experiment are matched by their labels. Those that are left are matched by statement,
case and kind of relation, in the order in which they stand: they were renamed, and are listed
apart. A claim has moved if it has another measurement, another bound, another verdict or another
expectation. Exits with 1 if any moved or are gone.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from saccade.records.store import load_claims

_SAME = 1e-9  # relative: further than rounding of one and the same computation
Claim = dict[str, Any]  # as `claims.json` has it


class Told(NamedTuple):
    """What decides a claim: the measurement, with the ends of its interval, the ends allowed, and
    the verdict.
    """

    values: tuple[float, ...]
    bounds: tuple[float, ...]
    verdict: str

    @classmethod
    def of(cls, claim: Claim) -> Told:
        values = tuple(map(_number, (claim["measured"], *(claim["interval"] or ()))))
        return cls(values, tuple(map(_number, claim["bounds"])), claim["verdict"])


class Differences(NamedTuple):
    """A line for each claim that moved and for each that has another name, and the labels of those
    that only one folder has.
    """

    moved: list[str]
    renamed: list[str]
    gone: list[str]
    new: list[str]


def differences(before: Sequence[Claim], after: Sequence[Claim]) -> Differences:
    pairs, gone, new = matched(before, after)
    renamed = [
        f"{_named(old)} -> {_named(now)}" for old, now in pairs if _named(old) != _named(now)
    ]
    moved = [
        f"{now['label']}: {why}"
        for old, now in pairs
        if (why := _moved(Told.of(old), Told.of(now)))
    ]
    return Differences(
        moved, renamed, [claim["label"] for claim in gone], [claim["label"] for claim in new]
    )


def matched(
    before: Sequence[Claim], after: Sequence[Claim]
) -> tuple[list[tuple[Claim, Claim]], list[Claim], list[Claim]]:
    """Pairs of the same claim, and what is left on either side."""
    pairs: list[tuple[Claim, Claim]] = []
    old, new = list(before), list(after)
    for key in (_named, _is_about):
        for old_group, new_group in _groups(old, new, key):
            found = _paired(old_group, new_group)
            pairs += found
            for one, other in found:
                old.remove(one)
                new.remove(other)
    return pairs, old, new


def _named(claim: Claim) -> str:
    """Its label; of a negative control with what it breaks."""
    return claim["label"] + (f" (control: {claim['breaks']})" if claim["breaks"] else "")


def _is_about(claim: Claim) -> Hashable:
    """What a claim keeps when its title changes. The assumption that a control breaks may have
    another name too.
    """
    case = json.dumps(claim["case"], sort_keys=True)
    return claim["statement"]["key"], case, bool(claim["breaks"]), claim["relation"]["kind"]


def _groups(
    old: Sequence[Claim], new: Sequence[Claim], key: Callable[[Claim], Hashable]
) -> list[tuple[list[Claim], list[Claim]]]:
    """Claims of both sides that have one key."""
    keys = dict.fromkeys(map(key, old))
    return [
        (
            [claim for claim in old if key(claim) == each],
            [claim for claim in new if key(claim) == each],
        )
        for each in keys
    ]


def _paired(old: list[Claim], new: list[Claim]) -> list[tuple[Claim, Claim]]:
    """In order if there are as many; if not, order tells nothing, and only claims with the same
    numbers are the same.
    """
    if len(old) == len(new):
        return list(zip(old, new, strict=True))
    pairs, left = [], list(new)
    for one in old:
        same = next((other for other in left if not _moved(Told.of(one), Told.of(other))), None)
        if same is not None:
            pairs.append((one, same))
            left.remove(same)
    return pairs


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _moved(old: Told, new: Told) -> str:
    if old[2:] != new[2:]:
        return f"{old.verdict} -> {new.verdict}"
    for word, a, b in (("measured", old.values, new.values), ("allowed", old.bounds, new.bounds)):
        if len(a) != len(b) or not all(map(_same, a, b)):
            return f"{word} {', '.join(map(str, a))} -> {', '.join(map(str, b))}"
    return ""


def _same(a: float, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=_SAME, abs_tol=1e-12)


def main(arguments: Sequence[str]) -> int:
    before, after, *names = arguments
    there = [
        {path.parent.name for path in Path(folder).glob("*/claims.json")}
        for folder in (before, after)
    ]
    for folder, only in ((before, there[0] - there[1]), (after, there[1] - there[0])):
        if only and not names:
            print(f"only in {folder}: {', '.join(sorted(only))}")
    worse = 0
    for name in names or sorted(there[0] & there[1]):
        found = differences(*(load_claims(Path(folder) / name) for folder in (before, after)))
        print(
            f"{name}: "
            + ", ".join(f"{len(lines)} {what}" for what, lines in found._asdict().items())
        )
        told = (
            *found.moved,
            *(f"gone: {label}" for label in found.gone),
            *(f"renamed: {line}" for line in found.renamed),
        )
        print("".join(f"  {line}\n" for line in told), end="")
        worse += len(found.moved) + len(found.gone)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
