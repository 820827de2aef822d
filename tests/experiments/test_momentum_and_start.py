"""Momentum and start of the published runs: every verdict as expected, and every claim able to
fail.
"""

from __future__ import annotations

import pytest

from saccade.experiments.scan_and_snap.momentum_and_start import EXPERIMENT
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from tests.experiments.default_runs import record_of


@pytest.fixture(scope="module")
def record():
    return record_of("momentum-and-start")


def verdicts(record):
    return [claim.verdict for claim in EXPERIMENT.claims(record)]


def test_every_verdict_is_the_expected_one(record):
    assert verdicts(record) == [HOLDS] * 5


def test_momentum_that_acted_like_a_tenfold_rate_would_confirm_the_naive_reading(record):
    entropy = record.entropy.copy(deep=True)
    entropy.loc[{"case": "momentum"}] = entropy.sel(case="no momentum, 10 x rate").values
    assert verdicts(record.assign(entropy=entropy))[2] == FAILS


def test_swapped_starts_are_seen(record):
    entropy = record.entropy.copy(deep=True)
    names = ["momentum", "momentum, uniform start"]
    entropy.loc[{"case": names}] = entropy.sel(case=names[::-1]).values
    assert verdicts(record.assign(entropy=entropy))[3:] == [FAILS, FAILS]


def test_a_single_seed_has_no_spread_and_other_settings_are_outside_what_was_published():
    record = record_of("momentum-and-start", steps=2, seeds=1)
    assert verdicts(record) == [OUTSIDE] * 3
    assert [row["entropy_std"] for row in EXPERIMENT.rows(record)] == [None] * 4
    assert EXPERIMENT.figure(record).axes
