"""An assumption says its value, relation and bound in words, and one asked in several cases counts
once.
"""

from __future__ import annotations

import json
import math

import pytest

from saccade.data.sequence_classes import SequenceClasses
from saccade.numerals import numeral
from saccade.theories.condition import Condition, above, at_least, at_most, below, equal, met, tally
from saccade.theories.scan_and_snap import check_assumptions


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        (
            below("weak overlaps", 0.57, 1 / 3, "largest eigenvalue"),
            "weak overlaps: largest eigenvalue is 0.57, must be below 0.3333",
        ),
        (above("focus", -0.1, 0), "focus: −0.1, must be above 0"),
        (at_least("long contexts", 2, 3, "count"), "long contexts: count is 2, must be at least 3"),
        (at_most("start", 1, 0), "start: 1, must be at most 0"),
        (
            equal("one common token", 2, 1, "common tokens"),
            "one common token: common tokens is 2, must be 1",
        ),
        (
            equal("one common token", 0, 1, "common tokens"),
            "one common token: common tokens is 0, must be 1",
        ),
        (met("plain descent", False), "plain descent"),
    ],
)
def test_a_condition_says_value_relation_and_bound_in_words(condition, says):
    assert str(condition) == condition.as_dict()["says"] == says


def test_an_assumption_asked_in_several_cases_counts_once_and_is_met_only_if_it_is_in_all_of_them():
    asked = [
        at_least("vocabulary", 1000, 100),
        at_least("vocabulary", 9, 100),
        at_least("vocabulary", 7, 100),
        met("one query", True),
    ]
    opening, *unmet = tally("These claims", asked)
    assert opening == "These claims rest on 2 assumptions; 1 is not met:"
    assert unmet == ["vocabulary: 9, must be at least 100"]
    assert tally("These claims", asked[:1]) == []


def test_a_condition_comes_back_from_a_record_where_infinity_is_text():
    kept = at_least("long contexts", math.inf, 3, "count", "why")
    stored = json.loads(json.dumps(kept.as_dict() | {"value": "inf"}))
    assert Condition.of(stored) == kept


def test_every_assumption_of_scan_and_snap_names_its_source_and_what_its_value_is():
    task = SequenceClasses.syn_small()
    rates = {
        "n_vocab": task.n_vocab,
        "lr_decoder": 1.0,
        "lr_attention": 1.0,
        "n_context": 127.0,
        "n_steps": 100,
    }
    found = check_assumptions(task.token_prob, task.query, task.class_weight, **rates)
    assert len({condition.name for condition in found}) == len(found)
    assert all(
        condition.name.startswith(("Assumption ", "Theorem ", "Corollary ")) and condition.quantity
        for condition in found
    )
    assert all(
        f"{condition.quantity} is {numeral(condition.value)}, must be " in str(condition)
        for condition in found
    )
