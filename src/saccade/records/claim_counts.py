"""How claims are counted, in the same words by the pages, the terminal and the report; from claims
as they stand in `claims.json`.

Negative controls are counted apart, and so are regression tests: comparisons with numbers of an
earlier program. Of the others it says how many compare with published numbers and how many are
calculus on formulas; the rest compare theory with simulation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

_ALONE = {"holds": "holds", "fails": "fails", "outside": "assumption not met"}
_WORDS = {
    "holds": "hold",
    "fails": "fail",
    "outside": "assumptions not met",
    "cannot tell": "inconclusive",
}
_UNDECIDED = ("outside", "cannot tell")
NOTHING = "fails: nothing was measured"  # which neither a control nor a known failure may
_KINDS = ("published", "calculus")
_APART = ("controls", "regression tests")
TOTALS = ("theory against simulation", *_KINDS, *_APART)


def apart(claim: Mapping[str, Any]) -> str:
    """As which of `controls` and `regression tests` a claim is counted; empty for a comparison."""
    if claim["breaks"]:
        return "controls"
    return "regression tests" if claim["against"] == "replication" else ""


def verdict_counts(claims: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many comparisons have which verdict, how many claims are counted apart, and how many are
    decided, but not as expected.
    """
    compared = [claim for claim in claims if not apart(claim)]
    found = Counter(claim["verdict"] for claim in compared)
    kinds = Counter(claim["against"] for claim in compared)
    others = Counter(filter(None, map(apart, claims)))
    idle = Counter(apart(claim) for claim in claims if claim["verdict"] in _UNDECIDED)
    failed = sum(
        apart(claim) == "regression tests" and claim["verdict"] == "fails" for claim in claims
    )
    surprises = sum(
        claim["verdict"] not in (claim["expected"], *_UNDECIDED)
        or claim.get("verdict_says") == NOTHING
        for claim in claims
    )
    return (
        {verdict: found[verdict] for verdict in _WORDS}
        | {kind: kinds[kind] for kind in _KINDS}
        | {name: others[name] for name in _APART}
        | {"failed regression tests": failed, "surprises": surprises}
        | {f"idle {name}": idle[name] for name in _APART if idle[name]}
    )


def tally(claims: Sequence[Mapping[str, Any]]) -> str:
    """Claims counted in words, as `counted` says them; empty if there are none."""
    return counted(verdict_counts(claims))


def tally_by_kind(claims: Sequence[Mapping[str, Any]]) -> str:
    """`40 claims: 30 theory against simulation, 6 published, 4 controls.` and their verdicts."""
    kinds = ", ".join(
        f"{count} {name}" for name, count in totals([verdict_counts(claims)]).items() if count
    )
    return f"{len(claims)} claims: {kinds}. Verdicts: {tally(claims)}."


def counted(counts: Mapping[str, Any]) -> str:
    """`16 claims (1 published, 4 calculus): 14 hold, 2 assumptions not met`, then what is counted
    apart: `; 1 control, 4 regression tests (1 fails)`; then `; 1 surprise among them`.
    """
    verdicts = [
        f"{n} {(_ALONE if n == 1 else _WORDS).get(verdict, word)}"
        for verdict, word in _WORDS.items()
        if (n := counts.get(verdict))
    ]
    n = sum(counts.get(verdict, 0) for verdict in _WORDS)
    kinds = ", ".join(f"{counts[kind]} {kind}" for kind in _KINDS if counts.get(kind))
    compared = f"{_many(n, 'claim')}{f' ({kinds})' if kinds else ''}: {', '.join(verdicts)}"
    others = ", ".join(_counted_apart(name, counts) for name in _APART if counts.get(name))
    surprises = counts.get("surprises", 0)
    among = f"{_many(surprises, 'surprise')} among them" if surprises else ""
    return "; ".join(filter(None, (compared if n else "", others, among)))


def _counted_apart(name: str, counts: Mapping[str, Any]) -> str:
    """`4 regression tests (1 fails)`."""
    failed, idle = counts.get(f"failed {name}", 0), counts.get(f"idle {name}", 0)
    said = [f"{failed} {(_ALONE if failed == 1 else _WORDS)['fails']}"] if failed else []
    said += [f"{idle} inconclusive"] if idle else []
    return _many(counts[name], name.removesuffix("s")) + (f" ({', '.join(said)})" if said else "")


def _many(n: int, word: str) -> str:
    return f"{n} {word}{'' if n == 1 else 's'}"


def totals(counts: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many claims there are of each of `TOTALS`, over several experiments."""
    found = {name: sum(one.get(name, 0) for one in counts) for name in TOTALS}
    found[TOTALS[0]] = (
        sum(one.get(verdict, 0) for one in counts for verdict in _WORDS)
        - found["published"]
        - found["calculus"]
    )
    return found
