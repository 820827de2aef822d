"""Rank collapse: verdicts, and that wrong numbers fail them."""

from __future__ import annotations

import pytest

from saccade.errors import InputError
from saccade.experiments import experiment
from saccade.experiments.rank_collapse import rank_collapse
from saccade.experiments.rank_collapse.stage_one import teacher_data
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from saccade.model.attention_classifier import AttentionClassifier
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme

NAMES = ("rank-collapse",)


def verdicts(name, record, part):
    found = {claim.verdict for claim in experiment(name).claims(record) if part in claim.label}
    assert found
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_verdict_is_the_expected_one(name):
    claims = list(experiment(name).claims(record_of(name)))
    assert [claim.label for claim in claims if not claim.as_expected] == []
    assert_as_in_the_readme(name, claims)


def test_a_rate_one_percent_off_and_another_gap_are_seen():
    record = record_of("rank-collapse")
    assert verdicts(
        "rank-collapse", record.assign(rate=1.01 * record.rate), "growth rate of attention, s₁(F)"
    ) == {FAILS}
    flat = record.assign(residual=record.residual * record.scale**0.05)
    assert verdicts("rank-collapse", flat, "power of ε in s₂/s₁") == {FAILS}
    steep = record.assign(depth=record.depth * record.scale**-0.1)
    assert verdicts("rank-collapse", steep, "smallest outer gradient (data teacher)") == {FAILS}
    turned = record.assign(cosine=0 * record.cosine + 0.99)
    assert verdicts(
        "rank-collapse", turned, "W_Q's top direction and u₁, at opening (data teacher, ε"
    ) == {FAILS}


def test_another_rank_with_turned_keys_and_a_second_stage_that_is_long_are_seen():
    record = record_of("rank-collapse")
    plain = record.assign(residual=1e-3 * record.residual)
    assert verdicts("rank-collapse", plain, "s₂/s₁ of W_Q at opening (data turned keys)") == {FAILS}
    assert HOLDS in verdicts(
        "rank-collapse", plain, "as without positions"
    )  # a control that holds is a surprise
    assert verdicts("rank-collapse", record.assign(third=record.third + 0.2), "s₃/s₁ of W_Q") == {
        FAILS
    }
    long = record.assign(wait=record.wait / record.scale)
    assert verdicts("rank-collapse", long, "stage II over stage I") == {FAILS}


def test_what_is_outside_the_assumptions_decides_nothing_and_a_square_that_is_lost_is_seen():
    record = record_of("rank-collapse")
    assert verdicts(
        "rank-collapse", record.assign(separable=0 * record.separable + 1), "order of the outer"
    ) == {OUTSIDE}
    narrow = record.drive_values.copy()
    narrow[:, 1] = 1e-3
    assert verdicts("rank-collapse", record.assign(drive_values=narrow), "power of ε in s₂/s₁") == {
        OUTSIDE
    }
    bent = record.assign(restless_cosine=0.9 * record.restless_cosine)
    assert verdicts("rank-collapse", bent, "power of the outer gradient in δ") == {OUTSIDE}
    squared = record.assign(restless_power=2 * record.restless_power)
    assert verdicts("rank-collapse", squared, "power of the outer gradient in δ") == {FAILS}
    driven = record.assign(still=record.still * [1, 0, 10])
    assert verdicts("rank-collapse", driven, "(data equal tokens)") == {
        HOLDS
    }  # a control that holds is a surprise


def test_the_rate_with_turned_keys_is_that_of_the_theory_from_another_start():
    """From this start other directions of W_Q die out late."""
    turned = AttentionClassifier(teacher_data(), 1e-6, angles=rank_collapse.ANGLES)
    told = rank_collapse._stage_two(turned, seed=1)
    assert told["rate"] == pytest.approx(told["drive_values"][0], rel=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_is_drawn(name):
    asked = experiment(name)
    assert len(asked.figure(record_of(name)).axes) in (2, 3)


def test_settings_that_cannot_be_are_named():
    for name, settings in (("rank-collapse", {"scales": (1e-3,)}),):
        asked = experiment(name)
        with pytest.raises(InputError, match=r"`(widths|starts|scales)`"):
            asked.run(asked.settings(**settings))
