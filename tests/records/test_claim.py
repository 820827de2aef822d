"""A claim's verdict follows from its numbers and assumptions, and is written down under the agreed keys."""

from __future__ import annotations

import json
import math

import pytest

from saccade import Claim

KEYS = ["statement", "source", "assumptions", "predicted", "measured", "tolerance", "verdict", "expected"]


def claim(measured: float, **changed) -> Claim:
    values = {"statement": "the mass is 3", "source": "[paper, eq. 7]", "predicted": 3.0, "tolerance": 0.5} | changed
    return Claim(measured=measured, **values)


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [(3.0, "holds"), (3.5, "holds"), (2.5, "holds"), (3.5000001, "fails"), (2.4999999, "fails"), (-3.0, "fails")],
)
def test_a_claim_holds_up_to_and_including_its_tolerance_on_either_side(measured, verdict):
    assert claim(measured).verdict == verdict


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_missing_fails(number):
    assert claim(number).verdict == "fails"
    assert claim(3.0, predicted=number).verdict == "fails"
    assert not claim(number).as_expected


def test_nothing_is_within_a_tolerance_that_is_missing():
    assert claim(3.0, tolerance=math.nan).verdict == "fails"


def test_a_claim_whose_assumptions_are_not_all_met_is_outside_them_whatever_its_numbers():
    for measured in (3.0, 30.0, math.nan):
        unmet = claim(measured, assumptions={"infinite context": True, "one query": False})
        assert unmet.verdict == "outside its assumptions"
    assert claim(3.0, assumptions={"infinite context": True, "one query": True}).verdict == "holds"


def test_a_known_erratum_is_as_expected_when_it_fails():
    erratum = claim(30.0, expected="fails")
    assert (erratum.verdict, erratum.as_expected) == ("fails", True)
    assert not claim(3.0, expected="fails").as_expected
    assert claim(3.0).as_expected
    assert not claim(30.0).as_expected


def test_a_claim_is_written_down_under_the_agreed_keys_in_order():
    written = claim(3.25, assumptions={"one query": True}).as_dict()
    assert list(written) == KEYS
    assert json.loads(json.dumps(written)) == {
        "statement": "the mass is 3",
        "source": "[paper, eq. 7]",
        "assumptions": {"one query": True},
        "predicted": 3.0,
        "measured": 3.25,
        "tolerance": 0.5,
        "verdict": "holds",
        "expected": "holds",
    }
