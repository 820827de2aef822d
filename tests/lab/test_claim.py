"""Claims: every relation can hold and fail, is printed as people say it, and is judged from end to end of an interval."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import xarray as xr

from saccade.lab.claim import FAILS, HOLDS, OUTSIDE, Case
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
        (CASE.near(LEMMA, "x", [1.0, 1.2], 1.0, relative=0.1), FAILS, "measured 1.2, predicted 1 ± 10 %"),
        (CASE.near(LEMMA, "x", 3, 3, within=0), HOLDS, "measured 3, predicted 3"),
        (CASE.near(LEMMA, "x", math.nan, 3, within=9), FAILS, "measured missing, predicted 3 ± 9"),
        (CASE.at_most(LEMMA, "x", [0.1, 0.3], 0.3), HOLDS, "measured 0.3, needed ≤ 0.3"),
        (CASE.at_most(LEMMA, "x", 0.3, 0.3, strict=True), FAILS, "measured 0.3, needed < 0.3"),
        (CASE.at_most(LEMMA, "x", [0.1, math.nan], 0.3), FAILS, "measured missing, needed ≤ 0.3"),
        (CASE.at_most(LEMMA, "x", xr.DataArray([0.1, math.nan]), 0.3), FAILS, "measured missing, needed ≤ 0.3"),
        (CASE.at_least(LEMMA, "x", [0.1, 0.3], 0.2), FAILS, "measured 0.1, needed ≥ 0.2"),
        (
            CASE.at_least(LEMMA, "x", Interval(0.43, 0.4, 0.47), 0.42, strict=True),
            FAILS,
            "measured 0.43 [0.4, 0.47], needed > 0.42",
        ),
        (CASE.at_least(LEMMA, "x", Interval(0.43, 0.4, 0.47), 0.39), HOLDS, "measured 0.43 [0.4, 0.47], needed ≥ 0.39"),
        (CASE.between(LEMMA, "x", 46.61, 34.9, 90.8), HOLDS, "measured 46.61, must lie in [34.9, 90.8]"),
        (CASE.between(LEMMA, "x", [50, 91], 34.9, 90.8), FAILS, "measured 91, must lie in [34.9, 90.8]"),
        (CASE.none(LEMMA, "x", np.zeros((6, 6), bool)), HOLDS, "0 exceptions among 36"),
        (CASE.none(LEMMA, "x", [True, False]), FAILS, "1 exception among 2"),
        (CASE.none(LEMMA, "x", []), FAILS, "missing exceptions among 0"),
        (CASE.in_order(LEMMA, "x", [1.0, math.nan, 3.0]), FAILS, "2 exceptions among 2"),
        (CASE.none(LEMMA, "x", 1, among=16, allowed=1), HOLDS, "1 exception among 16, 1 allowed"),
        (CASE.in_order(LEMMA, "x", [[1, 2, 3], [1, 3, 3]]), FAILS, "1 exception among 4"),
        (
            CASE.erratum(LEMMA, "x", 1.96, number="0.1", printed=2.07, corrected=1.967, within=0.015),
            HOLDS,
            "measured 1.96; corrected formula 1.967, as printed 2.07 (± 0.015)",
        ),
        (
            CASE.erratum(LEMMA, "x", 2.06, number="0.1", printed=2.07, corrected=1.967, within=0.015),
            FAILS,
            "measured 2.06; corrected formula 1.967, as printed 2.07 (± 0.015)",
        ),
        (
            CASE.erratum(LEMMA, "x", 1.96, number="0.1", printed=1.97, corrected=1.95, within=0.015),
            FAILS,
            "measured 1.96; corrected formula 1.95, as printed 1.97 (± 0.015)",
        ),
        (
            CASE.erratum(MISREAD, "x", 1, number="0.1", printed=-1, corrected=1, within=0.1),
            HOLDS,
            "measured 1; corrected formula 1, as a summary reads it -1 (± 0.1)",
        ),
    ],
)
def test_a_relation_is_judged_and_said(claim, verdict, says):
    assert (claim.verdict, claim.says) == (verdict, says)
    assert claim.label == "x (K 5)"
    json.dumps(claim.as_dict())


def test_outside_its_assumptions_a_claim_still_says_whether_the_numbers_agree():
    given = [below("2 largest eigenvalue", 0.57, 1 / 3), met("one query", True), at_most("bare queries", 1, 0)]
    agreeing = Case(given=given).near(LEMMA, "x", 1.0, 1.0, within=0.1)
    off = Case(given=given).near(LEMMA, "x", 1.4, 1.0, within=0.1)
    assert agreeing.verdict == off.verdict == OUTSIDE
    assert agreeing.verdict_says == "outside (2 of 3 assumptions); agrees"
    assert off.verdict_says == "outside (2 of 3 assumptions); off by 40 %"
    assert not off.is_surprise
    assert [str(condition) for condition in off.unmet] == [
        "2 largest eigenvalue: 0.57, needed < 0.3333",
        "bare queries: 1, needed <= 0",
    ]


def test_a_control_must_fail_and_is_not_excused_by_its_broken_assumption():
    control = Case(given=[above("a positive rate", -1.0, 0.0)]).breaking("a positive rate")
    failing, holding = control.near(LEMMA, "x", 2.0, 1.0, within=0.1), control.near(LEMMA, "x", 1.0, 1.0, within=0.1)
    assert (failing.verdict, failing.as_expected) == (FAILS, True)
    assert (holding.verdict, holding.is_surprise) == (HOLDS, True)
    assert holding.verdict_says == "holds, though it must not (broken: a positive rate)"


def test_a_control_that_breaks_more_than_it_says_decides_nothing():
    given = [above("a positive rate", -1.0, 0.0), met("one query", False)]
    assert Case(given=given).breaking("a positive rate").near(LEMMA, "x", 2.0, 1.0, within=0.1).verdict == OUTSIDE


def test_near_needs_one_way_of_telling_how_near():
    for wrong in ({}, {"within": 1.0, "relative": 0.1}):
        with pytest.raises(TypeError, match="either `within` or `relative`"):
            CASE.near(LEMMA, "x", 1.0, 1.0, **wrong)
