"""How claims are counted, in the same words by the pages, the terminal and the report; from claims
as they stand in `claims.json`. Controls are counted apart: they must fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

WORDS = {
    "holds": "hold",
    "fails": "fail",
    "assumptions not met": "assumptions not met",
    "inconclusive": "inconclusive",
}
_ALONE = WORDS | {"holds": "holds", "fails": "fails"}


def verdict_counts(claims: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many claims have which verdict, how many compare with published numbers, and how many
    controls there are, and how many of these do not fail.
    """
    plain = [claim for claim in claims if not claim["breaks"]]
    found = Counter(claim["verdict"] for claim in plain)
    controls = [claim for claim in claims if claim["breaks"]]
    return {
        **{verdict: found[verdict] for verdict in WORDS},
        "published": sum(claim["against"] == "published" for claim in plain),
        "controls": len(controls),
        "controls that do not fail": sum(
            one["verdict"] != "fails" or one["measured"] is None for one in controls
        ),
    }


def tally(claims: Sequence[Mapping[str, Any]]) -> str:
    """Claims counted in words, as `counted` says them; "no claims" if there are none."""
    return counted(verdict_counts(claims)) or "no claims"


def counted(counts: Mapping[str, Any]) -> str:
    """`16 claims (1 published): 14 hold, 2 assumptions not met; 1 control fails, as it must`."""
    verdicts = [
        f"{n} {(_ALONE if n == 1 else WORDS)[verdict]}"
        for verdict in WORDS
        if (n := counts.get(verdict))
    ]
    n, published = sum(counts.get(verdict, 0) for verdict in WORDS), counts.get("published")
    of_these = f" ({published} published)" if published else ""
    parts = [f"{_many(n, 'claim')}{of_these}: {', '.join(verdicts)}"] if n else []
    if controls := counts.get("controls", 0):
        fine = controls - counts.get("controls that do not fail", 0)
        must = "fails, as it must" if controls == 1 else "fail, as they must"
        said = f"{_many(controls, 'control')} {must}"
        parts.append(said if fine == controls else f"{fine} of {_many(controls, 'control')} fail")
    return "; ".join(parts)


def _many(n: int, word: str) -> str:
    return f"{n} {word}{'' if n == 1 else 's'}"
