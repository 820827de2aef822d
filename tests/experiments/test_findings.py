"""docs/findings.md is made from claims: here that the page says all of them, the failing ones first, and is there whole."""

from __future__ import annotations

import re
from pathlib import Path

import xarray as xr
from saccade.experiments.findings import findings_page

from saccade.experiments import REAL_TEXT
from saccade.experiments.reproduce import Outcome
from saccade.records.claim import Claim

PAGE = Path(__file__).parents[2] / "docs" / "findings.md"


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.splitlines() if line.startswith("| ")]


def test_a_page_has_every_claim_and_the_failing_ones_on_top():
    claims = [
        Claim("sum of P(a|b)", "[here]", predicted=1.0, measured=1.05, tolerance=0.1),
        Claim("slope", "[there]", predicted=-0.5, measured=-0.3, tolerance=0.05),
    ]
    record = xr.Dataset(attrs={"size": "quick"})
    page = findings_page([Outcome("text-fates", Path("x"), record, claims)])
    top, rest = page.split("## text-fates (quick setting)")
    assert [row[0] for row in rows(top)[1:]] == ["slope"]
    assert [(row[0], row[5]) for row in rows(rest)[1:]] == [(r"sum of P(a\|b)", "holds"), ("slope", "fails")]


def test_the_page_in_the_docs_has_a_part_for_each_experiment_with_as_many_failures_as_it_says():
    page = PAGE.read_text("utf-8")
    named = re.findall(r"^## (\S+) \((\w+) setting\)$", page, re.MULTILINE)
    assert [name for name, _ in named] == list(REAL_TEXT)
    top, *parts = re.split(r"^## \S+ \(\w+ setting\)$", page, flags=re.MULTILINE)
    below = [row for part in parts for row in rows(part) if row[-1] == "fails"]
    assert rows(top)[1:] == below
