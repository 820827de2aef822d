"""Claims: every relation can hold and fail, is printed as people say it, and is judged from end to
end of an interval.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from saccade.errors import InputError
from saccade.lab.case import Case
from saccade.lab.ceiling import Ceiling, NoCeiling
from saccade.lab.claim import FAILS, HOLDS, INCONCLUSIVE, UNMET
from saccade.lab.outcome import Outcome
from saccade.measures.fits import Interval
from saccade.records.claim_counts import tally
from saccade.theories.condition import above, at_most, below, met
from saccade.theories.statement import Correction, Statement

LEMMA = Statement("nobody1999", "Lemma 1", "all is well")
READING = Correction("0.1", ("a < b",), ("a > b",), "Because.", "as a summary reads it")
MISREAD = Statement("nobody1999", "Lemma 2", "all is read", errata=(READING,))
PRINTED = Statement(
    "nobody1999", "Lemma 3", "x", errata=(Correction("0.1", ("a",), ("b",), "Because."),)
)
CASE = Case({"K": 5})


@pytest.mark.parametrize(
    ("claim", "verdict", "says"),
    [
        (CASE.near(LEMMA, "x", 46.6, 45.0, within=2), HOLDS, "measured 46.6, predicted 45 ± 2"),
        (
            CASE.near(LEMMA, "x", [1.0, 1.2], 1.0, relative=0.1),
            FAILS,
            "measured 1.2, predicted 1 ± 10 %",
        ),
        (CASE.near(LEMMA, "x", 3, 3, within=0), HOLDS, "measured 3, predicted 3"),
        (
            CASE.near(LEMMA, "x", 1.0000021, 1, within=1e-6),
            FAILS,
            "measured 1.000002, predicted 1 ± 10⁻⁶",
        ),
        (CASE.near(LEMMA, "x", 1.0000001, 1, within=1e-6), HOLDS, "measured 1, predicted 1 ± 10⁻⁶"),
        (CASE.at_most(LEMMA, "x", 0.50000004, 0.5), FAILS, "measured 0.50000004, needed ≤ 0.5"),
        (CASE.at_least(LEMMA, "x", 0.49999996, 0.5), FAILS, "measured 0.49999996, needed ≥ 0.5"),
        (CASE.between(LEMMA, "x", 2.00001, 1, 2), FAILS, "measured 2.00001, must lie in [1, 2]"),
        (CASE.near(LEMMA, "x", math.nan, 3, within=9), FAILS, "measured missing, predicted 3 ± 9"),
        (CASE.at_most(LEMMA, "x", [0.1, 0.3], 0.3), HOLDS, "measured 0.3, needed ≤ 0.3"),
        (CASE.at_most(LEMMA, "x", 0.3, 0.3, strict=True), FAILS, "measured 0.3, needed < 0.3"),
        (CASE.at_most(LEMMA, "x", [0.1, math.nan], 0.3), FAILS, "measured missing, needed ≤ 0.3"),
        (
            CASE.at_most(LEMMA, "x", xr.DataArray([0.1, math.nan]), 0.3),
            FAILS,
            "measured missing, needed ≤ 0.3",
        ),
        (CASE.at_least(LEMMA, "x", [0.1, 0.3], 0.2), FAILS, "measured 0.1, needed ≥ 0.2"),
        (
            CASE.at_least(LEMMA, "x", Interval(0.43, 0.4, 0.47), 0.42, strict=True),
            INCONCLUSIVE,
            "measured 0.43 [0.4, 0.47], needed > 0.42",
        ),
        (
            CASE.at_least(LEMMA, "x", Interval(0.43, 0.4, 0.47), 0.39),
            HOLDS,
            "measured 0.43 [0.4, 0.47], needed ≥ 0.39",
        ),
        (
            CASE.between(LEMMA, "x", 46.61, 34.9, 90.8),
            HOLDS,
            "measured 46.61, must lie in [34.9, 90.8]",
        ),
        (
            CASE.between(LEMMA, "x", [50, 91], 34.9, 90.8),
            FAILS,
            "measured 91, must lie in [34.9, 90.8]",
        ),
        (CASE.none(LEMMA, "x", np.zeros((6, 6), bool)), HOLDS, "0 exceptions among 36"),
        (CASE.none(LEMMA, "x", [True, False]), FAILS, "1 exception among 2"),
        (CASE.none(LEMMA, "x", []), FAILS, "there was nothing to test the rule on"),
        (CASE.at_most(LEMMA, "x", [], 0.3), FAILS, "measured missing, needed ≤ 0.3"),
        (CASE.near(LEMMA, "x", [], 1.0, within=0.3), FAILS, "measured missing, predicted 1 ± 0.3"),
        (CASE.in_order(LEMMA, "x", [1.0, math.nan, 3.0]), FAILS, "2 exceptions among 2"),
        (CASE.none(LEMMA, "x", 1, among=16, allowed=1), HOLDS, "1 exception among 16, 1 allowed"),
        (CASE.in_order(LEMMA, "x", [[1, 2, 3], [1, 3, 3]]), FAILS, "1 exception among 4"),
        (
            CASE.erratum(
                PRINTED, "x", 1.96, number="0.1", printed=2.07, corrected=1.967, within=0.015
            ),
            HOLDS,
            "measured 1.96; corrected 1.967, as printed 2.07 (± 0.015)",
        ),
        (
            CASE.erratum(
                PRINTED, "x", 2.06, number="0.1", printed=2.07, corrected=1.967, within=0.015
            ),
            FAILS,
            "measured 2.06; corrected 1.967, as printed 2.07 (± 0.015)",
        ),
        (
            CASE.erratum(
                PRINTED, "x", 1.96, number="0.1", printed=1.97, corrected=1.95, within=0.015
            ),
            FAILS,
            "measured 1.96; corrected 1.95, as printed 1.97 (± 0.015)",
        ),
        (
            CASE.erratum(MISREAD, "x", 1, number="0.1", printed=-1, corrected=1, within=0.1),
            HOLDS,
            "measured 1; corrected 1, as a summary reads it −1 (± 0.1)",
        ),
    ],
)
def test_a_relation_is_judged_and_said(claim, verdict, says):
    assert (claim.verdict, claim.says) == (verdict, says)
    assert claim.label == "x (K 5)"
    json.dumps(claim.as_dict())


def test_settings_are_written_as_people_write_numbers_and_known_in_files_as_python_does():
    claim = Case({"t": 1e12, "flow": "C"}).near(LEMMA, "1 - f² over ε", 1.0, 1.0, within=0.1)
    assert str(claim).startswith("1 − f² over ε (t 10¹², flow C): ")
    assert claim.label == "1 - f² over ε (t 1e+12, flow C)"


def test_outside_its_assumptions_a_claim_still_says_whether_the_numbers_agree():
    given = [
        below("Assumption 2", 0.57, 1 / 3, "largest eigenvalue"),
        met("one query", True),
        at_most("bare queries", 1, 0),
    ]
    agreeing = Case(given=given).near(LEMMA, "x", 1.0, 1.0, within=0.1)
    off = Case(given=given).near(LEMMA, "x", 1.4, 1.0, within=0.1)
    assert agreeing.verdict == off.verdict == UNMET
    assert agreeing.verdict_says == "assumptions not met (2 of 3); the numbers agree"
    assert off.verdict_says == "assumptions not met (2 of 3); the numbers do not agree"
    assert [str(condition) for condition in off.unmet] == [
        "Assumption 2: largest eigenvalue is 0.57, must be below 0.3333",
        "bare queries: 1, must be at most 0",
    ]


def test_a_control_must_fail_and_is_not_excused_by_its_broken_assumption():
    control = Case(given=[above("a positive rate", -1.0, 0.0)]).breaking("a positive rate")
    failing, holding = (
        control.near(LEMMA, "x", 2.0, 1.0, within=0.1),
        control.near(LEMMA, "x", 1.0, 1.0, within=0.1),
    )
    assert failing.verdict_says == "fails, as a control must (broken: a positive rate)"
    assert holding.verdict_says == "holds, but must fail (broken: a positive rate)"
    outcome = Outcome("x", "", Path(), xr.Dataset(), [failing, holding])
    assert outcome.unexpected == [holding]


def test_a_control_breaks_an_assumption_that_its_case_or_its_statement_has():
    stated = Statement(
        "nobody1999", "Lemma 3", "all grow", hypotheses=("a positive rate", "one query")
    )
    broken = met("one class", False)
    for control in (
        CASE.breaking("one query"),
        CASE.breaking(broken),
        CASE.but(given=[broken]).breaking("one class"),
    ):
        assert control.near(stated, "x", 2.0, 1.0, within=0.1).verdict == FAILS
    said = "and 'one qery' is none. Known: one class; a positive rate; one query. Or give `breaking` a condition that is not met."
    with pytest.raises(InputError, match=re.escape(said)):
        CASE.but(given=[met("one class", True)]).breaking("one qery").near(
            stated, "x", 2.0, 1.0, within=0.1
        )
    with pytest.raises(InputError, match=r"'one query' is none\. Give `breaking` a condition"):
        CASE.breaking("one query").near(LEMMA, "x", 2.0, 1.0, within=0.1)


def test_a_control_whose_assumption_is_met_breaks_nothing():
    control = (
        Case(given=[above("a positive rate", 1.0, 0.0)])
        .breaking("a positive rate")
        .near(LEMMA, "x", 2.0, 1.0, within=0.1)
    )
    assert control.verdict == UNMET
    assert (
        control.verdict_says
        == "assumptions not met: this control breaks nothing, since “a positive rate” is met"
    )


def test_a_control_cannot_break_what_its_case_says_is_met():
    control = Case(given=[met("attention is slow", True)]).breaking(met("attention is slow", False))
    assert control.near(LEMMA, "x", 2.0, 1.0, within=0.1).verdict == UNMET


def test_a_share_is_no_count_of_exceptions():
    with pytest.raises(InputError, match="must be a mask, or a whole number of `among`"):
        CASE.none(LEMMA, "x", [0.1, 0.2])


def test_a_control_that_breaks_more_than_it_says_decides_nothing():
    given = [above("a positive rate", -1.0, 0.0), met("one query", False)]
    assert (
        Case(given=given).breaking("a positive rate").near(LEMMA, "x", 2.0, 1.0, within=0.1).verdict
        == UNMET
    )


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: CASE.near(LEMMA, "x", 1.0, 1.0), "either `within` or `relative`"),
        (
            lambda: CASE.near(LEMMA, "x", 1.0, 1.0, within=1.0, relative=0.1),
            "either `within` or `relative`",
        ),
        (
            lambda: CASE.near(LEMMA, "x", 1.0, 1.0, within=-1.0),
            "and a distance not negative; got [2, 0]",
        ),
        (lambda: CASE.at_most(None, "x", 1.0, 2.0), '"what it says"); got None'),
        (
            lambda: CASE.at_most("Lemma 1", "x", 1.0, 2.0),
            "`statement` of a claim must be a saccade.Statement, such as saccade.Statement(",
        ),
        (
            lambda: CASE.at_most(LEMMA, "", 1.0, 2.0),
            "the title of a claim must say in words what is compared; got ''",
        ),
        (
            lambda: CASE.at_most(LEMMA, "x", "high", 2.0),
            "`measured` of a claim must be numbers; got 'high'",
        ),
        (
            lambda: CASE.at_most(LEMMA, "x", 1.0, [1.0, 2.0]),
            "`bound` of a claim must be one number",
        ),
        (
            lambda: CASE.between(LEMMA, "x", 2.5, 3, 2),
            "claim 'x': the lower bound must not be above the upper one",
        ),
        (
            lambda: CASE.but(given="one query").at_most(LEMMA, "x", 1.0, 2.0),
            "`given` of a claim must list Conditions",
        ),
        (
            lambda: CASE.but(given=3).at_most(LEMMA, "x", 1.0, 2.0),
            "`given` of a claim must list Conditions; got 3",
        ),
        (
            lambda: CASE.under("two seeds").at_most(LEMMA, "x", 1.0, 2.0),
            "`ceilings` of a claim must list Ceilings",
        ),
        (
            lambda: CASE.none(LEMMA, "x", 3),
            "must be a mask, or a whole number of `among`; got 3 among 1",
        ),
        (
            lambda: CASE.none(LEMMA, "x", 3, among=2),
            "must be a mask, or a whole number of `among`; got 3 among 2",
        ),
        (
            lambda: CASE.none(LEMMA, "x", 3, among="many"),
            "`among` of a claim must be numbers; got 'many'",
        ),
    ],
)
def test_a_claim_that_could_never_be_judged_is_refused_in_one_sentence(made, said):
    with pytest.raises(InputError, match=re.escape(said)):
        made()


SEEDS = Ceiling("two seeds", 0.27)


@pytest.mark.parametrize(
    ("claim", "verdict", "says"),
    [
        (CASE.under(SEEDS).at_least(LEMMA, "x", 0.1, 0.2), FAILS, "fails"),
        (CASE.under(SEEDS).at_least(LEMMA, "x", 0.3, 0.2), HOLDS, "holds"),
        (
            CASE.under(SEEDS, Ceiling("two samples", 0.5)).at_least(
                LEMMA, "x", Interval(0.43, 0.4, 0.47), 0.56
            ),
            INCONCLUSIVE,
            "inconclusive; about 3.4 times the windows would do",
        ),
        (CASE.under(SEEDS).at_most(LEMMA, "x", -0.1, -0.2), FAILS, "fails"),
        (
            CASE.under(SEEDS).at_most(LEMMA, "x", -0.1, -0.5),
            INCONCLUSIVE,
            "inconclusive; about 2.7 times the windows would do",
        ),
        (
            CASE.under(Ceiling("two seeds", 0.6, "seeds", chance=0.5)).at_least(
                LEMMA, "x", 0.55, 0.65
            ),
            INCONCLUSIVE,
            "inconclusive; about 1.7 times the seeds would do",
        ),
        (
            CASE.under(Ceiling("two seeds", -0.1)).at_least(LEMMA, "x", 0.1, 0, strict=True),
            INCONCLUSIVE,
            "inconclusive; repetitions do not agree at all, so no size can be named",
        ),
        (
            CASE.under(Ceiling("two samples", 0.3, limits=False)).at_least(LEMMA, "x", 0.9, 0.85),
            HOLDS,
            "holds",
        ),
        (
            CASE.under(SEEDS).at_most(
                LEMMA, "x", Interval(0.2, 0.1, 0.3), 0.5
            ),  # noise alone would bring it below 0.5
            INCONCLUSIVE,
            "inconclusive; about 2.7 times the windows would do",
        ),
        (
            CASE.under(Ceiling("two seeds", 0.6)).at_most(LEMMA, "x", Interval(0.2, 0.1, 0.3), 0.5),
            HOLDS,
            "holds",
        ),
        (CASE.under(SEEDS).at_most(LEMMA, "x", Interval(0.7, 0.6, 0.8), 0.5), FAILS, "fails"),
        (
            CASE.under(Ceiling("two seeds", 0.9)).at_least(
                LEMMA, "x", Interval(0.3, 0.1, 0.5), 0.2
            ),
            INCONCLUSIVE,
            "inconclusive; about 4 times the repetitions would do",
        ),
        (
            CASE.under(Ceiling("two seeds", 0.9)).at_least(
                LEMMA, "x", Interval(0.3, math.nan, math.nan), 0.2
            ),
            INCONCLUSIVE,
            "inconclusive; more repetitions would do",
        ),
        (
            CASE.under(Ceiling("two seeds", 0.9)).near(
                LEMMA, "x", Interval(0.3, 0.1, 0.5), 0.4, within=0.05
            ),
            INCONCLUSIVE,
            "inconclusive; about 16 times the repetitions would do",
        ),
        (
            CASE.under(Ceiling("two seeds", 0.9)).near(
                LEMMA, "x", Interval(0.3, 0.2, 0.34), 0.4, within=0.05
            ),
            FAILS,
            "fails",
        ),
        (
            CASE.under(Ceiling("two seeds", 0.9)).at_least(
                LEMMA, "x", Interval(*[math.nan] * 3), 0.2
            ),
            FAILS,
            "fails: nothing was measured",
        ),
        (
            CASE.under(Ceiling("two seeds", 0.3)).at_least(
                LEMMA, "x", Interval(-0.5, -0.6, -0.4), 0.5
            ),
            FAILS,
            "fails",
        ),
        (
            CASE.under(Ceiling("two seeds", 0.3)).at_most(
                LEMMA, "x", Interval(0.5, 0.4, 0.6), -0.5
            ),
            FAILS,
            "fails",
        ),
        (
            CASE.under(Ceiling("two seeds", 0.45)).at_least(
                LEMMA, "x", Interval(0.62, 0.58, 0.66), 0.5
            ),
            HOLDS,
            "holds",
        ),
        (
            CASE.under(Ceiling("two seeds", math.nan)).at_least(LEMMA, "x", 0.62, 0.5),
            INCONCLUSIVE,
            "inconclusive; how far repetitions agree is not known: there must be two of them at least",
        ),
        (
            CASE.at_least(LEMMA, "x", Interval(0.3, 0.1, 0.5), 0.2),
            INCONCLUSIVE,
            "inconclusive; about 4 times the repetitions would do",
        ),
        (
            Case(given=[met("one query", False)]).under(SEEDS).at_least(LEMMA, "x", 0.1, 0.5),
            UNMET,
            "assumptions not met (1 of 1); the numbers are inconclusive",
        ),
        (
            Case(given=[met("one query", False)]).under(SEEDS).at_least(LEMMA, "x", 0.1, 0.2),
            UNMET,
            "assumptions not met (1 of 1); the numbers do not agree",
        ),
    ],
)
def test_a_claim_that_asks_for_more_than_its_ceiling_cannot_be_told(claim, verdict, says):
    assert (claim.verdict, claim.verdict_says) == (verdict, says)
    json.dumps(claim.as_dict())


def test_ceilings_are_said_beside_the_score():
    claim = CASE.under(SEEDS, Ceiling("two samples", 0.4)).at_least(
        LEMMA, "x", Interval(0.43, 0.4, 0.47), 0.56, strict=True
    )
    assert (
        claim.says
        == "measured 0.43 [0.4, 0.47], needed > 0.56; ceiling 0.27 (two seeds); ceiling 0.4 (two samples)"
    )


def test_an_erratum_of_a_statement_that_has_one_needs_no_number():
    forms = {"printed": -1, "corrected": 1, "within": 0.1}
    assert CASE.erratum(MISREAD, "x", 1, **forms) == CASE.erratum(
        MISREAD, "x", 1, number="0.1", **forms
    )
    with pytest.raises(InputError, match="has 0 errata"):
        CASE.erratum(LEMMA, "x", 1, **forms)


def test_an_agreement_that_sets_no_limit_is_told_for_comparison():
    shown = CASE.under(Ceiling("two seeds", 0.9), Ceiling("other windows", 0.27, limits=False))
    claim = shown.at_least(LEMMA, "rank correlation", 0.6, 0.5)
    assert (
        claim.says
        == "measured 0.6, needed ≥ 0.5; ceiling 0.9 (two seeds); for comparison 0.27 (other windows)"
    )
    assert claim.verdict == HOLDS


def test_a_claim_without_a_ceiling_says_why():
    claim = CASE.under(NoCeiling("an exact count")).at_least(LEMMA, "share of texts", 0.4, 0.5)
    assert claim.says == "measured 0.4, needed ≥ 0.5; no ceiling: an exact count"
    assert claim.verdict == FAILS  # it excuses nothing
    json.dumps(claim.as_dict())


def test_an_erratum_may_be_judged_over_seeds():
    forms = {
        "printed": 2.0,
        "corrected": 1.0,
        "within": 0.6,
    }  # only what is below 1.4 is not as close to the printed form
    judged = [
        CASE.erratum(MISREAD, "x", Interval(mean, mean - 0.1, mean + 0.1), **forms)
        for mean in (1.0, 1.35, 1.55, 2.0)
    ]
    assert [claim.verdict for claim in judged] == ["holds", INCONCLUSIVE, "fails", "fails"]
    assert judged[0].says == "measured 1 [0.9, 1.1]; corrected 1, as a summary reads it 2 (± 0.6)"


def test_claims_are_counted_by_verdict_and_controls_apart():
    control = CASE.breaking(met("one query", False))
    claims = [
        CASE.near(LEMMA, "x", 1, 1, within=0),
        CASE.published.near(LEMMA, "y", 1, 1, within=0),
        CASE.near(LEMMA, "z", 2, 1, within=0),
        CASE.but(given=[met("one class", False)]).near(LEMMA, "x", 1, 1, within=0),
        control.near(LEMMA, "x", 2, 1, within=0),
        control.near(LEMMA, "x", 1, 1, within=0),
    ]
    counted = tally([claim.as_dict() for claim in claims])
    assert counted == (
        "4 claims (1 published): 2 hold, 1 fails, 1 assumptions not met; 1 of 2 controls fail"
    )


def test_at_default_settings_another_verdict_than_the_stored_one_is_unexpected():
    claims = [CASE.near(LEMMA, title, 2, 1, within=0) for title in ("x", "y")]
    claims.append(CASE.near(LEMMA, "z", 1, 1, within=0))
    known = {"x (K 5)": FAILS, "z (K 5)": FAILS}
    outcome = Outcome("n", "", Path(), xr.Dataset(), claims, known)
    assert [claim.title for claim in outcome.unexpected] == ["y", "z"]
