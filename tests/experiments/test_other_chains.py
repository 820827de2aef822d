"""Chains that share a law: every verdict as expected, and every claim able to fail."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.focus_and_dilution import other_chains
from saccade.records.claim import FAILS, HOLDS, OUTSIDE
from saccade.records.store import load_record, save_record
from tests.experiments.outcomes import assert_as_in_the_readme


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    path = tmp_path_factory.mktemp("chains") / "record.zarr"
    save_record(other_chains.run(other_chains.Config()), path)
    return load_record(path)


def verdicts(record, words):
    found = {claim.verdict for claim in other_chains.claims(record) if words in claim.statement}
    assert found
    return found


def test_every_verdict_is_the_expected_one(record):
    claims = other_chains.claims(record)
    assert [claim.statement for claim in claims if not claim.as_expected] == []
    assert [sum(claim.verdict == verdict for claim in claims) for verdict in (HOLDS, FAILS)] == [8, 1]
    assert_as_in_the_readme("other-chains", claims)


def test_all_chains_have_the_law_but_not_the_same_table(record):
    for table in record.tables.values:
        np.testing.assert_allclose(record.law.values @ table, record.law.values, atol=1e-12)
    assert np.unique(np.round(record.tables.values, 6), axis=0).shape[0] == record.sizes["chain"]


def test_chains_with_a_negative_rate_turn_away_first(record):
    away = np.all(record.focus.values < float(record.law[0]), axis=1)
    assert away.tolist() == (other_chains.predicted_rates(record) < 0).tolist()
    assert away.any()


def test_stages_in_another_order_or_missing_are_seen(record):
    late = record.stage_time.copy(deep=True)
    late[3, 1], late[3, 2] = record.stage_time.values[3, 2], record.stage_time.values[3, 1]
    assert verdicts(record.assign(stage_time=late), "order") == {FAILS}
    assert verdicts(record.assign(stage_time=record.stage_time.where(record.stage != "dilution")), "order") == {FAILS}


def test_rates_one_percent_off_in_one_chain_are_seen(record):
    factor = 1 + 0.01 * (record.chain == "Metropolis")
    assert verdicts(record.assign(condensation_rate=factor * record.condensation_rate), "condensation, furthest") == {FAILS}
    assert verdicts(record.assign(focus_rate=factor * record.focus_rate), "growth rate") == {FAILS}


def test_a_chain_with_the_rate_of_another_is_seen(record):
    assert verdicts(record.assign(focus_rate=record.focus_rate.roll(chain=1)), "growth rate") == {FAILS}


def test_attention_that_does_not_focus_is_seen(record):
    flat = record.assign(focus=record.focus * 0 + record.law[0])
    assert FAILS in verdicts(flat, "attention of query")


def test_another_law_keeps_the_order_and_is_outside_what_was_replicated():
    record = other_chains.run(other_chains.Config(stationary=(0.7, 0.2, 0.1), stay=0.6, n_random=0, n_times=500))
    assert verdicts(record, "order") == {HOLDS}
    assert verdicts(record, "attention of query") == {OUTSIDE}
    other_chains.figure(record)


def test_table_and_figure_hold_every_chain(record):
    assert len(other_chains.table(record)) == record.sizes["chain"] == 9
    assert len(other_chains.figure(record).axes) == 3


def test_chains_without_memory_are_named():
    with pytest.raises(InputError, match="lazy"):
        other_chains.run(other_chains.Config(stay=0.0))
