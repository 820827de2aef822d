"""From stage I to II: every verdict as expected, and wrong numbers fail."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.focus_and_dilution.condensation_transition import EXPERIMENT, Settings
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme, verdicts_of

verdicts = partial(verdicts_of, EXPERIMENT)


@pytest.fixture(scope="module")
def record():
    return record_of("condensation-transition")


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    assert [claim.label for claim in claims if not claim.as_expected] == []
    assert_as_in_the_readme("condensation-transition", claims)


def test_an_arrival_a_thousandth_of_a_step_late_is_seen(record):
    assert verdicts(record.assign(arrival=record.arrival + 1e-3), "against the start alone") == {
        FAILS
    }


def test_another_clock_is_seen(record):
    slower = record.assign(arrival=record.linear_end + 1.01 * (record.arrival - record.linear_end))
    assert verdicts(slower, "T_2 - T_p") == {FAILS}


def test_attention_that_grows_with_the_root_of_the_start_is_seen(record):
    grown = record.assign(attention=record.attention / record.init_scale**0.5)
    assert verdicts(grown, "|W_Q| + |W_K|, until T_2") == {FAILS}


def test_an_amplitude_that_falls_once_is_seen(record):
    assert verdicts(record.assign(falls=record.falls + 1e-3), "grow from T_p to T_2") == {FAILS}


def test_a_last_time_that_is_the_first_would_agree_with_the_paper(record):
    assert verdicts(
        record.assign(last_time_off=record.first_time_near), "T_2, which eq. 113 estimates"
    ) == {FAILS}


def test_row_sums_that_move_and_a_frozen_part_that_drifts_are_seen(record):
    assert verdicts(record.assign(row_sum_speed=record.row_sum_speed + 1e-12), "d(W_1 1)/dt") == {
        FAILS
    }
    assert verdicts(
        record.assign(frozen_drift=record.frozen_drift + 1e-8), "R_0 without attention"
    ) == {FAILS}


def test_a_remainder_that_is_not_small_with_the_start_is_seen(record):
    grows = record.left_over * (record.init_scale / 1e-2) ** -0.1
    assert verdicts(record.assign(left_over=grows), "over its bound, eq. 83") == {FAILS}


def test_who_never_arrives_is_late(record):
    assert verdicts(
        record.assign(arrival=np.nan * record.arrival), "smallest start and largest δ"
    ) == {FAILS}


@pytest.fixture(scope="module")
def hasty():
    """Attention takes over from the largest start before the smallest shortfall; the last law is
    nearly uniform.
    """
    return EXPERIMENT.run(
        Settings(laws=("0.5 of 8", "0.5 of 6", "0.34 of 3"), stays=(0.5, 0.8, 0.5), seeds=1)
    )


def test_laws_beyond_the_hypotheses_are_outside(hasty):
    assert np.isnan(hasty.arrival.sel(law="0.5 of 8", init_scale=1e-2)).any()
    claims = list(EXPERIMENT.claims(hasty))
    assert [claim.label for claim in claims if claim.is_surprise] == []
    for part in ("over its bound ε^(1/2n)", "T_2 - T_p against", "against the start alone"):
        assert verdicts(hasty, part) == {OUTSIDE}
    assert verdicts(hasty, "until T_p") == {HOLDS}
    assert len(EXPERIMENT.figure(hasty).axes) == 3


def test_laws_at_the_edge_of_the_hypotheses_give_no_surprise():
    """Attention takes over early, or before any arrival; two tokens, where what is left over is
    soon rounding; δ not small beside 1 - π₁.
    """
    laws = {
        "0.6 of 20": 0.6,
        "0.3 of 20": 0.9,
        "0.5 of 40": 0.99,
        "0.7 of 2": 0.5,
        "0.95 of 4": 0.9,
    }
    edge = EXPERIMENT.run(Settings(laws=tuple(laws), stays=tuple(laws.values()), seeds=(5, 6, 7)))
    assert np.isnan(edge.arrival_predicted.sel(law="0.3 of 20", init_scale=1e-2)).all()
    assert [claim.label for claim in EXPERIMENT.claims(edge) if claim.is_surprise] == []
    for law, part in (
        ("π₁ 0.6", "|W_Q| + |W_K|, until T_2"),
        ("π₁ 0.95", "per e-fold of a smaller δ"),
    ):
        assert {
            claim.verdict
            for claim in EXPERIMENT.claims(edge)
            if part in claim.label and law in claim.label
        } == {OUTSIDE}


def test_two_sizes_of_the_start_are_too_few():
    with pytest.raises(InputError, match="init_scales"):
        EXPERIMENT.run(Settings(init_scales=(1e-3, 1e-4)))
