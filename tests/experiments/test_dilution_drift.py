"""Stage III: every verdict as expected, and every claim able to fail."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.focus_and_dilution import dilution_drift
from saccade.experiments.focus_and_dilution.drift_measures import case_of, unigram_gamma
from saccade.records.claim import FAILS, HOLDS, OUTSIDE
from saccade.records.store import load_record, save_record
from saccade.theory import focus_and_dilution as theory
from tests.experiments.outcomes import assert_as_in_the_readme


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    path = tmp_path_factory.mktemp("drift") / "record.zarr"
    save_record(dilution_drift.run(dilution_drift.Config()), path)
    return load_record(path)


def verdicts(record, words):
    found = {claim.verdict for claim in dilution_drift.claims(record) if words in claim.statement}
    assert found
    return found


def test_every_verdict_is_the_expected_one(record):
    claims = dilution_drift.claims(record)
    assert [claim.statement for claim in claims if not claim.as_expected] == []
    assert [sum(claim.verdict == verdict for claim in claims) for verdict in (HOLDS, FAILS)] == [28, 5]
    assert_as_in_the_readme("dilution-drift", claims)


def test_frequent_tokens_gain_and_rare_ones_lose(record):
    case = case_of(record, "zipf-6", "random")
    moved = case.displacement()[case.window_end]
    assert np.sign(moved).tolist() == [1, -1, -1, -1, -1, -1]


def test_a_drift_that_grows_as_fast_as_the_queries_is_seen(record):
    """What the paper's summary would read as: the displacement is the root of what it is."""
    tampered = record.copy(deep=True)
    for case in np.flatnonzero(record.start.values == "unigram"):
        gamma = tampered.gamma.values[case]
        moved = gamma - gamma[0]
        tampered.gamma.values[case] = gamma[0] + np.sign(moved) * np.sqrt(np.abs(moved))
    assert verdicts(tampered, "growth rate of the drift") == {FAILS}
    claims = {claim.statement: claim.verdict for claim in dilution_drift.claims(tampered) if "low tokens equal" in claim.statement}
    assert [verdict for text, verdict in claims.items() if text.endswith("against 2c")] == [FAILS]


def test_a_drift_two_percent_too_far_is_seen(record):
    tampered = record.copy(deep=True)
    tampered.gamma.values[:] = tampered.gamma.values[:, :1] + 1.02 * (tampered.gamma.values - tampered.gamma.values[:, :1])
    assert verdicts(tampered, "from the unigram point, law paper, largest gap") == {FAILS}


def test_tokens_that_change_places_cross_in_the_wrong_order(record):
    tampered = record.copy(deep=True)
    case = int(np.flatnonzero((record.start.values == "manifold") & (record.law.values == "paper"))[0])
    share = record.gamma.values[case, :, :4] / record.gamma.values[case, 0, :4]
    tampered.gamma.values[case, :, 1:4] = share[:, :0:-1] * record.gamma.values[case, 0, 1:4]
    assert FAILS in verdicts(tampered, "crosses later")


def test_focus_that_peaks_at_once_is_seen(record):
    case = case_of(record, "paper", "manifold")
    late = case.time >= case.turning().peak_time[3]
    tampered = record.copy(deep=True)
    rows = np.flatnonzero((record.start.values == "manifold") & (record.law.values == "paper"))
    tampered.gamma.values[rows[0]][late, 3] = 0.9 * unigram_gamma(case.chain)[3]
    assert FAILS in verdicts(tampered, "0.44 to 0.51, two digits")


def test_a_full_flow_that_leaves_the_manifold_is_seen(record):
    assert verdicts(record.assign(manifold_gap=record.manifold_gap + 1e-6), "full and reduced flow") == {FAILS}
    assert verdicts(record.assign(manifold_rank=record.manifold_rank + 1e-6), "second singular value") == {FAILS}


def test_a_force_off_by_a_millionth_is_seen_and_its_part_along_the_law_does_not_count(record):
    law = case_of(record, "paper", "unigram").chain.stationary
    along, across = record.force.copy(deep=True), record.force.copy(deep=True)
    along[0, :4] += 0.1 * law
    across[0, 2] += 1e-6
    assert verdicts(record.assign(force=along), "force of attention") == {HOLDS}
    assert verdicts(record.assign(force=across), "force of attention") == {HOLDS, FAILS}


def test_the_paths_on_the_manifold_keep_the_invariant_of_the_reduced_flow(record):
    """|gamma|^2 less |beta|^2 and both scales is constant, so gamma and the scales bound each other."""
    case = case_of(record, "zipf-6", "manifold")
    size = np.sum(case.gamma**2, axis=1)
    assert np.all(size > 2 * np.abs(case.strength) - 1e-3)
    np.testing.assert_allclose(case.gamma[0], theory.unigram_point(stationary=case.chain.stationary).gamma)


def test_other_stays_are_outside_what_was_seen_of_turns():
    record = dilution_drift.run(dilution_drift.Config(stays=(0.4, 0.6), n_times=500))
    claims = dilution_drift.claims(record)
    assert {claim.verdict for claim in claims if "when the focus" in claim.statement} == {OUTSIDE}
    assert {claim.verdict for claim in claims if "growth rate of the drift" in claim.statement} == {HOLDS}


def test_table_and_figure_hold_every_token(record):
    rows = dilution_drift.table(record)
    assert len(rows) == (4 + 6 + 4) + (4 + 6) + (4 + 6 + 10)
    assert len(dilution_drift.figure(record).axes) == 3


def test_a_chain_on_which_attention_does_not_move_is_named():
    with pytest.raises(InputError, match="paper"):
        dilution_drift.run(dilution_drift.Config(stays=(0.0, 0.5)))
