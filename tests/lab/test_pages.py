"""The pages of errata and findings, made from claims."""

from __future__ import annotations

from pathlib import Path

import xarray as xr

from saccade.lab.case import Case
from saccade.lab.ceiling import Ceiling
from saccade.lab.errata import errata_page
from saccade.lab.experiment import experiment
from saccade.lab.findings import findings_page
from saccade.lab.formula import Formula
from saccade.lab.outcome import Outcome
from saccade.theories.statement import Correction, Statement

LEMMA = Statement("nobody1999", "Lemma 1", "all is well")


def test_a_reading_is_not_called_printed_and_the_tolerance_is_shown():
    forms = Correction("0.1", ("a < b",), ("a > b",), "Because.", "as read", caveat="Weakly.")
    statement = Statement("tian2023", "Lemma 1", "x", errata=(forms,))
    decided = {"printed": -1, "corrected": 1, "within": 0.5}
    claim = Case().erratum(statement, "x", 1, **decided)
    formula = Formula.erratum(statement, "y", 1.25, **decided)
    page = errata_page([claim], [formula]).partition("### Misprints")[0]
    assert "Read: arXiv 2305.16380, version 4" in page
    assert "\n### Common misreadings\n\nNone of these forms is printed" in page
    assert "As read (tian2023, Lemma 1" in page
    assert "\nBecause. Weakly.\n" in page
    assert "| x | −1 | 1 | 1 | 0.5 | confirmed |" in page
    assert "| y | −1 | 1 | 1.25 | 0.5 | confirmed |" in page


def test_a_formula_holds_only_if_the_printed_form_does_not():
    statement = Statement("n", "1", "x", errata=(Correction("0.1", ("a",), ("b",), "Because."),))
    near = {"printed": 1.2, "corrected": 1.0, "within": 0.1}
    assert Formula.erratum(statement, "x", 1.05, **near).holds
    assert not Formula.erratum(statement, "x", 1.11, **near).holds
    assert not Formula.erratum(statement, "x", 1.0, **(near | {"within": 0.3})).holds
    assert not Formula(LEMMA, "x", float("nan"), 1.0).holds


def test_a_page_of_findings_has_the_answer_first_and_failures_on_top_of_the_table():
    @experiment("x", caveat="More noise.")
    def x(lab):
        """Is all well?"""
        noisy = lab.case().under(Ceiling("two seeds", 0.2))
        lab.case().near(LEMMA, "sum of P(a|b)", 1.05, 1.0, within=0.1)
        lab.case().after_trial_runs.near(LEMMA, "slope", -0.3, -0.5, within=0.05)
        noisy.at_least(LEMMA, "gain", 0.1, 0.5)
        return "Partly: it is."

    result = x.run()
    outcome = Outcome("x", result.answer, Path("x"), xr.Dataset(), result.claims)
    page = findings_page([outcome], {"x": x})
    assert "## Is all well?\n\n**Partly: it is.**\n\n![Is all well?](figures/x.svg)" in page
    assert "What would change the answer: More noise." in page
    assert "3 claims: 1 holds, 1 fails, 1 inconclusive." in page
    titles = [line.split(" | ")[0] for line in page.splitlines() if "nobody1999" in line]
    assert titles == ["| slope", r"| sum of P(a\|b)", "| gain"]
    assert "| after trial runs | fails |" in page
