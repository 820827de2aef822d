"""The phase diagram on a small grid: verdicts, and that a wrong diagram fails them."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.scan_and_snap.snap_phase_diagram import EXPERIMENT, Settings
from saccade.lab.claim import FAILS, HOLDS
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme


@pytest.fixture(scope="module")
def record():
    return record_of("snap-phase-diagram", n_rates=5)


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    assert [claim.verdict for claim in claims] == [HOLDS] * 3 + [FAILS] * 2 + [HOLDS] * 3
    assert [claim.label for claim in claims if not claim.as_expected] == []
    assert_as_in_the_readme("snap-phase-diagram", claims)


def test_rates_that_change_places_fail_every_claim(record):
    turned = {
        name: (("lr_decoder", "lr_attention"), record[name].values.T)
        for name in ("onset", "log_growth", "exponent")
    }
    assert {claim.verdict for claim in EXPERIMENT.claims(record.assign(turned))} == {FAILS}


def test_table_and_figure_hold_every_run(record):
    rows = EXPERIMENT.rows(record)
    assert len(rows) == 25
    assert all(np.isfinite(row["log_growth_at_horizon"]) for row in rows)
    assert len(EXPERIMENT.figure(record).axes) == 4  # three panels and a colour bar


def test_a_horizon_past_the_end_is_named():
    with pytest.raises(InputError, match="horizon"):
        EXPERIMENT.run(Settings(horizon=1e10))


def test_a_grid_on_which_nothing_scans_has_no_onset_to_claim():
    record = EXPERIMENT.run(Settings(n_rates=2, lr_attention=(1e-6, 1e-5), lr_decoder=(0.1, 1.0)))
    powers = list(EXPERIMENT.claims(record))[:2]
    assert all(np.isnan(claim.measured) and claim.verdict == FAILS for claim in powers)
    EXPERIMENT.figure(record)
