"""Question, answer and verdicts of every experiment, stored where `saccade list` and the docs read
them without a run: `python -m tools.answers RESULTS [NAME ...]` takes them from result folders.

`saccade reproduce` compares a run at default settings with what is stored here.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from saccade.experiments import EXPERIMENTS, STORED_ANSWERS, experiment
from saccade.records.json_files import read_json


def summary(folder: Path) -> dict[str, Any]:
    """What is stored of one result; `verdicts` lists the claims that do not hold."""
    about, claims = read_json(folder / "about.json"), read_json(folder / "claims.json")
    plain = [claim for claim in claims if not claim["breaks"]]
    others = {one["label"]: one["verdict"] for one in plain if one["verdict"] != "holds"}
    return {
        "question": experiment(folder.name).question,
        "answer": about["answer"],
        "counts": dict(Counter(claim["verdict"] for claim in plain)),
        "published": sum(claim["against"] == "published" for claim in plain),
        "controls": len(claims) - len(plain),
        "verdicts": others,
        "statements": sorted({claim["statement"]["key"] for claim in claims}),
        "seconds": max(1, round(about["wall_time_s"])),
    }


def main(results: str, *names: str) -> None:
    stored = json.loads(STORED_ANSWERS.read_text()) if STORED_ANSWERS.exists() else {}
    for name in names or EXPERIMENTS:
        if (Path(results) / name / "claims.json").exists():
            stored[name] = summary(Path(results) / name)
    ordered = {name: stored[name] for name in EXPERIMENTS if name in stored}
    STORED_ANSWERS.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
