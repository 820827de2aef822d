"""Every claim on text has a ceiling, or says in a word why none applies."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from saccade.experiments import REAL_TEXT, experiment
from tests.experiments.default_runs import record_of

FINDINGS = (Path(__file__).parents[3] / "docs" / "findings.md").read_text("utf-8")
SMALL = [
    "first-force-text",
    "forecast-transformer",
    "optimisers",
    "positions",
]


def small(name: str) -> Any:
    """The small settings of the experiment's own tests, so that its run is shared with them."""
    found = import_module(f"tests.experiments.real_text.test_{name.replace('-', '_')}").SMALL
    return asdict(found) if is_dataclass(found) else found


@pytest.mark.parametrize("name", SMALL)
def test_a_small_run_has_no_claim_without_a_ceiling_or_a_reason(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "saccade.processes.cores", lambda: 1
    )  # starting processes would take longer than the runs
    claims = list(experiment(name).claims(record_of(name, **small(name))))
    assert claims
    assert not [claim.label for claim in claims if not claim.ceilings]


@pytest.mark.parametrize("name", REAL_TEXT)
def test_the_page_of_findings_has_no_row_without_a_ceiling_or_a_reason(name: str) -> None:
    table = (
        FINDINGS.partition("# Every claim")[2].partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    )
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert rows
    assert not [
        row
        for row in rows
        if not any(f"; {word} " in row for word in ("ceiling", "for comparison", "no ceiling:"))
    ]
