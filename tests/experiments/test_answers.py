"""What is stored of every synthetic question is what a run at default settings gives: verdicts,
answer, golden numbers, and the pages that are made of them.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from saccade.experiments import ANSWERS, EXPERIMENTS, REAL_TEXT, SYNTHETIC, experiment, formulas
from saccade.lab.claim import FAILS, HOLDS
from saccade.lab.errata import errata_page
from saccade.lab.relation import centre
from saccade.theories.statements import STATEMENTS

DOCS = Path(__file__).parents[2] / "docs"
GOLDEN = {path.stem: path for path in (Path(__file__).parent / "golden").glob("*.json")}
NUMBER = re.compile(r"[-−]?\d+(?:,\d{3})*(?:\.\d+)?")
POWER = re.compile(
    r"[\d.]*×?10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+"
)  # rounding, or a size: other processors, other digits


@cache
def result(name):
    return experiment(name).run()


@cache
def all_formulas():
    return list(formulas())


def numbers(text):
    plain = POWER.sub("", text)
    return [float(one.replace(",", "").replace("−", "-")) for one in NUMBER.findall(plain)]


def words(text):
    return NUMBER.sub("#", POWER.sub("#", text))


@pytest.mark.parametrize("name", SYNTHETIC)
def test_the_stored_answer_is_what_a_run_gives(name):
    """`saccade list`, the README and the docs show it without a run."""
    found, stored = result(name), ANSWERS[name]
    plain = [claim for claim in found.claims if not claim.breaks]
    others = {claim.label: claim.verdict for claim in plain if claim.verdict != HOLDS}
    assert others == stored["verdicts"]
    assert sum(stored["counts"].values()) == len(plain)
    controls = [claim for claim in found.claims if claim.breaks]
    assert [
        one.label for one in controls if one.verdict != FAILS or np.isnan(centre(one.measured))
    ] == []
    assert words(found.answer) == words(stored["answer"])
    assert numbers(found.answer) == pytest.approx(numbers(stored["answer"]), rel=0.02)


@pytest.mark.parametrize("name", [name for name in SYNTHETIC if name in GOLDEN])
def test_golden_numbers_do_not_move(name):
    """Numbers of earlier runs that no claim compares with anything: a value to 1e-6, or a range."""
    found = result(name).numbers
    for label, value in json.loads(GOLDEN[name].read_text("utf-8")).items():
        label = re.sub(r" ?/ ?", " over ", label)
        if isinstance(value, list):
            assert value[0] <= found[label] <= value[1], label
        else:
            assert found[label] == pytest.approx(value, rel=1e-6), label


def test_every_formula_holds():
    assert [one.title for one in all_formulas() if not one.holds] == []


def rows(page):
    """Number, quantity and verdict of every claim on a page of errata, then its numbers."""
    parts = re.split(r"^### ([\d.]+) .*$", page, flags=re.MULTILINE)[1:]
    for number, part in zip(parts[::2], parts[1::2], strict=True):
        for line in part.partition("\n### ")[0].partition("\n## ")[0].splitlines():
            if line.startswith("| ") and not line.startswith("| quantity"):
                cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
                yield (number, cells[0], cells[-1]), cells[1:-1]


def test_every_erratum_is_decided_and_the_page_of_errata_says_so():
    claims = [claim for name in SYNTHETIC for claim in result(name).claims]
    found = dict(rows(errata_page(claims, all_formulas())))
    listed = {one.number for statement in STATEMENTS.values() for one in statement.errata}
    assert {number for number, _, _ in found} == listed
    assert {verdict for _, _, verdict in found} == {"confirmed"}
    assert set(dict(rows((DOCS / "errata.md").read_text("utf-8")))) == set(found)


def test_every_statement_has_a_claim_or_a_formula():
    tested = {key for stored in ANSWERS.values() for key in stored["statements"]}
    tested |= {one.statement.key for one in all_formulas()}
    assert sorted(set(STATEMENTS) - tested) == []
    assert sorted(tested - set(STATEMENTS)) == []  # no experiment makes a statement of its own


def test_every_theorem_has_a_control():
    """An assumption is broken on purpose, or the formula is held against a wrong form."""
    controlled = {
        claim.statement.key for name in SYNTHETIC for claim in result(name).claims if claim.breaks
    }
    controlled |= {one.statement.key for one in all_formulas() if one.decides}
    for name in SYNTHETIC:
        controlled |= {
            one.statement.key for one in result(name).claims if hasattr(one.relation, "printed")
        }
    theorems = {
        key
        for key in STATEMENTS
        if "Theorem" in key and not key.startswith(("saccade", "tian2024"))
    }

    def whole(keys):  # Theorem 2(a) and Theorem 2(b) are parts of one
        return {re.sub(r"\([a-z]\)$", "", key) for key in keys}

    assert sorted(whole(theorems) - whole(controlled)) == []


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_question_is_answered_first_and_in_few_sentences(name):
    asked, stored = experiment(name), ANSWERS[name]
    assert asked.question == stored["question"]
    assert asked.question.endswith("?")
    assert re.match(r"(Yes|No|Partly|Undecided)\b", stored["answer"])
    assert len(re.findall(r"[.?!](?= |$)", stored["answer"])) <= 5
    if stored["answer"].startswith("Yes"):
        assert stored["counts"].get("fails", 0) == 0  # no headline stronger than its verdicts
    if name in REAL_TEXT:
        assert asked.caveat.endswith(".")
