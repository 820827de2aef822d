"""Two folders of results are compared claim by claim: what moved, what only has another name, what
is gone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from saccade.lab.case import Case
from saccade.lab.claim import Claim
from saccade.records.store import save_record
from saccade.theories.condition import met
from saccade.theories.statement import Statement
from tools.compare_claims import differences, main

LEMMA, THEOREM = Statement("nobody1999", "Lemma 1", "x"), Statement("nobody1999", "Theorem 2", "y")
BROKEN = Case({"law": "zipf"}, [met("one query", False)]).breaking("one query")
BEFORE = [
    Case({"law": "paper"}).near(LEMMA, "rate", 1.0, 1.0, within=0.1),
    Case({"law": "zipf"}).near(LEMMA, "rate", 2.0, 2.0, within=0.1),
    Case({"law": "zipf"}).near(LEMMA, "distance", 3.0, 3.0, within=0.1),
    Case({"law": "zipf"}).near(THEOREM, "power", 0.5, 0.5, within=0.1),
    BROKEN.near(THEOREM, "power", 0.9, 0.5, within=0.1),
]


def written(claims: list[Claim]) -> list[dict]:
    return [claim.as_dict() for claim in claims]


def renamed(claims: list[Claim]) -> list[Claim]:
    """Every title, and the name of the assumption that is broken."""
    return [
        replace(
            claim,
            title=f"the {claim.title}",
            given=[replace(condition, name=f"{condition.name} only") for condition in claim.given],
            breaks=claim.breaks and f"{claim.breaks} only",
        )
        for claim in claims
    ]


def test_the_same_claims_have_no_differences():
    assert differences(written(BEFORE), written(BEFORE)) == ([], [], [], [])


def test_titles_that_changed_are_listed_apart_and_are_no_numbers_that_moved():
    found = differences(written(BEFORE), written(renamed(BEFORE)))
    assert (found.moved, found.gone, found.new) == ([], [], [])
    assert "distance (law zipf) -> the distance (law zipf)" in found.renamed
    assert (
        "power (law zipf) (control: one query) -> the power (law zipf) (control: one query only)"
        in found.renamed
    )
    assert len(found.renamed) == len(BEFORE)


def test_a_number_that_moved_is_seen_under_another_title():
    after = renamed(BEFORE)
    after[2] = replace(after[2], measured=3.01)
    found = differences(written(BEFORE), written(after))
    assert found.moved == ["the distance (law zipf): measured 3.0 -> 3.01"]
    assert (found.gone, found.new) == ([], [])


def test_claims_of_one_statement_and_case_are_told_apart_by_their_order_only_if_there_are_as_many():
    swapped = renamed([BEFORE[0], BEFORE[2], BEFORE[1], *BEFORE[3:]])
    assert (
        len(differences(written(BEFORE), written(swapped)).moved) == 2
    )  # order is all that is left of them
    fewer = renamed([BEFORE[0], *BEFORE[2:]])
    found = differences(written(BEFORE), written(fewer))
    assert (found.moved, found.gone, found.new) == ([], ["rate (law zipf)"], [])
    assert "distance (law zipf) -> the distance (law zipf)" in found.renamed


@pytest.mark.parametrize(("after", "code"), [(BEFORE, 0), (renamed(BEFORE), 0), (BEFORE[1:], 1)])
def test_two_folders_are_compared_and_only_names_that_changed_are_no_failure(
    tmp_path, capsys, after, code
):
    record = xr.Dataset({"x": ("time", np.arange(3.0))})
    for folder, claims in (("before", BEFORE), ("after", after)):
        save_record(record, tmp_path / folder / "mine", claims=claims)
    assert main([str(tmp_path / "before"), str(tmp_path / "after")]) == code
    printed = capsys.readouterr().out
    n = 0 if after is BEFORE or code else len(BEFORE)
    assert printed.startswith(f"mine: 0 moved, {n} renamed, {code} gone, 0 new\n")
    assert ("  gone: rate (law paper)" in printed) == bool(code)
