"""The tables of what is reproduced, made from the experiments: what, command, time, what to expect, verdicts of the last run.

`docs/outcomes.json` keeps what came of the last full run of each experiment: how many claims hold, fail, or are outside their
assumptions, and its `finding` with the measured numbers in it. The README shows the tables between two marks; tests hold it to
that file, and the file to runs where those are short (`tests/experiments/outcomes.py`), on text to `docs/findings.md`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from string import Formatter
from typing import Any

from saccade.experiments import EXPERIMENTS, FOCUS_AND_DILUTION, REAL_TEXT, SCAN_AND_SNAP, experiment
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from saccade.records.store import CLAIMS, load_claims
from saccade.records.writing import CHECKSUMS

_KINDS = {"scan-and-snap": SCAN_AND_SNAP, "focus-and-dilution": FOCUS_AND_DILUTION, "real-text": REAL_TEXT}
_WORDS = {HOLDS: "hold", FAILS: "fail", OUTSIDE: "outside"}


def table(kind: str, outcomes: Mapping[str, Mapping[str, Any]]) -> str:
    """Markdown rows of the experiments of one kind: `scan-and-snap`, `focus-and-dilution` or `real-text`."""
    head = "| what | `saccade reproduce ...` | time | finding | verdicts |\n|---|---|---|---|---|\n"
    return head + "".join(_row(name, outcomes.get(name, {})) for name in _KINDS[kind])


def _row(name: str, outcome: Mapping[str, Any]) -> str:
    entry = EXPERIMENTS[name]
    return f"| {entry.about} | `{name}` | {entry.seconds} s | {outcome.get('finding', '')} | {_said(outcome)} |\n"


def _said(outcome: Mapping[str, Any]) -> str:
    """`12 hold, 2 fail as expected`."""
    parts = [f"{outcome[verdict]} {word}" for verdict, word in _WORDS.items() if outcome.get(verdict)]
    known = " as expected" if outcome.get(FAILS) and not outcome.get("surprises") else ""
    parts = [part + (known if part.endswith(_WORDS[FAILS]) else "") for part in parts]
    controls = outcome.get("controls", 0)
    return ", ".join([*parts, *([f"{controls} control{'s' if controls > 1 else ''}"] if controls else [])]) or "not run yet"


def with_tables(readme: str, outcomes: Mapping[str, Mapping[str, Any]]) -> str:
    """The text with the table of each kind between its marks, `<!-- KIND -->` and `<!-- end -->`."""
    for kind in _KINDS:
        begin, end = f"<!-- {kind} -->\n", "<!-- end -->"
        before, _, rest = readme.partition(begin)
        readme = before + begin + table(kind, outcomes) + end + rest.partition(end)[2]
    return readme


def outcome(name: str, claims: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What `docs/outcomes.json` keeps of an experiment, from its claims as they stand in `claims.json`."""
    return {**verdict_counts(claims), "finding": filled(name, experiment(name).finding, claims)}


def verdict_counts(claims: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many claims have which verdict, how many are negative controls, and how many are not as expected."""
    found = Counter(claim["verdict"] for claim in claims if not claim["breaks"])
    surprises = sum(claim["verdict"] not in (claim["expected"], OUTSIDE) for claim in claims)
    controls = sum(bool(claim["breaks"]) for claim in claims)
    return {verdict: found[verdict] for verdict in _WORDS} | {"controls": controls, "surprises": surprises}


def filled(name: str, template: str, claims: Sequence[Mapping[str, Any]]) -> str:
    """The template with measured numbers: `{growth rate*law paper:.3f}` is that of the one claim with such a label.

    `*` stands for any part of the label and `?` for any character, as for `:`, which ends the name of a field.
    """
    parts = Formatter().parse(template)
    sentence = "".join(
        text + (format(_measured(name, field, claims), form or "") if field else "") for text, field, form, _ in parts
    )
    return re.sub(r"(?<=\d)%", " %", sentence)  # as everywhere in the README


def _measured(name: str, field: str, claims: Sequence[Mapping[str, Any]]) -> float:
    found = [claim for claim in claims if fnmatchcase(claim["label"], field) and not claim.get("breaks")]
    if len(found) != 1:
        fitting = "".join(f"\n  {claim['label']}" for claim in found)
        raise ValueError(f"finding of {name}: the field `{field}` must fit one claim; it fits {len(found)}.{fitting}")
    measured = found[0]["measured"]
    return float("nan") if measured is None else float(measured)  # `claims.json` has null for NaN


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
