"""Formulas of statements as MathML that an XML reader accepts, with nothing of the LaTeX lost."""

from __future__ import annotations

import html
import re
from dataclasses import asdict
from xml.etree import ElementTree

import pytest

from saccade.lab.case import Case
from saccade.report.claims_table import equation_of, theorem
from saccade.report.mathml import mathml
from saccade.theories.scan_and_snap.statements import PLAIN_SNAP, THEOREM_4
from saccade.theories.statements import STATEMENTS

FORMULAS = [(each.key, line) for each in STATEMENTS.values() for line in each.formula]
ERRATA = [(statement, each) for statement in STATEMENTS.values() for each in statement.errata]
FORMULAS += [
    (f"erratum {each.number}", line) for _, each in ERRATA for line in each.printed + each.corrected
]
ARITIES = {"mfrac": 2, "mover": 2, "msub": 2, "msup": 2, "munder": 2, "msubsup": 3, "munderover": 3}


@pytest.mark.parametrize(
    "key, latex", FORMULAS, ids=[f"{key} {place}" for place, (key, _) in enumerate(FORMULAS)]
)
def test_formulas_become_well_formed_mathml(key, latex):
    root = ElementTree.fromstring(mathml(latex))
    assert root.tag == "math"
    assert not set("\\{}_$") & set("".join(root.itertext()))
    for element in root.iter():
        assert len(element) == ARITIES.get(element.tag, len(element)), element.tag


@pytest.mark.parametrize(
    "key, latex", FORMULAS, ids=[f"{key} {place}" for place, (key, _) in enumerate(FORMULAS)]
)
def test_letters_and_digits_of_a_formula_come_out_in_their_order(key, latex):
    plain = re.sub(r"\\(?:text|mathrm)\s*", "", latex)
    plain = re.sub(r"\\(?!exp|ln|log|max|min|cos|sin|tan|sup)[A-Za-z]+", "", plain)
    shown = "".join(ElementTree.fromstring(mathml(latex)).itertext())
    assert re.findall("[A-Za-z0-9]", shown) == re.findall("[A-Za-z0-9]", plain)


@pytest.mark.parametrize(
    "latex, inside",
    [
        (
            "x_{i+1}^2",
            "<msubsup><mi>x</mi><mrow><mi>i</mi><mo>+</mo><mn>1</mn></mrow><mn>2</mn></msubsup>",
        ),
        ("x^2_i", "<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>"),
        ("h'^2", "<msup><mi>h</mi><mrow><mo>′</mo><mn>2</mn></mrow></msup>"),
        ("E'_n", "<msubsup><mi>E</mi><mi>n</mi><mo>′</mo></msubsup>"),
        (
            r"\dot z_m",
            '<msub><mover><mi>z</mi><mo mathsize="1.6em">.</mo></mover><mi>m</mi></msub>',
        ),
        (r"\frac{1}{K}", "<mfrac><mrow><mn>1</mn></mrow><mrow><mi>K</mi></mrow></mfrac>"),
        (r"\sqrt{2}", "<msqrt><mrow><mn>2</mn></mrow></msqrt>"),
        (r"\sum_l^M", "<munderover><mo>∑</mo><mi>l</mi><mi>M</mi></munderover>"),
        (r"\int_0^t", "<msubsup><mo>∫</mo><mn>0</mn><mi>t</mi></msubsup>"),
        (r"\ln M", '<mi>ln</mi><mspace width=".17em"/><mi>M</mi>'),
        (r"\ln(M)", "<mi>ln</mi><mo>(</mo><mi>M</mi><mo>)</mo>"),
        (
            r"\text{ if } a < 0.9",
            "<mtext>&#160;if&#160;</mtext><mi>a</mi><mo>&lt;</mo><mn>0.9</mn>",
        ),
        ("|a|", '<mo lspace="0" rspace="0">|</mo><mi>a</mi><mo lspace="0" rspace="0">|</mo>'),
        ("-1", "<mo>−</mo><mn>1</mn>"),
    ],
)
def test_latex_becomes_elements(latex, inside):
    assert mathml(latex) == f'<math display="block"><mrow>{inside}</mrow></math>'


@pytest.mark.parametrize("latex", [r"\nosuch", r"\frac{1}", "{x", "x}", r"\text x"])
def test_latex_that_is_not_understood_is_an_error(latex):
    with pytest.raises(ValueError, match=r"this formula|MathML|braces"):
        mathml(latex)


def test_a_claim_has_the_equations_of_its_statement():
    claim = Case().near(THEOREM_4, "onset", 1.0, 1.0, within=0.1).as_dict()
    assert theorem(claim) == "tian2023, Theorem 4"
    key, lines = equation_of(claim)
    assert key == "tian2023, Theorem 4"
    assert [markup for _, markup in lines] == [mathml(line) for line in THEOREM_4.formula]
    assert equation_of(Case().near(PLAIN_SNAP, "onset", 1.0, 1.0, within=0.1).as_dict()) == ("", [])


@pytest.mark.parametrize("statement, erratum", ERRATA, ids=[each.number for _, each in ERRATA])
def test_a_claim_about_an_erratum_opens_to_both_of_its_forms(statement, erratum):
    claim = (
        Case()
        .erratum(statement, "x", 0.0, number=erratum.number, printed=1.0, corrected=0.0, within=0.1)
        .as_dict()
    )
    key, lines = equation_of(claim)
    assert key == f"{statement.key}, erratum {erratum.number}"
    names = [name for name, _ in lines]
    printed, corrected = lines[names.index(erratum.said)][1], lines[names.index(erratum.instead)][1]
    assert printed == mathml(erratum.printed[0])
    assert corrected == mathml(erratum.corrected[0])
    assert printed != corrected


def test_a_statement_read_from_claims_json_is_shown_as_well():
    claim = {
        "statement": asdict(THEOREM_4) | {"key": THEOREM_4.key, "formula": ["a_b"]},
        "relation": {"kind": "near"},
    }
    assert equation_of(claim) == (THEOREM_4.key, [("", mathml("a_b"))])


@pytest.mark.parametrize("latex", [r"\href{<script>}", "{" * 10_000, "x_"])
def test_latex_of_a_record_that_is_not_understood_is_shown_as_it_is(latex):
    claim = {
        "statement": asdict(THEOREM_4) | {"key": THEOREM_4.key, "formula": [latex]},
        "relation": {"kind": "near"},
    }
    assert equation_of(claim)[1] == [("", f"<code>{html.escape(latex)}</code>")]


def test_no_letter_of_a_formula_becomes_a_tag():
    assert "<script" not in mathml(r"<script> \text{<script>} \mathrm{<script>}")
