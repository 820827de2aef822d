from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.scan_and_snap import long_context_limit as experiment
from saccade.records.claim import FAILS, HOLDS
from tests.experiments.outcomes import assert_as_in_the_readme


@pytest.fixture(scope="module")
def record():
    return experiment.run(experiment.Config())


def test_every_verdict_is_the_expected_one(record):
    claims = experiment.claims(record)
    assert len(claims) == 7
    assert [claim.statement for claim in claims if claim.verdict != HOLDS] == []
    assert_as_in_the_readme("long-context-limit", claims)


@pytest.mark.parametrize("name", ["difference_error", "row_sum", "count_error", "engine_error", "order_error", "exceeded"])
def test_a_wrong_measurement_fails_its_own_claim(record, name):
    shift = 0.06 if name == "exceeded" else 1e-7
    claims = experiment.claims(record.assign({name: record[name] + shift}))
    assert [claim.verdict for claim in claims].count(FAILS) == 1


def test_an_error_that_falls_as_the_length_itself_fails(record):
    faster = record.assign(attention_error=record.attention_error / np.sqrt(record.length))
    assert [claim.verdict for claim in experiment.claims(faster)].count(FAILS) == 1


def test_the_measured_quantile_is_drawn_below_the_bound(record):
    assert all(row["frequency_error_worst_token"] < row["hoeffding_bound"] for row in experiment.table(record))
    (axes,) = experiment.figure(record).axes
    assert len(axes.lines) == 4


def test_settings_that_make_no_sense_are_named():
    with pytest.raises(InputError, match="failure_prob"):
        experiment.run(experiment.Config(failure_prob=0.0))
    with pytest.raises(InputError, match="longest"):
        experiment.run(experiment.Config(shortest=6, longest=6))
