"""The next-direction rule: verdicts, and that wrong numbers fail them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.focus_and_dilution.next_direction import EXPERIMENT, Settings
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme, verdicts_of

verdicts = partial(verdicts_of, EXPERIMENT)


@pytest.fixture(scope="module")
def record():
    return record_of("next-direction")


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    assert len(claims) == 2 * (2 + 5) + 2 * 6  # directions of both laws; six facts for each law
    others = [claim for claim in claims if claim.verdict != HOLDS]
    assert {claim.verdict for claim in others} == {OUTSIDE}
    assert all("direction 4" in claim.label or "direction 5" in claim.label for claim in others)
    assert_as_in_the_readme("next-direction", claims)


def test_the_first_direction_is_condensation_and_the_second_comes_off_the_plateau(record):
    first = record.opening_predicted_rate.sel(opening=1).values
    np.testing.assert_allclose(
        first, [0.45950, 0.14256], rtol=2e-3
    )  # |pi| |pi - 1/d| of the paper's and of Zipf's law
    assert record.opening_rate.sel(law="paper", opening=2).item() == pytest.approx(
        0.00807, rel=0.01
    )  # replication


def test_a_rate_two_per_cent_off_fails(record):
    assert verdicts(
        record.assign(opening_rate=1.02 * record.opening_rate), "growth rate of a direction"
    ) == {FAILS, OUTSIDE}


def test_a_pattern_of_the_wrong_sign_fails(record):
    assert verdicts(
        record.assign(opening_other_cosine=-record.opening_other_cosine), "cosine of a direction"
    ) == {FAILS, OUTSIDE}


def test_a_state_that_moves_is_outside_the_rule(record):
    assert verdicts(record.assign(opening_drift=record.opening_drift + 0.1), "of a direction") == {
        OUTSIDE
    }


def test_table_and_figure_hold_every_direction(record):
    assert len(EXPERIMENT.rows(record)) == 2 + 5
    assert len(EXPERIMENT.figure(record).axes) == 2


def test_a_run_too_short_for_a_second_direction_claims_none():
    record = EXPERIMENT.run(Settings(t1=100.0, n_times=60))
    assert (
        sum("growth rate of a direction" in claim.label for claim in EXPERIMENT.claims(record)) == 2
    )
    assert verdicts(record, "second plateau") == {OUTSIDE}  # not reached, so nothing is decided
    EXPERIMENT.figure(record)


def test_a_chain_of_many_tokens_has_room_for_all_its_directions():
    many = EXPERIMENT.run(Settings(laws=("zipf-12",), stays=(0.4,), t1=300, n_times=200))
    assert many.sizes["opening"] == 11
    assert many.sizes["rank"] == 12


def test_a_stay_of_zero_is_refused():
    with pytest.raises(InputError, match="stays"):
        EXPERIMENT.run(Settings(stays=(0.3, 0.0)))
