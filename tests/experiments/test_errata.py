"""docs/errata.md is made from claims: whatever it says must be what the experiments say now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from saccade.experiments import EXPERIMENTS, experiment
from saccade.experiments.errata import errata_page
from saccade.records.claim import Claim
from tests.experiments.outcomes import assert_as_in_the_readme

PAGE = Path(__file__).parents[2] / "docs" / "errata.md"
WITH_ERRATA = (
    "momentum-and-start",
    "decoder-dynamics",
    "speed-control",
    "backprop-gradient",
    "attention-fates",
    "relative-gain",
    "scan-then-snap",
)


def rows(page: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if re.match(r"\| \d", line)]


@pytest.fixture(scope="module")
def found() -> dict[str, list[Claim]]:
    modules = {name: experiment(name) for name in EXPERIMENTS if name in WITH_ERRATA}
    return {name: module.claims(module.run(module.Config())) for name, module in modules.items()}


@pytest.fixture(scope="module")
def made(found) -> str:
    return errata_page([claim.as_dict() for claims in found.values() for claim in claims])


@pytest.mark.parametrize("name", WITH_ERRATA)
def test_the_tables_of_the_readme_say_what_the_experiments_say(found, name):
    assert_as_in_the_readme(name, found[name])


def test_the_page_of_errata_says_what_the_experiments_say(made):
    written = rows(PAGE.read_text("utf-8"))
    assert [row[:3] + row[6:] for row in written] == [row[:3] + row[6:] for row in rows(made)]
    for ours, theirs in zip(written, rows(made)):
        assert [float(x) for x in ours[3:6]] == pytest.approx([float(x) for x in theirs[3:6]], rel=0.02), ours[1]


def test_every_erratum_that_can_be_computed_is_a_pair_of_which_the_printed_form_fails(made):
    verdicts: dict[str, list[str]] = {}
    for number, *_, verdict in rows(made):
        verdicts.setdefault(number, []).append(verdict)
    expected = [*(f"0.{i}" for i in range(1, 11)), *(f"0.{i}" for i in range(12, 16))]
    assert list(verdicts) == expected
    assert all(found == ["fails", "holds"] * (len(found) // 2) for found in verdicts.values())
