from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.scan_and_snap.long_context_limit import EXPERIMENT, Settings
from saccade.lab.claim import FAILS, HOLDS
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme


@pytest.fixture(scope="module")
def record():
    return record_of("long-context-limit")


def test_every_verdict_is_the_expected_one(record):
    *claims, tightened, control = EXPERIMENT.claims(record)
    assert len(claims) == 6
    assert [claim.label for claim in claims if claim.verdict != HOLDS] == []
    assert tightened.verdict == FAILS
    assert (control.verdict, control.title) == (
        FAILS,
        claims[4].title,
    )  # tokens that are not independent have no common limit
    assert_as_in_the_readme("long-context-limit", [*claims, tightened, control])


def failing(record):
    return [
        claim.label
        for claim in EXPERIMENT.claims(record)
        if claim.verdict == FAILS and not claim.breaks
    ]


@pytest.mark.parametrize(
    "name", ["difference_error", "row_sum", "count_error", "engine_error", "exceeded"]
)
def test_a_wrong_measurement_fails_its_own_claim(record, name):
    shift = 0.06 if name == "exceeded" else 1e-7
    assert len(failing(record.assign({name: record[name] + shift}))) == 1


def test_an_error_that_falls_as_the_length_itself_fails(record):
    faster = record.assign(attention_error=record.attention_error / np.sqrt(record.length))
    assert len(failing(faster)) == 1


def test_the_measured_quantile_is_drawn_below_the_bound(record):
    assert all(
        row["frequency_error_worst_token"] < row["hoeffding_bound"]
        for row in EXPERIMENT.rows(record)
    )
    (axes,) = EXPERIMENT.figure(record).axes
    assert len(axes.lines) == 5


def test_settings_that_make_no_sense_are_named():
    with pytest.raises(InputError, match="failure_prob"):
        EXPERIMENT.run(Settings(failure_prob=0.0))
    with pytest.raises(InputError, match="longest"):
        EXPERIMENT.run(Settings(shortest=6, longest=6))
