"""Stage III: every verdict as expected, and every claim able to fail."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.focus_and_dilution.dilution_drift import (
    EXPERIMENT,
    UNIGRAM,
    Settings,
    followed,
    force_gap,
    manifold_gap,
    numbers,
)
from saccade.experiments.focus_and_dilution.embedded_gradients import attention_force
from saccade.experiments.focus_and_dilution.stage_fits import focus_rate
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from saccade.theory import focus_and_dilution as theory
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme, verdicts_of

verdicts = partial(verdicts_of, EXPERIMENT)


@pytest.fixture(scope="module")
def record():
    return record_of("dilution-drift")


@pytest.fixture(scope="module")
def planted():
    """The path of the paper's chain from the unigram point."""
    return followed(Settings().chains["paper"], UNIGRAM, Settings(n_times=500))


def of_path(record, name, path, values):
    """The record with other values of one path."""
    tampered = record[name].copy(deep=True)
    tampered.loc[{"path": path}] = values
    return record.assign({name: tampered})


def moved(path, change):
    gamma = path.along.gamma
    return path._replace(along=path.along._replace(gamma=gamma[0] + change(gamma - gamma[0])))


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    assert [claim.label for claim in claims if not claim.as_expected] == []
    assert [sum(claim.verdict == verdict for claim in claims) for verdict in (HOLDS, FAILS)] == [
        27,
        4,
    ]
    assert_as_in_the_readme("dilution-drift", claims)


def test_frequent_tokens_gain_and_rare_ones_lose(record):
    displacement = record.displacement.sel(path="zipf-6, random").values[:6]
    assert np.sign(displacement).tolist() == [1, -1, -1, -1, -1, -1]


def test_a_drift_whose_root_is_taken_grows_as_fast_as_the_queries(planted):
    c = focus_rate(planted.chain)
    assert numbers(planted)["rate"] == pytest.approx(2 * c, rel=0.01)
    assert numbers(moved(planted, lambda off: np.sign(off) * np.sqrt(np.abs(off))))[
        "rate"
    ] == pytest.approx(c, rel=0.01)


def test_full_and_reduced_flow_are_one_on_a_chain_whose_solvers_differ_by_more():
    settings = Settings(laws=("0.6,0.25,0.15",), stays=(0.4,))
    assert max(manifold_gap(settings.chains["0.6,0.25,0.15"], settings)) < 1e-9


def test_a_drift_that_grows_as_fast_as_the_queries_is_seen(record):
    assert verdicts(record.assign(rate=record.rate / 2), "growth rate of the drift") == {FAILS}


def test_a_drift_two_percent_too_far_is_seen(planted, record):
    gap = numbers(moved(planted, lambda off: 1.02 * off))["amplitude_gap"]
    assert gap == pytest.approx(0.02, abs=2e-3)
    assert verdicts(of_path(record, "amplitude_gap", "paper, unigram point", gap), "F η / 2c") == {
        FAILS,
        HOLDS,
    }


def test_tokens_that_change_places_cross_in_the_wrong_order(record):
    path = "zipf-10, rank-one manifold"
    times = record.crossing_time.sel(path=path).values
    order = f"crosses zero first (law zipf-10, start {path.split(', ')[1]})"
    assert verdicts(record, order) == {HOLDS}
    assert verdicts(of_path(record, "crossing_time", path, [np.nan, *times[:0:-1]]), order) == {
        FAILS
    }


def test_focus_that_peaks_at_once_is_seen(record):
    path = "paper, rank-one manifold"
    early = [*record.gamma_at_peak.sel(path=path).values[:3], 0.9, *[np.nan] * 6]
    assert FAILS in verdicts(
        of_path(record, "gamma_at_peak", path, early),
        "law paper, start rank-one manifold, range seen",
    )


def test_the_share_at_the_peak_is_that_of_the_embedding_then(record):
    at = record.sel(path="paper, rank-one manifold")
    gamma = np.interp(at.peak_time[3], at.path_time, at.gamma[:, 3])
    assert float(at.gamma_at_peak[3]) == pytest.approx(gamma / float(at.gamma[0, 3]), rel=1e-12)


def test_a_full_flow_that_leaves_the_manifold_is_seen(record):
    assert verdicts(
        record.assign(manifold_gap=record.manifold_gap + 1e-6), "full and reduced flow"
    ) == {FAILS}
    assert verdicts(
        record.assign(manifold_rank=record.manifold_rank + 1e-6), "second singular value"
    ) == {FAILS}


def test_a_force_off_by_a_millionth_is_seen_and_its_part_along_the_frequencies_does_not_count(
    record,
):
    chain = Settings().chains["paper"]
    force = attention_force(chain)
    assert force_gap(force + 0.1 * chain.stationary, chain) < 1e-8
    assert force_gap(force + 1e-6 * np.eye(4)[2], chain) > 1e-7
    assert verdicts(record.assign(force_gap=record.force_gap + 1e-7), "force of attention") == {
        FAILS
    }
    assert verdicts(record.assign(force_total=record.force_total - 1e-12), "sum of F") == {FAILS}


def test_the_paths_on_the_manifold_keep_the_invariant_of_the_reduced_flow(record):
    """|gamma|^2 less |beta|^2 and both scales is constant, so gamma and the scales bound each
    other.
    """
    at = record.sel(path="zipf-6, rank-one manifold").isel(token=slice(6))
    size = np.sum(at.gamma.values**2, axis=1)
    assert np.all(size > 2 * np.abs(at.strength.values) - 1e-3)
    np.testing.assert_allclose(
        at.gamma[0], theory.unigram_point(stationary=at.stationary.values).gamma
    )


def test_other_stays_are_outside_what_was_seen_of_turns():
    record = EXPERIMENT.run(Settings(stays=(0.4, 0.6), n_times=500))
    assert verdicts(record, "when the focus") == {OUTSIDE}
    assert verdicts(record, "growth rate of the drift") == {HOLDS}


def test_table_and_figure_hold_every_token(record):
    assert len(EXPERIMENT.rows(record)) == (4 + 6) + (4 + 6) + (4 + 6 + 10)
    assert len(EXPERIMENT.figure(record).axes) == 3


def test_a_chain_on_which_attention_does_not_move_is_named():
    with pytest.raises(InputError, match="paper"):
        EXPERIMENT.run(Settings(stays=(0.0, 0.5)))
