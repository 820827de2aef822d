"""The tables of results: every question with its answer, and how many comparisons hold.

| file                 | keeps                                                                     |
|----------------------|---------------------------------------------------------------------------|
| `docs/outcomes.json` | of each experiment's last full run: verdicts, `finding`, statements tested |
| `docs/answers.json`  | the question of each experiment, and its answer in at most 20 words       |

Answers are written by hand today; a test allows no number that the experiment's finding lacks.
`docs_parts.py` puts the tables into pages. Tests hold outcomes to runs where those are short
(`tests/experiments/outcomes.py`), on text to `docs/findings.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from saccade.experiments import EXPERIMENTS, REAL_TEXT, experiment
from saccade.lab.claim import CANNOT_TELL, FAILS, HOLDS, OUTSIDE
from saccade.lab.findings import filled
from saccade.records.claim_counts import counted, verdict_counts
from saccade.records.store import CLAIMS, load_claims
from saccade.records.writing import CHECKSUMS
from saccade.theory.papers import PAPERS

DOCS = Path(__file__).parents[1] / "docs"
OUTCOMES, ANSWERS = DOCS / "outcomes.json", DOCS / "answers.json"
VERDICTS = {
    HOLDS: "hold",
    FAILS: "fail",
    OUTSIDE: "assumptions not met",
    CANNOT_TELL: "inconclusive",
}
PARTS = {paper.part.replace("_", "-"): paper.title for paper in PAPERS} | {"real-text": "Real text"}


def rows() -> list[dict[str, Any]]:
    """One row a question: name, part, question, answer, seconds, and a count for each verdict."""
    outcomes, answers = (json.loads(file.read_text("utf-8")) for file in (OUTCOMES, ANSWERS))
    return [
        {"name": name, "part": _part(name), "seconds": entry.seconds}
        | answers[name]
        | {verdict: outcomes[name][verdict] for verdict in VERDICTS}
        for name, entry in EXPERIMENTS.items()
    ]


def _part(name: str) -> str:
    return "real-text" if name in REAL_TEXT else EXPERIMENTS[name].part.replace("_", "-")


def answers_table(part: str, found: Sequence[Mapping[str, Any]]) -> str:
    """Questions and answers of one part: `scan-and-snap`, `real-text`, ..."""
    made = "| question | answer | `saccade reproduce` | time |\n|---|---|---|---|\n"
    for row in found:
        if row["part"] == part:
            answer = re.sub(r"^\w+", r"**\g<0>**", row["answer"])  # yes, no, partly, undecided
            made += f"| {row['question']} | {answer} | `{row['name']}` | {row['seconds']} s |\n"
    return made


def totals_table(found: Sequence[Mapping[str, Any]]) -> str:
    """How many comparisons of each part have which verdict."""
    head = ["comparisons", *VERDICTS.values(), "all"]
    lines = [head, ["---"] * len(head)]
    for title, part in [*((title, part) for part, title in PARTS.items()), ("all", None)]:
        counts = [
            sum(row[verdict] for row in found if part in (row["part"], None))
            for verdict in VERDICTS
        ]
        lines.append([title, *(f"{count:,}" for count in (*counts, sum(counts)))])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def table(part: str, outcomes: Mapping[str, Mapping[str, Any]]) -> str:
    """Experiments of one part with their findings and verdicts in full, for the page of a theory."""
    head = "| what | `saccade reproduce ...` | time | finding | verdicts |\n|---|---|---|---|---|\n"
    return head + "".join(
        f"| {entry.about} | `{name}` | {entry.seconds} s | {outcomes.get(name, {}).get('finding', '')} "
        f"| {counted(outcomes.get(name, {})) or 'not run yet'} |\n"
        for name, entry in EXPERIMENTS.items()
        if _part(name) == part
    )


def outcome(name: str, claims: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The entry of `docs/outcomes.json` for an experiment, from its `claims.json`."""
    tested = sorted({claim["statement"]["key"] for claim in claims})
    return {
        **verdict_counts(claims),
        "finding": filled(name, experiment(name).finding, claims),
        "statements": tested,
    }


def main(arguments: Sequence[str]) -> None:
    """`python -m tools.results_tables docs/outcomes.json RESULTS ...`: keep the outcomes of the
    runs in folders of results. `python -m tools.docs_parts` then writes the tables.
    """
    kept, *folders = map(Path, arguments)
    outcomes = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    for result in sorted(
        {
            path.parent
            for folder in folders
            for name in (CHECKSUMS, CLAIMS)
            for path in folder.glob(f"*/{name}")
        }
    ):
        if (
            result.name in EXPERIMENTS or (result / CLAIMS).exists()
        ):  # not a page that was made from results
            outcomes[result.name] = outcome(result.name, load_claims(result))
    ordered = {name: outcomes[name] for name in EXPERIMENTS if name in outcomes}
    kept.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
