from __future__ import annotations

import numpy as np
import pytest

from saccade.errors import InputError
from saccade.experiments.scan_and_snap.concentration_of_counts import EXPERIMENT, Settings
from saccade.lab.claim import FAILS, OUTSIDE
from saccade.theory.scan_and_snap.statements import STEPS_TO_ERROR
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme


@pytest.fixture(scope="module")
def record():
    return record_of("concentration-of-counts")


def failing(record):
    return [
        claim.statement.number
        for claim in EXPERIMENT.claims(record)
        if claim.verdict == FAILS and not claim.breaks
    ]


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    assert [bool(claim.breaks) for claim in claims].count(False) == 9
    assert [claim.label for claim in claims if not claim.as_expected] == []
    assert_as_in_the_readme("concentration-of-counts", claims)


def test_draws_of_a_run_add_up_to_its_steps(record):
    np.testing.assert_array_equal(
        record.draws.sum("class"), np.broadcast_to(record.n_steps, (100, record.sizes["n_steps"])).T
    )


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("draws", "Lemma 10"),
        ("height", "Lemma 11"),
        ("error", "Lemma 12"),
        ("error", "Corollary 1"),
        ("height", "Theorem 5"),
    ],
)
def test_twice_the_measured_value_is_outside_its_bound(record, name, source):
    assert source in failing(record.assign({name: 2 * record[name]}))


def test_a_wrong_decoder_fails_theorem_5_and_late_arrivals_fail_corollary_1(record):
    assert failing(record.assign(decoder_error=record.decoder_error + 1e-11)) == ["Theorem 5"]
    assert failing(record.assign(first_step=1.1 * record.first_step)) == [STEPS_TO_ERROR.number]
    assert len(failing(record.assign(first_step=3 * record.first_step))) == 2


def test_targets_that_are_not_reached_are_outside():
    short = record_of("concentration-of-counts", runs=3, longest=6)
    assert [claim.verdict for claim in EXPERIMENT.claims(short)].count(OUTSIDE) >= 2


def test_figure_and_table_hold_three_quantities_at_every_look(record):
    assert len(EXPERIMENT.rows(record)) == 3 * record.sizes["n_steps"]
    assert len(EXPERIMENT.figure(record).axes) == 3


def test_a_target_above_the_first_error_is_refused():
    with pytest.raises(InputError, match="targets"):
        EXPERIMENT.run(Settings(targets=(1.0,)))
