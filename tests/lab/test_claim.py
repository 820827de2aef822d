"""Claims: every relation can hold and fail, is printed as people say it, and is judged from end to
end of an interval.
"""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
import xarray as xr

from saccade.errors import InputError
from saccade.lab.ceiling import Ceiling, NoCeiling
from saccade.lab.claim import CANNOT_TELL, FAILS, HOLDS, OUTSIDE, Case
from saccade.lab.outcome import tally
from saccade.observe.fits import Interval
from saccade.theory.condition import above, at_most, below, met
from saccade.theory.statement import Correction, Statement

LEMMA = Statement("nobody1999", "Lemma 1", "all is well")
READING = Correction("0.1", ("a < b",), ("a > b",), "Because.", "as a summary reads it")
MISREAD = Statement("nobody1999", "Lemma 2", "all is read", errata=(READING,))
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
            CANNOT_TELL,
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
        (CASE.none(LEMMA, "x", []), FAILS, "the rule was never put to the test"),
        (CASE.at_most(LEMMA, "x", [], 0.3), FAILS, "measured missing, needed ≤ 0.3"),
        (CASE.near(LEMMA, "x", [], 1.0, within=0.3), FAILS, "measured missing, predicted 1 ± 0.3"),
        (CASE.in_order(LEMMA, "x", [1.0, math.nan, 3.0]), FAILS, "2 exceptions among 2"),
        (CASE.none(LEMMA, "x", 1, among=16, allowed=1), HOLDS, "1 exception among 16, 1 allowed"),
        (CASE.in_order(LEMMA, "x", [[1, 2, 3], [1, 3, 3]]), FAILS, "1 exception among 4"),
        (
            CASE.erratum(
                LEMMA, "x", 1.96, number="0.1", printed=2.07, corrected=1.967, within=0.015
            ),
            HOLDS,
            "measured 1.96; corrected formula 1.967, as printed 2.07 (± 0.015)",
        ),
        (
            CASE.erratum(
                LEMMA, "x", 2.06, number="0.1", printed=2.07, corrected=1.967, within=0.015
            ),
            FAILS,
            "measured 2.06; corrected formula 1.967, as printed 2.07 (± 0.015)",
        ),
        (
            CASE.erratum(
                LEMMA, "x", 1.96, number="0.1", printed=1.97, corrected=1.95, within=0.015
            ),
            FAILS,
            "measured 1.96; corrected formula 1.95, as printed 1.97 (± 0.015)",
        ),
        (
            CASE.erratum(MISREAD, "x", 1, number="0.1", printed=-1, corrected=1, within=0.1),
            HOLDS,
            "measured 1; corrected formula 1, as a summary reads it −1 (± 0.1)",
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
    assert claim.plain.startswith("1 − f² over ε (t 10¹², flow C): ")
    assert claim.label == "1 - f² over ε (t 1e+12, flow C)"


def test_outside_its_assumptions_a_claim_still_says_whether_the_numbers_agree():
    given = [
        below("Assumption 2", 0.57, 1 / 3, "largest eigenvalue"),
        met("one query", True),
        at_most("bare queries", 1, 0),
    ]
    agreeing = Case(given=given).near(LEMMA, "x", 1.0, 1.0, within=0.1)
    off = Case(given=given).near(LEMMA, "x", 1.4, 1.0, within=0.1)
    assert agreeing.verdict == off.verdict == OUTSIDE
    assert agreeing.verdict_says == "assumptions not met (2 of 3); agrees"
    assert off.verdict_says == "assumptions not met (2 of 3); off by 40 %"
    assert not off.is_surprise
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
    assert (failing.verdict, failing.as_expected) == (FAILS, True)
    assert (holding.verdict, holding.is_surprise) == (HOLDS, True)
    assert holding.verdict_says == "holds, though it must not (broken: a positive rate)"
    told = control.near(LEMMA, "x", 2.0, 1.0, within=0.1, sentence="All grow alike.").plain
    assert told == "Control, with “a positive rate” broken; this must fail: All grow alike."


@pytest.mark.parametrize("measured", [math.nan, Interval(math.nan, math.nan, math.nan)])
def test_nothing_measured_is_no_control_and_no_known_failure(measured):
    control, known = (
        CASE.breaking(met("a positive rate", False)),
        CASE.at_most(LEMMA, "x", measured, 1.0, expected=FAILS),
    )
    for claim in (control.at_most(LEMMA, "x", measured, 1.0), control.none(LEMMA, "x", []), known):
        assert (claim.kind, claim.as_expected, claim.verdict_says) == (
            "surprise",
            False,
            "fails: nothing was measured",
        )
        assert tally([claim]).endswith("; 1 surprise among them")


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
        assert control.near(stated, "x", 2.0, 1.0, within=0.1).kind == "control"
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
    assert (control.verdict, control.kind) == (OUTSIDE, OUTSIDE)
    assert (
        control.verdict_says
        == "assumptions not met; “a positive rate” is met, so nothing is broken"
    )


def test_a_control_cannot_break_what_its_case_says_is_met():
    control = Case(given=[met("attention is slow", True)]).breaking(met("attention is slow", False))
    assert (
        control.near(LEMMA, "x", 2.0, 1.0, within=0.1).verdict_says
        == "assumptions not met; “attention is slow” is met, so nothing is broken"
    )


def test_where_settings_may_miss_an_assumption_the_expected_verdict_follows_it():
    assert Case(given=[met("one query", True)]).expected == HOLDS
    assert Case(given=[met("one query", True), met("one class", False)]).expected == OUTSIDE


def test_a_tightened_bound_must_fail_and_says_by_how_much_it_was_tightened():
    control = CASE.tightened(0.5).at_most(LEMMA, "x", 0.4, 0.5 * 0.6)
    assert (control.kind, control.verdict_says) == (
        "control",
        "fails, as a control must (the bound was tightened)",
    )
    assert (
        str(control.given[-1]) == "the bound as stated: what it is multiplied by is 0.5, must be 1"
    )
    assert CASE.tightened(0.5).at_most(LEMMA, "x", 0.2, 0.5 * 0.6).kind == "surprise"
    assert (
        CASE.tightened(0.5, chosen_here=False).at_most(LEMMA, "x", 0.2, 0.5 * 0.6).kind == OUTSIDE
    )


def test_a_share_is_no_count_of_exceptions():
    with pytest.raises(InputError, match="true or false for each case, or a whole number"):
        CASE.none(LEMMA, "x", [0.1, 0.2])


def test_a_control_that_breaks_more_than_it_says_decides_nothing():
    given = [above("a positive rate", -1.0, 0.0), met("one query", False)]
    assert (
        Case(given=given).breaking("a positive rate").near(LEMMA, "x", 2.0, 1.0, within=0.1).verdict
        == OUTSIDE
    )


def test_claims_are_counted_by_what_they_decide_and_a_control_that_decides_nothing_is_outside():
    broken = Case(given=[above("a positive rate", -1.0, 0.0), met("one query", False)])
    claims = [
        CASE.near(LEMMA, "x", 1.0, 1.0, within=0.1),
        CASE.near(LEMMA, "x", 2.0, 1.0, within=0.1, expected=FAILS),
        CASE.near(LEMMA, "x", 2.0, 1.0, within=0.1),
        Case(given=broken.given[:1])
        .breaking("a positive rate")
        .near(LEMMA, "x", 2.0, 1.0, within=0.1),
        broken.breaking("a positive rate").near(LEMMA, "x", 2.0, 1.0, within=0.1),
    ]
    assert [claim.kind for claim in claims] == [HOLDS, FAILS, "surprise", "control", OUTSIDE]
    said = "3 claims: 1 holds, 2 fail; 2 controls (1 inconclusive); 1 surprise among them"
    assert tally(claims) == said
    assert str(claims[0]) == "x (K 5): measured 1, predicted 1 ± 0.1"


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
            "claim 'x': the distance allowed must not be negative; got -1",
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
            "`low` must not be above `high`; got 3 and 2",
        ),
        (
            lambda: CASE.at_most(LEMMA, "x", 1.0, 2.0, expected="maybe"),
            "`expected` verdict 'maybe' is not known",
        ),
        (
            lambda: CASE.but(against="moon").at_most(LEMMA, "x", 1.0, 2.0),
            "`against` 'moon' is not known",
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
            "must be a mask, or a count with `among`; got 3 among 1",
        ),
        (
            lambda: CASE.none(LEMMA, "x", 3, among=2),
            "must be a mask, or a count with `among`; got 3 among 2",
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


@pytest.mark.parametrize(
    ("claim", "sentence"),
    [
        (
            CASE.near(LEMMA, "x", 1.0, 2.0, relative=0.1),
            "x (K 5): theory predicts 2 and our run gives 1; they may differ by 10 %.",
        ),
        (
            CASE.near(LEMMA, "σ of x", 3, 3, within=0),
            "σ of x (K 5): theory predicts 3 and our run gives 3; they must be equal.",
        ),
        (
            CASE.at_most(LEMMA, "largest gap", 0.1, 0.3),
            "Largest gap (K 5): our run gives 0.1, and at most 0.3 is allowed.",
        ),
        (
            CASE.at_most(LEMMA, "largest gap", [], 0.3),
            "Largest gap (K 5): the number is missing, and at most 0.3 is allowed.",
        ),
        (
            CASE.at_least(LEMMA, "x", 0.1, 0.3, strict=True),
            "x (K 5): our run gives 0.1, and more than 0.3 is needed.",
        ),
        (
            CASE.between(LEMMA, "x", 3, 2, 5),
            "x (K 5): our run gives 3, and anything from 2 to 5 is allowed.",
        ),
        (
            CASE.none(LEMMA, "more is more", [False, False]),
            "More is more (K 5): true in all 2 cases.",
        ),
        (
            CASE.none(LEMMA, "more is more", [True, False]),
            "More is more (K 5): true in 1 of 2 cases.",
        ),
        (
            CASE.none(LEMMA, "more is more", [True, True]),
            "More is more (K 5): true in none of 2 cases.",
        ),
        (
            CASE.none(LEMMA, "more is more", [True]),
            "More is more (K 5): not true in the only case.",
        ),
        (
            CASE.none(LEMMA, "more is more", []),
            "More is more (K 5): nothing was there to test it on.",
        ),
        (
            CASE.none(LEMMA, "x", 1, among=16, allowed=1),
            "x (K 5): true in 15 of 16 cases, and 1 may be exceptions.",
        ),
        (
            CASE.but(against="calculus").erratum(
                MISREAD, "x", 1, number="0.1", printed=-1, corrected=1, within=0.1
            ),
            "x (K 5): our own calculation gives 1; the corrected formula gives 1, the one as a summary reads it −1.",
        ),
        (CASE.at_most(LEMMA, "x", 0.1, 0.3, sentence="Is it small?"), "Is it small?"),
    ],
)
def test_a_claim_without_a_sentence_tells_its_own_numbers_in_words(claim, sentence):
    assert claim.as_dict()["sentence"] == sentence


def test_how_far_off_is_said_without_powers_of_ten():
    assert (
        Case(given=[met("one query", False)])
        .near(LEMMA, "x", 15.0, 1.0, within=0.1)
        .verdict_says.endswith("off by 1400 %")
    )


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
            CANNOT_TELL,
            "inconclusive; about 3.4 times the windows would do",
        ),
        (CASE.under(SEEDS).at_most(LEMMA, "x", -0.1, -0.2), FAILS, "fails"),
        (
            CASE.under(SEEDS).at_most(LEMMA, "x", -0.1, -0.5),
            CANNOT_TELL,
            "inconclusive; about 2.7 times the windows would do",
        ),
        (
            CASE.under(Ceiling("two seeds", 0.6, "seeds", chance=0.5)).at_least(
                LEMMA, "x", 0.55, 0.65
            ),
            CANNOT_TELL,
            "inconclusive; about 1.7 times the seeds would do",
        ),
        (
            CASE.under(Ceiling("two seeds", -0.1)).at_least(LEMMA, "x", 0.1, 0, strict=True),
            CANNOT_TELL,
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
            CANNOT_TELL,
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
            CANNOT_TELL,
            "inconclusive; about 4 times the repetitions would do",
        ),
        (
            CASE.under(Ceiling("two seeds", 0.9)).at_least(
                LEMMA, "x", Interval(0.3, math.nan, math.nan), 0.2
            ),
            CANNOT_TELL,
            "inconclusive; more repetitions would do",
        ),
        (
            CASE.under(Ceiling("two seeds", 0.9)).near(
                LEMMA, "x", Interval(0.3, 0.1, 0.5), 0.4, within=0.05
            ),
            CANNOT_TELL,
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
            CANNOT_TELL,
            "inconclusive; how far repetitions agree is not known: there must be two of them at least",
        ),
        (
            CASE.at_least(LEMMA, "x", Interval(0.3, 0.1, 0.5), 0.2),
            CANNOT_TELL,
            "inconclusive; about 4 times the repetitions would do",
        ),
        (
            Case(given=[met("one query", False)]).under(SEEDS).at_least(LEMMA, "x", 0.1, 0.5),
            OUTSIDE,
            "assumptions not met (1 of 1); inconclusive",
        ),
        (
            Case(given=[met("one query", False)]).under(SEEDS).at_least(LEMMA, "x", 0.1, 0.2),
            OUTSIDE,
            "assumptions not met (1 of 1); 0.1 too low",
        ),
    ],
)
def test_a_claim_that_asks_for_more_than_its_ceiling_cannot_be_told(claim, verdict, says):
    assert (claim.verdict, claim.verdict_says) == (verdict, says)
    assert claim.is_surprise == (verdict == FAILS)
    json.dumps(claim.as_dict())


def test_ceilings_are_said_beside_the_score():
    claim = CASE.under(SEEDS, Ceiling("two samples", 0.4)).at_least(
        LEMMA, "x", Interval(0.43, 0.4, 0.47), 0.56, strict=True
    )
    assert (
        claim.says
        == "measured 0.43 [0.4, 0.47], needed > 0.56; ceiling 0.27 (two seeds), 0.4 (two samples)"
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
    assert [claim.verdict for claim in judged] == ["holds", "cannot tell", "fails", "fails"]
    assert (
        judged[0].says
        == "measured 1 [0.9, 1.1]; corrected formula 1, as a summary reads it 2 (± 0.6)"
    )
