"""The tables of what is reproduced, made from the experiments: what, command, time, what to expect, verdicts of the last run.

`docs/outcomes.json` keeps what came of the last full run of each experiment: how many claims hold, fail, are outside their
assumptions or cannot be told at this size, its `finding` with the measured numbers in it, and the statements that its claims test.
The README shows the tables between
two marks; tests hold it to that file, and the file to runs where those are short (`tests/experiments/outcomes.py`), on text to
`docs/findings.md`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from saccade.experiments import EXPERIMENTS, REAL_TEXT, SYNTHETIC, experiment
from saccade.lab.claim import CALCULUS, CANNOT_TELL, FAILS, HOLDS, OUTSIDE, PUBLISHED, REPLICATION, UNDECIDED
from saccade.lab.findings import filled
from saccade.records.store import CLAIMS, load_claims
from saccade.records.writing import CHECKSUMS
from saccade.theory.papers import PAPERS

_KINDS = {
    paper.part.replace("_", "-"): [name for name, entry in SYNTHETIC.items() if entry.part == paper.part] for paper in PAPERS
} | {"real-text": list(REAL_TEXT)}
_ALONE = {HOLDS: "holds", FAILS: "fails"}
_WORDS = {HOLDS: "hold", FAILS: "fail", OUTSIDE: "outside", CANNOT_TELL: "cannot be told"}


def table(kind: str, outcomes: Mapping[str, Mapping[str, Any]]) -> str:
    """Markdown rows of the experiments of one kind: `scan-and-snap`, `focus-and-dilution`, `rank-collapse` or `real-text`."""
    head = "| what | `saccade reproduce ...` | time | finding | verdicts |\n|---|---|---|---|---|\n"
    return head + "".join(_row(name, outcomes.get(name, {})) for name in _KINDS[kind])


def _row(name: str, outcome: Mapping[str, Any]) -> str:
    entry = EXPERIMENTS[name]
    return f"| {entry.about} | `{name}` | {entry.seconds} s | {outcome.get('finding', '')} | {_said(outcome)} |\n"


def _said(outcome: Mapping[str, Any]) -> str:
    """`12 hold, 2 fail as expected (5 published)`, then what is counted apart: `1 control, 4 replications (1 fails)`."""
    known = {FAILS: " as expected"} if not outcome.get("surprises") else {}
    parts = [
        f"{n} {(_ALONE if n == 1 else _WORDS).get(verdict, word)}{known.get(verdict, '')}"
        for verdict, word in _WORDS.items()
        if (n := outcome.get(verdict))
    ]
    kinds = [f"{outcome[kind]} {kind}" for kind in (PUBLISHED, CALCULUS) if outcome.get(kind)]
    parts[-1:] = [f"{part} ({', '.join(kinds)})" if kinds else part for part in parts[-1:]]
    for word in ("control", "replication"):
        n, failed = outcome.get(f"{word}s", 0), outcome.get(f"failed {word}s", 0)
        lost = f" ({failed} {(_ALONE if failed == 1 else _WORDS)[FAILS]}{known.get(FAILS, '')})" if failed else ""
        parts += [f"{n} {word}{'s' if n > 1 else ''}{lost}"] if n else []
    return ", ".join(parts) or "not run yet"


def with_tables(readme: str, outcomes: Mapping[str, Mapping[str, Any]]) -> str:
    """The text with the table of each kind between its marks, `<!-- KIND -->` and `<!-- end -->`."""
    for kind in _KINDS:
        begin, end = f"<!-- {kind} -->\n", "<!-- end -->"
        before, _, rest = readme.partition(begin)
        readme = before + begin + table(kind, outcomes) + end + rest.partition(end)[2]
    return readme


def outcome(name: str, claims: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What `docs/outcomes.json` keeps of an experiment, from its claims as they stand in `claims.json`."""
    tested = sorted({claim["statement"]["key"] for claim in claims})
    return {**verdict_counts(claims), "finding": filled(name, experiment(name).finding, claims), "statements": tested}


def verdict_counts(claims: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many claims have which verdict, and how many are not as expected.

    Negative controls are counted apart, and so are comparisons with our own replication, which are regression tests, with those of
    them that fail. Of the others it is told how many compare with published numbers, and how many are calculus on formulas.
    """
    plain = [claim for claim in claims if not claim["breaks"]]
    kinds = Counter(claim["against"] for claim in plain)
    failed = sum(claim["verdict"] == FAILS for claim in plain if claim["against"] == REPLICATION)
    found = Counter(claim["verdict"] for claim in plain if claim["against"] != REPLICATION)
    surprises = sum(claim["verdict"] not in (claim["expected"], *UNDECIDED) for claim in claims)
    apart = {"controls": len(claims) - len(plain), "replications": kinds[REPLICATION], "failed replications": failed}
    apart["surprises"] = surprises
    return {verdict: found[verdict] for verdict in _WORDS} | {kind: kinds[kind] for kind in (PUBLISHED, CALCULUS)} | apart


def main(arguments: Sequence[str]) -> None:
    """`python -m tools.readme_tables README.md docs/outcomes.json RESULTS ...`: keep what came of the runs in folders of
    results, and write the tables.
    """
    readme, kept, *folders = map(Path, arguments)
    outcomes = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    for result in sorted({path.parent for folder in folders for name in (CHECKSUMS, CLAIMS) for path in folder.glob(f"*/{name}")}):
        outcomes[result.name] = outcome(result.name, load_claims(result))
    ordered = {name: outcomes[name] for name in EXPERIMENTS if name in outcomes}
    kept.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    readme.write_text(with_tables(readme.read_text(encoding="utf-8"), ordered), encoding="utf-8")


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
