"""docs/errata.md and docs/findings.md are made from claims: whatever they say must be what the
experiments say now.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import xarray as xr

from saccade.experiments import REAL_TEXT, experiment
from saccade.lab.ceiling import Ceiling
from saccade.lab.claim import CANNOT_TELL, FAILS, HOLDS, OUTSIDE, Case, Claim
from saccade.lab.errata import errata_page
from saccade.lab.findings import by_question, filled, findings_page, picture
from saccade.lab.outcome import Outcome
from saccade.lab.panel import Line, Lines
from saccade.lab.protocol import Experiment
from saccade.observe.fits import Interval
from saccade.theory.condition import met
from saccade.theory.statement import Correction, Statement
from saccade.theory.statements import DROPPED, STATEMENTS
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
    "rank-collapse",
)
LEMMA = Statement("nobody1999", "Lemma 1", "all is well")


def rows(page: str) -> list[list[str]]:
    """Cells of every row of a Markdown table, but for headings."""
    headings = "| quantity", "| where", "| claim", "| number"
    lines = [
        line
        for line in page.splitlines()
        if line.startswith("| ") and not line.startswith(headings)
    ]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def errata_of(page: str) -> list[list[str]]:
    """Number, quantity, printed, corrected, measured, verdict of every claim on a page of errata."""
    page = re.sub("^### Misprints.*?(?=^## |\\Z)", "", page, flags=re.MULTILINE | re.DOTALL)
    page = re.sub(r"^### (?!\d).*$", "", page, flags=re.MULTILINE)
    parts = re.split(r"^### ([\d.]+) .*$", page, flags=re.MULTILINE)[1:]
    return [
        [number, *row]
        for number, part in zip(parts[::2], parts[1::2], strict=True)
        for row in rows(part)
    ]


def value(cell: str) -> float:
    """Of a number as pages write it: `−1.5×10⁻¹²`, `10⁻⁶`, `0.3`."""
    front, power = re.fullmatch("(.*?)(?:×?10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))?", cell.replace("−", "-")).groups()
    return float(front or 1) * 10.0 ** int(
        (power or "0").translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
    )


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
        numbers = [[value(cell) for cell in row[2:5]] for row in (ours, theirs)]
        assert numbers[0] == pytest.approx(numbers[1], rel=0.02), ours[1]


def test_every_erratum_that_can_be_computed_is_shown_wrong_as_printed_and_right_as_corrected(
    errata,
):
    verdicts: dict[str, set[str]] = {}
    for number, *_, verdict in errata:
        verdicts.setdefault(number, set()).add(verdict)
    assert set(verdicts) == {
        each.number for statement in STATEMENTS.values() for each in statement.errata
    }
    assert set().union(*verdicts.values()) == {HOLDS}


def test_what_was_considered_and_dropped_has_the_numbers_of_the_claims(found):
    """How often T_2 ≤ T_d fails, and the share of the loss that falls before queries condense."""
    page = (
        (DOCS / "errata.md")
        .read_text("utf-8")
        .partition("### Considered and dropped")[2]
        .partition("\n## ")[0]
    )
    late = [
        claim
        for claim in found["condensation-transition"]
        if claim.title == "T_2 ≤ T_d, every start and δ"
    ]
    assert [f"{claim.measured:g}" for claim in late] == list(
        re.search(r"in (\d+), (\d+) and (\d+) of 48", page).groups()
    )
    assert {claim.relation.among for claim in late} == {48}
    small = experiment("published-run").settings(steps=200, noise_steps=20, noise_seeds=2)
    title = "share of the loss's fall from ln d to H(π) before queries have condensed"
    published = experiment("published-run").run(small).claims
    (share,) = (claim.measured for claim in published if claim.title == title)
    assert f"only {share:.2f} of the fall" in page
    assert page.count("\n- ") == len(DROPPED["chen2026"])


def test_a_reading_is_not_called_printed():
    forms = Correction("0.1", ("a < b",), ("a > b",), "Because.", "as read", caveat="Weakly.")
    claim = Case().erratum(
        Statement("tian2023", "Lemma 1", "x", errata=(forms,)),
        "x",
        1,
        number="0.1",
        printed=-1,
        corrected=1,
        within=0,
    )
    page = errata_page([claim]).partition("### Misprints")[0]
    assert "Read: arXiv 2305.16380, version 4" in page
    assert "](#erratum-0-1)" not in page
    assert "\n### Common misreadings\n\nNone of these forms is printed" in page
    assert "As read (tian2023, Lemma 1" in page
    assert "\nBecause. Weakly.\n" in page
    assert "| quantity | as read | corrected |" in page


def test_a_sharpened_statement_is_not_called_an_error_and_needs_no_printed_number():
    forms = Correction(
        "0.1",
        ("a = O(b)",),
        ("a = 0",),
        "Because.",
        "as printed, and true",
        "a vanishes",
        "sharpened",
    )
    statement = Statement("tian2023", "Lemma 1", "x", errata=(forms,))
    claim = Case().erratum(statement, "a", 0, number="0.1", printed=0.2, corrected=0, within=0.1)
    page = errata_page([claim]).partition("### Misprints")[0]
    assert "- [0.1 a vanishes](#erratum-0-1) (Lemma 1; sharpened)" in page
    assert "As printed, and true (tian2023, Lemma 1" in page
    assert "Sharpened:" in page
    assert "Corrected:" not in page
    assert errata_of(page) == [["0.1", "a", "0.2", "0", "0", HOLDS]]
    assert claim.says == "measured 0; sharpened formula 0, as printed, and true 0.2 (± 0.1)"


def made(**named) -> Experiment:
    line = Lines("growth", "t", "B", [Line([0.0, 1.0], [0.0, 2.0])])
    return Experiment(
        "text-fates", type("S", (), {}), None, None, lambda record: [[line, line], [line]], **named
    )


def test_a_page_of_findings_answers_its_question_with_the_numbers_it_names_and_has_every_claim_failures_first():
    noisy = Case().under(Ceiling("two seeds", 0.2)).at_least(LEMMA, "gain", 0.1, 0.5)
    claims = [
        Case().near(LEMMA, "sum of P(a|b)", 1.05, 1.0, within=0.1),
        Case().near(LEMMA, "slope", -0.3, -0.5, within=0.05),
        noisy,
    ]
    asked = made(
        question="Is all well?",
        finding="the gain is {gain:.1f} of {sum*:.2f}",
        caveat="More noise.",
    )
    outcome = Outcome(
        "text-fates", "All is well.", Path("x"), xr.Dataset(attrs={"size": "quick"}), claims
    )
    page = findings_page([outcome], {"text-fates": asked})
    top, rest = page.split("# Every claim")
    told = "The gain is 0.1 (inconclusive) of 1.05."
    assert f"## Is all well?\n\n**{told}**\n\n![{told}](figures/text-fates.svg)" in top
    assert "What would change the answer: More noise." in top
    assert "\nOn text: 3 claims: 1 holds, 1 fails, 1 inconclusive; 1 surprise among them.\n" in top
    assert [row[0] for row in rows(top)] == [r"sum of P(a\|b)", "gain"]
    assert [(row[0], row[3].partition(";")[0]) for row in rows(rest)] == [
        ("slope", FAILS),
        (r"sum of P(a\|b)", HOLDS),
        ("gain", "inconclusive"),
    ]
    (alone,) = picture(outcome, asked).axes
    assert alone.get_title(loc="left") == "growth"  # among the others it was panel 1


def test_experiments_with_the_same_question_answer_it_together_under_the_picture_of_the_first():
    claims = {
        name: [Case().near(LEMMA, title, value, 1.0, within=0.1)]
        for name, title, value in (("a", "one", 1.0), ("b", "two", 0.98))
    }
    asked = {
        "a": replace(
            made(question="Is all well?", finding="here {one:.1f}", caveat="Noise."), name="a"
        ),
        "c": replace(
            made(question="What else?", finding="nothing {two:.1f}", caveat="Luck."), name="c"
        ),
        "b": replace(
            made(question="Is all well?", finding="there {two:.2f}", caveat="Time."), name="b"
        ),
    }
    outcomes = [
        Outcome(
            name, "", Path("x"), xr.Dataset(attrs={"size": "quick"}), claims.get(name, claims["b"])
        )
        for name in asked
    ]
    assert [
        [outcome.name for outcome in together] for together in by_question(outcomes, asked)
    ] == [["a", "b"], ["c"]]
    top = findings_page(outcomes, asked).split("# Every claim")[0]
    assert top.count("## Is all well?") == 1
    assert "**Here 1.0. There 0.98.**\n\n![Here 1.0.](figures/a.svg)" in top
    assert "What would change the answer: Noise. Time." in top
    assert top.index("[All 1 claims](#b)") < top.index("## What else?")
    asked["a"] = replace(asked["a"], answer="both say {one:.1f} and {two:.1f}")
    top = findings_page(outcomes, asked).split("# Every claim")[0]
    assert "**Both say 1.0 and 1.0.**" in top
    assert [row[0] for row in rows(top.split("## What else?")[0])] == ["one", "two"]


def test_controls_and_what_is_not_on_text_are_counted_apart():
    given = [met("one query", False)]
    claims = [
        Case().near(LEMMA, "gain", 1.0, 1.0, within=0.1),
        Case(given=given).breaking("one query").near(LEMMA, "gain", 3.0, 1.0, within=0.1),
    ]
    asked = {
        "a": replace(made(question="Is all well?", finding="{gain:.0f}"), name="a"),
        "b": replace(made(question="Not on text: is it?", finding="{gain:.0f}"), name="b"),
    }
    outcomes = [
        Outcome(name, "", Path("x"), xr.Dataset(attrs={"size": "quick"}), claims) for name in asked
    ]
    tallies = findings_page(outcomes, asked).partition("\n## ")[0]
    assert tallies.endswith(
        "On text: 1 claim: 1 holds; 1 control. Not on text: 1 claim: 1 holds; 1 control.\n"
    )


def answered(template, *claims):
    return filled("a", template, [claim.as_dict() for claim in claims])


def test_an_answer_counts_what_was_asked_of_every_run():
    runs = Case().none(LEMMA, "runs", [True, False, False])
    assert answered("{runs:count} runs", runs) == "2 of 3 runs"
    assert (
        answered("{runs:count} runs", Case().none(LEMMA, "runs", [])) == "0 of 0 runs"
    )  # a rule that was never put to the test
    with pytest.raises(ValueError, match="counts no exceptions"):
        answered("{gain:count}", Case().near(LEMMA, "gain", 1.0, 1.0, within=0.1))


def test_an_answer_tells_differences_of_shares_in_points_and_ceilings_as_numbers():
    share = Case().under(Ceiling("two seeds", 0.637)).at_least(LEMMA, "share", 0.583, 0)
    assert (
        answered("{share:points} above, of {share:ceiling .2f}", share)
        == "58 percentage points above, of 0.64"
    )


def test_a_number_that_cannot_be_told_says_so_once():
    unsure = Case().at_least(LEMMA, "gain", Interval(0.3, 0.1, 0.5), 0.2)
    assert answered("{gain:.1f}", unsure) == "0.3 (inconclusive)"
    assert answered("{gain:.1f}: {gain:verdict}", unsure) == "0.3: inconclusive"
    assert answered("{gain:interval .1f}", unsure) == "0.3 [0.1, 0.5]"
    assert (
        answered("{gain:.1f}", Case().at_least(LEMMA, "gain", Interval(0.3, 0.25, 0.5), 0.2))
        == "0.3"
    )


def test_a_size_that_nobody_could_run_is_not_named():
    def says(high):
        return (
            Case()
            .at_least(LEMMA, "gain", Interval(0.21, 0.42 - high, high), 0.2)
            .verdict_says.partition("; ")[2]
        )

    assert says(0.3) == "about 81 times the repetitions would do"
    assert says(0.32) == "more than 100 times the repetitions would be needed"


def test_each_question_is_answered_in_a_few_sentences():
    page = (DOCS / "findings.md").read_text("utf-8").partition("# Every claim")[0]
    answers = re.findall(r"^\*\*(.*)\*\*$", page, flags=re.MULTILINE)
    n_sentences = {answer: len(re.findall(r"[.?!](?= |$)", answer)) for answer in answers}
    assert len(answers) == page.count("\n## ") - 1  # the last section says how to read the numbers
    assert {answer: n for answer, n in n_sentences.items() if not 1 <= n <= 5} == {}


def test_the_page_of_findings_asks_what_the_experiments_ask_and_has_the_verdicts_of_their_last_runs():
    page = (DOCS / "findings.md").read_text("utf-8")
    _, *parts = re.split(r"^## ([a-z-]+)$", page.partition("# Every claim")[2], flags=re.MULTILINE)
    assert parts[::2] == list(REAL_TEXT)
    questions = [
        line for line in page.partition("# Every claim")[0].splitlines() if line.startswith("## ")
    ]
    assert (
        len(questions) == len(set(questions)) == 10 + 2
    )  # one that is not on text, and how to read the numbers
    assert all((DOCS / figure).is_file() for figure in re.findall(r"\]\((figures/[^)]*)\)", page))
    for name, part in zip(parts[::2], parts[1::2], strict=True):
        assert f"## {experiment(name).question}\n" in page
        verdicts = [row[-1] for row in rows(part)]
        said = {
            HOLDS: HOLDS,
            FAILS: FAILS,
            OUTSIDE: "assumptions not met",
            CANNOT_TELL: "inconclusive",
        }
        found = {
            verdict: sum(words.startswith(start) for words in verdicts)
            for verdict, start in said.items()
        }
        kept = sum(found.values()) - sum(OUTCOMES[name][verdict] for verdict in said)
        apart = OUTCOMES[name].get("regression tests", 0) + OUTCOMES[name].get("controls", 0)
        assert kept == apart, json.dumps(OUTCOMES[name])
