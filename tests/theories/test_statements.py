"""Statements are listed once, in order, each with what a reader needs."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

import pytest

from saccade.theories import statements as every
from saccade.theories.statement import FIGURE, OURS, QUESTION, THEOREM, Statement

LISTED = [each for module in every.LISTS for each in module.STATEMENTS]
ROOT = Path(__file__).parents[2]
by_key = pytest.mark.parametrize("statement", LISTED, ids=lambda each: each.key)


def test_no_two_statements_share_a_key():
    assert len(every.STATEMENTS) == len(LISTED)


@by_key
def test_a_statement_says_what_it_says_what_it_assumes_and_where_it_stands(statement):
    assert 10 <= len(statement.title) <= 80
    assert statement.title[0].isupper()
    assert statement.title.endswith("?") == (statement.kind == QUESTION)
    assert statement.place
    assert statement.kind in (THEOREM, FIGURE, OURS, QUESTION)
    assert (statement.paper == "saccade") == (statement.kind in (OURS, QUESTION))
    if statement.kind == THEOREM:
        assert statement.formula
    if statement.kind != QUESTION:
        assert statement.hypotheses
    assert "\\" not in statement.title + statement.place + "".join(
        statement.hypotheses
    )  # shown as plain text


@pytest.mark.parametrize("module", every.LISTS, ids=lambda module: module.__name__)
def test_numbers_rise(module):
    numbered = [
        re.fullmatch(r"(\w+\.?) ([A-Z]?)\.?([\d.]+)(?:\((\w)\))?", each.number)
        for each in module.STATEMENTS
    ]
    found = sorted(
        (match[1], place, [match[2], *(int(part) for part in match[3].split("."))], match[4] or "")
        for place, match in enumerate(numbered)
        if match
    )
    for _, group in groupby(found, key=lambda entry: entry[0]):
        order = [(number, part) for _, _, number, part in group]
        assert order == sorted(order)


@pytest.mark.parametrize("module", every.LISTS[:5], ids=lambda module: module.__name__)
def test_constants_are_named_after_their_numbers(module):
    names = {name: value for name, value in vars(module).items() if value in module.STATEMENTS}
    for name, statement in names.items():
        if re.match(
            r"(Definition|Theorem|Lemma|Proposition|Corollary|Remark|Assumption|Fig\.) ([A-Z]\.)?\d",
            statement.number,
        ):
            assert (
                name
                == re.sub(
                    r"\W+", "_", statement.number.replace("(a)", "A").replace("(b)", "B")
                ).upper()
            )


def test_papers_are_in_the_references():
    bibliography = (Path(every.__file__).parent / "references.bib").read_text("utf-8")
    assert all(
        f"{{{paper}," in bibliography for paper in {each.paper for each in LISTED} - {"saccade"}
    )


def errata() -> set[tuple[str, str]]:
    """Number and statement of every erratum on the page that is made from the claims."""
    page = (ROOT / "docs" / "errata.md").read_text("utf-8")
    entries = re.findall(r"^### ([\d.]+) .+\n\nAs [^(]+ \((.+)\):$", page, re.MULTILINE)
    return {
        (number, key)
        for number, places in entries
        for key in re.findall(r"[a-z]+\d{4}, [^,;]+", places)
    }


def test_errata_are_those_that_claims_measure():
    assert {
        (each.number, statement.key) for statement in LISTED for each in statement.errata
    } == errata()


def test_an_erratum_says_why_in_one_sentence():
    for statement in LISTED:
        for each in statement.errata:
            assert re.fullmatch(r"[A-Z].*\.", each.why), each.number
            assert len(each.why) < 200, each.number


def test_misprints_differ_from_what_is_meant():
    for misprint in (misprint for of_paper in every.MISPRINTS.values() for misprint in of_paper):
        assert all(misprint)
        assert misprint.printed != misprint.meant


def test_a_heading_holds_number_place_and_title():
    found = Statement.headed(
        "mine2026", "Lemma 2 (App. A): Loss: it falls", "L", hypotheses=("none",)
    )
    assert (found.key, found.place, found.title, found.formula) == (
        "mine2026, Lemma 2",
        "App. A",
        "Loss: it falls",
        ("L",),
    )
    with pytest.raises(ValueError, match="NUMBER"):
        Statement.headed("mine2026", "Lemma 2: Loss falls")
