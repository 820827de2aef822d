"""The three experiments on From Condensation to Rank Collapse: verdicts, and that wrong numbers
fail them.
"""

from __future__ import annotations

import numpy as np
import pytest

from saccade.data.labelled_sequences import LabelledSequences
from saccade.errors import InputError
from saccade.experiments import experiment
from saccade.experiments.rank_collapse import escape_clock, rank_collapse
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from saccade.model.attention_classifier import AttentionClassifier
from saccade.observe.fits import power
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme

NAMES = ("blow-up", "escape-clock", "rank-collapse")


def verdicts(name, record, part):
    found = {claim.verdict for claim in experiment(name).claims(record) if part in claim.label}
    assert found
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_verdict_is_the_expected_one(name):
    claims = list(experiment(name).claims(record_of(name)))
    assert [claim.label for claim in claims if not claim.as_expected] == []
    assert_as_in_the_readme(name, claims)


def test_a_law_that_drifts_and_a_time_that_is_off_are_seen():
    record = record_of("blow-up")
    drifts = {
        "w wᵀ - A Aᵀ": "drift of w wᵀ",
        "eq. 9": "printed differences",
        "eq. 27": "root of eq. 27",
    }
    for law, title in drifts.items():
        drift = record.drift + 1e-9 * (record.law == law)
        assert verdicts("blow-up", record.assign(drift=drift), title) == {FAILS}
    assert verdicts("blow-up", record.assign(steepest=1.5 * record.steepest), "eq. 38") == {FAILS}
    assert verdicts(
        "blow-up", record.assign(rank_one_time=record.rank_one_time * (1 + 1e-8)), "Carlson"
    ) == {FAILS}
    rising = record.reached * (1 + 2e-4 * ((record.approach == "power") & (record["size"] == 100)))
    assert verdicts("blow-up", record.assign(reached=rising), "E' / E^(4/3) (") == {FAILS}
    late = record.assign(time=record.time * 1.5)
    assert verdicts("blow-up", late, "over the bound") == {FAILS}


def test_one_start_that_does_not_blow_up_or_loses_the_condition_is_seen():
    record = record_of("blow-up")
    one = (record.width == 4) & (record.start == 0)
    assert verdicts(
        "blow-up", record.assign(last_size=record.last_size.where(~one, 10.0)), "size of a million"
    ) == {FAILS}
    grown = record.assign(tied_size=0 * record.tied_size + 1e7)
    assert verdicts("blow-up", grown, "size of a million (width 1") == {
        HOLDS
    }  # a control that holds is a surprise
    assert verdicts(
        "blow-up", record.assign(told_size=1.2 * record.told_size), "from the matrix laws"
    ) == {FAILS}
    assert verdicts(
        "blow-up", record.assign(met_size=4 * record.met_size), "of an earlier run"
    ) == {FAILS}
    assert verdicts(
        "blow-up", record.assign(degeneracy=0 * record.degeneracy), "size of a million (starts"
    ) == {OUTSIDE}
    assert verdicts(
        "blow-up", record.assign(lost=record.lost.where(~one, 1.0)), "lose it again"
    ) == {FAILS}
    assert verdicts(
        "blow-up", record.assign(met_size=record.met_size.where(~one)), "meet it before"
    ) == {FAILS}
    assert verdicts("blow-up", record.assign(pairs=0 * record.pairs + 1), "share of pairs") == {
        FAILS
    }


def test_a_clock_that_is_late_by_three_scales_is_seen():
    record = record_of("escape-clock")
    late = record.assign(half_time=record.half_time + 4 * record.scale)
    assert verdicts("escape-clock", late, "half-way loss, after T*/(ε g₀) (") == {FAILS}
    shifted = record.assign(half_time=record.half_time + 3e-4)
    assert verdicts("escape-clock", shifted, "half-way loss, after T*/(ε g₀), extrapolated") == {
        FAILS
    }
    aside = record.assign(beta_cosine=0.9 * record.beta_cosine)
    assert verdicts("escape-clock", aside, "half-way loss, after") == {OUTSIDE}
    logarithmic = record.assign(half_time=0 * record.half_time + 10 - np.log(record.scale))
    assert verdicts("escape-clock", logarithmic, "power of ε in that time") == {FAILS}
    inverse = record.assign(two_factor_time=1 / record.scale)
    assert verdicts("escape-clock", inverse, "time for each factor e") == {FAILS}
    assert HOLDS in verdicts(
        "escape-clock", inverse, "power of ε in that time (readout of size one)"
    )


def test_printed_forms_fail_where_they_are_put_in_the_place_of_measurements():
    record = record_of("escape-clock")
    assert verdicts(
        "escape-clock",
        record.assign(loss_at_zero=0 * record.loss_at_zero + 0.5),
        "loss of zero weights",
    ) == {FAILS}
    assert verdicts(
        "escape-clock", record.assign(row_cosine=0 * record.row_cosine + 1), "rows of W_V"
    ) == {FAILS}
    assert verdicts(
        "escape-clock",
        record.assign(turn_cosine=0 * record.turn_cosine + 1),
        "the same on the plateau",
    ) == {FAILS}


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


def test_orders_near_the_origin_and_the_rate_with_turned_keys_are_those_of_the_theory_from_another_start():
    """From this start the next order is large, and other directions of W_Q die out late."""
    found = escape_clock._expansion(LabelledSequences.two_clue(), seed=1)
    left_out, balanced = np.abs(found["expansion"] - [[found["expected"]], [0.0]])
    scale, small = escape_clock.EXPANSION, found["small"].T
    np.testing.assert_allclose([power(scale, left_out), power(scale, balanced)], 2.0, atol=0.1)
    np.testing.assert_allclose([power(scale, each) for each in small], 2.0, atol=0.05)
    turned = AttentionClassifier(escape_clock.teacher_data(), 1e-6, angles=rank_collapse.ANGLES)
    told = rank_collapse._stage_two(turned, seed=1)
    assert told["rate"] == pytest.approx(told["drive_values"][0], rel=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_is_drawn(name):
    asked = experiment(name)
    assert len(asked.figure(record_of(name)).axes) in (2, 3)


def test_settings_that_cannot_be_are_named():
    for name, settings in (
        ("blow-up", {"starts": (3,)}),
        ("blow-up", {"starts": (3, 3)}),
        ("escape-clock", {"scales": (1.0, 1e-3)}),
        ("rank-collapse", {"scales": (1e-3,)}),
    ):
        asked = experiment(name)
        with pytest.raises(InputError, match=r"`(widths|starts|scales)`"):
            asked.run(asked.settings(**settings))
