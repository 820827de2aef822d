"""Every theorem that a claim is about has its equation, as MathML that an XML reader accepts."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import saccade.experiments
from saccade.report.equations import EQUATIONS, equation_of, theorem
from saccade.report.mathml import equation, frac, sub, total
from saccade.report.scan_and_snap_errata import ERRATA


def sources() -> set[str]:
    """What experiments write in brackets, in their code."""
    folder = Path(saccade.experiments.__file__).parent
    code = "\n".join(path.read_text("utf-8") for path in folder.rglob("*.py"))
    return set(re.findall(r"""["']\[((?:tian2023|chen2026|derived)[^\]{]*)\]""", code))


def test_every_theorem_lemma_proposition_and_derived_rule_has_an_equation():
    found = {source for source in sources() if re.search(r"Theorem|Lemma|Proposition|Corollary|Assumption|Remark|derived", source)}
    assert len(found) > 40
    assert [source for source in sorted(found) if not equation_of(f"[{source}]")[0]] == []


@pytest.mark.parametrize("source", sorted(EQUATIONS))
def test_equations_are_well_formed_and_say_what_they_are(source):
    for name, markup in EQUATIONS[source]:
        assert name
        root = ElementTree.fromstring(markup.replace("&nbsp;", " "))
        assert root.tag == "math"
        arities = {"mfrac": 2, "msub": 2, "msup": 2, "munder": 2, "msubsup": 3, "munderover": 3}
        for element in root.iter():
            assert len(element) == arities.get(element.tag, len(element)), (source, element.tag)


@pytest.mark.parametrize(
    "source, key",
    [
        ("[tian2023, Theorem 4], erratum 0.4 corrected", "tian2023, Theorem 4"),
        ("[tian2023, Theorem 2(a)], at finite length", "tian2023, Theorem 2"),
        ("[tian2023, Theorem 1(b)], erratum 0.7 as printed", "tian2023, Theorem 1(b)"),
        ("[asked of text, after tian2023 Theorem 3]", "tian2023, Theorem 3"),
        ("[independent replication]", ""),
        ("asked here", ""),
    ],
)
def test_an_equation_is_found_by_the_source_of_a_claim(source, key):
    assert equation_of(source)[0] == key
    assert theorem("[a, b], c") == "a, b"


def errata() -> list[tuple[str, str]]:
    """Number and place of every erratum, as the page of errata lists them."""
    page = Path(__file__).parents[2] / "docs" / "errata.md"
    return sorted(set(re.findall(r"^\| ([\d.]+) \|.*\| (\[[^\]]*\])[^|]*\|", page.read_text("utf-8"), re.MULTILINE)))


@pytest.mark.parametrize("number, place", errata())
def test_a_claim_about_an_erratum_opens_to_both_of_its_forms(number, place):
    lines = equation_of(f"{place}, erratum {number} corrected")[1]
    printed = [markup for name, markup in lines if name.startswith(f"erratum {number}, as printed")]
    corrected = [markup for name, markup in lines if name.startswith(f"erratum {number}, corrected")]
    assert printed
    assert corrected
    assert not set(printed) & set(corrected)


def test_the_page_of_errata_was_read():
    assert {number for number, _ in errata()} == set(ERRATA)


def test_indices_powers_fractions_and_words_become_elements():
    written = equation("x_{i+1}^2 =", frac("1", "K"), "'if' y' < 3", total("j", "n"), sub("Var", "π"))
    tags = [element.tag for element in ElementTree.fromstring(written).iter()]
    assert [tags.count(tag) for tag in ("msub", "msup", "mfrac", "mtext", "munderover")] == [2, 2, 1, 1, 1]
    assert "&lt;" in written
