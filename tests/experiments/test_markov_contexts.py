"""Contexts of a chain: every verdict as expected, and wrong numbers fail."""

from __future__ import annotations

import pytest

from saccade.errors import InputError
from saccade.experiments.focus_and_dilution.markov_contexts import EXPERIMENT, Settings
from saccade.lab.claim import FAILS, HOLDS, OUTSIDE
from tests.experiments.default_runs import record_of
from tests.experiments.outcomes import assert_as_in_the_readme


@pytest.fixture(scope="module")
def record():
    return record_of("markov-contexts")


def verdicts(record, part):
    found = {claim.verdict for claim in EXPERIMENT.claims(record) if part in claim.label}
    assert found
    return found


def test_every_verdict_is_the_expected_one(record):
    claims = list(EXPERIMENT.claims(record))
    outside = "gradient's gap to its limit in the longest contexts / in the shortest (law paper, λ 0.8)"  # its rarest token is
    assert [claim.label for claim in claims if not claim.as_expected] == [outside]  # missing from most contexts
    assert_as_in_the_readme("markov-contexts", claims)


@pytest.mark.parametrize(
    "name, part", [("table_gap", "drawn transitions"), ("model_gap", "by position"), ("power_gap", "P^t"), ("return_gap", "return")]
)
def test_a_gap_is_seen(record, name, part):
    assert verdicts(record.assign({name: record[name] + 10}), part) == {FAILS}


def test_frequencies_three_percent_off_their_exact_distance_are_seen(record):
    assert verdicts(record.assign(frequency_spread=1.03 * record.frequency_spread), "root mean square distance") == {FAILS}


def test_rounding_of_ten_tokens_is_no_failure_and_tokens_missing_from_contexts_are_outside():
    missing = record_of("markov-contexts", laws=("0.9 of 10",), stays=(0.9,), n_sequences=2000)
    assert verdicts(missing, "P^t") == {HOLDS}
    assert verdicts(missing, "gradient's gap") == {OUTSIDE}


def test_a_gradient_that_falls_more_slowly_than_the_root_of_the_length_is_seen(record):
    slow = record.assign(gradient_gap=0 * record.gradient_gap + 0.1 * record.length**-0.4)
    assert FAILS in verdicts(slow, "gradient's gap")
    assert verdicts(slow, "closer to its limit") == {HOLDS}


def test_a_gradient_that_keeps_its_gap_is_seen(record):
    assert verdicts(record.assign(gradient_gap=0 * record.gradient_gap + 0.1), "closer to its limit") == {FAILS}


def test_a_last_token_that_has_forgotten_the_start_is_seen(record):
    forgotten = record.last_token.copy(data=[[0.75, 0.19, 0.05, 0.01], [0.6, 0.4 / 3, 0.4 / 3, 0.4 / 3]])
    assert FAILS in verdicts(record.assign(last_token=forgotten), "last of 19 tokens, largest gap")


def test_one_length_is_too_few():
    with pytest.raises(InputError, match="lengths"):
        EXPERIMENT.run(Settings(lengths=(20,)))
