"""The tables of results: every question with its answer, and how many claims hold.

`python -m tools.results_tables RESULTS [NAME ...]` stores question, answer and verdicts of results
at default settings in `experiments/answers.json`, where `saccade list`, `saccade reproduce` and the
docs read them without a run. `docs_parts.py` puts the tables into pages.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from saccade.experiments import ANSWERS, EXPERIMENTS, REAL_TEXT, STORED_ANSWERS, experiment
from saccade.records.claim_counts import WORDS, counted
from saccade.records.json_files import read_json
from saccade.records.store import load_claims
from saccade.theories.papers import PAPERS

PARTS = {paper.part.replace("_", "-"): paper.title for paper in PAPERS} | {"real-text": "Real text"}


def _part(name: str) -> str:
    return "real-text" if name in REAL_TEXT else EXPERIMENTS[name].replace("_", "-")


def answers_table(part: str) -> str:
    """Questions of one part with the first sentence of their answers: `scan-and-snap`, ..."""
    made = "| question | answer | `saccade reproduce` | time |\n|---|---|---|---|\n"
    for name, stored in ANSWERS.items():
        if _part(name) == part:
            first = re.split(r"(?<=[.?!]) ", stored["answer"])[0]
            answer = re.sub(r"^\w+", r"**\g<0>**", first)  # yes, no, partly, undecided
            made += f"| {stored['question']} | {answer} | `{name}` | {stored['seconds']} s |\n"
    return made


def totals_table() -> str:
    """How many claims of each part have which verdict."""
    head = ["claims", *WORDS.values(), "all", "controls"]
    lines = [head, ["---"] * len(head)]
    for title, part in [*((title, part) for part, title in PARTS.items()), ("all", None)]:
        listed = [one for name, one in ANSWERS.items() if part in (_part(name), None)]
        counts = [sum(one["counts"].get(verdict, 0) for one in listed) for verdict in WORDS]
        numbers = (*counts, sum(counts), sum(one["controls"] for one in listed))
        lines.append([title, *(f"{count:,}" for count in numbers)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def table(part: str) -> str:
    """Questions of one part with whole answers and verdicts, for the page of a theory."""
    head = (
        "| question | `saccade reproduce ...` | time | answer | verdicts |\n|---|---|---|---|---|\n"
    )
    return head + "".join(
        f"| {stored['question']} | `{name}` | {stored['seconds']} s | {stored['answer']} "
        f"| {counted(stored['counts'] | {key: stored[key] for key in ('published', 'controls')})} |\n"
        for name, stored in ANSWERS.items()
        if _part(name) == part
    )


def summary(folder: Path) -> dict[str, Any]:
    """What is stored of one result; `verdicts` lists the claims that do not hold."""
    about, claims = read_json(folder / "about.json"), load_claims(folder)
    plain = [claim for claim in claims if not claim["breaks"]]
    return {
        "question": experiment(folder.name).question,
        "answer": about["answer"],
        "counts": dict(Counter(claim["verdict"] for claim in plain)),
        "published": sum(claim["against"] == "published" for claim in plain),
        "controls": len(claims) - len(plain),
        "verdicts": {one["label"]: one["verdict"] for one in plain if one["verdict"] != "holds"},
        "statements": sorted({claim["statement"]["key"] for claim in claims}),
        "seconds": max(1, round(about["wall_time_s"])),
    }


def main(results: str, *names: str) -> None:
    stored = dict(ANSWERS)
    for name in names or EXPERIMENTS:
        if (Path(results) / name / "claims.json").exists():
            stored[name] = summary(Path(results) / name)
    ordered = {name: stored[name] for name in EXPERIMENTS if name in stored}
    text = json.dumps(ordered, indent=1, ensure_ascii=False) + "\n"
    STORED_ANSWERS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
