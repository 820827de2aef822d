"""Stage I: every verdict as expected, and every claim able to fail."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import saccade
from saccade.errors import InputError
from saccade.experiments.focus_and_dilution import embedded_gradients
from saccade.experiments.focus_and_dilution.condensation import EXPERIMENT, Settings
from saccade.experiments.focus_and_dilution.named_laws import lazy_chains
from saccade.lab.claim import FAILS, HOLDS
from saccade.theory import focus_and_dilution as theory
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme, verdicts_of

verdicts = partial(verdicts_of, EXPERIMENT)


@pytest.fixture(scope="module")
def record():
    return record_of("condensation")


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    assert [claim.label for claim in claims if not claim.as_expected] == []
    plain = [claim for claim in claims if not claim.breaks]
    assert [sum(claim.verdict == verdict for claim in plain) for verdict in (HOLDS, FAILS)] == [
        20,
        2,
    ]
    assert len(claims) - len(plain) == 2
    assert_as_in_the_readme("condensation", claims)


def test_queries_have_moved_at_the_end_of_the_stage_however_small_the_start(record):
    moved = np.abs(record.growth_end).max("seed")
    assert (moved > 1e-5).all()
    assert (moved.isel(init_scale=-1) > 0.3 * moved.isel(init_scale=1)).all()


def test_the_linear_flow_of_the_theory_is_what_the_flow_does_while_weights_are_small():
    chain = lazy_chains(("paper", "zipf-6"), (0.3, 0.5))["zipf-6"]
    run = saccade.flow(chain, t1=20.0, n_times=30, model=saccade.Embedded(init_scale=1e-5)).isel(
        seed=0
    )
    start = run.isel(time=0)
    linear = theory.linear_weights(
        run.time.values,
        start.embedding.values,
        start.projection.values,
        stationary=chain.stationary,
    )
    np.testing.assert_allclose(
        run.embedding.values,
        linear.embedding,
        rtol=0,
        atol=1e-5 * np.abs(linear.embedding[-1]).max(),
    )


def test_the_force_on_queries_is_of_fifth_order_in_the_weights():
    """Halving all weights divides it by 32, up to relative corrections of second order."""
    chain, rng = lazy_chains(("paper", "zipf-6"), (0.3, 0.5))["paper"], np.random.default_rng(1)
    weights = [rng.normal(size=shape) for shape in ((4, 5), (5, 3), (5, 3), (5, 4))]
    speed = [
        np.linalg.norm(embedded_gradients.velocity([size * w for w in weights], chain)[1])
        for size in (2e-3, 1e-3)
    ]
    assert speed[0] / speed[1] == pytest.approx(32, rel=1e-4)


def test_a_rate_one_percent_off_is_seen(record):
    assert verdicts(record.assign(rate=1.01 * record.rate), "growth rate") == {FAILS}


def test_directions_turned_by_two_percent_are_seen(record):
    for name, words in (
        ("embedding", "embedding's token"),
        ("projection", "projection's token"),
        ("direction", "with α"),
    ):
        turned = record.assign({f"{name}_cosine": record[f"{name}_cosine"] - 2e-4})
        assert verdicts(turned, words) == {FAILS}


def test_a_direction_that_one_seed_does_not_have_is_seen(record):
    missing = record.embedding_cosine.where(record.seed != 2)
    assert verdicts(record.assign(embedding_cosine=missing), "embedding's token") == {FAILS}


def test_laws_that_change_places_have_the_wrong_rates_and_stage_lengths(record):
    swapped = record.assign_coords(law=record.law.values[::-1])
    assert verdicts(swapped, "growth rate") | verdicts(swapped, "e-fold") == {FAILS}


def test_stages_that_do_not_wait_for_smaller_starts_are_seen(record):
    assert verdicts(record.assign(end_time=record.end_time * 0 + 30), "e-fold") == {FAILS}


def test_attention_that_moves_or_changes_rank_is_seen(record):
    assert verdicts(record.assign(growth_condensed=record.growth_end), "change of |W_Q|") == {FAILS}
    assert verdicts(record.assign(rank_condensed=record.rank_start - 0.1), "effective rank") == {
        FAILS
    }
    assert verdicts(
        record.assign(start_speed=np.sqrt(record.start_speed)), "speed of the queries"
    ) == {FAILS}


def test_table_and_figure_hold_every_start(record):
    assert len(EXPERIMENT.rows(record)) == 2 * 4 * 5
    assert len(EXPERIMENT.figure(record).axes) == 3


def test_headlines_are_the_means_of_the_table(record):
    found, rows = EXPERIMENT.headlines(record), EXPERIMENT.rows(record)
    for law in ("paper", "zipf-6"):
        own = [row for row in rows if row["law"] == law and row["init_scale"] == 1e-3]
        for name in ("end_time", "growth_condensed", "growth_end"):
            assert found[f"{name}, law {law}"] == pytest.approx(np.mean([row[name] for row in own]))
        smallest = [
            row["rate"] / row["rate_predicted"]
            for row in rows
            if row["law"] == law and row["init_scale"] == 1e-5
        ]
        assert found[f"rate_over_predicted, law {law}"] == pytest.approx(np.mean(smallest))


def test_starts_that_cannot_be_compared_are_named():
    with pytest.raises(InputError, match="init_scales"):
        EXPERIMENT.run(Settings(init_scales=(1e-3,)))
    with pytest.raises(InputError, match="looked_at"):
        EXPERIMENT.run(Settings(looked_at=3e-3))
