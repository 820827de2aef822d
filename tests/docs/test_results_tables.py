"""The tables of results are made from the experiments and the outcomes of their runs.

Tests of the experiments hold `docs/outcomes.json` to their runs, and `docs/findings.md` to it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from string import Formatter

import pytest

from saccade.errors import InputError
from saccade.experiments import EXPERIMENTS, experiment
from saccade.lab.ceiling import Ceiling
from saccade.lab.claim import (
    CALCULUS,
    CANNOT_TELL,
    FAILS,
    HOLDS,
    OUTSIDE,
    PUBLISHED,
    REPLICATION,
    SIMULATION,
    Case,
)
from saccade.lab.findings import filled
from saccade.lab.outcome import tally
from saccade.theory.condition import met
from saccade.theory.statement import Statement
from tests.report.made_results import written
from tools.results_tables import main, rows, table, totals_table, verdict_counts

ROOT = Path(__file__).parents[2]
OUTCOMES = json.loads((ROOT / "docs" / "outcomes.json").read_text("utf-8"))


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["name"])
def test_an_answer_is_short_and_decided_and_has_the_numbers_of_the_finding(row):
    assert row["question"].endswith("?")
    assert re.match(r"(Yes|No|Partly|Undecided)[., ]", row["answer"])
    assert max(len(row[cell].split()) for cell in ("question", "answer")) <= 20
    number = r"\d[\d,.]*(?:e-?\d+)?(?<![.,])"
    found = re.findall(number, OUTCOMES[row["name"]]["finding"])
    assert set(re.findall(number, row["answer"])) <= set(found)


def test_no_yes_or_no_rests_on_inconclusive_comparisons_alone():
    for row in rows():
        assert not row["answer"].startswith(("Yes", "No")) or row[HOLDS] + row[FAILS], row["name"]


def test_every_experiment_has_been_run_and_none_surprised():
    assert list(OUTCOMES) == list(EXPERIMENTS)
    assert not any(outcome["surprises"] for outcome in OUTCOMES.values())


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_to_expect_is_the_sentence_of_the_experiment_with_a_number_in_every_field(name):
    parts = list(Formatter().parse(experiment(name).finding))
    number = r"[-−]?\d+(\.\d+)?(e[+-]\d+|(×10)?[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?( %)?"
    verdict = "(holds|fails|assumptions not met|inconclusive)"
    told = {
        "verdict": verdict,
        "interval": rf"{number} \[{number}, {number}\]",
        "count": r"\d+ of \d+",
    }
    told |= {"points": f"{number} percentage points"}
    either = rf"{number}( \(inconclusive\))?"
    assert any(field for _, field, _, _ in parts)
    expected = [
        re.escape(text) + (told.get(form.split(" ")[0], either) if field else "")
        for text, field, form, _ in parts
    ]
    assert re.fullmatch("".join(expected), OUTCOMES[name]["finding"])


def test_a_field_is_the_number_of_the_one_claim_with_such_a_label():
    claims = [
        {"label": text, "measured": value, "verdict": HOLDS}
        for text, value in (("rate, M = 10", 0.25), ("rate, M = 100", 4), ("gap: x", None))
    ]
    assert (
        filled("one", "at 1 %: {rate*10:.0%} and {*100:.2f}, {gap? x:.1f}", claims)
        == "at 1 %: 25 % and 4.00, missing"
    )
    with pytest.raises(
        ValueError,
        match=r"finding of one: the field `rate\*` must fit one claim; it fits 2.\n  rate, M = 10\n",
    ):
        filled("one", "{rate*:.2f}", claims)
    with pytest.raises(
        ValueError, match=r"finding of one: the field `rat` must fit one claim; it fits 0."
    ):
        filled("one", "{rat:.2f}", claims)


def test_a_finding_takes_its_verdicts_and_cases_from_the_claims_it_names():
    claims = [
        {
            "label": f"gain ({update})",
            "measured": value,
            "verdict": verdict,
            "case": {"update": update},
        }
        for update, value, verdict in ((10, -0.5, HOLDS), (50, 0.0, CANNOT_TELL), (400, 0.2, FAILS))
    ]
    said = [
        f"{{gain*[{i}]:.1f}} at {{gain*[{i}]:case update}} ({{gain*[{i}]:verdict}})"
        for i in (0, -1)
    ]
    assert filled("one", ", ".join(said), claims) == "−0.5 at 10 (holds), 0.2 at 400 (fails)"
    assert filled("one", "{gain?(50):verdict}", claims) == "inconclusive"
    assert filled("one", "at most {gain*[max]:.1f}", claims) == "at most 0.2"
    outside = claims[0] | {
        "verdict": OUTSIDE,
        "verdict_says": "assumptions not met (1 of 1); inconclusive",
    }
    assert filled("one", "{gain*:.1f}", [outside]) == "−0.5 (inconclusive)"
    with pytest.raises(ValueError, match="it fits 0"):
        filled("one", "{loss*[0]:.1f}", claims)


def test_a_failure_that_is_known_and_one_that_is_not_are_told_apart():
    lemma = Statement("nobody1999", "Lemma 1", "all is well")
    known = Case().near(lemma, "a", 2.0, 1.0, within=0.1, expected=FAILS)
    surprising = Case().near(lemma, "b", 2.0, 1.0, within=0.1)
    outside = Case(given=[met("x", False)]).near(lemma, "c", 2.0, 1.0, within=0.1)
    noisy = Case().under(Ceiling("two seeds", 0.2)).at_least(lemma, "d", 0.3, 0.5)
    counts = verdict_counts([claim.as_dict() for claim in (known, surprising, outside, noisy)])
    verdicts, kinds = {HOLDS: 0, FAILS: 2, OUTSIDE: 1, CANNOT_TELL: 1}, {PUBLISHED: 0, CALCULUS: 0}
    assert counts == verdicts | kinds | {
        "controls": 0,
        "regression tests": 0,
        "failed regression tests": 0,
        "surprises": 1,
    }
    assert "| 1 claim: 1 inconclusive |" in table(
        "scan-and-snap", {"growth-figures": verdict_counts([noisy.as_dict()])}
    )
    assert "| 1 claim: 1 fails |" in table(
        "scan-and-snap", {"growth-figures": verdict_counts([known.as_dict()])}
    )
    held = Case().near(lemma, "e", 1.0, 1.0, within=0.1)
    assert "| 1 claim: 1 holds |" in table(
        "scan-and-snap", {"growth-figures": verdict_counts([held.as_dict()])}
    )
    assert "| 2 claims: 2 hold |" in table(
        "scan-and-snap", {"growth-figures": verdict_counts([held.as_dict()] * 2)}
    )
    assert "| 1 claim: 1 fails; 1 surprise among them |" in table(
        "scan-and-snap", {"growth-figures": verdict_counts([surprising.as_dict()])}
    )


def test_claims_are_counted_by_what_they_are_compared_with_and_our_own_earlier_numbers_apart():
    lemma, kinds = (
        Statement("nobody1999", "Lemma 1", "all is well"),
        (SIMULATION, PUBLISHED, CALCULUS, REPLICATION),
    )
    claims = [
        Case(against=kind).near(lemma, kind, 1.0, 1.0, within=0.1).as_dict() for kind in kinds
    ]
    assert verdict_counts(claims)[HOLDS] == 3
    assert "| 3 claims (1 published, 1 calculus): 3 hold; 1 regression test |" in table(
        "scan-and-snap", {"growth-figures": verdict_counts(claims)}
    )


def test_the_totals_count_every_comparison_once_by_its_verdict():
    verdicts = {HOLDS: 5, FAILS: 1, OUTSIDE: 2, CANNOT_TELL: 3}
    made = totals_table([{"part": "real-text"} | verdicts, {"part": "rank-collapse"} | verdicts])
    assert "| Real text | 5 | 1 | 2 | 3 | 11 |" in made
    assert "| Scan and Snap | 0 | 0 | 0 | 0 | 0 |" in made
    assert made.endswith("| all | 10 | 2 | 4 | 6 | 22 |\n")


def test_the_terminal_counts_claims_by_kind():
    lemma, kinds = (
        Statement("nobody1999", "Lemma 1", "all is well"),
        (SIMULATION, SIMULATION, PUBLISHED, CALCULUS, REPLICATION),
    )
    claims = [Case(against=kind).near(lemma, kind, 1.0, 1.0, within=0.1) for kind in kinds]
    claims.append(
        Case(against=CALCULUS, given=[met("x", False)])
        .breaking("x")
        .near(lemma, "control", 2.0, 1.0, within=0.1)
    )
    assert (
        tally(claims) == "4 claims (1 published, 1 calculus): 4 hold; 1 control, 1 regression test"
    )  # the terminal, in the same words


def test_replications_that_fail_are_not_hidden_among_the_others():
    lemma, case = Statement("nobody1999", "Lemma 1", "all is well"), Case(against=REPLICATION)
    held, known, surprising = (
        case.near(lemma, title, value, 1.0, within=0.1, expected=expected).as_dict()
        for title, value, expected in (("a", 1.0, HOLDS), ("b", 2.0, FAILS), ("c", 2.0, HOLDS))
    )
    for claims, said in (
        ([held, known], "| 2 regression tests (1 fails) |"),
        ([known, known], "| 2 regression tests (2 fail) |"),
        ([held, surprising], "| 2 regression tests (1 fails); 1 surprise among them |"),
    ):
        counts = verdict_counts(claims)
        assert counts[FAILS] == 0
        assert said in table("scan-and-snap", {"growth-figures": counts})


def test_claims_that_are_not_what_was_written_get_into_no_table(tmp_path):
    folder = written(tmp_path / "results" / "growth-figures")
    for harm in (
        lambda: (folder / "claims.json").write_text("[ ]\n"),
        lambda: (folder / "claims.json").unlink(),
    ):
        harm()
        with pytest.raises(InputError, match=r"claims\.json is"):
            main([str(tmp_path / "outcomes.json"), str(tmp_path / "results")])
        assert not (tmp_path / "outcomes.json").exists()
