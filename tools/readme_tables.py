"""The tables of what is reproduced, made from the experiments: what, command, time, what to expect,
verdicts of the last run.

`docs/outcomes.json` keeps what came of the last full run of each experiment: how many claims hold,
fail, are outside their assumptions or cannot be told at this size, its `finding` with the measured
numbers in it, and the statements that its claims test. The README shows the tables between two
marks; tests hold it to that file, and the file to runs where those are short
(`tests/experiments/outcomes.py`), on text to `docs/findings.md`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from saccade.experiments import EXPERIMENTS, REAL_TEXT, SYNTHETIC, experiment
from saccade.lab.findings import filled
from saccade.records.claim_counts import TOTALS, counted, totals, verdict_counts
from saccade.records.store import CLAIMS, load_claims
from saccade.records.writing import CHECKSUMS
from saccade.theory.papers import PAPERS

_KINDS = {
    paper.part.replace("_", "-"): [
        name for name, entry in SYNTHETIC.items() if entry.part == paper.part
    ]
    for paper in PAPERS
} | {"real-text": list(REAL_TEXT)}
_TITLES = {paper.title: _KINDS[paper.part.replace("_", "-")] for paper in PAPERS} | {
    "Real text": list(REAL_TEXT)
}


def table(kind: str, outcomes: Mapping[str, Mapping[str, Any]]) -> str:
    """Markdown rows of the experiments of one kind: `scan-and-snap`, `focus-and-dilution`,
    `rank-collapse` or `real-text`.
    """
    head = "| what | `saccade reproduce ...` | time | finding | verdicts |\n|---|---|---|---|---|\n"
    return head + "".join(_row(name, outcomes.get(name, {})) for name in _KINDS[kind])


def _row(name: str, outcome: Mapping[str, Any]) -> str:
    entry = EXPERIMENTS[name]
    return f"| {entry.about} | `{name}` | {entry.seconds} s | {outcome.get('finding', '')} | {counted(outcome) or 'not run yet'} |\n"


def totals_table(outcomes: Mapping[str, Mapping[str, Any]]) -> str:
    """How many claims of each kind there are in each table, and in all."""
    rows = {
        title: totals([outcomes.get(name, {}) for name in names])
        for title, names in _TITLES.items()
    }
    rows["all"] = totals([outcomes.get(name, {}) for name in EXPERIMENTS])
    head = f"| claims | {' | '.join(TOTALS)} | all |\n|---{'|---' * len(TOTALS)}|---|\n"
    return head + "".join(
        f"| {title} | {' | '.join(f'{n:,}' for n in found.values())} | {sum(found.values()):,} |\n"
        for title, found in rows.items()
    )


def with_tables(readme: str, outcomes: Mapping[str, Mapping[str, Any]]) -> str:
    """The text with the table of each kind, and that of the totals, between its marks, `<!-- KIND
    -->` and `<!-- end -->`.
    """
    for kind, made in {
        "totals": totals_table(outcomes),
        **{kind: table(kind, outcomes) for kind in _KINDS},
    }.items():
        begin, end = f"<!-- {kind} -->\n", "<!-- end -->"
        before, _, rest = readme.partition(begin)
        readme = before + begin + made + end + rest.partition(end)[2]
    return readme


def outcome(name: str, claims: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What `docs/outcomes.json` keeps of an experiment, from its claims as they stand in
    `claims.json`.
    """
    tested = sorted({claim["statement"]["key"] for claim in claims})
    return {
        **verdict_counts(claims),
        "finding": filled(name, experiment(name).finding, claims),
        "statements": tested,
    }


def main(arguments: Sequence[str]) -> None:
    """`python -m tools.readme_tables README.md docs/outcomes.json RESULTS ...`: keep what came of
    the runs in folders of results, and write the tables.
    """
    readme, kept, *folders = map(Path, arguments)
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
    readme.write_text(with_tables(readme.read_text(encoding="utf-8"), ordered), encoding="utf-8")


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
