"""Equal rare tokens above and below the critical stay, and a small diagram: verdicts, and that
wrong numbers fail them.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.focus_and_dilution import degenerate_points
from saccade.experiments.focus_and_dilution.symmetric_escape import EXPERIMENT, Settings
from saccade.lab.claim import FAILS, HOLDS
from saccade.theory import focus_and_dilution as theory
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme, verdicts_of

verdicts = partial(verdicts_of, EXPERIMENT)


@pytest.fixture(scope="module")
def record():
    return record_of("symmetric-escape")


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    assert [claim.label for claim in claims if not claim.as_expected] == []
    assert {claim.breaks for claim in claims if claim.verdict == FAILS} == {
        "stage IV, stay below the critical one",
        "(1 - λ)π₁ < 1/d",
    }
    assert_as_in_the_readme("symmetric-escape", claims)


def test_a_rate_two_percent_off_is_seen(record):
    assert verdicts(
        record.assign(parting_rate=1.02 * record.parting_rate), "growth rate of the spread"
    ) == {FAILS}


def test_a_direction_that_opens_before_tokens_part_is_seen(record):
    early = record.assign(
        opening_time=record.parting_time, parting_ratio=0 * record.parting_ratio + 0.5
    )
    assert verdicts(early, "rare tokens separate before") == {FAILS}
    assert verdicts(early, "when rare tokens have separated") == {FAILS}


def test_a_stall_that_ends_is_seen(record):
    moved = record.assign(
        last_ratio=0 * record.last_ratio + 0.9,
        last_gap=0 * record.last_gap,
        imbalance=0 * record.imbalance,
    )
    for part in ("λ 0.69, t 20000", "λ 0.5, t 20000"):
        assert verdicts(moved, part) == {FAILS}


def test_a_shifted_diagram_fails(record):
    shifted = record.assign(critical_stay=record.critical_stay + 0.05, exists=1 + 0 * record.exists)
    assert verdicts(shifted, "critical stay against") == {FAILS}
    assert verdicts(shifted, "chains with a saturated point") == {FAILS}
    assert verdicts(shifted, "never both there and stable (d 4") == {FAILS}


def test_the_symmetry_breaks_just_above_the_critical_stay_and_not_just_below():
    limit = theory.critical_stay(0.5, 5)
    for nearness in (0.2, 0.8):
        rates = [
            degenerate_points.breaking_rate(
                *degenerate_points.degenerate(
                    high=0.5, n_vocab=5, stay=limit + step, nearness=nearness
                )
            )
            for step in (-1e-3, 1e-3)
        ]
        assert rates[0] < 0 < rates[1]


def test_settings_that_cannot_be_are_named():
    with pytest.raises(InputError, match="masses"):
        EXPERIMENT.run(Settings(masses=(0.2,)))
    with pytest.raises(InputError, match="one value for each flow"):
        EXPERIMENT.run(Settings(stays=(0.8,)))


def test_the_figure_has_a_panel_for_each_number_of_tokens(record):
    assert len(EXPERIMENT.figure(record).axes) == 2 + record.sizes["tokens"]
    assert np.isfinite(record.critical_stay).all()
    assert verdicts(record, "never both there and stable") == {HOLDS}


def test_a_flow_that_has_not_left_by_its_deadline_fails(monkeypatch):
    """Rates twenty times too large set the deadline twenty times too early: the escape is a
    failure, and the control a surprise.
    """
    law = {
        "n_vocabs": (3,),
        "highs": (0.75,),
        "stays": (0.8,),
        "seeds": 1,
        "tokens": (3,),
        "masses": (0.6,),
        "n_times": 100,
    }
    parting, opening = theory.parting_rate, theory.parted_opening_rate
    monkeypatch.setattr(theory, "parting_rate", lambda point: 20 * parting(point))
    monkeypatch.setattr(theory, "parted_opening_rate", lambda point: 20 * opening(point))
    stuck = EXPERIMENT.run(Settings(**law))
    assert (
        verdicts(stuck, "growth rate of the spread")
        == verdicts(stuck, "separate before a direction")
        == {FAILS}
    )
    assert verdicts(stuck, "time at which the flow leaves") == {FAILS}
    assert [
        claim.is_surprise
        for claim in EXPERIMENT.claims(stuck)
        if claim.breaks and "λ 0.8" in claim.label
    ] == [True]


@pytest.mark.parametrize("factor", [0.4, 2.0])
def test_a_flow_that_leaves_long_before_or_after_its_time_fails(record, factor):
    off = record.assign(opening_time=factor * record.opening_time)
    assert verdicts(off, "time at which the flow leaves") == {FAILS}


def test_tables_have_rates_times_and_the_critical_stay_of_every_flow_and_seed(record):
    rows = EXPERIMENT.rows(record)
    assert len(rows) == record.sizes["flow"] * record.sizes["seed"]
    assert rows[0]["parting_rate"] == record.parting_rate.values[0, 0]
    assert rows[0]["critical_stay"] == theory.critical_stay(0.75, 4)
    columns, diagram = EXPERIMENT.files(record)["diagram.csv"]
    assert len(diagram) == record.critical_stay.size
    assert all(
        abs(row["critical_stay_found"] - row["critical_stay"]) < 1e-6 and set(row) == set(columns)
        for row in diagram
    )
