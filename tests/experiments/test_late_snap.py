"""Plain descent with strong overlaps: every verdict as expected, and classes that never snap would
be seen.
"""

from __future__ import annotations

import numpy as np
import pytest

from saccade.experiments.scan_and_snap.late_snap import EXPERIMENT
from saccade.theory import scan_and_snap as theory
from tests.experiments.default_runs import record_of


@pytest.fixture(scope="module")
def record():
    return record_of("late-snap")


def unexpected(record):
    return {claim.statement.number for claim in EXPERIMENT.claims(record) if not claim.as_expected}


def test_every_verdict_is_the_expected_one(record):
    assert unexpected(record) == set()
    assert len(EXPERIMENT.figure(record).axes) == 1


def test_strong_classes_that_never_snap_would_be_seen(record):
    assert unexpected(record.assign(gap=record.steps**1e-3)) == {"when plain descent snaps"}
    late = np.log(
        np.log(200 * record.steps)
    )  # the law of after the snap, all along: the control would not fail
    assert unexpected(
        record.assign(
            gap=theory.late_plain_growth_rate(0.3025, n_classes=5) * late, overlap=0 * late + 0.3025
        )
    ) == {"when plain descent snaps"}


def test_the_snap_is_the_last_maximum_of_growth_and_not_that_of_the_scan(record):
    """Each overlap for itself: growth that only fell after the scan, or went on to grow, is not as
    predicted.
    """
    for feature in record.feature.values:
        for slope in (-1e-3, 1e-3):
            wrong = record.rate.where(record.feature != feature, 1 + slope * record.height)
            assert unexpected(record.assign(rate=wrong)) == {
                "when plain descent snaps",
                "growth of fast attention",
            }
