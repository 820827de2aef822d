"""The table of what is reproduced, made from the experiments: what, command, time, what to expect, verdicts of the last run.

`docs/verdicts.json` keeps how many claims of each experiment hold, fail, or are outside their assumptions, as the last full run
counted them; the README shows the tables between two marks, and a test holds it to them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from saccade.experiments import EXPERIMENTS, experiment
from saccade.records.claim import FAILS, HOLDS, OUTSIDE

_KINDS = {
    "scan-and-snap": "saccade.experiments.scan_and_snap.",
    "focus-and-dilution": "saccade.experiments.focus_and_dilution.",
    "real-text": "saccade.experiments.real_text.",
}
_WORDS = {HOLDS: "hold", FAILS: "fail", OUTSIDE: "outside"}


def table(kind: str, verdicts: Mapping[str, Mapping[str, int]]) -> str:
    """Markdown rows of the experiments of one kind: `scan-and-snap`, `focus-and-dilution` or `real-text`."""
    names = [name for name, module in EXPERIMENTS.items() if module.startswith(_KINDS[kind])]
    head = "| what | `saccade reproduce ...` | time | expected | verdicts |\n|---|---|---|---|---|\n"
    return head + "".join(_row(name, verdicts.get(name, {})) for name in names)


def _row(name: str, verdicts: Mapping[str, int]) -> str:
    module = experiment(name)
    return f"| {module.WHAT} | `{name}` | {module.SECONDS} s | {module.EXPECTED} | {_said(verdicts)} |\n"


def _said(verdicts: Mapping[str, int]) -> str:
    """`12 hold, 2 fail as known`."""
    parts = [f"{verdicts[verdict]} {word}" for verdict, word in _WORDS.items() if verdicts.get(verdict)]
    known = " as known" if verdicts.get(FAILS) and not verdicts.get("surprises") else ""
    return ", ".join(part + (known if part.endswith(_WORDS[FAILS]) else "") for part in parts) or "not run yet"


def with_tables(readme: str, verdicts: Mapping[str, Mapping[str, int]]) -> str:
    """The text with the table of each kind between its marks, `<!-- KIND -->` and `<!-- end -->`."""
    for kind in _KINDS:
        begin, end = f"<!-- {kind} -->\n", "<!-- end -->"
        before, _, rest = readme.partition(begin)
        readme = before + begin + table(kind, verdicts) + end + rest.partition(end)[2]
    return readme


def main(arguments: Sequence[str]) -> None:
    """`python -m tools.readme_tables README.md docs/verdicts.json RESULTS ...`: count the verdicts of folders of
    results, keep them, and write the tables.
    """
    readme, kept, *folders = map(Path, arguments)
    verdicts = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    for claims in sorted(path for folder in folders for path in folder.glob("*/claims.json")):
        verdicts[claims.parent.name] = verdict_counts(json.loads(claims.read_text(encoding="utf-8")))
    ordered = {name: verdicts[name] for name in EXPERIMENTS if name in verdicts}
    kept.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    readme.write_text(with_tables(readme.read_text(encoding="utf-8"), ordered), encoding="utf-8")


def verdict_counts(claims: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many claims, as they stand in `claims.json`, have which verdict, and how many of them are not as expected."""
    found = Counter(claim["verdict"] for claim in claims)
    surprises = sum(claim["verdict"] not in (claim["expected"], OUTSIDE) for claim in claims)
    return {verdict: found[verdict] for verdict in _WORDS} | {"surprises": surprises}


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
