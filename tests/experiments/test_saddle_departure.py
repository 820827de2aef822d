"""The linear flow near critical points: verdicts, that wrong numbers fail them, and that broken
hypotheses do.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.focus_and_dilution.saddle_departure import EXPERIMENT, TOYS, Settings
from saccade.lab.claim import FAILS, HOLDS
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme, verdicts_of

verdicts = partial(verdicts_of, EXPERIMENT)


@pytest.fixture(scope="module")
def record():
    return record_of("saddle-departure")


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    assert len(claims) == 2 * 2 * 4 + 2 * len(TOYS) + 1 + 3
    assert [claim.label for claim in claims if not claim.as_expected] == []
    assert sum(bool(claim.breaks) for claim in claims) == 4
    assert_as_in_the_readme("saddle-departure", claims)


def test_points_that_change_places_fail_the_orders(record):
    swapped = record.assign(error_at=record.error_at.copy(data=record.error_at.values[:, ::-1]))
    assert verdicts(swapped, "linear flow's error (point") == {FAILS}


def test_an_error_linear_in_the_displacement_fails_the_lemma(record):
    linear = record.assign(error_at=record.error_at * 0 + record.scale)
    assert verdicts(linear, "shortfall below 2") == {FAILS}


def test_an_error_that_is_missing_fails_the_lemma(record):
    assert verdicts(record.assign(error_at=np.nan * record.error_at + 0), "shortfall below 2") == {
        FAILS
    }


def test_an_error_above_the_bound_fails_the_lemma(record):
    assert verdicts(record.assign(bound_share=1000 * record.bound_share), "over its bound") == {
        FAILS
    }


def test_a_control_that_obeys_the_bound_is_a_surprise(record):
    tame = record.assign(toy_ratio=record.toy_ratio / record.toy_ratio.max("sample"))
    assert {
        claim.verdict
        for claim in EXPERIMENT.claims(tame)
        if claim.breaks and "lemma's C" in claim.label
    } == {HOLDS}


def test_a_single_displacement_and_a_stay_of_zero_are_refused():
    with pytest.raises(InputError, match="stays"):
        EXPERIMENT.run(Settings(stays=(0.3, 0.0)))
    with pytest.raises(InputError, match="displacements"):
        EXPERIMENT.run(Settings(displacements=(1e-3,)))
