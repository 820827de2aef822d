"""The phase diagram on a small grid: verdicts, and that a wrong diagram fails them."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.scan_and_snap import snap_phase_diagram
from saccade.records.claim import FAILS, HOLDS
from tests.experiments.outcomes import assert_as_in_the_readme


@pytest.fixture(scope="module")
def record():
    return snap_phase_diagram.run(snap_phase_diagram.Config(n_rates=5))


def test_every_verdict_is_the_expected_one(record):
    claims = snap_phase_diagram.claims(record)
    assert len(claims) == 6
    assert [claim.statement for claim in claims if claim.verdict != HOLDS] == []
    assert_as_in_the_readme("snap-phase-diagram", claims)


def test_rates_that_change_places_fail_every_claim(record):
    turned = {name: (("lr_decoder", "lr_attention"), record[name].values.T) for name in ("onset", "log_growth", "exponent")}
    assert {claim.verdict for claim in snap_phase_diagram.claims(record.assign(turned))} == {FAILS}


def test_table_and_figure_hold_every_run(record):
    rows = snap_phase_diagram.table(record)
    assert len(rows) == 25
    assert all(np.isfinite(row["log_growth_at_horizon"]) for row in rows)
    assert len(snap_phase_diagram.figure(record).axes) == 5  # three panels and two colour bars


def test_a_horizon_past_the_end_is_named():
    with pytest.raises(InputError, match="horizon"):
        snap_phase_diagram.run(snap_phase_diagram.Config(horizon=1e10))


def test_a_grid_on_which_nothing_scans_has_no_onset_to_claim():
    record = snap_phase_diagram.run(snap_phase_diagram.Config(n_rates=2, lr_attention=(1e-6, 1e-5), lr_decoder=(0.1, 1.0)))
    powers = snap_phase_diagram.claims(record)[:2]
    assert all(np.isnan(claim.measured) and claim.verdict == FAILS for claim in powers)
    snap_phase_diagram.figure(record)
