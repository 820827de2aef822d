"""The second critical point: every verdict as expected, and wrong numbers fail."""

from __future__ import annotations

from functools import partial

import pytest

from saccade.errors import InputError
from saccade.experiments.focus_and_dilution.ray_critical_point import EXPERIMENT, Settings
from saccade.lab.claim import FAILS
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme, verdicts_of

verdicts = partial(verdicts_of, EXPERIMENT)


@pytest.fixture(scope="module")
def record():
    return record_of("ray-critical-point")


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    assert [claim.label for claim in claims if not claim.as_expected] == []
    assert_as_in_the_readme("ray-critical-point", claims)


@pytest.mark.parametrize(
    "name, part", [("outer", "J_out, any chain"), ("inner", "J_att: c"), ("origin_gap", "origin: ")]
)
def test_a_rate_off_by_a_millionth_is_seen(record, name, part):
    assert verdicts(record.assign({name: record[name] + 1e-6}), part) == {FAILS}


def test_a_block_without_decaying_modes_would_agree_with_the_paper(record):
    assert verdicts(
        record.assign(inner=abs(record.inner)), "smallest eigenvalue of the block of attention"
    ) == {FAILS}


def test_a_single_growing_mode_would_agree_with_the_paper(record):
    assert verdicts(record.assign(growing=0 * record.growing + 1), "growing modes (") == {FAILS}


def test_a_distance_in_proportion_to_the_start_would_agree_with_the_paper(record):
    assert verdicts(record.assign(closest=record.start * 10.0), "closest distance") == {FAILS}


def test_logits_that_act_otherwise_than_a_rate_are_seen(record):
    unscaled = record.scaled_rate / record.logit_scale
    assert verdicts(record.assign(scaled_rate=unscaled), "with logits times s, over c") == {FAILS}
    assert verdicts(
        record.assign(scale_gap=record.scale_gap + 1e-9), "logits times s or attention rate s"
    ) == {FAILS}


def test_a_width_of_zero_is_refused():
    with pytest.raises(InputError, match="d_model"):
        EXPERIMENT.run(Settings(d_model=0))


def test_one_key_dimension_has_one_growing_mode_as_printed():
    narrow = EXPERIMENT.run(Settings(laws=("0.55 of 5",), stays=(0.9,), d_model=2, d_key=1))
    claims = list(EXPERIMENT.claims(narrow))
    assert [claim.label for claim in claims if not claim.as_expected] == []
    assert [claim.case for claim in claims if claim.title == "growing modes"] == []
