"""Stall and escape on few asymmetries and a small diagram: verdicts, and that wrong numbers fail them."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.focus_and_dilution import degenerate_points
from saccade.experiments.focus_and_dilution.degenerate_stall import EXPERIMENT, Settings
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from saccade.records.schema import with_settings
from saccade.theory import focus_and_dilution as theory
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme

SMALL = {
    "asymmetries": (0.01, 0.005),
    "point_asymmetries": (1e-3, 1e-4),
    "init_scales": (1e-3, 1e-4),
    "t1": 5000.0,
    "n_times": 250,
    "masses": (0.45, 0.7),
    "tokens": (3, 7),
}


@pytest.fixture(scope="module")
def record():
    return record_of("degenerate-stall", **SMALL)


def verdicts(record, part):
    found = {claim.verdict for claim in EXPERIMENT.claims(record) if part in claim.label}
    assert found
    return found


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    assert len(claims) == 17
    assert [claim.label for claim in claims if claim.verdict != HOLDS] == []
    assert_as_in_the_readme("degenerate-stall", claims)


def test_a_run_that_escapes_is_no_stall(record):
    escaped = record.copy(deep=True)
    escaped.curve_ratio.loc["symmetric"] = record.curve_ratio.sel(curve="symmetric, long stay")
    escaped.curve_loss.loc["symmetric"] = record.curve_loss.sel(curve="symmetric, long stay")
    assert verdicts(escaped, "equal low tokens") == {HOLDS, FAILS}
    assert verdicts(escaped, "s₂ / s₁ of the embedding") == {FAILS}


def test_rates_that_change_places_fail_their_powers(record):
    swapped = record.assign(transverse=record.tangential, tangential=record.transverse)
    assert verdicts(swapped, "point symmetric") == {FAILS}
    assert verdicts(swapped, "largest tangential rate") == {FAILS}


def test_escape_times_that_do_not_know_the_asymmetry_fail(record):
    flat = record.assign(escape_time=record.escape_time.mean("asymmetry") + 0 * record.escape_time)
    assert verdicts(flat, "power of the asymmetry in the escape time") == {FAILS}
    assert verdicts(flat, "per e-fold of a smaller start") == {FAILS}


def test_a_stay_beyond_the_critical_one_is_outside_the_claims_of_the_stall(record):
    longer = with_settings(record.copy(), Settings(**SMALL, stays=(0.6, 0.6, 0.9)))
    stalled = [claim.verdict for claim in EXPERIMENT.claims(longer) if "equal low tokens" in claim.label]
    assert stalled == [OUTSIDE, OUTSIDE, HOLDS, HOLDS]


def test_the_symmetry_breaks_just_above_the_critical_stay_and_not_just_below():
    limit = theory.critical_stay(0.5, 5)
    for nearness in (0.2, 0.8):
        below, above = (
            degenerate_points.breaking_rate(
                *degenerate_points.degenerate(high=0.5, n_vocab=5, stay=limit + step, nearness=nearness)
            )
            for step in (-1e-3, 1e-3)
        )
        assert below < 0 < above


def test_a_shifted_diagram_fails(record):
    assert verdicts(record.assign(critical_stay=record.critical_stay + 1e-4), "critical stay against") == {FAILS}


def test_table_and_figure_hold_every_run_and_cell(record):
    rows = EXPERIMENT.rows(record)
    assert len(rows) == 2 * 2 + 2 * 2 * 2 + 2 * 2
    assert all(np.isfinite(row["value"]) for row in rows)
    assert len(EXPERIMENT.figure(record).axes) == 4


def test_a_mass_below_its_even_share_is_named():
    with pytest.raises(InputError, match="masses"):
        EXPERIMENT.run(Settings(masses=(0.2,)))
    with pytest.raises(InputError, match="asymmetries"):
        EXPERIMENT.run(Settings(asymmetries=(0.01,)))
