"""Momentum and start of the published runs: every verdict as expected, and every claim able to fail."""

from __future__ import annotations

import pytest

from saccade.experiments.scan_and_snap import momentum_and_start
from saccade.records.claim import FAILS, HOLDS, OUTSIDE


@pytest.fixture(scope="module")
def record():
    return momentum_and_start.run(momentum_and_start.Config())


def verdicts(record):
    return [claim.verdict for claim in momentum_and_start.claims(record)]


def test_every_verdict_is_the_expected_one(record):
    claims = momentum_and_start.claims(record)
    assert [claim.statement for claim in claims if not claim.as_expected] == []
    assert verdicts(record) == [HOLDS, HOLDS, FAILS, HOLDS, FAILS, HOLDS, FAILS, HOLDS]


def test_momentum_that_acted_like_a_tenfold_rate_would_confirm_the_naive_reading(record):
    entropy = record.entropy.copy(deep=True)
    entropy.loc[{"case": "momentum"}] = entropy.sel(case="no momentum, 10 x rate").values
    assert verdicts(record.assign(entropy=entropy))[2:4] == [HOLDS, FAILS]


def test_swapped_starts_are_seen(record):
    entropy = record.entropy.copy(deep=True)
    names = ["momentum", "momentum, uniform start"]
    entropy.loc[{"case": names}] = entropy.sel(case=names[::-1]).values
    assert verdicts(record.assign(entropy=entropy))[4:] == [HOLDS, FAILS, HOLDS, FAILS]


def test_a_single_seed_has_no_spread_and_other_settings_are_outside_what_was_published():
    record = momentum_and_start.run(momentum_and_start.Config(steps=2, seeds=1))
    assert verdicts(record) == [OUTSIDE] * 4
    assert [row["entropy_std"] for row in momentum_and_start.table(record)] == [None] * 4
    assert momentum_and_start.figure(record).axes
