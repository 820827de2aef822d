"""The plateau and stage II: every verdict as expected, and every claim able to fail."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import saccade
from saccade.errors import InputError
from saccade.experiments.focus_and_dilution import stage_fits
from saccade.experiments.focus_and_dilution.focus_growth import EXPERIMENT, Settings
from saccade.lab.claim import FAILS, HOLDS
from saccade.theory import focus_and_dilution as theory
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme, verdicts_of

verdicts = partial(verdicts_of, EXPERIMENT)


@pytest.fixture(scope="module")
def record():
    return record_of("focus-growth", seeds=1)


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    plain = [claim for claim in claims if not claim.breaks]
    assert [len(plain), len(claims)] == [48, 51]
    assert [claim.label for claim in plain if claim.verdict != HOLDS] == []
    assert all(claim.as_expected for claim in claims)
    assert_as_in_the_readme("focus-growth", claims)


def test_query_and_key_follow_the_linear_flow_of_the_theory_from_the_unigram_point():
    chain = saccade.MarkovChain.zipf(6, 0.5)
    c, start = stage_fits.focus_rate(chain), stage_fits.near_unigram(chain, 1e-5, seed=3)
    run = saccade.flow(chain, t1=4 / c, n_times=20, start=start).isel(seed=0)
    linear = theory.linear_attention(
        run.time.values, start.query, start.key, direction=np.eye(8)[0], rate=c
    )
    np.testing.assert_allclose(
        run.query_matrix.values, linear.query, rtol=0, atol=1e-5 * np.abs(linear.query[-1]).max()
    )


def test_rates_one_percent_off_are_seen(record):
    assert verdicts(
        record.assign(grown_rate=0.99 * record.grown_rate),
        "growth rate of queries (law paper, start unigram",
    ) == {FAILS}
    assert verdicts(
        record.assign(rate=1.01 * record.rate), "growth rate of queries (law paper, start random"
    ) == {FAILS}


def test_attention_that_turns_away_is_seen(record):
    assert verdicts(record.assign(cosine=-record.cosine), "π πᵀ (law zipf-6, start random") == {
        FAILS
    }


def test_queries_that_do_not_turn_with_a_smaller_start_are_seen(record):
    still = record.query_misfit.isel(init_scale=0).broadcast_like(record.query_misfit)
    assert verdicts(record.assign(query_misfit=still), "how far W_Q") == {FAILS}


def test_another_loss_on_the_plateau_is_seen(record):
    assert verdicts(
        record.assign(plateau_loss=record.plateau_loss + 1e-3), "loss on the plateau"
    ) == {FAILS}


def test_a_stage_that_lasts_five_percent_longer_per_fold_is_seen(record):
    assert verdicts(record.assign(length=1.05 * record.length), "how much longer stage II") == {
        FAILS
    }


def test_a_peak_narrower_than_the_spacing_of_samples_is_found():
    slow = EXPERIMENT.run(
        Settings(laws=("0.5,0.3,0.2",), stays=(0.4,), init_scales=(1e-4, 1e-5), seeds=1)
    )
    assert verdicts(slow, "how much longer stage II") == {HOLDS}


def test_a_tilt_that_is_wrong_at_first_order_is_seen(record):
    assert verdicts(record.assign(tilt_power=record.tilt_power - 1), "first-order attention") == {
        FAILS
    }


def test_table_and_figure_hold_every_start(record):
    assert len(EXPERIMENT.rows(record)) == 3 * 3
    assert len(EXPERIMENT.figure(record).axes) == 4


def test_a_chain_on_which_attention_does_not_move_is_named():
    with pytest.raises(InputError, match="zipf-6"):
        EXPERIMENT.run(Settings(stays=(0.3, 0.0, 0.5)))
