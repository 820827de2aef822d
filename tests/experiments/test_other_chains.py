"""Chains that share a stationary distribution: every verdict as expected, and every claim able to
fail.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.focus_and_dilution.other_chains import EXPERIMENT, Settings, chains
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme, verdicts_of

verdicts = partial(verdicts_of, EXPERIMENT)


@pytest.fixture(scope="module")
def record():
    return record_of("other-chains")


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    assert [claim.label for claim in claims if not claim.as_expected] == []
    assert [sum(claim.verdict == verdict for claim in claims) for verdict in (HOLDS, FAILS)] == [
        9,
        1,
    ]
    assert_as_in_the_readme("other-chains", claims)


def test_all_chains_have_the_stationary_distribution_but_not_the_same_table():
    tables = np.array([chain.transition for chain in chains(Settings()).values()])
    np.testing.assert_allclose(
        Settings.stationary @ tables, np.tile(Settings.stationary, (9, 1)), atol=1e-12
    )
    assert np.unique(np.round(tables, 6), axis=0).shape[0] == 9


def test_chains_with_a_negative_rate_turn_away_first(record):
    away = np.all(record.focus.values < Settings.stationary[0], axis=1)
    assert away.tolist() == (record.c.values < 0).tolist()
    assert away.any()


def test_stages_in_another_order_or_missing_are_seen(record):
    late = record.stage_time.copy(deep=True)
    late[3, 1], late[3, 2] = record.stage_time.values[3, 2], record.stage_time.values[3, 1]
    assert verdicts(record.assign(stage_time=late), "order") == {FAILS}
    assert verdicts(
        record.assign(stage_time=record.stage_time.where(record.stage != "dilution")), "order"
    ) == {FAILS}


def test_rates_one_percent_off_in_one_chain_are_seen(record):
    factor = 1 + 0.01 * (record.chain == "Metropolis")
    assert verdicts(
        record.assign(condensation_rate=factor * record.condensation_rate), "condensation, furthest"
    ) == {FAILS}
    assert verdicts(record.assign(focus_rate=factor * record.focus_rate), "growth rate") == {FAILS}


def test_a_chain_with_the_rate_of_another_is_seen(record):
    assert verdicts(record.assign(focus_rate=record.focus_rate.roll(chain=1)), "growth rate") == {
        FAILS
    }


def test_attention_that_does_not_focus_is_seen(record):
    flat = record.assign(focus=record.focus * 0 + Settings.stationary[0])
    assert FAILS in verdicts(flat, "attention of query")


def test_other_frequencies_keep_the_order_and_are_outside_what_was_replicated():
    record = EXPERIMENT.run(Settings(stationary=(0.7, 0.2, 0.1), stay=0.6, n_random=0, n_times=500))
    assert verdicts(record, "order") == {HOLDS}
    assert verdicts(record, "attention of query") == {OUTSIDE}
    EXPERIMENT.figure(record)


def test_table_and_figure_hold_every_chain(record):
    assert len(EXPERIMENT.rows(record)) == record.sizes["chain"] == 9
    assert len(EXPERIMENT.figure(record).axes) == 3


def test_chains_without_memory_are_named():
    with pytest.raises(InputError, match="lazy"):
        EXPERIMENT.run(Settings(stay=0.0))
