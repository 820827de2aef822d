"""Stage I: every verdict as expected, and every claim able to fail."""

from __future__ import annotations

import numpy as np
import pytest

import saccade
from saccade.errors import InputError
from saccade.experiments.focus_and_dilution import condensation, embedded_gradients
from saccade.experiments.focus_and_dilution.stage_fits import chains
from saccade.records.claim import FAILS, HOLDS
from saccade.records.store import load_record, save_record
from saccade.theory import focus_and_dilution as theory
from tests.experiments.outcomes import assert_as_in_the_readme


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    path = tmp_path_factory.mktemp("condensation") / "record.zarr"
    save_record(condensation.run(condensation.Config()), path)
    return load_record(path)


def verdicts(record, words):
    found = [claim.verdict for claim in condensation.claims(record) if words in claim.statement]
    assert found
    return found


def test_every_verdict_is_the_expected_one(record):
    claims = condensation.claims(record)
    assert [claim.statement for claim in claims if not claim.as_expected] == []
    assert [sum(claim.verdict == verdict for claim in claims) for verdict in (HOLDS, FAILS)] == [22, 2]
    assert_as_in_the_readme("condensation", claims)


def test_queries_have_moved_at_the_end_of_the_stage_however_small_the_start(record):
    moved = np.abs(record.growth_end).max("seed")
    assert (moved > 1e-5).all()
    assert (moved.isel(init_scale=-1) > 0.3 * moved.isel(init_scale=1)).all()


def test_the_linear_flow_of_the_theory_is_what_the_flow_does_while_weights_are_small():
    chain = chains((0.3, 0.5))["zipf-6"]
    run = saccade.flow(chain, t1=20.0, n_times=30, model=saccade.Embedded(init_scale=1e-5)).isel(seed=0)
    start = run.isel(time=0)
    linear = theory.linear_weights(run.time.values, start.embedding.values, start.projection.values, stationary=chain.stationary)
    np.testing.assert_allclose(run.embedding.values, linear.embedding, rtol=0, atol=1e-5 * np.abs(linear.embedding[-1]).max())


def test_the_force_on_queries_is_of_fifth_order_in_the_weights():
    """Halving all weights divides it by 32, up to relative corrections of second order."""
    chain, rng = chains((0.3, 0.5))["paper"], np.random.default_rng(1)
    weights = [rng.normal(size=shape) for shape in ((4, 5), (5, 3), (5, 3), (5, 4))]
    speed = [np.linalg.norm(embedded_gradients.velocity([size * w for w in weights], chain)[1]) for size in (2e-3, 1e-3)]
    assert speed[0] / speed[1] == pytest.approx(32, rel=1e-4)


def test_a_rate_one_percent_off_is_seen(record):
    assert set(verdicts(record.assign(rate=1.01 * record.rate), "growth rate")) == {FAILS}


def test_directions_turned_by_two_percent_are_seen(record):
    for name, words in (("embedding", "embedding's token"), ("projection", "projection's token"), ("direction", "alpha")):
        turned = record.assign({f"{name}_cosine": record[f"{name}_cosine"] - 2e-4})
        assert set(verdicts(turned, words)) == {FAILS}


def test_laws_that_change_places_have_the_wrong_rates_and_stage_lengths(record):
    swapped = record.assign_coords(law=record.law.values[::-1])
    assert set(verdicts(swapped, "growth rate") + verdicts(swapped, "e-fold")) == {FAILS}


def test_stages_that_do_not_wait_for_smaller_starts_are_seen(record):
    assert set(verdicts(record.assign(end_time=record.end_time * 0 + 30), "e-fold")) == {FAILS}


def test_attention_that_moves_or_changes_rank_is_seen(record):
    assert set(verdicts(record.assign(growth_condensed=record.growth_end), "has condensed")) >= {FAILS}
    assert set(verdicts(record.assign(rank_condensed=record.rank_start - 0.1), "effective rank")) == {FAILS}
    assert set(verdicts(record.assign(start_speed=np.sqrt(record.start_speed)), "speed of the queries")) == {FAILS}


def test_table_and_figure_hold_every_start(record):
    rows = condensation.table(record)
    assert len(rows) == 2 * 4 * 5
    assert len(condensation.figure(record).axes) == 3


def test_starts_that_cannot_be_compared_are_named():
    with pytest.raises(InputError, match="init_scales"):
        condensation.run(condensation.Config(init_scales=(1e-3,)))
    with pytest.raises(InputError, match="looked_at"):
        condensation.run(condensation.Config(looked_at=3e-3))
