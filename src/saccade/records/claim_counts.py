"""How claims are counted, in the same words by the README, the terminal and the report; from claims
as they stand in `claims.json`.

Negative controls are counted apart, and so are comparisons with our own replication, which are
regression tests. Of the others it is told how many compare with published numbers and how many are
calculus on formulas; the rest compare theory with simulation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

_ALONE = {"holds": "holds", "fails": "fails"}
_WORDS = {"holds": "hold", "fails": "fail", "outside": "outside", "cannot tell": "cannot be told"}
_UNDECIDED = ("outside", "cannot tell")
NOTHING = "fails: nothing was measured"  # which neither a control nor a known failure may
_KINDS = ("published", "calculus")
TOTALS = ("theory against simulation", *_KINDS, "controls", "replications")


def verdict_counts(claims: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many claims have which verdict, how many are counted apart, and how many are decided, but
    not as expected.
    """
    plain = [claim for claim in claims if not claim["breaks"]]
    kinds = Counter(claim["against"] for claim in plain)
    failed = sum(
        claim["verdict"] == "fails" for claim in plain if claim["against"] == "replication"
    )
    found = Counter(claim["verdict"] for claim in plain if claim["against"] != "replication")
    surprises = sum(
        claim["verdict"] not in (claim["expected"], *_UNDECIDED)
        or claim.get("verdict_says") == NOTHING
        for claim in claims
    )
    apart = {
        "controls": len(claims) - len(plain),
        "replications": kinds["replication"],
        "failed replications": failed,
    }
    apart["surprises"] = surprises
    idle = Counter(
        "controls" if claim["breaks"] else f"{claim['against']}s"
        for claim in claims
        if claim["verdict"] in _UNDECIDED
    )
    apart |= {f"idle {word}": idle[word] for word in ("controls", "replications") if idle[word]}
    return (
        {verdict: found[verdict] for verdict in _WORDS}
        | {kind: kinds[kind] for kind in _KINDS}
        | apart
    )


def tally(claims: Sequence[Mapping[str, Any]]) -> str:
    """Claims counted in words, as `counted` says them; empty if there are none."""
    return counted(verdict_counts(claims))


def tally_by_kind(claims: Sequence[Mapping[str, Any]]) -> str:
    """`40 claims: 30 theory against simulation, 6 published, 4 controls. Of these 32 hold, ...`"""
    kinds = ", ".join(
        f"{count} {name}" for name, count in totals([verdict_counts(claims)]).items() if count
    )
    return f"{len(claims)} claims: {kinds}. Of these {tally(claims)}."


def counted(counts: Mapping[str, Any]) -> str:
    """`12 hold, 2 fail as expected (5 published)`, then what is counted apart: `1 control, 4
    replications (1 fails)`; then `1 surprise among them`.
    """
    known = {"fails": " as expected"} if not counts.get("surprises") else {}
    parts = [
        f"{n} {(_ALONE if n == 1 else _WORDS).get(verdict, word)}{known.get(verdict, '')}"
        for verdict, word in _WORDS.items()
        if (n := counts.get(verdict))
    ]
    kinds = [f"{counts[kind]} {kind}" for kind in _KINDS if counts.get(kind)]
    parts[-1:] = [f"{part} ({', '.join(kinds)})" if kinds else part for part in parts[-1:]]
    for word in ("control", "replication"):
        n, failed = counts.get(f"{word}s", 0), counts.get(f"failed {word}s", 0)
        said = (
            [f"{failed} {(_ALONE if failed == 1 else _WORDS)['fails']}{known.get('fails', '')}"]
            if failed
            else []
        )
        said += [f"{idle} cannot be told"] if (idle := counts.get(f"idle {word}s")) else []
        parts += (
            [f"{n} {word}{'s' if n > 1 else ''}{' (' + ', '.join(said) + ')' if said else ''}"]
            if n
            else []
        )
    surprises = counts.get("surprises", 0)
    among = f"; {surprises} surprise{'s' if surprises > 1 else ''} among them" if surprises else ""
    return ", ".join(parts) + among


def totals(counts: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many claims there are of each of `TOTALS`, over several experiments."""
    found = {name: sum(one.get(name, 0) for one in counts) for name in TOTALS}
    found[TOTALS[0]] = (
        sum(one.get(verdict, 0) for one in counts for verdict in _WORDS)
        - found["published"]
        - found["calculus"]
    )
    return found
