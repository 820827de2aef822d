"""Stall and escape on few asymmetries: verdicts, and that wrong numbers fail them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import xarray as xr

from saccade.errors import InputError
from saccade.experiments.focus_and_dilution import degenerate_points, degenerate_stall, stage_fits
from saccade.experiments.focus_and_dilution.degenerate_stall import EXPERIMENT, Settings
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from saccade.records.schema import with_settings
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme, verdicts_of

verdicts = partial(verdicts_of, EXPERIMENT)

SMALL = {
    "asymmetries": (0.01, 0.005),
    "point_asymmetries": (1e-3, 1e-4),
    "init_scales": (1e-3, 1e-4),
    "t1": 5000.0,
    "n_times": 250,
}


@pytest.fixture(scope="module")
def record():
    return record_of("degenerate-stall", **SMALL)


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    assert len(claims) == 14
    assert [claim.label for claim in claims if claim.verdict != HOLDS] == []
    assert_as_in_the_readme("degenerate-stall", claims)


def test_a_run_that_escapes_is_no_stall(record):
    escaped = record.copy(deep=True)
    escaped.curve_ratio.loc["symmetric"] = record.curve_ratio.sel(curve="asymmetry 0.01")
    escaped.curve_loss.loc["symmetric"] = 0.9 * record.curve_loss.sel(curve="symmetric")
    assert verdicts(escaped, "equal rare tokens") == {FAILS}
    assert verdicts(escaped, "s₂ / s₁ of the embedding") == {FAILS}


def test_rates_that_change_places_fail_their_powers(record):
    swapped = record.assign(transverse=record.tangential, tangential=record.transverse)
    assert verdicts(swapped, "transverse rate") == {FAILS}
    assert verdicts(swapped, "largest tangential rate") == {FAILS}


def test_escape_times_that_do_not_know_the_asymmetry_fail(record):
    flat = record.assign(escape_time=record.escape_time.mean("asymmetry") + 0 * record.escape_time)
    assert verdicts(flat, "power of the asymmetry in the escape time") == {FAILS}
    assert verdicts(flat, "per e-fold of a smaller start") == {FAILS}


def test_a_flow_that_has_not_left_by_its_deadline_fails(monkeypatch):
    """Stages predicted ten times too short: no flow has left by then."""
    true = stage_fits.escape_time
    monkeypatch.setattr(stage_fits, "escape_time", lambda *stages: true(*stages) / 10)
    stuck = EXPERIMENT.run(Settings(**SMALL | {"t1": 200.0, "n_times": 60}))
    assert np.isinf(stuck.escape_time).all()
    assert (
        verdicts(stuck, "escape time")
        == verdicts(stuck, "time at which the flow leaves")
        == {FAILS}
    )


def test_a_flow_that_leaves_long_before_or_after_its_time_is_seen(record):
    for factor in (0.4, 2.0):
        off = record.assign(escape_time=factor * record.escape_time)
        assert verdicts(off, "time at which the flow leaves") == {FAILS}


def test_powers_are_not_asked_where_the_rates_themselves_are_no_first_power(record):
    bent = record.assign(escape_rate=record.escape_rate * (1 + 20 * record.asymmetry))
    assert verdicts(bent, "power of the asymmetry in the escape time") == {OUTSIDE}
    assert verdicts(bent, "per e-fold of a smaller start") == {FAILS}


def test_powers_are_not_asked_where_the_next_plateau_is_just_above_the_threshold(record):
    """Here a flow slows down to a plateau that falls with the root of the asymmetry: for 0.0006 it
    is at 0.06.
    """
    settings = Settings(**SMALL)
    chain = settings.chain(0.3, 0.0006)
    rate = degenerate_points.transverse_rate(chain, degenerate_points.rank_one_point(chain))
    t1 = stage_fits.escape_time(
        degenerate_stall._stages(chain, rate), 1e-3, degenerate_stall.ESCAPED
    )
    slowed = degenerate_stall._left(settings, chain, 1e-3, t1).growth / rate
    assert 0.3 < slowed < 0.5
    low = record.assign(escape_growth=slowed * record.escape_rate + 0 * record.escape_growth)
    found = [
        claim
        for claim in EXPERIMENT.claims(low)
        if "power of the asymmetry in the escape time" in claim.label
    ]
    assert {claim.verdict for claim in found} == {OUTSIDE}
    assert all(
        [one.name for one in claim.unmet] == ["next plateau not just above the threshold"]
        for claim in found
    )


def test_deviations_that_cancel_over_all_asymmetries_are_seen_between_neighbours(record):
    """Local powers 1.43 and 0.57, which a fit over all would take for 1."""
    three = xr.concat(
        [record, record.isel(asymmetry=[-1]).assign_coords(asymmetry=[0.0025])],
        "asymmetry",
        data_vars="minimal",
    )
    asymmetry = three.asymmetry.values
    bent = three.assign(escape_rate=("asymmetry", asymmetry * np.array([1.0, 0.742, 1.0])))
    assert abs(degenerate_stall.power(asymmetry, bent.escape_rate) - 1) < 0.01
    found = [
        claim
        for claim in EXPERIMENT.claims(bent)
        if "power of the asymmetry in the escape time" in claim.label
    ]
    assert {claim.verdict for claim in found} == {OUTSIDE}
    assert all("asymmetries small" in [one.name for one in claim.unmet] for claim in found)


def test_a_slow_rank_one_flow_is_followed_past_the_unigram_saddle():
    """Here attention takes about 700 units of time for each e-fold."""
    chain = Settings(n_vocab=3, high=0.5).chain(0.3, 0.01)
    point = degenerate_points.rank_one_point(chain)
    assert point.query > 0.5
    assert degenerate_points.transverse_rate(chain, point) == pytest.approx(1.55e-3, rel=5e-3)


def test_a_point_at_which_attention_has_not_grown_is_refused(monkeypatch):
    monkeypatch.setattr(degenerate_points, "_FOLDS", 0.3)
    with pytest.raises(InputError, match="still at the unigram point"):
        degenerate_points.rank_one_point(Settings(n_vocab=3, high=0.5).chain(0.3, 0.01))


def test_a_stay_beyond_the_critical_one_is_outside_the_claims_of_the_stall(record):
    longer = with_settings(record.copy(), Settings(**SMALL, stays=(0.6, 0.6)))
    stalled = [
        claim.verdict for claim in EXPERIMENT.claims(longer) if "equal rare tokens" in claim.label
    ]
    assert stalled == [OUTSIDE, OUTSIDE]


def test_table_and_figure_hold_every_run_and_rate(record):
    rows = EXPERIMENT.rows(record)
    assert len(rows) == 2 * 2 + 2 * 2
    assert all(np.isfinite(row["value"]) for row in rows)
    assert len(EXPERIMENT.figure(record).axes) == 3


def test_a_single_asymmetry_is_named():
    with pytest.raises(InputError, match="asymmetries"):
        EXPERIMENT.run(Settings(asymmetries=(0.01,)))
