"""The sign of focus: every verdict as expected, and every claim able to fail."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.focus_and_dilution.focus_sign import (
    EXPERIMENT,
    RANDOM,
    Settings,
    chains,
    seen_signs,
)
from saccade.experiments.focus_and_dilution.stage_fits import focus_rate
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme


@pytest.fixture(scope="module")
def record():
    return record_of("focus-sign")


def verdicts(record, words):
    found = [claim.verdict for claim in EXPERIMENT.claims(record) if words in claim.label]
    assert found
    return found


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    assert len(claims) == 10
    assert [claim.label for claim in claims if claim.verdict != HOLDS] == []
    assert_as_in_the_readme("focus-sign", claims)


def test_both_signs_are_among_what_is_seen(record):
    assert set(seen_signs(record)) == {-1, 1}


def test_lazy_chains_have_the_sign_of_their_stay_and_text_turns_away():
    for name, chain in chains(Settings(n_random=0)).items():
        if "stay" in name:
            assert np.sign(focus_rate(chain)) == np.sign(float(name.split()[-1])), name
        if name.startswith("text"):
            assert focus_rate(chain) < 0, name


def test_one_query_of_one_chain_on_the_wrong_side_is_seen(record):
    tilt = record.tilt.copy(deep=True)
    tilt[1, 3] = -tilt[1, 3]
    assert verdicts(record.assign(tilt=tilt), "all queries tilt") == [FAILS, HOLDS]


def test_a_sign_that_is_always_positive_is_seen(record):
    assert verdicts(record.assign(tilt=np.abs(record.tilt)), "all queries tilt") == [FAILS, FAILS]
    assert verdicts(record.assign(key_cosine=np.abs(record.key_cosine)), "queries and keys") == [
        FAILS,
        FAILS,
    ]
    assert verdicts(record.assign(logit_cosine=np.abs(record.logit_cosine)), "π πᵀ") == [
        FAILS,
        FAILS,
    ]


def test_rates_one_percent_off_and_missing_ones_are_seen(record):
    assert verdicts(record.assign(rate=1.01 * record.rate), "growth rate") == [FAILS, FAILS]
    assert verdicts(
        record.assign(rate=record.rate.where(record.start == RANDOM)), "growth rate"
    ) == [FAILS, HOLDS]


def test_attention_as_fast_as_condensation_decides_nothing_from_a_random_start(record):
    assert verdicts(
        record.assign(condensation_rate=0.01 * record.condensation_rate), "all queries tilt"
    ) == [HOLDS, OUTSIDE]


def test_a_tilt_ten_percent_off_the_replication_is_seen(record):
    assert verdicts(record.assign(tilt=1.1 * record.tilt), "at |W_Q| = 0.15") == [FAILS, FAILS]


def test_table_and_figure_hold_every_run(record):
    rows = EXPERIMENT.rows(record)
    assert len(rows) == record.sizes["run"] == 21
    assert {row["sign_seen"] for row in rows} == {-1, 1}
    assert len(EXPERIMENT.figure(record).axes) == 2


def test_a_chain_without_memory_or_without_a_name_is_an_error():
    with pytest.raises(InputError, match="stay 0"):
        EXPERIMENT.run(Settings(stays=(0.0,)))
    with pytest.raises(InputError, match="random_starts"):
        EXPERIMENT.run(Settings(random_starts=("nonsense",)))
