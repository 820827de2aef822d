"""docs/errata.md and docs/findings.md are made from claims: whatever they say must be what the experiments say now."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import xarray as xr

from saccade.experiments import REAL_TEXT, experiment
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE, Case, Claim
from saccade.lab.outcome import Outcome
from saccade.lab.pages import errata_page, findings_page
from saccade.theory.statement import Correction, Statement
from saccade.theory.statements import STATEMENTS
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import OUTCOMES, assert_as_in_the_readme

DOCS = Path(__file__).parents[2] / "docs"
WITH_ERRATA = (
    "momentum-and-start",
    "decoder-dynamics",
    "speed-control",
    "backprop-gradient",
    "attention-fates",
    "relative-gain",
    "scan-then-snap",
    "growth-figures",
    "saddle-departure",
    "condensation-transition",
    "ray-critical-point",
    "focus-growth",
    "mass-redistribution",
    "saturated-point",
    "symmetric-escape",
    "other-chains",
)
LEMMA = Statement("nobody1999", "Lemma 1", "all is well")


def rows(page: str) -> list[list[str]]:
    """Cells of every row of a Markdown table, but for headings."""
    headings = "| what decides", "| where", "| claim"
    lines = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith(headings)]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def errata_of(page: str) -> list[list[str]]:
    """Number, what decides, printed, corrected, measured, verdict of every claim on a page of errata."""
    page = re.sub("^### Misprints.*?(?=^## |\\Z)", "", page, flags=re.MULTILINE | re.DOTALL)
    parts = re.split(r"^### ([\d.]+) .*$", page, flags=re.MULTILINE)[1:]
    return [[number, *row] for number, part in zip(parts[::2], parts[1::2], strict=True) for row in rows(part)]


@pytest.fixture(scope="module")
def found() -> dict[str, list[Claim]]:
    return {name: list(experiment(name).claims(record_of(name))) for name in WITH_ERRATA}


@pytest.fixture(scope="module")
def errata(found) -> list[list[str]]:
    return errata_of(errata_page([claim for claims in found.values() for claim in claims]))


@pytest.mark.parametrize("name", WITH_ERRATA)
def test_the_tables_of_the_readme_say_what_the_experiments_say(found, name):
    assert_as_in_the_readme(name, found[name])


def test_the_page_of_errata_says_what_the_experiments_say(errata):
    written = errata_of((DOCS / "errata.md").read_text("utf-8"))
    assert [row[:2] + row[5:] for row in written] == [row[:2] + row[5:] for row in errata]
    for ours, theirs in zip(written, errata, strict=True):
        assert [float(x) for x in ours[2:5]] == pytest.approx([float(x) for x in theirs[2:5]], rel=0.02), ours[1]


def test_every_erratum_that_can_be_computed_is_shown_wrong_as_printed_and_right_as_corrected(errata):
    verdicts: dict[str, set[str]] = {}
    for number, *_, verdict in errata:
        verdicts.setdefault(number, set()).add(verdict)
    assert set(verdicts) == {each.number for statement in STATEMENTS.values() for each in statement.errata}
    assert set().union(*verdicts.values()) == {HOLDS}


def test_a_reading_is_not_called_printed():
    forms = Correction("0.1", ("a < b",), ("a > b",), "Because.", "as implied")
    claim = Case().erratum(
        Statement("tian2023", "Lemma 1", "x", errata=(forms,)), "x", 1, number="0.1", printed=-1, corrected=1, within=0
    )
    page = errata_page([claim]).partition("### Misprints")[0]
    assert "As implied (tian2023, Lemma 1" in page
    assert "| what decides | as implied | corrected |" in page


def test_a_page_of_findings_has_every_claim_and_the_failing_ones_on_top():
    claims = [Case().near(LEMMA, "sum of P(a|b)", 1.05, 1.0, within=0.1), Case().near(LEMMA, "slope", -0.3, -0.5, within=0.05)]
    page = findings_page([Outcome("text-fates", "All is well.", Path("x"), xr.Dataset(attrs={"size": "quick"}), claims)])
    top, rest = page.split("## text-fates (quick setting)")
    assert [row[0] for row in rows(top)] == ["slope"]
    assert [(row[0], row[3]) for row in rows(rest)] == [(r"sum of P(a\|b)", HOLDS), ("slope", FAILS)]


def test_the_page_of_findings_has_a_part_for_each_experiment_with_the_verdicts_of_its_last_run():
    page = (DOCS / "findings.md").read_text("utf-8")
    named = re.findall(r"^## (\S+) \((\w+) setting\)$", page, re.MULTILINE)
    assert [name for name, _ in named] == list(REAL_TEXT)
    top, *parts = re.split(r"^## \S+ \(\w+ setting\)$", page, flags=re.MULTILINE)
    assert rows(top) == [row for part in parts for row in rows(part) if row[-1].startswith(FAILS)]
    for (name, _), part in zip(named, parts, strict=True):
        verdicts = [row[-1] for row in rows(part)]
        assert [sum(said.startswith(word) for said in verdicts) for word in (HOLDS, FAILS, OUTSIDE)] == [
            OUTCOMES[name][word] for word in (HOLDS, FAILS, OUTSIDE)
        ], json.dumps(OUTCOMES[name])
